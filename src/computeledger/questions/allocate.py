"""The question of ``computeledger allocate``: how a budget is split over size, pretraining, RL and inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.economics.plan.keys import Income
from computeledger.errors import InputError
from computeledger.fields import asked, shared
from computeledger.workloads.questions.setup import OF_PEAK, Sampled

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


@dataclass(frozen=True, kw_only=True)
class AllocateQuestion(Sampled):
    """Split a budget by equal marginal returns, or judge three ledgers that exist."""

    law: str = asked("text", "Loss law.", "besiroglu_2024", metavar="NAME")
    unverified: bool = asked("switch", "Allow laws and constants that were read in notes only.", False)
    unique_tokens: Uncertain | None = asked(
        "tokens", "Unique training tokens available; beyond them data repeat.", unit="tokens", metavar="N"
    )
    sparsity_ratio: float | None = asked("count", "Total over active parameters of a sparse model.", metavar="R")
    sparsity_multiplier: Uncertain | None = asked(
        "ratio", "Compute advantage over a dense model; derived from the law when left out.", metavar="M"
    )
    train_precision: str | None = asked(
        "text", "Bits of weights, activations and cache in training, such as 8/8/16: Kumar et al.'s law.",
        metavar="W/A/KV", aliases=("train_bits",),
    )  # fmt: skip
    budget: str | None = asked("text", "'5.76e23 FLOP', '2.7M GPU-hours' or '$50M'.", metavar="AMOUNT")
    objective: str = asked(
        "text", "Lowest loss for the tokens served, or value: highest income, which chooses them too.", "loss",
        choices=("loss", "value"),
    )  # fmt: skip
    token_price: Uncertain | None = asked(
        "usd_per_mtok", "Price of a token served, all kinds, for --objective value.", unit="USD/Mtok", is_open=True,
        blank="that at which the lowest loss earns its cost",
    )  # fmt: skip
    value_per_nat: Uncertain | None = shared(Income, "value_per_nat", is_open=True, metavar="V")
    rl_nats: Uncertain | None = shared(Income, "rl_nats", metavar="LOSS")
    inference_tokens: Uncertain | None = asked("tokens", "Tokens served.", unit="tokens", metavar="N")
    rate: Uncertain | None = asked(
        "tokens_per_s", "Tokens served per second; with --life.", unit="tokens/s", metavar="N/s"
    )
    life: Uncertain | None = asked("s", "Time in service; with --rate.", unit=None, metavar="TIME")
    rl_tokens: Uncertain | None = asked("tokens", "Tokens of RL.", unit="tokens", metavar="N")
    beta_flop: Uncertain | None = asked(
        "ratio", "FLOP of RL per parameter and token.", is_open=True, blank="8 to 12, median 10", aliases=("beta",)
    )
    samples_per_kept: Uncertain | None = asked(
        "ratio", "RL samples drawn per sample trained on; sets beta.", is_open=True, metavar="N"
    )
    rl_gain: Uncertain | None = asked("ratio", "Loss reduction at unlimited RL; with --rl-mid.", metavar="LOSS")
    rl_mid: Uncertain | None = asked(
        "flop", "RL compute at which half of that gain is reached.", unit="FLOP", metavar="FLOP"
    )
    rl_recipe: str | None = asked(
        "text", "ScaleRL's sigmoid instead of --rl-mid: scalerl, 32k, scout, ...", metavar="NAME"
    )
    rl_exponent: Uncertain | None = asked("ratio", "Steepness of the sigmoid; 1 when left out.", metavar="B")
    elasticity: str | None = asked(
        "text", "Elasticity of demand: demand falls as price^-elasticity; a number, or 'published'.",
        blank="0, of --objective value 0.5..1.5",
    )  # fmt: skip
    at_n_params: Uncertain | None = asked("count", "Model size to which the stated demand refers.", metavar="N")
    utilization_pretraining: Uncertain | None = asked(
        "fraction",
        f"Utilisation of pretraining, as a share of peak FLOP/s; {OF_PEAK} assumed.",
        is_open=True,
        metavar="F",
    )
    utilization_rl: Uncertain | None = asked(
        "fraction", "Utilisation of RL, waiting included; left out, that of published steps.", is_open=True, metavar="F"
    )
    utilization_inference: Uncertain | None = asked(
        "fraction", "Utilisation of inference; a third of pretraining's assumed.", is_open=True, metavar="F"
    )
    system: str = asked("text", "System whose GPUs are counted.", "h100-nvl8")
    price: Uncertain | None = asked(
        "usd_per_hour", "Price of a GPU-hour.", unit="$/h", metavar="$/h", blank="rent of the price edition"
    )
    n_params: Uncertain | None = asked("count", "Judge an existing split: active parameters.", metavar="N")
    tokens: Uncertain | None = asked("tokens", "Pretraining tokens of those ledgers.", unit="tokens", metavar="N")
    preset: str | None = asked("text", "Judge an assumed lab: consumer-app or api-only.", metavar="NAME")
    levers: str | None = asked(
        "text", "Effect of sparsity, caches, drafts, bits and routing on this model.", metavar="MODEL"
    )

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        if self.sparsity_ratio is not None and not isinstance(self.sparsity_ratio, (int, float)):
            raise InputError("--sparsity-ratio: one number is expected, not a range")
        if self.budget is None and self.n_params is None and self.preset is None:
            raise InputError(
                "--budget: needed, such as '5.76e23 FLOP', '2.7M GPU-hours' or '$50M' (or --n-params to judge)"
            )
        if self.preset is not None and self.budget is not None:
            raise InputError("--preset judges the split of an assumed lab: leave out --budget")
        if self.n_params is not None and self.budget is not None:
            raise InputError("--n-params judges ledgers that are given: with --tokens, and without --budget")
        if self.n_params is not None and self.preset is None and self.tokens is None:
            raise InputError("--n-params judges ledgers that are given: with --tokens, and without --budget")
        self._check_pairs()
        self._check_objective()

    def _check_objective(self) -> None:
        """Refuse what only the other objective reads."""
        given = [name for name in ("token_price", "value_per_nat", "rl_nats") if getattr(self, name) is not None]
        if self.objective == "loss":
            if given:
                raise InputError(f"--{given[0].replace('_', '-')} goes with --objective value")
            return
        if self.budget is None:
            raise InputError("--objective value splits a --budget: ledgers that are given are judged by their loss")
        if self.at_n_params is not None:
            raise InputError("--at-n-params goes with --objective loss: in value, demand answers to its price")
        if self.rl_nats is not None and (self.rl_tokens is not None or self.rl_gain is not None):
            raise InputError("--rl-nats says what twice the RL gains: leave out --rl-tokens and --rl-gain")

    def _check_pairs(self) -> None:
        if (self.rate is None) != (self.life is None):
            raise InputError("--rate and --life go together: tokens served are their product")
        if self.rate is not None and (self.inference_tokens is not None or self.preset is not None):
            raise InputError("--inference-tokens is what --rate and --life multiply to: give one of them")
        if self.rl_recipe is not None and self.rl_mid is not None:
            raise InputError(
                "--rl-recipe says where half of the gain is reached, and so does --rl-mid: give one of them"
            )
        if (self.rl_gain is None) != (self.rl_mid is None and self.rl_recipe is None):
            raise InputError(
                "--rl-gain goes with --rl-mid or --rl-recipe: what RL is worth, and where half of it is reached"
            )
