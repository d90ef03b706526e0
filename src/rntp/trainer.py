"""RL on ordinary text with TRL's GRPO trainer: think, score the text that follows, reinforce what made it likelier.

:class:`RntpTrainer` changes two things of ``trl.GRPOTrainer``. Rollouts and rewards: thoughts end at a marker, and one
pass behind a shared context gives the gold's scores and the log-probabilities that the loss may need
(``_generate_and_score_completions``). The loss: the likelihood of the gold and of plain text beside the policy's term
(:mod:`rntp.text_loss`). Books and checkpoints are :mod:`rntp.guarded`'s; :mod:`rntp.loop` is the same in plain PyTorch.
"""

from __future__ import annotations

import copy
import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl.models.utils import disable_gradient_checkpointing, prepare_fsdp

from computeledger.actuals.recording.run import PhaseBook, RunLedger
from computeledger.errors import InputError, shown
from rntp import advantages as comparing
from rntp.adapter import lora_config, save_merged
from rntp.advantages import Comparison
from rntp.ahead import Ahead, Batch, read_state
from rntp.arguments import grpo_config, process_state
from rntp.averages import RunningMean
from rntp.judges.answers import Checks
from rntp.loss_head import add_loss_head
from rntp.mixture import TEXT, Rows
from rntp.models import marker_id, question_ids
from rntp.recipe import Recipe
from rntp.reward import Floats, GoldScores, Rewarded, Rewarder, scored_mask
from rntp.scoring import (
    BASELINE,
    THOUGHTS,
    Ids,
    Rollouts,
    Scored,
    ScoreOptions,
    pad_of,
    padded,
    score_alone,
    score_shared,
)
from rntp.turn_trainer import TurnTrainer
from rntp.turns import Conversations, Draft, Thoughts
from rntp.verify.task import Task

_LOG = logging.getLogger("rntp")
#: Running means, of what scores and of what is kept beside the last weights, and the files of a checkpoint with them.
SCORER, POLICY = "scorer", "policy"
#: The file of a checkpoint that holds a batch drawn ahead.
DRAWN_FILE = "ahead.json"


@dataclass(frozen=True, slots=True)
class Extras:
    """What a run may be given beside its rows."""

    documents: Sequence[Ids] = ()
    verify: Callable[[list[tuple[Task, str]]], list[float | None]] | None = None
    callbacks: Sequence[TrainerCallback] = ()


def _unused(**_columns: Any) -> list[float]:
    """TRL asks for a reward function; the rewards here need the model, which such a function is not given."""
    raise InputError("the reward is computed with the rollouts")


def _array(values: Tensor) -> Floats:
    return values.double().cpu().numpy()


class RntpTrainer(TurnTrainer):
    """GRPO whose reward is how much better the text that follows is predicted."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        rows: Rows,
        recipe: Recipe,
        books: RunLedger | None = None,
        extras: Extras | None = None,
    ) -> None:
        self.recipe, self.rows, self.extras = recipe, rows, extras or Extras()
        self._texts = self.extras.documents
        self._check(tokenizer)
        self._start, self._end = (marker_id(tokenizer, name) for name in (recipe.thought.start, recipe.thought.end))
        self._reward = Rewarder.of(recipe.reward, recipe.folder)
        base = None
        if recipe.lora is not None:
            torch.manual_seed(recipe.seed)  # the adapter's first weights are drawn before TRL sets its seed
        elif "frozen" in recipe.reward.models or recipe.thought.kl_weight > 0:
            base = copy.deepcopy(model).eval().requires_grad_(False)
        super().__init__(
            books or RunLedger(None), self.extras.callbacks, model=model, processing_class=tokenizer,
            args=grpo_config(recipe, process_state(recipe).num_processes), train_dataset=rows.dataset,
            reward_funcs=[_unused], peft_config=lora_config(recipe.lora),
        )  # fmt: skip
        if recipe.lora is not None:
            self.books.adapt(sum(one.numel() for one in self.model.parameters() if one.requires_grad))
        add_loss_head(self.model if recipe.lora is None else self.model.get_base_model(), self.temperature)
        self.remove_callback(PrinterCallback)  # standard output belongs to the command
        self.beta = recipe.thought.kl_weight  # set late: TRL would load a reference from the hub
        self._frozen = None if base is None else self._placed(base)
        self._decays = {SCORER: recipe.reward.ema_decay} if "ema" in recipe.reward.models else {}
        if recipe.rl.ema_decay:
            self._decays[POLICY] = recipe.rl.ema_decay
        self._means: dict[str, RunningMean] = {}
        self._has_warned = False
        self._sources = rows.sources
        beside = recipe.rl.engine == "vllm-server"
        self._ahead = Ahead(self._draw, is_beside=beside) if recipe.rl.ahead else None
        # verified answers alone need no likelihoods
        self._scores = TEXT in self._sources or self._is_weighed or self.beta > 0
        self._endings: list[int] = list(self.eos_token_ids)
        self._hold_episodes(model, tokenizer)
        self._asked = question_ids(tokenizer) if recipe.reward.name == "self-evaluation" else ()
        devices = self.accelerator.device, self.accelerator.num_processes
        self._checks = Checks(recipe, self._sources, *devices)

    def _check(self, tokenizer: Any) -> None:
        """Refuse what would only fail, or quietly do something else, in the first step."""
        rl, needed = self.recipe.rl, math.ceil(self.recipe.rl.steps / self.recipe.rl.updates_per_batch)
        if tokenizer.eos_token_id is None:
            raise InputError("tokenizer: an end-of-text token is needed")
        if (given := len(self.rows)) < needed * rl.prompts_per_step:
            raise InputError(f"rows: {rl.steps} steps need {needed * rl.prompts_per_step} prompts, not {given}")
        if rl.ntp_weight > 0 and not any(len(ids) > 1 for ids in self.extras.documents):
            raise InputError(f"ntp_weight {rl.ntp_weight:g}: documents for the next-token term are needed")
        if self.recipe.reward.nll_weight > 0 and rl.temperature != 1.0:
            raise InputError(
                f"nll_weight with temperature {rl.temperature:g}: 1 is needed, as gold and thought share a pass"
            )

    def _placed(self, model: Any) -> Any:
        """Put a model that is not trained where the trained one is."""
        if self.is_fsdp_enabled:
            return prepare_fsdp(model, self.accelerator)
        return self.accelerator.prepare_model(model, evaluation_mode=True)

    # rollouts and rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._drop_out(0.0)
        inputs, thoughts = self._drawn([row["row"] for row in inputs])
        old, reference = None, None
        worth, bare = Rewarded(np.zeros(len(inputs))), Rewarded(np.full(len(inputs), np.nan))
        if self._scores:
            scored, old, reference = self._score(thoughts)
            worth, bare = self._values(thoughts, scored)
        values, unaided = worth.values, bare.values
        if self._anywhere(not np.isfinite(values).all()):  # NaN stands for no verdict, not for a broken scorer
            raise self._stopped("a reward is no number")
        costs = self._length_costs(thoughts)
        for place, score in (*self._verdicts(inputs, thoughts), *self._episode_rewards(inputs, thoughts)):
            values[place], unaided[place] = score - costs[place], np.nan
        self._note_checks()
        kept, advantages = self._advantages(inputs, thoughts, worth, bare)
        device = self.accelerator.device
        prompts = [[*context, self._start] for context in thoughts.contexts]
        prompt_ids, prompt_mask = padded(prompts, device, left=True, pad_id=pad_of(self.model))
        completion_ids, completion_mask = padded(thoughts.completions, device)
        trained, _ = padded(thoughts.trained, device)
        known = torch.tensor(~np.isnan(kept), device=device).long()[:, None]
        gold_ids, _ = padded(thoughts.golds, device)
        gold_mask = torch.tensor(self._gold_mask(thoughts), device=device).long() * known
        made = {
            "prompt_ids": prompt_ids, "prompt_mask": prompt_mask,
            "completion_ids": completion_ids, "completion_mask": completion_mask, "tool_mask": trained * known,
            "advantages": torch.tensor(advantages, device=device, dtype=torch.float32),
            "gold_ids": gold_ids, "gold_mask": gold_mask,
            "gold_lengths": torch.tensor([len(gold) for gold in thoughts.golds], device=device),
            "num_items_in_batch": self.accelerator.gather((trained * known).sum()).sum(),
            "num_gold_items": self.accelerator.gather(gold_mask.sum()).sum(),
        }  # fmt: skip
        if reference is not None:
            made["ref_per_token_logps"] = reference
        if old is not None and self._is_weighed:
            made["old_per_token_logps"] = old
            if thoughts.sampled is not None:
                self._weigh(made, self._importance(old, thoughts.sampled))
        return made

    @property
    def _is_weighed(self) -> bool:
        """Whether tokens are weighed by how much likelier they have become since they were sampled."""
        return self.use_vllm or self.num_iterations > 1 or self._ahead is not None

    def _drawn(self, numbers: Sequence[int]) -> tuple[Batch, Thoughts]:
        """Rows and their thoughts: drawn now, or before the last update, when the next ones are drawn now."""
        if self._ahead is None:
            rows = self._rows_of(numbers)
            return rows, self._think(rows)
        self._wait()
        taken = self._ahead.take()
        if taken is None:
            rows = self._rows_of(numbers)
            taken = rows, self._draw(rows)
        if self.state.global_step + self.num_iterations < self.state.max_steps:
            later = [number + self.recipe.rl.prompts_per_step for number in numbers]
            if self.use_vllm:
                with self._asking():
                    self._give_weights()
            self._ahead.begin(later, self._rows_of(later), PhaseBook(self.books.model))
        return taken

    def _rows_of(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        with self._phase("data"):
            return [self.rows[number] for number in numbers]

    def _draw(self, rows: Batch) -> Thoughts:
        """Sample thoughts to be learnt from later, with the log-probabilities of now."""
        thoughts = self._think(rows)
        if thoughts.sampled is not None:
            return thoughts
        with disable_gradient_checkpointing(self.model), self.accelerator.autocast():
            found = self._log_probs_by("policy", thoughts).tolist()
        pairs = zip(found, thoughts.trained, strict=True)
        sampled = [[p if one else 0.0 for p, one in zip(row, mask, strict=False)] for row, mask in pairs]
        return replace(thoughts, sampled=sampled)

    def _wait(self) -> None:
        """Wait for a thread that draws; generation takes only as long as that."""
        if self._ahead is not None and self._ahead.is_open:
            with self._phase("generation") as book:
                self._ahead.wait(book)

    def _weigh(self, made: dict[str, Any], ratio: Tensor) -> None:
        """Weigh tokens by how much likelier they have become since they were sampled."""
        self._note_importance(ratio, made["tool_mask"])
        if self.use_vllm:
            made["importance_sampling_ratio"] = ratio
        else:  # TRL takes that of an engine alone; a ratio is no less than 0, and so goes through its minimum
            made["advantages"] = made["advantages"][:, None] * ratio

    def _think(self, inputs: Batch) -> Thoughts:
        """Sample a thought for each row, a message where one is asked for, and more turns where that is answered."""
        plays = self._begin_episodes(inputs)
        pairs = zip(inputs, plays, strict=True)
        contexts = [row["context_ids"].tolist() if pair is None else pair[1].prompt_ids for row, pair in pairs]
        drafts = [Draft(ids, self._start) for ids in contexts]
        talk = Conversations(drafts, plays, self._tokenizer, self._bounds)
        self._sample_thoughts(drafts, range(len(drafts)), self.num_generations)
        answers = [""] * len(inputs)
        if self.rows.has_problems:  # every process generates again, be it for a row that needs no answer
            asked = [place for place, row in enumerate(inputs) if row["source"] != TEXT]
            self._sample_messages(drafts, asked, talk)
            for place in asked:
                answers[place] = self._tokenizer.decode(drafts[place].message, skip_special_tokens=True)
        if self._episodes:
            self._converse(drafts, talk)
        return Thoughts(
            contexts, [row["gold_ids"].tolist() for row in inputs], [one.ids for one in drafts],
            [one.trained for one in drafts], [one.thought_tokens for one in drafts], [one.is_closed for one in drafts],
            answers, [one.log_probs for one in drafts] if self.use_vllm else None,
            [None if pair is None else pair[1] for pair in plays],
        )  # fmt: skip

    def _score(self, thoughts: Thoughts) -> tuple[Scored, Tensor | None, Tensor | None]:
        """Gold scores by the scorer; the thoughts' log-probabilities by policy and reference, where needed."""
        rows = Rollouts(thoughts.contexts, [[self._start, *ids] for ids in thoughts.completions], thoughts.golds)
        ask, yes, no = self._asked or ((), 0, 0)
        spec = self.recipe.reward
        wanted = {"policy": self._is_weighed, "frozen": self.beta > 0}
        options = ScoreOptions(
            self.temperature, self.recipe.rl.micro_batch, True, ask, yes, no, wanted.get(spec.scorer, False)
        )
        apart = spec.baseline not in ("scorer", spec.scorer)
        with disable_gradient_checkpointing(self.model), self.accelerator.autocast():
            with self._phase(THOUGHTS), self._reading(spec.scorer) as by:
                scored = score_shared(by, rows, replace(options, with_baseline=not apart), self._phase)
            if apart:
                with self._phase(BASELINE), self._reading(spec.baseline) as by:
                    scored = replace(scored, baseline=score_alone(by, rows, options, self._phase))
            self._count_scoring(thoughts, with_thoughts=options.with_thoughts)
            log_probs = {spec.scorer: scored.thought_log_probs}
            for name in (one for one, needed in wanted.items() if needed and one != spec.scorer):
                log_probs[name] = self._log_probs_by(name, thoughts)
        return scored, log_probs.get("policy"), log_probs.get("frozen")

    def _log_probs_by(self, name: str, thoughts: Thoughts) -> Tensor:
        """Log-probabilities of the thoughts by policy or reference, in a pass of their own."""
        said = [[self._start, *ids] for ids in thoughts.completions]
        alone = Rollouts(thoughts.contexts, said, [()] * len(said))
        options = ScoreOptions(self.temperature, self.recipe.rl.micro_batch, with_baseline=False)
        with self._phase("log-probs") as book, self._reading(name) as model:
            found = score_shared(model, alone, options).thought_log_probs
            self._count_log_probs(book, thoughts, adapted=name == "policy")
        if found is None:
            raise InputError("scores without those of the thoughts")
        return found

    @contextmanager
    def _reading(self, name: str) -> Iterator[Any]:
        """The policy as it is, its running mean, or the model before RL: a copy, or without its adapter."""
        if name == "ema":
            with self._means[SCORER].in_place():
                yield self.model
        elif name == "frozen" and self._frozen is None:
            with self.model.disable_adapter():
                yield self.model
        else:
            yield self.model if name == "policy" else self._frozen

    def _count_log_probs(self, book: Any, thoughts: Thoughts, *, adapted: bool) -> None:
        said, contexts = ([len(ids) for ids in rows] for rows in (thoughts.completions, thoughts.contexts))
        book.forward([len(ids) for ids in set(map(tuple, thoughts.contexts))], head_tokens=1.0, adapted=adapted)
        book.forward(np.array(said) + 1, np.array(contexts), np.array(said), adapted=adapted)

    def _count_scoring(self, thoughts: Thoughts, *, with_thoughts: bool) -> None:
        """Charge the work of the passes that have just been made; a baseline apart has read the contexts too."""
        distinct = {tuple(context): len(gold) for context, gold in zip(thoughts.contexts, thoughts.golds, strict=True)}
        lengths, golds = np.array([len(context) for context in distinct]), np.array(list(distinct.values()))
        said, after = (np.array([len(ids) for ids in rows]) for rows in (thoughts.completions, thoughts.golds))
        contexts, asked = np.array([len(ids) for ids in thoughts.contexts]), len(self._asked[0]) if self._asked else 0
        spec = self.recipe.reward
        adapted = spec.scorer != "frozen"
        with self._phase(THOUGHTS) as book:
            book.forward(lengths, head_tokens=1.0, adapted=adapted)
            heads = after + said * with_thoughts + bool(asked)
            book.forward(said + 1 + after + asked, contexts, heads, adapted=adapted)
            book.tokens(gold=int(after.sum()))
        with self._phase(BASELINE) as book:
            apart = spec.baseline not in ("scorer", spec.scorer)
            adapted = (spec.baseline if apart else spec.scorer) != "frozen"
            if apart:
                book.forward(lengths, head_tokens=1.0, adapted=adapted)
            book.forward(golds, lengths, np.maximum(golds - 1, 0), adapted=adapted)

    def _gold_mask(self, thoughts: Thoughts) -> NDArray[np.bool_]:
        lengths = [len(gold) for gold in thoughts.golds]
        return scored_mask(lengths, self.recipe.positions.skip_first_gold)

    def _values(self, thoughts: Thoughts, scored: Scored) -> tuple[Rewarded, Rewarded]:
        """Rewards of the thoughts, and what no thought would have had."""
        base, per_token = scored.baseline, self.recipe.reward.per_token
        if base is None:
            raise InputError("scores without a baseline")
        said = None if scored.self_evaluation is None else _array(scored.self_evaluation)
        with_thought = GoldScores(
            padded(thoughts.golds)[0].numpy(), _array(scored.gold.log_probs), _array(base.log_probs),
            _array(base.entropies), scored.gold.argmax_ids.cpu().numpy(), self._gold_mask(thoughts),
            self._tokenizer.decode, said,
        )  # fmt: skip
        worth = self._reward(with_thought).less(self._length_costs(thoughts), per_token=per_token)
        if said is not None:
            return worth, Rewarded(np.full(len(said), np.nan))
        bare = replace(
            with_thought, log_probs=with_thought.baseline_log_probs, argmax_ids=base.argmax_ids.cpu().numpy()
        )
        return worth, self._reward(bare)

    def _length_costs(self, thoughts: Thoughts) -> Floats:
        """What is subtracted for the length of each thought, of text and of problems alike."""
        return self.recipe.thought.length_weight * np.array(thoughts.lengths, dtype=float)

    def _verdicts(self, inputs: list[dict[str, Any]], thoughts: Thoughts) -> list[tuple[int, float]]:
        """Scores of the answers to problems, by row; NaN where the machine failed."""
        places = [place for place, row in enumerate(inputs) if row["task"] is not None]
        if not places:
            return []
        pairs = [(inputs[place]["task"], thoughts.answers[place]) for place in places]
        with self._phase("verification") as book:
            scores = (self.extras.verify or self._checks.scores)(pairs)
            self._checks.audit(pairs)
            if (work := self._checks.take_work()).flop:
                book.add(work)
        return [(place, math.nan if score is None else score) for place, score in zip(places, scores, strict=True)]

    def _episode_rewards(self, inputs: list[dict[str, Any]], thoughts: Thoughts) -> list[tuple[int, float]]:
        """Rewards of the episodes, by row; NaN where the machine failed. What they were like is noted."""
        plays = {place: play for place, play in enumerate(thoughts.plays) if play is not None}
        for name in self._episodes:
            mine = [play for place, play in plays.items() if inputs[place]["source"] == name]
            rows = [[1.0, play.turns, play.is_cut, bool(play.failure)] for play in mine] or [[0.0] * 4]
            sums = torch.tensor(rows, device=self.accelerator.device, dtype=torch.float32).sum(dim=0)
            count, *found = self.accelerator.reduce(sums, reduction="sum").tolist()
            kinds = ("turns", "cut_fraction", "failed_fraction") if count else ()
            for kind, value in zip(kinds, found, strict=False):
                self._metrics["train"][f"{kind}/{name}"].append(value / count)
        return [(place, play.value) for place, play in plays.items()]

    def _note_checks(self) -> None:
        """Metrics of answers that a language model judged, or that were audited; every process has its share."""
        for name in self._checks.tallies:
            mine = self._checks.take_tally(name)
            row = [mine.answers, mine.no_verdicts, mine.failures, mine.audited, mine.audit_sum]
            sums = torch.tensor(row, device=self.accelerator.device, dtype=torch.float32)
            asked, silent, failed, audited, total = self.accelerator.reduce(sums, reduction="sum").tolist()
            metrics = self._metrics["train"]
            if asked and failed == asked:
                raise self._stopped(
                    f"the judge of environment {shown(name)} could be asked about no answer of the step"
                )
            if asked:
                metrics[f"no_verdict_fraction/{name}"].append(silent / asked)
                metrics[f"failed_fraction/{name}"].append(failed / asked)
            if audited:
                metrics[f"audit/{name}"].append(total / audited)

    def _advantages(
        self, inputs: list[dict[str, Any]], thoughts: Thoughts, worth: Rewarded, bare: Rewarded
    ) -> tuple[Floats, Floats]:
        """Settled rewards, NaN where left out, and advantages; groups may lie across processes."""
        rl, names = self.recipe.rl, self._sources
        source = np.array([names.index(row["source"]) for row in inputs], dtype=float)
        truncated = ~np.array(thoughts.closed) & np.array([row["source"] == TEXT for row in inputs])
        columns = np.stack([worth.values, bare.values, truncated, source], axis=1)
        local = torch.tensor(columns, device=self.accelerator.device)
        values, unaided, cut, source = self.accelerator.gather(local).cpu().numpy().T
        settled = comparing.with_truncation(
            values, unaided, cut.astype(bool), rl.group_size, self.recipe.thought.truncation
        )
        kept = comparing.without_idle_groups(settled, unaided, rl.group_size, rl.min_spread, rl.min_gain)
        of = [names[int(place)] for place in source]
        made = comparing.advantages(kept, rl.group_size, rl.advantage, rl.scale, of)
        if worth.tokens is not None and bare.tokens is not None:
            every = self._gathered_tokens(worth.tokens, bare.tokens)
            every[np.isnan(kept)] = np.nan
            how = Comparison(rl.group_size, rl.advantage, rl.scale, self.recipe.thought.truncation)
            by_token = comparing.token_advantages(every[:, 0], every[:, 1], cut.astype(bool), how, of)
            made = np.where(np.isnan(every[:, 0]).all(axis=1), made, by_token)
        if not np.nan_to_num(made).any():
            self._warn_of_idleness(comparing.why_idle(settled, cut.astype(bool), rl.group_size))
        self._note(settled, unaided, kept, np.array(of))
        mine = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        self._note_lengths(inputs, thoughts)
        return kept[mine], made[mine]

    def _warn_of_idleness(self, reason: str) -> None:
        """Say once that a step has learnt nothing from its thoughts."""
        if not self._has_warned and self.accelerator.is_main_process:
            _LOG.warning(
                "rntp: warning: RL learns nothing from the thoughts of step %d: %s", self.state.global_step + 1, reason
            )
        self._has_warned = True

    def _gathered_tokens(self, *parts: Floats) -> Floats:
        """Figures of each token of all processes, as wide as the longest continuation of any."""
        local = torch.tensor(np.stack(parts, axis=1), device=self.accelerator.device)
        wide = self.accelerator.pad_across_processes(local, dim=2, pad_index=math.nan)
        found: Floats = self.accelerator.gather(wide).cpu().numpy()
        return found

    def _note_lengths(self, inputs: list[dict[str, Any]], thoughts: Thoughts) -> None:
        """Metrics of thoughts, of answers, and of the two together, which an update goes over."""
        rows = zip(thoughts.contexts, thoughts.trained, thoughts.lengths, thoughts.closed, inputs, strict=True)
        local = [
            [n, sum(mask) - n, row["source"] != TEXT, ended, len(context), len(mask) - sum(mask)]
            for context, mask, n, ended, row in rows
        ]
        found = torch.tensor(local, device=self.accelerator.device, dtype=torch.float32)
        thought, answer, asked, ended, context, read = self.accelerator.gather(found).mean(dim=0).tolist()
        metrics = self._metrics["train"]
        metrics["thought/tokens"].append(thought)
        metrics["thought/truncated_fraction"].append(1 - ended)
        metrics["completion/tokens"].append(thought + answer + (read if self._episodes else 0.0))
        if self._episodes:
            metrics["context/tokens"].append(context)
        if asked:
            metrics["answer/tokens"].append(answer / asked)

    def _note(self, settled: Floats, unaided: Floats, kept: Floats, of: NDArray[np.str_]) -> None:
        """Metrics of the rewards, by source."""
        metrics = self._metrics["train"]
        grouped = np.nan_to_num(settled).reshape(-1, self.recipe.rl.group_size)
        metrics["reward_spread"].append(float(grouped.std(axis=1).mean()))
        metrics["left_out_fraction"].append(float(np.isnan(kept).mean()))
        for name in sorted(set(of.tolist())):
            rows = (of == name) & ~np.isnan(settled)
            if rows.any():
                metrics[f"reward/{name}"].append(float(settled[rows].mean()))
            if name == TEXT and (rows & ~np.isnan(unaided)).any():
                metrics["gain"].append(float((settled - unaided)[rows & ~np.isnan(unaided)].mean()))

    def _importance(self, old: Tensor, sampled: list[list[float]]) -> Tensor:
        """Ratio of the policy's probability to that of the engine that sampled, per token, cut at its upper bound."""
        width = old.shape[1]
        there = torch.tensor([row + [0.0] * (width - len(row)) for row in sampled], device=old.device)
        bound = self.vllm_importance_sampling_clip_max or math.inf
        return torch.exp(torch.where(there == 0.0, 0.0, old - there)).clamp(max=bound)

    def _note_importance(self, ratio: Tensor, counts: Tensor) -> None:
        """Metric of the ratio: its mean over the tokens that are trained on, which is about 1."""
        total, tokens = self.accelerator.reduce(torch.stack([(ratio * counts).sum(), counts.sum()]), "sum").tolist()
        self._metrics["train"]["importance/mean"].append(total / max(1.0, tokens))

    # running means, and what is saved

    def begin(self) -> None:
        """Begin the running means of the weights, unless a checkpoint has given them."""
        if not self._means:
            self._means = {name: RunningMean(self.model, decay) for name, decay in self._decays.items()}

    def follow(self) -> None:
        """Move the running means by one update."""
        for mean in self._means.values():
            mean.follow()

    def _save_more(self, folder: Path) -> None:
        for name, mean in self._means.items():
            state = mean.state()
            if self.accelerator.is_main_process:
                torch.save(state, folder / f"{name}.pt")
        self._wait()
        if self._ahead is not None and (batch := self._ahead.state()) is not None:
            (folder / DRAWN_FILE).write_text(json.dumps(batch), "utf-8")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.begin()
            for name, mean in self._means.items():
                mean.load(torch.load(Path(checkpoint) / f"{name}.pt", weights_only=True))
            drawn = Path(checkpoint) / DRAWN_FILE  # none where no batch followed
            if self._ahead is not None and drawn.exists():
                self._ahead.load(read_state(drawn), self.rows.__getitem__)

    def save_final(self, folder: Path, mean_folder: Path) -> None:
        """Write the model, and beside it its running mean where the recipe asks for one."""
        self._save_loadable(folder)
        if POLICY in self._means:
            with self._means[POLICY].in_place():
                self._save_loadable(mean_folder)

    def _save_loadable(self, folder: Path) -> None:
        """Write a model that transformers loads: of an adapter the weights with it merged, and the adapter beside."""
        if self.recipe.lora is None:
            self.save_model(str(folder))
            return
        state = self.accelerator.get_state_dict(self.model)
        if self.args.should_save:
            save_merged(self.model, state, folder)
            self.processing_class.save_pretrained(folder)
