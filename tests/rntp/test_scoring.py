"""Shared contexts change the cost of scoring, not the scores; the number of passes does not depend on what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

from computeledger.errors import InputError
from rntp.head import Reader
from rntp.live_bytes import LiveBytes
from rntp.loss_head import add_loss_head
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


def peak_bytes(call: Callable[[], object]) -> int:
    """Of the tensors that live at a time while something runs, weights left out."""
    with torch.no_grad(), LiveBytes() as live:
        call()
    peak: int = live.peak_bytes
    return peak


@pytest.mark.parametrize("rows_per_pass", [0, 1])
def test_scoring_needs_little_more_memory_than_a_forward_pass_without_logits(rows_per_pass: int) -> None:
    """At a vocabulary of 151,936, where the logits of each row's tail are 30 times the whole forward pass."""
    torch.manual_seed(0)
    made: Any = LlamaForCausalLM(
        LlamaConfig(vocab_size=151_936, hidden_size=16, intermediate_size=48, num_hidden_layers=2,
                    num_attention_heads=2, num_key_value_heads=1)
    ).eval()  # fmt: skip
    context, gold, chance = list(range(400)), [3, 4], np.random.default_rng(0)
    thoughts = [chance.integers(6, 1000, 4).tolist() for _ in range(2 - rows_per_pass)]
    rows = Rollouts([context] * len(thoughts), thoughts, [gold] * len(thoughts))
    whole = torch.tensor([[*context, *thought, *gold] for thought in thoughts])
    allowed = peak_bytes(lambda: made(input_ids=whole, logits_to_keep=1))
    options = ScoreOptions(0.7, rows_per_pass)
    assert peak_bytes(lambda: score_shared(made, rows, options)) < max(1.3 * allowed, 3 * 4 * 151_936)
    assert peak_bytes(lambda: score_separate(made, rows, options)) > 3 * allowed  # the measure sees logits


def test_what_exists_at_a_time_does_not_change_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for elements in (2**24, 1):
        monkeypatch.setattr("rntp.head.PART_ELEMENTS", elements)
        found.append(score_shared(model().eval(), rollouts(), ScoreOptions(0.7)))
    assert apart(*found) < 1e-6


def test_thoughts_are_scored_only_where_it_is_asked_for() -> None:
    made, rows = model().eval(), rollouts()
    every, gold = (score_shared(made, rows, ScoreOptions(with_thoughts=asked)) for asked in (True, False))
    assert gold.thought_log_probs is None and every.thought_log_probs is not None
    assert torch.allclose(gold.gold.log_probs, every.gold.log_probs, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_loss_has_the_gradients_of_whole_logits_and_never_holds_them(temperature: float) -> None:
    torch.manual_seed(0)
    made: Any = LlamaForCausalLM(
        LlamaConfig(vocab_size=8000, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    )
    ids, gradients = torch.randint(6, 8000, (2, 16), generator=torch.Generator().manual_seed(0)), []
    weights = torch.rand(2, 15)
    logits = made(input_ids=ids).logits[:, :-1] / temperature
    log_p = torch.log_softmax(logits, dim=-1)
    whole = log_p.gather(-1, ids[:, 1:, None])[..., 0]
    entropy = -(log_p.exp() * log_p).sum(-1)
    add_loss_head(made, temperature=1.0)
    with LiveBytes() as live:
        found = made(input_ids=ids, labels=ids, scored_at=temperature)
        for one in (found.log_probs, whole):
            made.zero_grad()
            (one * weights).sum().backward()
            gradients.append([one.grad.clone() for one in made.parameters()])
            assert one is whole or live.largest_bytes <= 4 * 8000 * 8  # a gradient of the head
    assert torch.allclose(found.log_probs, whole, atol=1e-5) and torch.allclose(found.entropy, entropy, atol=1e-4)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


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
    reader = Reader(made)
    reader.whole(input_ids=torch.tensor([[7, 8]]), logits_to_keep=1)
    assert reader.is_understood


def test_logits_that_a_model_makes_in_a_way_of_its_own_are_kept_whole() -> None:
    shape: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    made: Any = LlamaForCausalLM(LlamaConfig(vocab_size=64, **shape)).eval()
    own = made.forward

    def odd(**given: Any) -> Any:
        out = own(**given)
        out.logits = out.logits.sort(dim=-1).values
        return out

    made.forward = odd
    assert apart(score_shared(made, rollouts()), score_separate(made, rollouts())) < 1e-5


@pytest.mark.parametrize("rows", [([[]], [[4]], [[7]]), ([[7]], [[]], [[7]]), ([[7]], [[4]], []), ([], [], [])])
def test_rows_that_cannot_be_read_are_refused(rows: tuple[Any, Any, Any]) -> None:
    with pytest.raises(InputError, match="rollouts"):
        Rollouts(*rows)
