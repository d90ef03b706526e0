"""An accelerator of a user's own file is answered for wherever a system is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.questions.answer import Answer

ASKED: dict[str, Any] = {"model": "qwen3-0.6b", "price": 1.0}
QUESTIONS: dict[str, Callable[[str], Answer]] = {
    "serve": lambda own: cl.serve(**ASKED, system=own, batch=4, samples=16),
    "two pools": lambda own: cl.serve(**ASKED, system=own, gpus=4, mode="disaggregated", samples=16),
    "sweep": lambda own: cl.sweep(**ASKED, system=(own,), gpus=2, input_tokens=512, output_tokens=64),
    "simulate": lambda own: cl.simulate_serve(**ASKED, system=own, layout="tp1", arrivals="even:0.1", requests=8),
    "pretrain": lambda own: cl.pretrain(**ASKED, system=own, gpus=2, tokens="1B", samples=16),
    "rl": lambda own: cl.rl(**ASKED, system=own, gpus=8, rollout_tokens=1000, samples=16),
}


@pytest.fixture
def own_system(tmp_path: Path) -> str:
    """A system file that names an accelerator file beside it, as ``calibrate --write`` leaves them."""
    (tmp_path / "ours-96gb.toml").write_text('like = "h100-sxm5-80gb"\nhbm_bytes = "96 GB"\n')
    (tmp_path / "ours.toml").write_text('like = "h100-nvl8"\nname = "ours"\naccelerator = "ours-96gb.toml"\n')
    return str(tmp_path / "ours.toml")


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_is_answered_and_shown(name: str, own_system: str) -> None:
    answer = QUESTIONS[name](own_system)
    view = answer.view(working=answer.has_working)
    assert view.headline
    if "accelerator" in (document := answer.to_dict()):
        assert document["accelerator"] == "ours-96gb"


def test_a_plan_is_drawn_under_the_roof_of_its_own_chip(own_system: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    top = f'model = "qwen3-0.6b"\nsystem = "{own_system}"\nprice = "$2/h"\n'
    rest = '[rl]\nskip = "none"\n[inference]\nskip = "none"\n'
    plan.write_text(f'{top}[pretraining]\ntokens = "1B tokens"\ngpus = 8\n{rest}')
    report = tmp_path / "plan.html"
    cl.plan(str(plan)).to_html(report)
    assert "ours-96gb: bends at" in report.read_text("utf-8")
