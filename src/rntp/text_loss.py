"""The loss of a GRPO trainer with the likelihood of the gold and of plain text beside the policy's term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rntp.adapter import set_dropout
from rntp.guarded import GuardedTrainer
from rntp.recipe import Recipe
from rntp.scoring import Ids, padded


class TextLossTrainer(GuardedTrainer):
    """A trainer whose loss has more than the policy's term."""

    recipe: Recipe
    _texts: Sequence[Ids]
    _gold_inputs: dict[str, Tensor] | None = None
    _gold_log_probs: Tensor | None = None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self._count_update(self._begin_update(), inputs)
        self._drop_out(0.0 if self.recipe.lora is None else self.recipe.lora.dropout)
        nll, ntp = self.recipe.reward.nll_weight, self.recipe.rl.ntp_weight
        self._gold_inputs = inputs if nll > 0 else None
        loss: Tensor = super()._compute_loss(model, inputs)
        if self._gold_log_probs is not None:
            total = (self._gold_log_probs * inputs["gold_mask"]).sum()
            gold = -total * self.accelerator.num_processes / inputs["num_gold_items"].clamp(min=1)
            self._metrics["train"]["loss/gold"].append(gold.item())
            loss, self._gold_inputs, self._gold_log_probs = loss + nll * gold, None, None
        if ntp > 0:
            text = self._next_token_loss(model)
            self._metrics["train"]["loss/next_token"].append(text.item())
            loss = loss + ntp * text
        return loss

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, **options: Any
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Log-probabilities of the completions, and by the same pass of the gold behind each if the loss wants it."""
        extra = self._gold_inputs
        aux = options.get("compute_aux_loss", False)
        more: dict[str, Any] = {"output_router_logits": True} if aux else {}
        lengths = attention_mask[:, -logits_to_keep:].sum(dim=1)
        if extra is not None:
            input_ids, attention_mask = self._with_gold(input_ids, attention_mask, lengths, extra)
        tail = logits_to_keep + (0 if extra is None else extra["gold_ids"].shape[1])
        labels = input_ids.masked_fill(attention_mask == 0, -100)
        labels[:, :-tail] = -100
        positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
        with self.accelerator.autocast():
            out = model(
                input_ids=input_ids, attention_mask=attention_mask, position_ids=positions, labels=labels,
                scored_at=self.temperature, **more,
            )  # fmt: skip
        log_probs = out.log_probs[:, -tail:]
        if extra is not None:
            places = lengths[:, None] + torch.arange(extra["gold_ids"].shape[1], device=log_probs.device)
            self._gold_log_probs = log_probs.gather(1, places)
        entropies = out.entropy[:, -tail:][:, :logits_to_keep]
        return log_probs[:, :logits_to_keep], entropies, out.aux_loss if aux else None

    @staticmethod
    def _with_gold(
        input_ids: Tensor, attention_mask: Tensor, lengths: Tensor, extra: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Rows with their gold right behind the completion, before the padding."""
        gold, count = extra["gold_ids"], extra["gold_ids"].shape[1]
        first = extra["prompt_ids"].shape[1] + lengths[:, None]
        within = torch.arange(count, device=gold.device)
        blank = torch.zeros_like(gold)
        ids = torch.cat([input_ids, blank], dim=1).scatter(1, first + within, gold)
        there = (within < extra["gold_lengths"][:, None]).long()
        return ids, torch.cat([attention_mask, blank], dim=1).scatter(1, first + within, there)

    def _documents(self) -> tuple[list[Ids], list[Ids]]:
        """Documents of this update's next-token term: all of them, and those of this pass of this process."""
        rl, given = self.recipe.rl, self._texts
        first = self.state.global_step * rl.ntp_sequences
        every = [given[(first + n) % len(given)][: rl.ntp_tokens] for n in range(rl.ntp_sequences)]
        passes = self.args.gradient_accumulation_steps
        place = self.accelerator.process_index * passes + self._step % passes
        return every, every[place :: passes * self.accelerator.num_processes]

    def _next_token_loss(self, model: Any) -> Tensor:
        """Share of this pass in the mean next-token loss over the update's documents."""
        every, mine = self._documents()
        # a pass without a document goes over the first all the same, for nothing: every process calls the model alike
        ids, mask = padded(mine or every[:1], self.accelerator.device)
        labels = ids.masked_fill(mask == 0, -100)
        with self.accelerator.autocast():
            found = model(input_ids=ids, attention_mask=mask, labels=labels, scored_at=1.0)
        total = -found.log_probs.sum() * bool(mine)
        mean: Tensor = total * self.accelerator.num_processes / max(1, sum(len(one) - 1 for one in every))
        return mean

    def _count_update(self, book: Any, inputs: dict[str, Any]) -> None:
        """Charge the work of a pass that is about to be made."""
        thought, gold = inputs["completion_mask"].sum(dim=1), inputs["gold_lengths"]
        scored = thought + gold if self.recipe.reward.nll_weight > 0 else thought
        whole = inputs["prompt_mask"].sum(dim=1) + scored
        recomputed = self.recipe.rl.gradient_checkpointing
        parts = ("prompt_ids", "completion_ids", *(("gold_ids",) if self.recipe.reward.nll_weight > 0 else ()))
        width, heads = sum(inputs[part].shape[1] for part in parts), scored.cpu().numpy()
        book.train(whole.cpu().numpy(), heads, recomputed=recomputed, padded_tokens=width, fused_tokens=heads)
        book.tokens(kept=float(inputs["tool_mask"].sum()))
        if self.recipe.rl.ntp_weight > 0:
            every, mine = self._documents()
            texts = np.array([len(one) for one in mine or every[:1]])
            book.train(texts, texts - 1, recomputed=recomputed, fused_tokens=texts - 1)

    def _drop_out(self, probability: float) -> None:
        """Set the adapter's dropout: updates have it, thoughts and scores do not."""
        if self.recipe.lora is not None and self.recipe.lora.dropout:
            set_dropout(self.model, probability)
