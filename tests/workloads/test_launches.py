"""What --emit writes for each framework: options that it has, the layout read back, what cannot be expressed said."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from computeledger.errors import InputError
from computeledger.facts.architecture import Lora
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import parse_precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.workloads.launches import load_templates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.launches import PACKAGE, Job, launch
from computeledger.workloads.pretraining.pipeline import with_schedule
from computeledger.workloads.questions.pretrain import EMITTED

#: Every option of the classes and files that hold them, with their commits.
OPTIONS = tomllib.loads(Path(__file__).with_name("framework_options.toml").read_text("utf-8"))
TEMPLATES = load_templates(PACKAGE)
PIPED = ("megatron-bridge", "torchtitan", "maxtext")


BATCH = Batch(8192.0, 128.0)


def scenario(model: str = "llama-3.1-8b", layout: str = "dp8", batch: Batch = BATCH) -> PretrainingScenario:
    return PretrainingScenario(load_model(model), parse_layout(layout), parse_precision("bf16"), batch, 1e12)


def flat(text: str, form: str) -> dict[str, str]:
    """Options of a printed launch, by their dotted names."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if form == "json":
        tree = json.loads("\n".join(lines))
        return {key: str(value) for key, value in leaves(tree)}
    if form == "yaml":
        out, above = {}, ""
        for line in lines:
            key, _, value = line.strip().partition(":")
            above = (above if line.startswith("  ") else "") or ("" if value else key)
            out[f"{above}.{key}" if line.startswith("  ") else key] = value.strip()
        return {key: value for key, value in out.items() if value}
    words = [line.strip().removesuffix("\\").strip() for line in lines[1:]]
    return dict((word.partition(" " if form == "arguments" else "=")[::2]) for word in words)


def leaves(tree: dict[str, object], at: str = "") -> list[tuple[str, object]]:
    out = []
    for key, value in tree.items():
        out += leaves(value, f"{at}{key}.") if isinstance(value, dict) else [(at + key, value)]
    return out


def layout_of(framework: str, said: dict[str, str]) -> Layout:
    """The layout that a framework would run."""
    found = {
        option.value.strip("{}"): int(said[option.key])
        for option in TEMPLATES[framework].options
        if option.key in said and said[option.key].isdigit()
    }
    tp, cp = found.get("tp", found.get("tp_if_cut", 1)), found.get("cp", found.get("cp_if_cut", 1))
    pp, ep = found.get("pp", 1), found.get("ep", found.get("experts_over", 1))
    if framework == "maxtext":
        tp, pp, cp, ep, fsdp, data = (
            int(said[f"ici_{axis}_parallelism"]) * int(said.get(f"dcn_{axis}_parallelism", 1))
            for axis in ("tensor", "pipeline", "context", "expert", "fsdp", "data")
        )
        dp = fsdp * data * ep
    elif framework == "deepspeed":
        dp = found["sequences"] // found["micro"] // found["rounds"]
    elif framework == "megatron-bridge":  # what is left of the GPUs; the microbatches say nothing about it
        dp = 16 // (tp * pp * cp)
    else:
        dp = found["dp"]
    return Layout(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep)


def test_every_option_of_a_template_is_one_that_its_framework_has() -> None:
    assert set(TEMPLATES) == set(OPTIONS) == set(EMITTED) - {"megatron"}
    for name, template in TEMPLATES.items():
        keys = {option.key for option in template.options}
        assert keys - set(OPTIONS[name]["options"].split()) == set(), name
        assert template.source.split(", ")[0].removeprefix("https://github.com/") in OPTIONS[name]["source"]


@pytest.mark.parametrize(
    ("framework", "model", "layout"),
    [
        *((name, "llama-3.1-8b", "tp2-dp8") for name in TEMPLATES),
        *((name, "llama-3.1-8b", "tp2-dp4-cp2") for name in TEMPLATES),
        *((name, "qwen3-30b-a3b", "tp2-pp2-dp4-ep2") for name in PIPED),
    ],
)
def test_a_layout_is_read_back_as_it_was(framework: str, model: str, layout: str) -> None:
    asked = scenario(model, layout, replace(BATCH, sharded_weights="pp" not in layout))
    written = launch(framework, asked, Job(8))
    template = TEMPLATES[framework]
    said = flat(written.text, template.form)
    assert {key: said[key] for key, _ in written.arguments if key in said}
    assert said.keys() - {"activation_checkpoint:selective"} == {key for key, _ in written.arguments}
    assert str(layout_of(framework, said)) == str(parse_layout(layout))


@pytest.mark.parametrize(
    ("framework", "batch", "says"),
    [
        ("torchtitan", replace(BATCH, stack=Stack(optimizer="muon")), "muon on the command line"),
        ("torchtitan", replace(BATCH, recompute="layernorm"), "recompute layernorm"),
        ("maxtext", replace(BATCH, stack=Stack(optimizer="lion")), "optimizer lion"),
        ("maxtext", replace(BATCH, stack=Stack(sharded_gradients=True)), "zero-2"),
        ("deepspeed", replace(BATCH, stack=Stack(optimizer="adafactor")), "optimizer adafactor"),
        ("fsdp2", BATCH, "recompute selective"),
        ("fsdp2", replace(BATCH, stack=Stack(offload="optimizer")), "the optimizer alone"),
        (
            "megatron-bridge",
            replace(BATCH, stack=Stack(offload="optimizer,weights"), sharded_weights=True),
            "weights in host memory",
        ),
        (
            "megatron",
            replace(BATCH, stack=Stack(offload="optimizer,weights"), sharded_weights=True),
            "weights in host memory",
        ),
    ],
)
def test_what_cannot_be_expressed_is_said(framework: str, batch: Batch, says: str) -> None:
    remarks = launch(framework, scenario(batch=batch), Job(8)).remarks
    assert any(one.startswith("cannot be expressed here: ") and says in one for one in remarks)


def test_stages_and_experts_that_a_framework_lacks_are_said() -> None:
    piped = scenario("qwen3-30b-a3b", "pp2-dp4-ep4")
    for framework in ("deepspeed", "fsdp2"):
        remarks = " ".join(launch(framework, piped, Job(8)).remarks)
        assert "2 pipeline stages" in remarks and "experts over 4 ranks" in remarks
    zero_bubble = replace(piped, batch=with_schedule(piped.batch, "zero-bubble"))
    assert "zero-bubble" in " ".join(launch("megatron-bridge", zero_bubble, Job(8)).remarks)
    assert (
        dict(launch("torchtitan", zero_bubble, Job(8)).arguments)["--parallelism.pipeline_parallel_schedule"]
        == "ZBVZeroBubble"
    )
    assert "as a mesh" in " ".join(launch("maxtext", scenario("qwen3-30b-a3b", "tp2-dp8-ep16"), Job(8)).remarks)


def test_levers_reach_the_frameworks() -> None:
    away = scenario(
        batch=replace(BATCH, sharded_weights=True, recompute="full", stack=Stack(offload="optimizer,weights"))
    )
    deepspeed = flat(launch("deepspeed", away, Job(8)).text, "json")
    assert deepspeed["zero_optimization.stage"] == "3" and deepspeed["zero_optimization.offload_param.device"] == "cpu"
    assert deepspeed["train_batch_size"] == "128" and deepspeed["gradient_accumulation_steps"] == "16"
    fsdp2 = flat(launch("fsdp2", away, Job(8)).text, "yaml")
    assert fsdp2["fsdp_config.fsdp_offload_params"] == fsdp2["fsdp_config.fsdp_activation_checkpointing"] == "true"
    assert "--training.enable_cpu_offload" in dict(launch("torchtitan", away, Job(8)).arguments)
    muon = replace(away, batch=replace(away.batch, stack=Stack(optimizer="muon")))
    assert dict(launch("megatron-bridge", muon, Job(8)).arguments)["optimizer.optimizer"] == "muon"
    assert dict(launch("maxtext", muon, Job(8)).arguments)["opt_type"] == "muon"
    optimizer = scenario(layout="tp2-dp4", batch=replace(BATCH, stack=Stack(offload="optimizer")))
    assert dict(launch("megatron", optimizer, Job(8)).arguments)["--optimizer-offload-fraction"] == "1.0"
    assert "adapters (LoRA)" in " ".join(launch("torchtitan", replace(optimizer, lora=Lora(16)), Job(8)).remarks)


def test_slices_of_a_mesh_hold_all_chips() -> None:
    for layout, domain in (("tp4-dp64", 64), ("tp2-pp2-dp16", 8), ("dp512", 256), ("tp4-pp3-dp2", 8)):
        said = dict(
            launch(
                "maxtext", scenario(layout=layout, batch=replace(BATCH, global_sequences=512)), Job(domain)
            ).arguments
        )
        axes = [int(value) for key, value in said.items() if key.startswith(("ici_", "dcn_"))]
        product = 1
        for axis in axes:
            product *= axis
        assert product == int(parse_layout(layout).n_gpus)


def test_reversible_layers_and_unknown_frameworks_are_refused() -> None:
    with pytest.raises(InputError, match="no reversible layers"):
        launch("torchtitan", scenario(batch=replace(BATCH, recompute="reversible")), Job(8))
    with pytest.raises(InputError, match="did you mean 'torchtitan'"):
        launch("torchtitn", scenario(), Job(8))
