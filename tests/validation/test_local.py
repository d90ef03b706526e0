"""Local engines: one request at a time on one device, against published figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_accelerator, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.local import ANY, kind_of, load_local, local_profile
from computeledger.physics.roofline import Machine
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.serving.local_fit import (
    OF_A_KIND,
    Figure,
    LocalFit,
    calibration_text,
    constants_of_fit,
    fitted_profiles,
    predict_figures,
    read_figures,
)
from computeledger.validation.serving.open_points import NEEDED, predict_open

CENTRAL = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    return read_figures(curated_rows("local_curated.csv"))


def constants(one: Figure) -> Machine:
    return Machine(load_system(one.case.system), efficiency(local_profile(one.case.engine, one.chip), CENTRAL))


def errors(figures: Sequence[Figure], time: str) -> np.ndarray:
    own = [one for one in figures if one.time == time]
    predicted = [float(predict_figures([one], constants(one).efficiency, 1)[0, 0]) for one in own]
    return np.abs(np.array(predicted) / [one.measured_s for one in own] - 1)


def test_shipped_figures_are_typed_rows_with_their_source() -> None:
    rows = curated_rows("local_curated.csv")
    assert len(rows) > 300 and set(NEEDED) <= set(rows[0])
    assert all(row["url"].startswith("https://github.com/") and row["date"] and row["source"] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)


def test_decode_and_prefill_within_the_targets(figures: list[Figure]) -> None:
    """Figures lie inside what is asked of sources left out, 15 % and 25 %, and the fitted ones well inside."""
    left_out = [float(part) for part in re.findall(r"median ([0-9.]+)%", load_local().residual)]
    assert left_out[0] < 15 and left_out[1] < 25
    assert np.median(errors(figures, "tpot")) < 0.08
    assert np.median(errors(figures, "ttft")) < 0.18


def test_narrow_weights_on_early_apple_chips_are_not_taken_for_fast(figures: list[Figure]) -> None:
    """Q4_K_M on M1 and M2: their GPUs reach less than those of M3 and later; builds of 2024 less than today's."""
    early = [
        one for one in figures if one.kind == "apple to m2" and one.time == "tpot" and one.case.engine == "llama.cpp"
    ]
    narrow = [one for one in early if one.case.scenario.precision.name == "q4_k"]
    ratios = [float(predict_figures([one], constants(one).efficiency, 1)[0, 0]) / one.measured_s for one in narrow]
    assert len(narrow) > 10 and 0.65 < np.median(ratios) < 1
    assert kind_of(load_accelerator("m2-ultra")) == "apple to m2" and kind_of(load_accelerator("m4-pro")) == "apple"


def test_the_fit_predicts_what_an_answer_says(figures: list[Figure]) -> None:
    for one in figures[::17]:
        answered = float(np.ravel(predict_open(one.case, constants(one)))[0])
        of_the_fit = float(predict_figures([one], constants(one).efficiency, 1)[0, 0])
        of_the_answer = answered if one.time == "tpot" else float(one.case.scenario.input_tokens) / answered
        of_the_answer /= 1 if one.time == "tpot" else float(one.case.scenario.layout.n_gpus)
        assert of_the_fit == pytest.approx(of_the_answer, rel=1e-6)


def test_constants_are_found_again_from_figures_that_follow_them(figures: list[Figure]) -> None:
    """A bandwidth that is a fifth lower makes every decode step longer, and the fit says so."""
    some = [one for one in figures if one.time == "tpot" and one.case.engine == "llama.cpp"][:12]
    slower = [
        Figure(
            type(one.case)(**{name: getattr(one.case, name) for name in one.case.__dataclass_fields__}
                           | {"measured": 1.2 * one.case.measured}),
            one.source,
            one.chip,
        )
        for one in some
    ]  # fmt: skip
    place = list(OF_A_KIND).index("weight_bandwidth_fraction")
    before, after = (fitted_profiles(ones)[f"llama.cpp on {ANY}"].change[place] for ones in (some, slower))
    assert after < before


def test_kinds_are_told_from_facts() -> None:
    assert kind_of(load_accelerator("h100-sxm5-80gb")) == kind_of(load_accelerator("a100-sxm4-80gb"))
    assert kind_of(load_accelerator("tpu-v6e")) == ANY
    assert all(f"{engine} on {ANY}" in load_local().profiles for engine in ("llama.cpp", "mlx"))


def test_an_engine_on_a_kind_of_chip_never_measured_says_so_and_is_wider() -> None:
    asked = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "price": "$2/h"}
    near, far = (cl.serve(**asked, batch=1, backend=engine).to_dict() for engine in ("llama.cpp", "mlx"))
    assert near["interval"]["class"] == "local engine" and "one request at a time" in near["interval"]["why"]
    assert far["interval"]["class"] == "local engine, kind of chip never measured"
    assert near["efficiency_profile"] == "llama.cpp on nvidia with hbm"


def test_several_requests_at_once_are_extrapolated_and_said_to_be() -> None:
    asked = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "price": "$2/h", "backend": "llama.cpp"}
    alone, several = (cl.serve(**asked, batch=batch) for batch in (1, 8))
    assert several.to_dict()["interval"]["class"] == "local engine, several requests"
    assert several.tpot_s.p95 / several.tpot_s.p05 > alone.tpot_s.p95 / alone.tpot_s.p05


def test_a_local_engine_serves_through_time() -> None:
    """Its benchmarks have no host time: the simulation takes none rather than a negative one."""
    asked: dict[str, str | float] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "requests": 50}
    answer = cl.simulate_serve(**asked, arrivals="poisson:1", backend="llama.cpp")
    assert answer.percentiles["ttft_s"]["p50"] > 0


def test_a_local_engine_refuses_a_layout_that_it_cannot_run() -> None:
    with pytest.raises(InputError, match=r"mlx.*one device"):
        cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp2", batch=1, backend="mlx")


def test_a_fit_without_what_was_left_out_is_not_written(figures: list[Figure]) -> None:
    profiles = fitted_profiles([one for one in figures if one.case.engine == "llama.cpp"][:4])
    found = LocalFit(figures[:4], profiles, {}, {})
    assert {one.name for one in constants_of_fit(found)} == set(OF_A_KIND)
    with pytest.raises(InputError, match="left out"):
        calibration_text(found)
