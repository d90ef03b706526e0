"""Shared contexts change the cost of scoring, not the scores; the number of passes does not depend on what is read."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

from computeledger.errors import InputError
from rntp.scoring import Rollouts, Scored, ScoreOptions, score_separate, score_shared
from tests.rntp.tiny import model, places


def rollouts(group: int = 3, *, uneven: bool = True) -> Rollouts:
    """Groups of thoughts of several lengths; one place has no gold."""
    contexts, thoughts, golds = [], [], []
    for number, place in enumerate(places(4)):
        for one in range(group):
            contexts.append(place.context_ids if uneven else place.context_ids[:8])
            golds.append(() if number == 2 and uneven else place.gold_ids)
            thoughts.append([4, *range(7, 9 + (number * one) % 5), 5])
    return Rollouts(contexts, thoughts, golds)


def apart(one: Scored, other: Scored) -> float:
    """Largest difference of anything scored; the most likely tokens must be the same."""
    assert one.baseline is not None
    assert other.baseline is not None
    pairs: list[Any] = [(one.thought_log_probs, other.thought_log_probs), (one.self_evaluation, other.self_evaluation)]
    for a, b in ((one.gold, other.gold), (one.baseline, other.baseline)):
        assert torch.equal(a.argmax_ids, b.argmax_ids)
        pairs += [(a.log_probs, b.log_probs), (a.entropies, b.entropies)]
    return max(float((a - b).abs().max()) for a, b in pairs if a is not None)


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3-smear"])
@pytest.mark.parametrize("rows_per_pass", [0, 5])
@pytest.mark.parametrize("uneven", [True, False])
def test_shared_and_separate_passes_agree(architecture: str, rows_per_pass: int, uneven: bool) -> None:
    made, rows = model(architecture=architecture).eval(), rollouts(uneven=uneven)
    options = ScoreOptions(0.7, rows_per_pass, question=(9, 10), yes_id=11, no_id=12)
    shared = score_shared(made, rows, options)
    assert apart(shared, score_separate(made, rows, options)) < 1e-5
    assert shared.self_evaluation is not None
    assert 0 < float(shared.self_evaluation.min()) < float(shared.self_evaluation.max()) < 1


def test_scores_are_the_log_probabilities_of_one_plain_pass() -> None:
    made, rows = model().eval(), rollouts()
    scored = score_shared(made, rows, ScoreOptions(temperature=2.0))
    for place in (0, 4, 11):
        context, thought, gold = (list(part[place]) for part in (rows.contexts, rows.thoughts, rows.golds))
        ids = torch.tensor([[*context, *thought, *gold]])
        with torch.no_grad():
            logits = made(input_ids=ids).logits[0, :-1]
        first = len(context)
        chosen = torch.log_softmax(logits / 2, -1).gather(1, ids[0, 1:, None])[:, 0]
        assert torch.allclose(
            scored.thought_log_probs[place, : len(thought) - 1], chosen[first : first + len(thought) - 1], atol=1e-5
        )
        plain = torch.log_softmax(logits, -1).gather(1, ids[0, 1:, None])[:, 0]
        assert torch.allclose(scored.gold.log_probs[place, : len(gold)], plain[first + len(thought) - 1 :], atol=1e-5)


class Counting:
    """A model that notes the shape of what it reads."""

    def __init__(self, made: Any) -> None:
        self.made, self.config, self.parameters = made, made.config, made.parameters
        self.read: list[tuple[int, ...]] = []

    def __call__(self, **given: Any) -> Any:
        self.read.append(tuple(given["input_ids"].shape))
        return self.made(**given)


def test_a_context_is_read_once_per_group_and_passes_do_not_depend_on_content() -> None:
    shapes = []
    for uneven in (True, False):
        counting, rows = Counting(model().eval()), rollouts(uneven=uneven)
        score_shared(counting, rows)
        assert [rows for rows, _ in counting.read] == [4, 4, 12]  # contexts, golds alone, thoughts with golds
        shapes.append(len(counting.read))
    nothing = Counting(model().eval())
    score_shared(nothing, Rollouts([[7]] * 12, [[4, 5]] * 12, [()] * 12))
    assert shapes == [len(nothing.read)] * 2


class Live(TorchDispatchMode):
    """Counts the bytes of the tensors that live at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[int, list[int]] = {}
        self.peak_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in tree_leaves(out):
            if isinstance(one, torch.Tensor):
                key = one.untyped_storage().data_ptr()
                self.used.setdefault(key, [one.untyped_storage().nbytes(), 0])[1] += 1
                weakref.finalize(one, self.freed, key)
        self.peak_bytes = max(self.peak_bytes, sum(size for size, _ in self.used.values()))
        return out

    def freed(self, key: int) -> None:
        """A tensor is gone; its storage with the last that shares it."""
        if key in self.used:
            self.used[key][1] -= 1
            if not self.used[key][1]:
                del self.used[key]


def test_logits_of_a_whole_batch_are_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    shape: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    made: Any = LlamaForCausalLM(LlamaConfig(vocab_size=8192, **shape)).eval()
    rows = rollouts(group=6)
    tail = max(len(one) for one in rows.thoughts) + max(len(one) for one in rows.golds)
    array_bytes = 4 * 8192 * tail * len(rows.contexts)  # float32 logits of every token behind a context
    found, peaks = [], []
    for elements in (2**24, 8 * 8192):
        monkeypatch.setattr("rntp.head.PART_ELEMENTS", elements)
        with Live() as live:
            found.append(score_shared(made, rows, ScoreOptions(0.7)))
        peaks.append(live.peak_bytes / array_bytes)
    assert apart(*found) < 1e-6
    assert peaks[0] > 2 and peaks[1] < 0.5  # the contexts' last logits are kept for the first gold token


def test_logits_that_a_model_changes_behind_its_head_are_taken_as_it_gives_them() -> None:
    shape: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "head_dim": 16,
    }
    torch.manual_seed(0)
    config = Gemma2Config(vocab_size=64, num_key_value_heads=1, final_logit_softcapping=0.05, **shape)
    made: Any = Gemma2ForCausalLM(config).eval()
    assert apart(score_shared(made, rollouts()), score_separate(made, rollouts())) < 1e-5


@pytest.mark.parametrize("rows", [([[]], [[4]], [[7]]), ([[7]], [[]], [[7]]), ([[7]], [[4]], []), ([], [], [])])
def test_rows_that_cannot_be_read_are_refused(rows: tuple[Any, Any, Any]) -> None:
    with pytest.raises(InputError, match="rollouts"):
        Rollouts(*rows)
