"""A configuration written as frameworks take it, from templates that are data; what they cannot express is said."""

from __future__ import annotations

import functools
import json
import math
import string
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources

from computeledger.arrays import median
from computeledger.errors import InputError, nearest
from computeledger.physics.training.batch import BY_OPERATION, RECOMPUTE, REVERSIBLE
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.megatron import Launch, megatron_launch
from computeledger.workloads.questions.pretrain import EMITTED


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a framework and the values that it takes from a configuration."""

    key: str
    value: str
    map: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Values that it names."""
        return tuple(name for _, name, _, _ in string.Formatter().parse(self.value) if name)


@dataclass(frozen=True, slots=True)
class Limit:
    """A value beyond which a framework cannot express a configuration."""

    name: str
    holds: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Template:
    """How a framework is told a configuration."""

    source: str
    form: str
    head: str
    notes: tuple[str, ...]
    options: tuple[Option, ...]
    cannot: tuple[Limit, ...]
    tail: str = ""


@functools.cache
def load_templates() -> Mapping[str, Template]:
    """Load every template."""
    text = resources.files("computeledger.workloads.pretraining").joinpath("launches.toml").read_text("utf-8")
    out = {}
    for name, table in tomllib.loads(text).items():
        options = tuple(Option(**one) for one in table.pop("options"))
        cannot = tuple(Limit(one["name"], tuple(one["holds"]), one["says"]) for one in table.pop("cannot"))
        out[name] = Template(**{**table, "notes": tuple(table["notes"])}, options=options, cannot=cannot)
    return out


def launch(framework: str, scenario: PretrainingScenario, n_scale_up: int, fp8_recipe: str = "blockwise") -> Launch:
    """Write a configuration as a framework takes it.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(tp=2, dp=4), Precision(), Batch(8192, 128))
    >>> dict(launch("torchtitan", scenario, 8).arguments)["--parallelism.tensor_parallel_degree"]
    '2'
    """
    if framework == "megatron":
        return megatron_launch(scenario, fp8_recipe)
    if framework not in EMITTED:
        raise InputError(f"emit {framework!r}: {nearest(framework, EMITTED)}")
    recompute = scenario.batch.recompute
    if recompute == REVERSIBLE:
        raise InputError(f"--emit {framework}: it has no reversible layers; it recomputes none, selective or full")
    if recompute == BY_OPERATION and framework != "torchtitan":
        raise InputError(f"--emit {framework}: {recompute} is torchtitan's; it recomputes none, selective or full")
    if recompute == BY_OPERATION:  # torchtitan's own name, whose option is op where nobody says
        scenario = replace(scenario, batch=replace(scenario.batch, recompute="selective"))
    template, said = load_templates()[framework], values(scenario, n_scale_up)
    written, missing = (
        [],
        [limit.says.format(**said) for limit in template.cannot if said[limit.name] not in limit.holds],
    )
    for option in template.options:
        value = _written(option, said)
        if value is None:
            missing.append(f"{option.names[0].replace('_', ' ')} {said[option.names[0]]}")
        elif value or (option.bare and said[option.names[0]]):
            written.append((option.key, value))
    remarks = [
        f"{framework} as of {template.source.split(', ', 1)[1]}",
        *(one.format(**said) for one in template.notes),
    ]
    if scenario.lora is not None:
        remarks.append("adapters (LoRA) are not part of it: add them")
    remarks += [f"cannot be expressed here: {one}" for one in missing]
    tail = template.tail.format(**said) if said["recompute"] in RECOMPUTE else ""
    return Launch(framework, template.head, tuple(written), tuple(remarks), _body(template, written, tail))


def _written(option: Option, said: Mapping[str, str]) -> str | None:
    """The value of an option; empty where nothing is to be said, None where it cannot be."""
    if any(not said[name] for name in option.names):
        return ""
    value = option.value.format(**said)
    return option.map.get(value) if option.map else value


def _body(template: Template, written: list[tuple[str, str]], tail: str) -> str:
    """What is pasted into a shell, or the file."""
    if template.form == "json":
        return json.dumps(_nested(written), indent=2)
    if template.form == "yaml":
        return "\n".join(_yaml(_nested(written)))
    pairs = [f"{key}={value}" if template.form == "overrides" else f"{key} {value}".strip() for key, value in written]
    return " \\\n    ".join([template.head, *pairs, *([tail] if tail else [])])


Tree = dict[str, "Tree | str | int | bool"]


def _nested(written: list[tuple[str, str]]) -> Tree:
    out: Tree = {}
    for key, value in written:
        *above, last = key.split(".")
        at = out
        for name in above:
            inner = at.setdefault(name, {})
            if isinstance(inner, dict):
                at = inner
        at[last] = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)
    return out


def _yaml(tree: Tree, indent: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _yaml(value, indent + "  ")
        else:
            yield f"{indent}{key}: {str(value).lower() if isinstance(value, bool) else value}"


def values(scenario: PretrainingScenario, n_scale_up: int) -> dict[str, str]:
    """What templates may name, as text; empty where it does not apply.

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> values(scenario, 8)["rounds"], values(scenario, 8)["piped_rounds"]
    ('16', '')
    """
    layout, batch, model = scenario.layout, scenario.batch, scenario.model
    stack, away = batch.stack, batch.offloaded
    tp, pp, dp, cp, ep = (int(median(one)) for one in (layout.tp, layout.pp, layout.dp, layout.cp, layout.ep))
    pieces, micro = int(median(batch.virtual_stages)), int(median(batch.microbatch_sequences))
    sequence, sequences = median(batch.sequence_tokens), int(median(batch.global_sequences))
    rounds, tokens = max(sequences // (dp * micro), 1), median(scenario.tokens)
    named = batch.recompute not in RECOMPUTE
    out = {
        "tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "gpus": tp * pp * dp * cp, "micro": micro, "rounds": rounds,
        "tp_if_cut": tp if tp > 1 else "", "cp_if_cut": cp if cp > 1 else "",
        "sequence_parallel": "true" if tp > 1 else "", "pieces": pieces if pieces > 1 else "",
        "experts_over": ep if model.is_moe else "", "experts_cut": max(tp // ep, 1) if model.is_moe else "",
        "sequence": f"{sequence:.0f}", "sequences": sequences, "micro_tokens": f"{micro * sequence:.0f}",
        "batch_tokens": f"{sequences * sequence:.0f}",
        "steps": math.ceil(tokens / sequences / sequence) if tokens else "",
        "recompute": "named" if named else batch.recompute,
        "recompute_modules": batch.recompute if named else "core_attn" if batch.recompute == "selective" else "",
        "precision": scenario.precision.name, "optimizer": stack.optimizer, "moments": stack.moment_precision,
        "zero": 3 if batch.sharded_weights else 2 if stack.sharded_gradients else 1, "schedule": scenario.schedule,
        "piped_schedule": "" if pp == 1 else "interleaved" if pieces > 1 else scenario.schedule,
        "piped_rounds": rounds if pp > 1 else "", "even_stages": "false" if model.n_layers % (pp * pieces) else "true",
        "piece_layers": "" if pp == 1 or model.n_layers % (pp * pieces) else model.n_layers // (pp * pieces),
        **{f"{name}_away": "true" if name in away else "" for name in ("activations", "optimizer", "weights")},
        "optimizer_alone_away": "true" if "optimizer" in away and "weights" not in away else "",
        "mtp": stack.mtp_layers or "", "accumulated": rounds if pp == 1 else 1,
        "per_device": f"{sequences / (tp * pp * dp * cp) / (rounds if pp == 1 else 1):g}",
        **_slices(scenario, n_scale_up),
    }  # fmt: skip
    return {name: str(value) for name, value in out.items()}


def _slices(scenario: PretrainingScenario, n_scale_up: int) -> dict[str, object]:
    """Data parallelism inside a slice and over slices; MaxText's experts take ranks of it."""
    n_gpus, dp, ep = (int(median(one)) for one in (scenario.layout.n_gpus, scenario.layout.dp, scenario.layout.ep))
    slices = max(n_gpus // n_scale_up, 1)
    fits = dp % (slices * ep) == 0
    inside = dp // (slices * ep) if fits else dp
    sharded = scenario.batch.sharded_weights
    return {
        "ici": n_gpus // slices, "slices": slices, "ici_fits": "true" if fits else "false",
        "ici_fsdp": inside if sharded else 1, "ici_data": 1 if sharded else inside,
    }  # fmt: skip
