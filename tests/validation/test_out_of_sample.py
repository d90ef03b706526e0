"""What ``validate`` heads with was left out of the fit, and what was not is called in sample."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.interfaces.views.validate import view
from computeledger.questions.answers.validate import ValidateAnswer
from computeledger.questions.validate import ValidateQuestion
from computeledger.validation.accuracy.table import published
from computeledger.validation.compare import Comparison

KNOWN = published("training").rows[0]["source"]


def headline(sources: list[str], framework: str = "") -> str:
    rows = [{"source": source, **({"framework": framework} if framework else {})} for source in sources]
    n = len(rows)
    compared = Comparison(rows, {"step_time": np.ones(n)}, {"step_time": np.full((n, 3), 1.1)}, {})
    found = view(ValidateAnswer(ValidateQuestion(), compared), working=False)
    return f"{found.headline} {found.context}"


@pytest.mark.parametrize(
    ("sources", "framework", "begins", "in_sample"),
    [
        ([KNOWN, KNOWN], "", "with whole sources left out, the step time of these sources is off by", True),
        (["somebody's runs"] * 3, "", "no fit has seen these rows, the step time is off by 10", False),
        ([KNOWN, "somebody's runs"], "", "with whole sources left out", True),
        (["somebody's NeMo RL runs"], "nemo-rl", "the step time of these rows, most or all in the fit", True),
        (["somebody's slime runs"], "slime", "no fit has seen these rows", False),
    ],
)
def test_the_headline_is_out_of_sample(sources: list[str], framework: str, begins: str, in_sample: bool) -> None:
    said = headline(sources, framework).replace("\xa0", " ")
    assert said.removeprefix("The shipped measurements: ").startswith(begins), said
    assert ("in sample" in said) is in_sample
