"""What the shipped facts must agree with: other sources, each other, the shapes of the models, their own locators.

Every check takes the facts by key, ``accelerators/h100-sxm5-80gb/hbm_bytes``, and names those that it finds wrong; so
the same checks judge the shipped facts and facts that were changed on purpose.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from computeledger.economics.hosting.cost import annuity_fraction
from computeledger.facts.catalog import accelerator_ids, model_ids, ownership_editions, price_editions, system_ids
from computeledger.facts.catalog import tier_editions as shipped_tier_editions
from computeledger.facts.editions import load_ownership, load_prices, load_tiers
from computeledger.facts.load import load_accelerator, load_model, load_system, model_file
from computeledger.facts.reading import ASSUMPTION, dimension_of
from computeledger.facts.schema import Accelerator, Fact
from computeledger.physics.transformer import n_params_active, n_params_active_with_embeddings, n_params_total
from computeledger.units import GIB, GIGA, HOURS_PER_YEAR, MEGA, TERA, parse_quantity

Facts = Mapping[str, Fact]
GOLDEN: dict[str, Any] = tomllib.loads(Path(__file__).with_name("golden.toml").read_text("utf-8"))

#: What a publisher's active count includes; the others count the output head and no input embedding.
WITH_EMBEDDINGS = ("Llama-4", "Mixtral-8x7B", "Qwen3-", "Qwen3.5-122B", "Qwen3.5-397B", "DeepSeek-V3", "DeepSeek-R1",
                   "Kimi", "Nano-30B", "Ring-flash")  # fmt: skip
WITHOUT_HEAD = ("MiniMax", "GLM", "Qwen3-Next")

#: Estimates that do not follow the rule: the base model and the rounded count that they were made with.
NOT_SIX_N_D = ("deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-30B-A3B", "microsoft/phi-4")


def _facts_of(prefix: str, record: Any) -> Iterator[tuple[str, Fact]]:
    if isinstance(record, Fact):
        yield prefix, record
    elif isinstance(record, Mapping):
        for key, item in record.items():
            yield from _facts_of(f"{prefix}.{key}", item)
    elif dataclasses.is_dataclass(record) and not isinstance(record, Accelerator):
        for field in dataclasses.fields(record):
            yield from _facts_of(f"{prefix}.{field.name}", getattr(record, field.name))


def _record_facts(prefix: str, record: Any) -> Iterator[tuple[str, Fact]]:
    for field in dataclasses.fields(record):
        yield from _facts_of(f"{prefix}/{field.name}", getattr(record, field.name))


@functools.cache
def shipped_facts() -> Facts:
    """Every number with a source in accelerators, systems, editions and published figures of models."""
    out: dict[str, Fact] = {}
    for stem in accelerator_ids():
        out.update(_record_facts(f"accelerators/{stem}", load_accelerator(stem)))
    for stem in system_ids():
        system = dataclasses.replace(load_system(stem))
        out.update(item for item in _record_facts(f"systems/{stem}", system) if "/accelerator" not in item[0])
    for edition in price_editions():
        out.update(_record_facts(f"prices/{edition}", load_prices(edition)))
    for edition in ownership_editions():
        out.update(_record_facts(f"ownership/{edition}", load_ownership(edition)))
    for edition in shipped_tier_editions():
        out.update(_record_facts(f"tiers/{edition}", load_tiers(edition)))
    for model_id in model_ids():
        own = tomllib.loads(model_file(model_id).read_text("utf-8")).get("published", {})  # not what `like` supplies
        published = load_model(model_id).published
        out.update({f"models/{model_id}/{name}": published[name] for name in own})
    return out


def _near(value: float, expected: float, tolerance: float) -> bool:
    return abs(value - expected) <= tolerance * abs(expected)


def _record_name(key: str) -> tuple[str, str, str]:
    kind, rest = key.split("/", 1)
    name, field = rest.rsplit("/", 1)
    return kind, name, field


def golden_values() -> dict[str, dict[str, Any]]:
    """Expectations by key of the fact."""
    return {f"{record}/{path}": entry for record, table in GOLDEN["expected"].items() for path, entry in table.items()}


@functools.cache
def _expected_values() -> dict[str, tuple[float, float]]:
    out = {}
    for key, entry in golden_values().items():
        path = _record_name(key)[2]
        path = f"published.{path}" if key.startswith("models/") else path
        value = parse_quantity(entry["expected"], dimension_of(path))
        assert isinstance(value, float)
        out[key] = (value, entry.get("tolerance", 0.05))
    return out


def unlike_the_second_source(facts: Facts) -> list[str]:
    """A fact is what another publication, or another row of the same one, says."""
    return [
        f"{key}: {facts[key].value:g}, but {expected:g} in {golden_values()[key]['source']}"
        for key, (expected, tolerance) in _expected_values().items()
        if not _near(facts[key].value, expected, tolerance)
    ]


def broken_relations(facts: Facts) -> list[str]:
    """Left = factor x right + offset."""
    out = []
    for relation in GOLDEN["relation"]:
        left, right = facts[relation["left"]].value, facts[relation["right"]].value
        wanted = relation.get("factor", 1.0) * right + relation.get("offset", 0.0)
        if not _near(left, wanted, relation.get("tolerance", 0.02)):
            out.append(f"{relation['left']}: {left:g}, not {wanted:g}: {relation['says']}")
    return out


def outside_their_range(facts: Facts) -> list[str]:
    """Low <= value <= high, which the loader refuses too."""
    return [
        f"{key}: {fact.value:g} lies outside {fact.low:g} to {fact.high:g}"
        for key, fact in facts.items()
        if fact.low is not None and fact.high is not None and not fact.low <= fact.value <= fact.high
    ]


def one_statement_two_values(facts: Facts) -> list[str]:
    """The same quantity from the same place of the same source carries one value."""
    groups: dict[tuple[str, ...], dict[float, str]] = defaultdict(dict)
    for key, fact in facts.items():
        kind, name, path = _record_name(key)
        derived = fact.source == "model-name" or (fact.source == ASSUMPTION and path.endswith("w_per_chip"))
        about = name if derived else fact.note if kind == "systems" or fact.source == ASSUMPTION else ""
        groups[kind, path, fact.source, fact.locator, about][fact.value] = key
    return [f"{' and '.join(found.values())}: two values" for found in groups.values() if len(found) > 1]


def unlike_their_name(facts: Facts) -> list[str]:
    """Packages of a scale-up domain and sizes of a model stand in the names; Nvidia's later names count dies."""
    out = []
    for key, fact in facts.items():
        kind, name, field = _record_name(key)
        number = re.search(r"(\d+)$", name)
        if kind == "systems" and field == "n_gpus_scale_up" and number:
            dies = load_system(name).accelerator.dies if name.startswith("vr-") else 1
            if fact.value != int(number[1]) / dies:
                out.append(f"{key}: {fact.value:g}, unlike the name")
        if fact.source == "model-name":
            size = rf"-A({fact.given.split()[0]})B" if field == "n_params_active" else rf"-({fact.value / 1e9:g})B"
            if not re.search(size, name) or not _near(fact.value, float(fact.given.split()[0]) * 1e9, 1e-9):
                out.append(f"{key}: {fact.value:g}, unlike the name")
    return out


@functools.cache
def _counted(model_id: str) -> tuple[float, float, float]:
    """Total, active as the publisher counts, and active with all embeddings."""
    model = load_model(model_id)
    active = n_params_active(model)
    both = n_params_active_with_embeddings(model)
    if any(part in model_id for part in WITHOUT_HEAD):
        active -= model.vocab_size * model.hidden_size
    elif any(part in model_id for part in WITH_EMBEDDINGS):
        active = both
    return float(n_params_total(model)), float(active), float(both)


def unlike_the_counted_tensors(facts: Facts) -> list[str]:
    """Published parameters are those of the configuration; published FLOP of dense training are 6 x N x D."""
    out = []
    for key, fact in facts.items():
        kind, name, field = _record_name(key)
        if kind != "models":
            continue
        total, active, both = _counted(name)
        tokens = facts.get(f"models/{name}/tokens_pretraining")
        wanted = {"n_params_total": total, "n_params_active": None if fact.source == "model-name" else active}.get(
            field
        )
        if field == "training_flop" and tokens and name not in NOT_SIX_N_D:
            wanted = 6 * both * tokens.value
        if wanted is not None and not _near(fact.value, wanted, 0.045):
            out.append(f"{key}: {fact.value:g}, but {wanted:g} counted")
    return out


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def unlike_their_locator(facts: Facts) -> list[str]:
    """Where the locator states a division or two ends of a range, the value is its result."""
    out = []
    for key, fact in facts.items():
        wanted = _stated_quotient(fact) if key.startswith(("ownership/", "systems/")) else None
        ends = re.search(r"\$?([\d.,]*\d) to \$?([\d.,]*\d)", fact.locator)
        if wanted is None and ends and "middle of" in fact.note:
            per = re.search(r"([\d.]+) ?TB", fact.locator)
            wanted = (_number(ends[1]) + _number(ends[2])) / 2 / (_number(per[1]) * TERA if per else 1.0)
        if wanted is not None and not _near(fact.value, wanted, 0.035):
            out.append(f"{key}: {fact.value:g}, but its locator gives {wanted:g}")
    return out


def _stated_quotient(fact: Fact) -> float | None:
    money = re.search(r"([\d.]+) bn\$ for ([\d,]+)", fact.locator)
    power = re.search(r"([\d.,]+)(?: - ([\d.,]+))? MW (?:IT )?for ([\d,]+)", fact.locator)
    if money:
        return _number(money[1]) * 1e9 / _number(money[2])
    return (_number(power[1]) - _number(power[2] or "0")) * MEGA / _number(power[3]) if power else None


def unlike_the_sums(facts: Facts) -> list[str]:
    """Totals that publications print beside their parts."""

    def value(key: str) -> float:
        return facts[key].value

    v3 = [f"models/deepseek-ai/DeepSeek-V3/gpu_hours_{part}" for part in
          ("pretraining", "context_extension", "post_training")]  # fmt: skip
    llama_2 = sum(value(f"models/meta-llama/Llama-2-{size}-hf/gpu_hours_pretraining") for size in ("7b", "13b", "70b"))
    llama_3 = sum(
        value(f"models/meta-llama/Meta-Llama-3.1-{size}/gpu_hours_pretraining") for size in ("8B", "70B", "405B")
    )
    hours = sum(map(value, v3))
    dollars = hours * value("prices/2026-11/usd_per_gpu_hour.h800-sxm5-80gb.rent")
    watts = [
        value(f"systems/{system}/it_w_per_chip") / value(f"accelerators/{chip}/chip_tdp_w")
        for system, chip in (("a100-nvl8", "a100-sxm4-80gb"), ("h100-nvl8", "h100-sxm5-80gb"),
                             ("gb200-nvl72", "gb200-gpu"), ("gb300-nvl72", "gb300-gpu"))
    ]  # fmt: skip
    per_gw = value("prices/2026-11/extra.capex_usd_per_gw_facility") / 1e9
    sums = [
        ("Table 1 of the DeepSeek-V3 report: 2,788K hours", hours, 2.788e6, 1e-4),
        ("the same table: $5.576M at $2", dollars, value("models/deepseek-ai/DeepSeek-V3/usd_training"), 1e-3),
        ("Llama 2 model card: 3,311,616 hours, 1,038,336 of them for 34B", llama_2, 3311616 - 1038336, 1e-5),
        ("Llama 3.1 model card: 39.3M hours", llama_3, 39.3e6, 1e-3),
        ("IT power over TDP, middle of four", value("ownership/2026-11/it_over_tdp_ratio"),
         statistics.median(watts), 0.02),
        ("capital per facility watt x PUE is capital per IT watt", per_gw * value("ownership/2026-11/pue_ratio"),
         value("ownership/2026-11/capex_usd_per_w"), 0.02),
        ("twelve channels of 8 bytes at 4.8 GT/s", value("tiers/2026-11/tiers.ddr5-socket.read_bytes_per_s"),
         12 * 8 * 4.8e9, 1e-3),
        ("twelve modules of 64 GB", value("tiers/2026-11/tiers.ddr5-socket.capacity_bytes"), 12 * 64e9, 1e-3),
        ("a 64 GB module at $700", value("tiers/2026-11/tiers.ddr5-socket.usd_per_byte"), 700 / 64e9, 0.01),
        ("a 30 TB drive at $10,950", value("tiers/2026-11/tiers.nvme-30tb.usd_per_byte"), 10950 / 30e12, 0.01),
    ]  # fmt: skip
    return [f"{says}: {left:g} against {right:g}" for says, left, right, near in sums if not _near(left, right, near)]


def unlike_the_total_cost(facts: Facts) -> list[str]:
    """Capital, power and operation add up to the total cost that the same constants print."""

    def value(name: str) -> float:
        return facts[f"ownership/2026-11/{name}"].value

    annuity = float(annuity_fraction(value("cost_of_capital_fraction"), value("life_years")))
    electricity = facts["prices/2026-11/electricity_usd_per_kwh"].value
    out = []
    for key, fact in facts.items():
        stated = re.search(r"TCO of a neocloud ([\d.]+) \$/h, all-in power ([\d.]+) kW", fact.locator)
        if stated is None:
            continue
        chip = key.rsplit(".", 1)[-1]
        whole = (annuity * fact.value + value("operation_usd_per_gpu_year")) / HOURS_PER_YEAR
        whole += float(stated[2]) * electricity
        own = facts[f"prices/2026-11/usd_per_gpu_hour.{chip}.own"].value
        if not (_near(whole, float(stated[1]), 0.01) and _near(own, float(stated[1]), 0.001)):
            out.append(f"{key}: {whole:.3f} and {own:g} $/h, but its locator says {stated[1]}")
    return out


def out_of_order(facts: Facts) -> list[str]:
    """A contract is no dearer than an hour on demand; TDP <= IT power <= facility power; fp8 no slower than bf16."""
    pairs = [(key, key.removesuffix("reserve") + "rent") for key in facts if key.endswith(".reserve")]
    pairs += [(key, key.replace("it_w", "facility_w")) for key in facts if key.endswith("/it_w_per_chip")]
    pairs += [(key, key.removesuffix("bf16") + "fp8") for key in facts if key.endswith("flop_per_s.bf16")]
    pairs += [
        (f"accelerators/{load_system(stem).accelerator.id}/chip_tdp_w", f"systems/{stem}/it_w_per_chip")
        for stem in system_ids()
    ]
    return [
        f"{less}: {facts[less].value:g} above {more}"
        for less, more in pairs
        if more in facts and facts[less].value > facts[more].value
    ]


#: Shares of a capacity in powers of two that drivers offer: all but a hundredth, what CUDA counts of HBM, all but a
#: sixteenth that error correction takes, and what macOS leaves the GPU.
OFFERED = ((0.9949, 1.0), (0.989, 0.991), (0.936, 0.938), (0.749, 0.751), (0.665, 0.668))


def unlike_their_capacity(facts: Facts) -> list[str]:
    """What a driver offers is one of a few shares of the printed gigabytes, counted in powers of two."""
    out = []
    for key, fact in facts.items():
        if key.endswith("/usable_hbm_bytes"):
            share = fact.value / (facts[key.replace("usable_", "")].value / GIGA * GIB)
            out += [] if any(low <= share <= high for low, high in OFFERED) else [f"{key}: {share:.3f} of its capacity"]
    return out


CHECKS = (
    unlike_the_second_source,
    broken_relations,
    outside_their_range,
    one_statement_two_values,
    unlike_their_name,
    unlike_the_counted_tensors,
    unlike_their_locator,
    unlike_their_capacity,
    unlike_the_sums,
    unlike_the_total_cost,
    out_of_order,
)


def changed(facts: Facts, key: str, factor: float) -> Facts:
    """The facts with one of them off by a factor, which a file with a slip of the pen would load as."""
    fact = facts[key]
    return {**facts, key: dataclasses.replace(fact, value=fact.value * factor, given=f"{fact.value * factor:g}")}
