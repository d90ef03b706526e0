"""Systems by a count: N of an accelerator in the node of its facts, N of a system, a thinner fabric beyond it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from click.testing import CliRunner

import computeledger as cl
from computeledger.errors import InputError, UnknownIdError
from computeledger.facts.catalog import accelerator_ids, node_ids, system_ids
from computeledger.facts.counted import called
from computeledger.facts.load import (
    accelerator_called,
    bundled_system,
    load_accelerator,
    load_node,
    load_system,
    node_gpus,
    offered_systems,
)
from computeledger.facts.schema import System
from computeledger.interfaces.cli import cli
from computeledger.questions.answers.facts import list_chips
from computeledger.workloads.serving.intervals import is_measured_chip

Asked: TypeAlias = dict[str, str | float]


@pytest.mark.parametrize(
    ("given", "id_", "n_gpus", "domain"),
    [
        ("2xl40s", "2xl40s", 2, 2),
        ("2 x L40S", "2xl40s", 2, 2),
        ("2 L40S", "2xl40s", 2, 2),
        ("16 H100", "16xh100-sxm5-80gb", 16, 8),
        ("8 × MI325X", "8xmi325x", 8, 8),
        ("1xm4-max", "1xm4-max", 1, 1),
        ("1 x Apple M4 Max", "1xm4-max", 1, 1),
        ("2xrtx4090", "2xrtx-4090", 2, 2),
        ("4x NVIDIA GeForce RTX 4090 24GB", "4xrtx-4090", 4, 4),
        ("1x DGX Spark", "1xgb10", 1, 1),
        ("8xH100", "8xh100-sxm5-80gb", 8, 8),
        ("16xh100", "16xh100-sxm5-80gb", 16, 8),
        ("4 x h100-nvl8", "4xh100-nvl8", 32, 8),
        ("2x_xeon_8480", "2xxeon-8480", 2, 2),
    ],
)
def test_a_count_of_an_accelerator_or_a_system_is_a_system(given: str, id_: str, n_gpus: int, domain: int) -> None:
    system = load_system(given)
    assert (system.id, system.n_gpus, system.n_gpus_scale_up.value) == (id_, n_gpus, domain)
    assert load_system(system.id) == system


def test_a_system_is_read_by_the_words_that_boxes_show() -> None:
    shown = [called(load_system(one)) for one in offered_systems()]
    assert (load_system("8 H100").id, load_system("8  h200").id) == ("h100-nvl8", "h200-nvl8")
    assert [called(load_system(one)) for one in shown] == shown
    alone = {words: one for words, one in zip(shown, offered_systems(), strict=True) if shown.count(words) == 1}
    assert all(load_system(words).id == one for words, one in alone.items())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("2xl40z", "did you mean"),
        ("9xh100-nvl9", "did you mean 'h100-nvl8'"),
        ("12xh100", "ask for 8 or 16"),
        ("0xl40s", "did you mean '1xl40s'.* A system is N x CHIP .*, an id .* or the path of a TOML file"),
        ("3.5xl40s", "did you mean '4xl40s'"),
        ("-2xl40s", "did you mean '2xl40s'"),
        ("l40sx2", "did you mean '2xl40s'"),
        ("2l40s", "did you mean '2xl40s'"),
        ("h100-nvl8 * 4", "did you mean '4xh100-nvl8'"),
        ("tpu-v5e-8", "did you mean '8xtpu-v5e'"),
        ("tpu-v4-8", "did you mean '4xtpu-v4'"),
        ("rtx4090", "'rtx-4090' is an accelerator, and a system is needed: 1xrtx-4090"),
        ("jetson", "did you mean '1xjetson-agx-thor'"),
        ("h100", "h100-nvl8 .*, or count GPUs: 1xh100"),
        ("2xno-such-chip", "unknown accelerator 'no-such-chip'; `computeledger facts search"),
        ("no-such-system", "a system is N x CHIP .*; `computeledger facts search"),
        ("99999999999999xl40s", "from 1 to"),
        ("2xrtx-6000", "rtx-6000-ada"),
        ("l40s", "1xl40s, 8xl40s"),
        ("h100-nvl8 oversubscribed 0.5", "oversubscribed from 1"),
        ("l40s oversubscribed 2:1", "'l40s' is an accelerator"),
    ],
)
def test_what_names_nothing_is_refused_with_what_does(given: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load_system(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("accelerator_id", accelerator_ids())
def test_every_accelerator_stands_in_a_node(accelerator_id: str) -> None:
    """One of it, and a full node, are systems whose power and links are those of a machine."""
    chip, one = load_accelerator(accelerator_id), load_system(f"1x{accelerator_id}")
    assert chip.node in node_ids() or chip.node in system_ids()
    full = load_system(next(given for given in offered_systems() if load_system(given).accelerator.id == chip.id))
    assert one.accelerator == full.accelerator == chip
    assert chip.chip_tdp_w.value < full.it_w_per_chip.value <= full.facility_w_per_chip.value
    assert full.scale_up_bytes_per_s_per_gpu.value >= full.scale_out_bytes_per_s_per_gpu.value
    for fact in (getattr(full, field.name) for field in dataclasses.fields(System)):
        assert not hasattr(fact, "locator") or (fact.source and fact.date and fact.locator)


@pytest.mark.parametrize("accelerator_id", accelerator_ids())
def test_every_accelerator_serves_a_small_model_and_says_how_sure_that_is(accelerator_id: str) -> None:
    answer = cl.serve(model="qwen3-1.7b", system=f"1x{accelerator_id}", layout="tp1", batch=1, input_tokens=512,
                      output_tokens=128, price="$1/h", samples=16)  # fmt: skip
    assert answer.setting.interval is not None
    system, name = load_system(f"1x{accelerator_id}"), answer.setting.interval.name
    assert answer.tpot_s.p05 < answer.tpot_s.p50 < answer.tpot_s.p95
    is_desk = answer.question.engine == "llama.cpp"
    assert is_desk == (system.accelerator.family in ("apple-gpu", "apple-phone", "cpu"))
    assert name.startswith("local engine" if is_desk else "chip never measured") != is_measured_chip(system)


def test_a_laptop_decodes_as_was_measured() -> None:
    """41.6 tokens/s of Llama 3.1 8B in Q4_K_M by Vulkan on a Ryzen AI Max 385, which reads as fast (256 GB/s):
    deseven/strixhalo-homelab issue 11. Nothing was fitted on it.
    """
    answer = cl.serve(model="llama-3.1-8b", system="1xryzen-ai-max-395", backend="llama.cpp", precision="gguf-q4_k_m",
                      layout="tp1", batch=1, input_tokens=512, output_tokens=64, samples=256)  # fmt: skip
    assert answer.tpot_s.p50 == pytest.approx(1 / 41.6, rel=0.1)
    assert {one.id for one in list_chips("laptop").found} == {"ryzen-ai-max-395"}
    assert {one.id for one in list_chips("phone").found} == {"a18-pro"}


def test_a_part_and_a_multiple_of_a_shipped_system_answer_as_it_does() -> None:
    asked: Asked = {"model": "gpt-oss-120b", "layout": "tp4", "batch": 16, "samples": 16, "tuning": "recipe"}
    systems = ("h100-nvl8", "4xh100", "8xh100", "4 x h100-nvl8")
    shipped, *rest = (cl.serve(**asked, system=one) for one in systems)
    assert shipped.setting.interval is not None and shipped.setting.interval.name == "known deployment"
    for other in rest:
        assert other.tpot_s.p50 == shipped.tpot_s.p50 and other.setting.interval == shipped.setting.interval


def test_the_gpus_that_a_system_counts_are_those_at_hand() -> None:
    """No layout takes more; a job has them all."""
    assert max(int(one.n_gpus) for one in cl.serve(model="qwen3-14b", system="2xl40s", price="$1/h").layouts) == 2
    asked: Asked = {"model": "llama-3.1-8b", "tokens": "10B", "price": "$2/h", "samples": 16}
    assert cl.pretrain(**asked, system="4 x h100-nvl8").setting.n_gpus == 32
    assert cl.pretrain(**asked, system="h100-nvl8").setting.n_gpus == 8
    with pytest.raises(InputError, match="layout tp4 uses 4 GPUs"):
        cl.serve(model="qwen3-14b", system="2xl40s", price="$1/h", layout="tp4")


def test_an_oversubscribed_fabric_slows_what_leaves_a_domain_and_nothing_else(tmp_path: Path) -> None:
    asked: Asked = {"model": "llama-3.1-70b", "tokens": "10B", "price": "$2/h", "samples": 16, "gpus": 64}
    steps = {}
    for given in ("h100-nvl8", "8 x h100-nvl8 oversubscribed 8:1"):
        near: Asked = {"layout": "tp8-dp8"}
        far: Asked = {"layout": "dp64", "sharding": "zero-3"}
        steps[given] = [cl.pretrain(**asked, **one, system=given).step_s.p50 for one in (near, far)]
    flat, thin = steps.values()
    assert thin[1] > 1.05 * flat[1]
    path = tmp_path / "thin.toml"
    path.write_text('like = "h100-nvl8"\noversubscription_ratio = 8\nn_gpus = 64\n', "utf-8")
    own = load_system(str(path))
    assert own.cross_domain_bytes_per_s_per_gpu == own.scale_out_bytes_per_s_per_gpu.value / 8
    assert cl.pretrain(**asked, layout="dp64", sharding="zero-3", system=str(path)).step_s.p50 == thin[1]
    one: Asked = {"model": "llama-3.1-8b", "layout": "tp8", "batch": 8, "samples": 16}
    inside = [cl.serve(**one, system=given).tpot_s.p50 for given in ("h100-nvl8", "h100-nvl8 oversubscribed 8")]
    assert inside[0] == inside[1]


def test_a_pod_keeps_the_full_bandwidth_and_ports_are_those_of_a_node() -> None:
    """Llama 3's cluster: 1:7 beyond pods of 3,072 GPUs; the ranks of data parallelism stand within one."""
    asked: Asked = {
        "model": "llama-3.1-405b", "tokens": "10B", "samples": 16, "global_batch_tokens": "16M",
        "sequence_tokens": 8192, "price": "$2/h", "virtual_stages": 4, "microbatch_sequences": 1, "recompute": "none",
    }  # fmt: skip
    flat, everywhere, podded = (
        cl.pretrain(**asked, system=f"16384xh100{fabric}", layout="tp8-pp16-dp128").result.step
        for fabric in ("", " oversubscribed 7:1", " oversubscribed 7:1 above 3072")
    )
    assert podded.gradients_s == pytest.approx(flat.gradients_s, rel=0.02)
    assert np.median(everywhere.gradients_s) > 5 * np.median(podded.gradients_s)
    assert np.median(flat.step_s) < np.median(podded.step_s) < 1.02 * np.median(flat.step_s)
    one, two = (
        np.median(cl.pretrain(**asked, system=f"16384xh100 oversubscribed {ratio}:1 above 64",
                              layout="tp8-pp4-dp512").result.step.gradients_s)
        for ratio in (1, 7)
    )  # fmt: skip
    assert two > 1.4 * one  # rings of 512 ranks cross 64 pods of 8 ranks
    slow = load_system("16384xh100 with 4 x 100 Gb/s oversubscribed 7:1 above 3072")
    assert slow.scale_out_bytes_per_s_per_gpu.value == 6.25e9 and slow.cross_pod_bytes_per_s_per_gpu == 6.25e9 / 7
    assert load_system(slow.id) == slow
    with pytest.raises(InputError, match="whole scale-up domains of 8"):
        load_system("16384xh100 oversubscribed 7:1 above 3070")


def test_more_cards_on_pcie_cost_more_network_than_on_nvlink() -> None:
    """The same chip, two to a model: what a bridge would save shows."""
    asked: Asked = {
        "model": "llama-3.1-70b",
        "precision": "fp8",
        "layout": "tp2",
        "batch": 16,
        "price": "$2/h",
        "samples": 16,
    }
    bridged, slotted = (cl.serve(**asked, system=one).tpot_s.p50 for one in ("2xh100-nvl-94gb", "2xh100-pcie-80gb"))
    assert slotted > bridged
    assert load_node("pcie-5-server").scale_up_bytes_per_s_per_gpu.value == 63e9


def test_a_visitors_text_opens_no_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('like = "h100-nvl8"\n', "utf-8")
    with pytest.raises(UnknownIdError):
        bundled_system(str(tmp_path / "mine.toml"))
    assert bundled_system("2 x l40s").id == "2xl40s"


def test_the_list_of_chips_is_every_chip_and_fits_a_terminal() -> None:
    answer = list_chips()
    assert sorted(one.id for one in answer.found) == sorted(accelerator_ids())
    assert {one.vendor for one in list_chips("apple max").found} == {"Apple"}
    printed = CliRunner().invoke(cli, ["facts", "list"], env={"COLUMNS": "80"}).output.splitlines()
    assert max(map(len, printed)) <= 80
    lines = [line.split() for line in printed]
    assert all([line[0] for line in lines if line[:1] == [one]] == [one] for one in accelerator_ids())
    with pytest.raises(UnknownIdError, match="Apple"):
        list_chips("zzz")


def test_a_chip_is_found_by_what_people_call_it_and_its_node_by_the_chip() -> None:
    found = [accelerator_called(one) for one in ("3090", "DGX Spark", "v5e", "h100-nvl8")]
    assert [one and one.id for one in found] == ["rtx-3090", "gb10", "tpu-v5e", None]
    assert [node_gpus(load_accelerator(one)) for one in ("l40s", "m4-max")] == [8, 1]
