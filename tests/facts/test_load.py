"""Loading by exact id, refusing what is not exact, and users' own files."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from computeledger.errors import ComputeLedgerError, FactError, InputError, ModelConfigError, UnknownIdError
from computeledger.facts import load
from computeledger.facts.catalog import model_aliases, model_index, price_editions, shipped_file
from computeledger.facts.editions import (
    load_ownership,
    load_prices,
    load_tiers,
    read_ownership,
    read_prices,
    read_tiers,
)
from computeledger.facts.load import (
    accelerator_ids,
    load_accelerator,
    load_model,
    load_system,
    model_ids,
    read_accelerator,
    read_model,
    read_system,
    system_ids,
)
from computeledger.facts.reading import dimension_of, parse_document

REQUIRED_ACCELERATORS = [
    "a100-sxm4-80gb", "a100-sxm4-40gb", "h100-sxm5-80gb", "h100-pcie-80gb", "h100-nvl-94gb", "h800-sxm5-80gb",
    "h20-sxm5-96gb", "h200-sxm5-141gb", "b200-sxm", "b300-sxm", "gb200-gpu", "gb300-gpu", "rubin-gpu",
    "rubin-ultra-gpu", "mi300x", "mi325x", "mi355x", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7",
    "trainium2", "trainium3", "l40s", "rtx-pro-6000-server",
]  # fmt: skip
REQUIRED_SYSTEMS = [
    "a100-nvl8", "h100-nvl8", "h800-nvl8", "h20-nvl8", "h200-nvl8", "b200-nvl8", "b300-nvl8", "gb200-nvl72",
    "gb300-nvl72", "vr-nvl144", "vr-ultra-nvl576", "mi300x-8", "mi355x-8", "tpu-v5p-pod", "tpu-v6e-pod",
    "tpu-v7-pod", "trn2-ultra-64",
]  # fmt: skip


def refusal(function: object, given: str) -> str:
    """The one-line message of a refusal."""
    with pytest.raises(UnknownIdError) as caught:
        function(given)  # type: ignore[operator]
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- what ships


def test_the_required_ids_ship() -> None:
    assert set(REQUIRED_ACCELERATORS) <= set(accelerator_ids())
    assert set(REQUIRED_SYSTEMS) <= set(system_ids())
    assert "2026-11" in price_editions()


@pytest.mark.parametrize("accelerator_id", accelerator_ids())
def test_an_accelerator_is_plausible(accelerator_id: str) -> None:
    chip = load_accelerator(accelerator_id)
    assert chip.id == accelerator_id
    assert 6e9 < chip.hbm_bytes.value < 2e12  # a phone has 8 GB
    assert 5e10 < chip.hbm_bytes_per_s.value < 5e13
    assert 6 < chip.chip_tdp_w.value < 5000
    peaks = [chip.peak(precision) for precision in ("bf16", "fp8", "fp4")]
    assert peaks == sorted(peaks)
    assert 2e12 < peaks[0] < 3e16


@pytest.mark.parametrize("system_id", system_ids())
def test_a_system_is_plausible(system_id: str) -> None:
    system = load_system(system_id)
    assert system.id == system_id
    assert system.n_gpus_scale_up.value >= 8
    assert system.scale_up_bytes_per_s_per_gpu.value >= 2 * system.scale_out_bytes_per_s_per_gpu.value
    assert 5e-7 <= system.scale_up_latency_s.value <= system.scale_out_latency_s.value * 2 < 1e-4
    assert system.accelerator.chip_tdp_w.value < system.it_w_per_chip.value <= system.facility_w_per_chip.value


@pytest.mark.parametrize("model_id", model_ids())
def test_a_model_loads_and_its_size_is_near_the_published_one(model_id: str) -> None:
    model = load_model(model_id)
    assert model.id == model_id
    assert model.n_layers > 0
    assert model.hidden_size > 0
    for fact in model.published.values():
        assert fact.value > 0


def test_prices_are_ordered() -> None:
    prices = load_prices()
    assert prices.id == price_editions()[-1]
    for kinds in prices.usd_per_gpu_hour.values():
        if {"rent", "reserve"} <= set(kinds):
            assert kinds["reserve"].value <= kinds["rent"].value
    for accelerator_id in ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "b200-sxm", "gb200-gpu", "tpu-v5p"):
        assert {"rent", "reserve"} <= set(prices.usd_per_gpu_hour[accelerator_id])
    assert prices.usd_per_gpu_hour["h800-sxm5-80gb"]["rent"].value == 2.0
    assert 0.05 < prices.electricity_usd_per_kwh.value < 0.15
    assert load_prices("2026-11") is prices


@pytest.mark.parametrize(
    ("system_id", "hbm_bytes"),
    [("h200-nvl8", 1.128e12), ("b200-nvl8", 1.44e12), ("gb200-nvl72", 13.392e12), ("h100-nvl8", 0.64e12)],
)
def test_the_memory_of_a_system_is_the_sum_of_its_packages(system_id: str, hbm_bytes: float) -> None:
    system = load_system(system_id)
    assert system.n_gpus_scale_up.value * system.accelerator.hbm_bytes.value == pytest.approx(hbm_bytes)


@pytest.mark.parametrize(
    ("accelerator_id", "ridge_flop_per_byte"),
    [("a100-sxm4-80gb", 153), ("h100-sxm5-80gb", 295), ("h200-sxm5-141gb", 206), ("b200-sxm", 292), ("gb200-gpu", 312),
     ("tpu-v5p", 166), ("tpu-v6e", 560), ("tpu-v7", 313), ("trainium2", 230)],
)  # fmt: skip
def test_peak_over_bandwidth_agrees_with_an_independent_table(accelerator_id: str, ridge_flop_per_byte: float) -> None:
    chip = load_accelerator(accelerator_id)
    assert chip.peak("bf16") / chip.hbm_bytes_per_s.value == pytest.approx(ridge_flop_per_byte, rel=0.005)


def test_h100_equivalents() -> None:
    assert load_accelerator("gb200-gpu").peak("bf16") / load_accelerator("h100-sxm5-80gb").peak(
        "bf16"
    ) == pytest.approx(2.53, abs=0.01)


def test_link_bandwidth_is_per_direction() -> None:
    assert load_system("h100-nvl8").scale_up_bytes_per_s_per_gpu.value == 450e9
    assert load_system("gb200-nvl72").scale_up_bytes_per_s_per_gpu.value == 900e9
    assert load_system("h800-nvl8").scale_up_bytes_per_s_per_gpu.value == 200e9
    assert load_system("h800-nvl8").scale_out_bytes_per_s_per_gpu.value == 50e9


def test_a_chip_without_narrow_units_runs_at_the_wider_peak() -> None:
    assert load_accelerator("a100-sxm4-80gb").peak("fp8") == 312e12
    assert load_accelerator("h100-sxm5-80gb").peak("fp4") == 1979e12


def test_published_training_cost_of_deepseek_v3() -> None:
    published = load_model("deepseek-v3").published
    hours = sum(
        published[f"gpu_hours_{phase}"].value for phase in ("pretraining", "context_extension", "post_training")
    )
    assert hours == pytest.approx(2.788e6)
    price = load_prices().usd_per_gpu_hour["h800-sxm5-80gb"]["rent"].value
    assert hours * price == pytest.approx(published["usd_training"].value)
    compute = 6 * published["n_params_active"].value * published["tokens_pretraining"].value
    assert compute == pytest.approx(published["training_flop"].value, rel=0.05)


def test_published_training_of_llama_3_1_405b() -> None:
    published = load_model("llama-3.1-405b").published
    assert published["gpu_hours_pretraining"].value == 30.84e6
    compute = 6 * published["n_params_total"].value * published["tokens_pretraining"].value
    assert compute == pytest.approx(published["training_flop"].value, rel=0.02)


# ---- ids


@pytest.mark.parametrize("given", ["H100-SXM5-80GB", "h100_sxm5_80gb", " h100-sxm5-80gb "])
def test_case_does_not_matter(given: str) -> None:
    assert load_accelerator(given).id == "h100-sxm5-80gb"


def test_a_family_is_refused_with_its_members_and_their_difference() -> None:
    message = refusal(load_accelerator, "h100")
    for text in ("h100-sxm5-80gb (80 GB", "h100-pcie-80gb (80 GB", "h100-nvl-94gb (94 GB", "700 W", "350 W", "differ"):
        assert text in message


def test_a_family_of_one_is_still_not_exact() -> None:
    assert "h200-sxm5-141gb" in refusal(load_accelerator, "h200")
    assert "h20-sxm5-96gb" in (message := refusal(load_accelerator, "h20"))
    assert "h200" not in message


def test_b200_could_be_the_gpu_of_a_gb200() -> None:
    message = refusal(load_accelerator, "b200")
    assert "b200-sxm (180 GB" in message
    assert "gb200-gpu (186 GB" in message


def test_gb200_says_that_a_superchip_holds_two_gpus() -> None:
    assert "superchip holds two GPUs" in refusal(load_accelerator, "gb200")
    assert "gb200-nvl72 (72 x gb200-gpu)" in refusal(load_system, "GB200")


@pytest.mark.parametrize(
    ("function", "given", "hint"),
    [
        (load_system, "h100-sxm5-80gb", "a system is needed: h100-nvl8, 1xh100-sxm5-80gb"),
        (load_system, "mi325x", "a system is needed: 1xmi325x, 8xmi325x"),
        (load_accelerator, "h100-nvl8", "its accelerator is 'h100-sxm5-80gb'"),
        (load_system, "h100-nvl9", "did you mean 'h100-nvl8'?"),
        (load_accelerator, "h100-sxm5-80", "h100-sxm5-80gb"),
        (load_prices, "2026-12", "2026-11"),
        (load_model, "deepseek-ai/DeepSeek-V33", "DeepSeek-V3"),
        (load_model, "llama-3.1", "llama-3.1-405b"),
        (load_model, "", "expected a bundled id"),
    ],
)
def test_a_refusal_names_the_nearest_valid_choice(function: object, given: str, hint: str) -> None:
    assert hint in refusal(function, given)


@pytest.mark.parametrize(
    "given",
    ["meta-llama/Llama-3.1-70B", "meta-llama/Meta-Llama-3.1-70B", "Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b",
     "META-LLAMA/LLAMA-3.1-70B-INSTRUCT"],
)  # fmt: skip
def test_spellings_of_one_model(given: str) -> None:
    assert load_model(given).id == "meta-llama/Meta-Llama-3.1-70B"


def test_a_shipped_record_is_read_once() -> None:
    assert load_model("deepseek-v3") is load_model("deepseek-ai/DeepSeek-V3")
    assert load_system("h100-nvl8").accelerator is load_accelerator("h100-sxm5-80gb")


def test_aliases_name_shipped_models_and_no_id_twice() -> None:
    assert set(model_aliases()) <= set(model_ids())
    names = [*model_ids(), *(name for names in model_aliases().values() for name in names)]
    assert len({name.lower() for name in names}) == len(names)
    assert all(len(ids) == 1 for ids in model_index().values())


def test_an_ambiguous_short_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "model_index", lambda: {"twin": ("a/Twin", "b/Twin")})
    assert "a/Twin or b/Twin" in refusal(load_model, "Twin")


# ---- what must not load


def mutated(kind: str, stem: str, old: str, new: str, name: str | None = None) -> object:
    """A shipped file with one text replaced, read as if it shipped."""
    text = shipped_file(kind, f"{stem}.toml").read_text("utf-8")
    assert old in text
    document = parse_document(name or f"{stem}.toml", text.replace(old, new, 1), shipped=True)
    readers = {
        "accelerators": read_accelerator,
        "systems": read_system,
        "prices": read_prices,
        "ownership": read_ownership,
        "tiers": read_tiers,
        "models": read_model,
    }
    return readers[kind](document)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = "epoch-ml-hardware", ', "", "hbm_bytes: source missing"),
        ('date = "2026-03-31", ', "", "hbm_bytes: date missing"),
        ('locator = "NVIDIA H100 SXM5 80GB: Memory", ', "", "hbm_bytes: locator missing"),
        ("value = 80, ", "", "hbm_bytes: value missing"),
        ('unit = "GB"', 'unit = "TFLOP/s"', "hbm_bytes: .*unknown unit"),
        ('unit = "GB"', 'unit = "GB/s"', "hbm_bytes: .*unknown unit"),
        ('unit = "TB/s"', 'unit = "TB"', "hbm_bytes_per_s: .*unit"),
        ('unit = "GB"', 'unit = ""', "hbm_bytes: .*unit is missing"),
        ("value = 80,", 'value = "80",', "hbm_bytes: value = '80' is not a number"),
        ("value = 80,", "value = -80,", "hbm_bytes: .*negative"),
        ('"epoch-ml-hardware"', '"epoch-ml-hardwear"', "unknown source key 'epoch-ml-hardwear': did you mean"),
        ('"2026-03-31"', '"2999-01-01"', "hbm_bytes: date 2999-01-01 lies in the future"),
        ('"2026-03-31"', '"31 March"', "hbm_bytes: date '31 March'"),
        ('source = "epoch-ml-hardware"', 'source = "user"', "unknown source key 'user'"),
        ('unit = "GB"', 'unit = "GB", low = 70', "low and high belong together"),
        ('unit = "GB"', 'unit = "GB", low = 81, high = 90', "low <= value <= high"),
        ('unit = "GB"', 'unit = "GB", page = 3', "hbm_bytes.page: unknown field"),
        ("hbm_bytes_per_s =", "bandwidth_bytes_per_s =", "hbm_bytes_per_s missing"),
        ("[peak_flop_per_s]", "[peak_flop_per_s]\nint8x = {}", "peak_flop_per_s.int8x: value"),
        ("\nbf16 =", "\nfp4 =", "bf16 is missing"),
        ("dies = 1", "dies = true", "dies: [Tt]rue is not a whole number"),
        ("dies = 1", "dies = 1\ncolour = 2", "colour: unknown field"),
        ("dies = 1", "dies = 1\ndies = 2", "not valid TOML"),
        ('name = "NVIDIA', 'name = 5\nvendor2 = "', "unknown field"),
    ],
)
def test_a_malformed_accelerator_does_not_load(old: str, new: str, message: str) -> None:
    with pytest.raises(FactError, match=message) as caught:
        mutated("accelerators", "h100-sxm5-80gb", old, new)
    assert str(caught.value).startswith("h100-sxm5-80gb.toml:")
    assert "\n" not in str(caught.value)


def test_a_fact_without_provenance_is_not_a_fact() -> None:
    text = shipped_file("accelerators", "h100-sxm5-80gb.toml").read_text("utf-8")
    start = text.index("chip_tdp_w = ")
    end = text.index("\n", start)
    document = parse_document("h100-sxm5-80gb.toml", text[:start] + 'chip_tdp_w = "700 W"' + text[end:], shipped=True)
    with pytest.raises(FactError, match="chip_tdp_w: a fact is a table"):
        read_accelerator(document)


@pytest.mark.parametrize(
    ("kind", "stem", "old", "new", "message"),
    [
        ("accelerators", "b200-sxm", 'id = "b200-sxm"', 'id = "h200-sxm5-141gb"', "an id exists once"),
        ("systems", "h100-nvl8", 'id = "h100-nvl8"', 'id = "h200-nvl8"', "an id exists once"),
        ("models", "Qwen--Qwen3-8B", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "an id exists once"),
        ("systems", "h100-nvl8", 'unit = "us"', 'unit = "GB/s"', "scale_up_latency_s: .*unknown unit"),
        ("systems", "h100-nvl8", "accelerator =", "chip =", "accelerator missing"),
        ("systems", "mi300x-8", ", note =", ", nota =", "nota: unknown field; did you mean 'note'"),
        ("prices", "2026-11", "[usd_per_gpu_hour.l40s]", "[usd_per_gpu_hour.l40z]", "l40z: unknown accelerator"),
        ("prices", "2026-11", "\nreserve =", "\nlease =", "lease: unknown kind of price"),
        ("models", "Qwen--Qwen3-8B", "[config_json]", "[config_jso]", "config_jso: unknown field"),
        ("models", "Qwen--Qwen3-8B", "n_params_total =", "size =", "published.size: the name carries no unit"),
        ("models", "Qwen--Qwen3-8B", 'source = "aiconfigurator", ', "", "config: source missing"),
        ("models", "nvidia--DeepSeek-V3.1-NVFP4", 'experts = "fp4"', 'experts = "int3"', "precision.experts: 'int3'"),
        ("models", "nvidia--DeepSeek-V3.1-NVFP4", 'dense = "fp4", ', "", "precision.dense: None"),
        ("ownership", "2026-11", "[capex_usd_per_gpu]", "[capex_usd_per_chip]", "capex_usd_per_gpu missing"),
        ("ownership", "2026-11", "\nh100-sxm5-80gb =", "\nh100 =", "capex_usd_per_gpu.h100: unknown accelerator"),
        ("ownership", "2026-11", 'unit = "years"', 'unit = "W"', "life_years: .*unknown unit"),
        ("ownership", "2026-11", "value = 87,", "value = 187,", "occupancy_fraction"),
        ("ownership", "2026-11", "pue_ratio =", "pue =", "pue_ratio missing"),
        ("tiers", "2026-11", 'unit = "MB/s"', 'unit = "MB"', "hdd-24tb.read_bytes_per_s: .*unknown unit"),
        ("tiers", "2026-11", "usd_per_byte =", "usd =", "hbm3e-stack: usd_per_byte missing"),
        ("tiers", "2026-11", 'id = "2026-11"', 'id = "2026-10"', "an id exists once"),
    ],
)
def test_a_malformed_record_does_not_load(kind: str, stem: str, old: str, new: str, message: str) -> None:
    with pytest.raises(FactError, match=message):
        mutated(kind, stem, old, new)


def test_an_assumption_without_a_reason_does_not_load() -> None:
    reason = "one HGX board; the table of small all-reduces read for this system goes to 8 GPUs"
    with pytest.raises(FactError, match="n_gpus_scale_up: an assumption needs its reason"):
        mutated("systems", "a100-nvl8", reason, "")


@pytest.mark.parametrize(
    ("path", "dimension"),
    [("hbm_bytes", "bytes"), ("scale_up_bytes_per_s_per_gpu", "bytes_per_s"), ("scale_up_latency_s", "s"),
     ("it_w_per_chip", "w"), ("n_gpus_scale_up", "count"), ("published.n_params_total", "count"),
     ("published.tokens_pretraining", "tokens"), ("published.gpu_hours_pretraining", "gpu_hours"),
     ("usd_per_gpu_hour.h100-sxm5-80gb.rent", "usd_per_hour"), ("electricity_usd_per_kwh", "usd_per_kwh"),
     ("peak_flop_per_s.bf16", "flop_per_s"), ("published.training_flop", "flop"), ("published.usd_training", "usd")],
)  # fmt: skip
def test_a_name_says_its_dimension(path: str, dimension: str) -> None:
    assert dimension_of(path) == dimension


# ---- users' files

MY_CHIP = """
name = "My chip"
hbm_bytes = "96 GB"          # a comment
hbm_bytes_per_s = "4..5 TB/s"
chip_tdp_w = "500 W"
[peak_flop_per_s]
bf16 = "800 TFLOP/s"
fp8 = { value = 1.6, unit = "PFLOP/s", note = "dense" }
"""


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def test_a_users_accelerator(tmp_path: Path) -> None:
    path = written(tmp_path, "my-chip.toml", MY_CHIP)
    day_before = datetime.date.today().isoformat()
    chip = load_accelerator(path)
    assert (chip.id, chip.name, chip.hbm_bytes.value) == ("my-chip", "My chip", 96e9)
    assert (chip.hbm_bytes.source, chip.hbm_bytes.locator) == ("user", path)
    assert chip.hbm_bytes.date in (day_before, datetime.date.today().isoformat())  # midnight may pass
    assert chip.hbm_bytes_per_s.low == 4e12
    assert chip.hbm_bytes_per_s.high == 5e12
    assert chip.peak("fp8") == 1.6e15
    assert chip.peak_flop_per_s["fp8"].source == "user"


def test_a_users_accelerator_builds_on_a_shipped_one(tmp_path: Path) -> None:
    path = written(
        tmp_path, "big.toml", 'like = "h100-sxm5-80gb"\nhbm_bytes = "96 GB"\n[peak_flop_per_s]\nfp4 = "4 PFLOP/s"'
    )
    chip = load_accelerator(path)
    assert chip.id == "big"
    assert chip.hbm_bytes.value == 96e9
    assert chip.vendor == "NVIDIA"
    assert set(chip.peak_flop_per_s) == {"bf16", "fp8", "fp4", "int8"}


def test_a_file_is_read_afresh(tmp_path: Path) -> None:
    path = written(tmp_path, "big.toml", 'like = "h100-sxm5-80gb"\nhbm_bytes = "96 GB"')
    assert load_accelerator(path).hbm_bytes.value == 96e9
    written(tmp_path, "big.toml", 'like = "h100-sxm5-80gb"\nhbm_bytes = "97 GB"')
    assert load_accelerator(path).hbm_bytes.value == 97e9


@pytest.mark.parametrize("accelerator", ["b200-sxm", "my-chip.toml"])
def test_a_users_system(tmp_path: Path, accelerator: str) -> None:
    written(tmp_path, "my-chip.toml", MY_CHIP)
    text = f'like = "h100-nvl8"\naccelerator = "{accelerator}"\nn_gpus_scale_up = 16\n'
    text += 'scale_out_bytes_per_s_per_gpu = "800 Gbit/s"'
    system = load_system(written(tmp_path, "rack.toml", text))
    assert system.accelerator.id == accelerator.removesuffix(".toml")
    assert system.n_gpus_scale_up.value == 16
    assert system.scale_out_bytes_per_s_per_gpu.value == 1e11
    assert system.scale_up_bytes_per_s_per_gpu.value == 450e9


def test_users_prices(tmp_path: Path) -> None:
    path = written(tmp_path, "mine.toml", 'like = "2026-11"\n[usd_per_gpu_hour.h100-sxm5-80gb]\nrent = "$1.80/h"')
    prices = load_prices(path)
    assert prices.id == "mine"
    assert prices.usd_per_gpu_hour["h100-sxm5-80gb"]["rent"].value == 1.8
    assert prices.usd_per_gpu_hour["h100-sxm5-80gb"]["reserve"].value == 1.3
    assert "b200-sxm" in prices.usd_per_gpu_hour


def test_users_ownership_and_tiers(tmp_path: Path) -> None:
    path = written(tmp_path, "mine.toml", 'like = "2026-11"\n[capex_usd_per_gpu]\nh100-sxm5-80gb = "30 k$"')
    mine = load_ownership(path)
    assert mine.capex_usd_per_gpu["h100-sxm5-80gb"].value == 30e3
    assert mine.capex_usd_per_gpu["gb200-gpu"] == load_ownership().capex_usd_per_gpu["gb200-gpu"]
    text = (
        '[tiers.tape]\nname = "LTO-9"\ncapacity_bytes = "18 TB"\nread_bytes_per_s = "400 MB/s"\nusd_per_byte = "$6/TB"'
    )
    tiers = load_tiers(written(tmp_path, "tape.toml", 'like = "2026-11"\n' + text)).tiers
    assert tiers["tape"].usd_per_byte.value == 6e-12
    assert set(load_tiers().tiers) < set(tiers)


def test_a_newer_edition_is_the_default() -> None:
    assert list(price_editions()) == sorted(price_editions())
    assert load_prices().id == price_editions()[-1]
    old, new = (
        load_prices(edition).usd_per_gpu_hour["h100-sxm5-80gb"]["reserve"] for edition in ("2025-03", "2026-11")
    )
    assert old.value > new.value
    with pytest.raises(UnknownIdError, match="unknown price edition '2026-10'"):
        load_prices("2026-10")


@pytest.mark.parametrize("given", ["hdd-24tb", "nvme-4tb", "nvme-30tb", "ddr5-socket", "hbm3e-stack"])
def test_a_tier_is_slower_and_cheaper_than_the_one_above(given: str) -> None:
    order = ["hdd-24tb", "nvme-30tb", "nvme-4tb", "ddr5-socket", "hbm3e-stack"]
    tier = load_tiers().tiers[given]
    for above in order[order.index(given) + 1 :]:
        faster = load_tiers().tiers[above]
        assert tier.drain_s > faster.drain_s
        assert tier.usd_per_byte.value <= faster.usd_per_byte.value * 2.0


@pytest.mark.parametrize("model_id", [model_id for model_id in model_ids() if re.search("FP8|NVFP4|MXFP4", model_id)])
def test_a_model_with_a_precision_in_its_name_is_not_sized_in_bf16(model_id: str) -> None:
    model = load_model(model_id)
    stated = {model.weight_precision, model.dense_precision, model.expert_precision}
    assert any(one.startswith("fp4" if "FP4" in model_id else "fp8") for one in stated)
    assert not any("no quantization_config" in note for note in model.notes)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('hbm_bytes = "96 GB"\n', 1, "missing"),
        (MY_CHIP.replace("96 GB", "96 W"), 3, "hbm_bytes: '96 W': unknown unit 'W'"),
        (MY_CHIP.replace("96 GB", "96"), 3, "hbm_bytes: '96': a unit is missing"),
        (MY_CHIP.replace('"96 GB"', "96"), 3, "a unit is missing"),
        (MY_CHIP.replace("4..5", "5..4"), 4, "low end must lie below"),
        (MY_CHIP.replace("fp8", "int4"), 8, "peak_flop_per_s.int4: unknown precision"),
        (MY_CHIP.replace("chip_tdp_w", "tdp_w"), 1, "chip_tdp_w missing"),
        (MY_CHIP + 'colour = "red"\n', 9, "colour"),
        (MY_CHIP.replace("note", "source"), 8, "unknown source key 'dense'"),
        (MY_CHIP.replace('note = "dense"', 'date = "2999-01-01"'), 8, "lies in the future"),
        (MY_CHIP[:-4], 8, "not valid TOML"),
        ('like = "h100"', 1, "like: accelerator 'h100' could mean"),
        ("like = 3", 1, "like: 3 is not an id"),
    ],
)
def test_a_users_mistake_names_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = written(tmp_path, "my-chip.toml", text)
    with pytest.raises(InputError) as caught:
        load_accelerator(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "function", [load_accelerator, load_system, load_model, load_prices, load_ownership, load_tiers]
)
def test_a_missing_file(tmp_path: Path, function: object) -> None:
    with pytest.raises(InputError, match="no such file"):
        function(str(tmp_path / "nothing.toml"))  # type: ignore[operator]


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        load_accelerator(str(tmp_path / "x.toml"))


def test_an_unknown_accelerator_in_a_users_system(tmp_path: Path) -> None:
    path = written(tmp_path, "rack.toml", 'n_gpus_scale_up = 8\nlike = "h100-nvl8"\naccelerator = "h101"')
    with pytest.raises(UnknownIdError, match=f"{path}:3: accelerator: unknown accelerator 'h101'"):
        load_system(path)


def config_of(stem: str) -> dict[str, object]:
    text = shipped_file("models", f"{stem}.toml").read_text("utf-8")
    return dict(tomllib.loads(text)["config_json"])


def test_a_users_model_as_json_toml_or_directory(tmp_path: Path) -> None:
    config = config_of("Qwen--Qwen3-8B")
    as_json = written(tmp_path, "config.json", json.dumps(config))
    shape = load_model("qwen3-8b")
    for given in (as_json, str(tmp_path)):
        model = load_model(given)
        assert model.id == as_json
        assert (model.layers, model.vocab_size) == (shape.layers, shape.vocab_size)
    text = shipped_file("models", "Qwen--Qwen3-8B.toml").read_text("utf-8")
    mine = load_model(written(tmp_path, "mine.toml", text.replace("Qwen/Qwen3-8B", "me/Mine", 1)))
    assert mine.id == "me/Mine"
    assert mine.layers == shape.layers


@pytest.mark.parametrize(("text", "line"), [('{"hidden_size": 4096,\n "num_hidden', 2), ("[1, 2]", 1), ("", 1)])
def test_a_truncated_config(tmp_path: Path, text: str, line: int) -> None:
    path = written(tmp_path, "config.json", text)
    with pytest.raises(ModelConfigError) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


def test_a_config_without_a_shape_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "config.json", '{"model_type": "llama"}')
    with pytest.raises(ModelConfigError, match=r"config\.json"):
        load_model(path)


def test_a_directory_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"holds no config\.json"):
        load_model(str(tmp_path))


def test_every_error_is_ours() -> None:
    assert issubclass(FactError, ComputeLedgerError)
    assert not issubclass(FactError, InputError)
    assert resources.files("computeledger.facts").joinpath("data", "sources.toml").is_file()
