"""Structured output in serving: limits, hidden and exposed masks, drafts, new schemas, simulated alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.structured import mask_libraries
from computeledger.workloads.questions.structured import LIBRARIES

ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "batch": 64, "input_tokens": 512,
    "output_tokens": 256, "samples": 64,
}  # fmt: skip


def _step_s(**given: Any) -> float:
    return float(np.median(cl.serve(**ASKED | given).result.step_s))


def test_no_structured_request_is_the_answer_without_any() -> None:
    given: list[dict[str, Any]] = [{}, {"structured": "xgrammar", "structured_fraction": 0}]
    plain, none = (cl.serve(**ASKED, **one) for one in given)
    assert plain.tpot_s == none.tpot_s and plain.ttft_s == none.ttft_s
    assert set(LIBRARIES) == set(mask_libraries())


def test_masks_before_a_step_grow_with_the_batch_the_share_and_the_drafts() -> None:
    added = [_step_s(batch=n, structured="xgrammar") - _step_s(batch=n) for n in (8, 64)]
    assert added[1] == pytest.approx(8 * added[0], rel=0.1) and added[0] > 0
    half = _step_s(structured="xgrammar", structured_fraction=0.5) - _step_s()
    assert half == pytest.approx(added[1] / 2, rel=0.05)
    drafts = {"draft_tokens": 3.0, "tokens_per_step": 2.0}
    assert _step_s(structured="xgrammar", **drafts) - _step_s(**drafts) > 3.5 * added[1]


def test_hidden_masks_cost_only_what_is_longer_than_the_step() -> None:
    given: list[dict[str, Any]] = [{}, {"structured": "xgrammar"}, {"structured": "xgrammar", "mask_time": "1ms"}]
    plain, hidden, slow = (_step_s(backend="sglang", **one) for one in given)
    assert hidden == plain < slow
    assert slow >= 64e-3, "the host's time alone"


def test_new_schemas_are_compiled_before_the_first_token() -> None:
    none, some = (cl.serve(**ASKED, structured="xgrammar", new_schemas=one) for one in (0.0, 0.1))
    compiled_s = mask_libraries()["xgrammar"].facts["compile_p50_s"].value
    assert some.ttft_s.p50 - none.ttft_s.p50 == pytest.approx(0.1 * compiled_s, rel=0.3)
    assert some.tpot_s.p50 == pytest.approx(none.tpot_s.p50, rel=1e-6)


def test_a_simulated_token_waits_as_long_for_its_mask() -> None:
    asked = {name: ASKED[name] for name in ("model", "system", "layout", "input_tokens", "output_tokens")}
    given: list[dict[str, Any]] = [{}, {"structured": "llguidance", "mask_time": "2ms"}]
    plain, masked = (
        cl.simulate_serve(**asked, arrivals="even:0.01", requests=20, **one).percentiles["tpot_s"]["p50"]
        for one in given
    )
    closed = [cl.serve(**ASKED | {"batch": 1, "samples": 4096}, **one).tpot_s.p50 for one in given]
    assert masked - plain == pytest.approx(closed[1] - closed[0], rel=0.05)


@pytest.mark.parametrize("given", [{"mask_time": "1ms"}, {"new_schemas": 0.1}, {"structured_fraction": 0.5}])
def test_masks_without_a_library_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="add structured"):
        cl.serve(**ASKED | given)
