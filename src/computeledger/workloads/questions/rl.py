"""The question of ``computeledger rl``: where the GPU-time of a reinforcement-learning run goes, and who waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from computeledger.distributions import Spread, high_of, low_of, read_spread
from computeledger.errors import InputError, shown
from computeledger.fields import MOST_COUNT, MOST_SAMPLES, SWITCH, TEXT, TEXTS, WHOLE, asked, fields_of, shared
from computeledger.files import of_files
from computeledger.physics.calibration.weight_sync import load_sync_mechanism, sync_mechanisms
from computeledger.workloads.frameworks import USUAL_STACK
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.setup import MayAdapt, OnSystem
from computeledger.workloads.rl_frameworks import LORA_SYNCS, load_rl_framework, rl_framework_ids

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Passes, rounds, drafts and ratios of sizes beyond this are a slip.
MOST_RATIO = 1000.0
#: Frameworks that a run is written for.
EMITTED = ("verl", "nemo-rl", "slime", "trl", "skyrl")


@dataclass(frozen=True, kw_only=True)
class RLQuestion(MayAdapt, OnSystem):
    """Train a model by reinforcement learning: rollout, verify, score, update, weight sync."""

    system: str = asked(
        "text",
        "System of the generators: id, a count (2xl40s), or path to a system TOML.",
        ...,
        label="System",
        group="What",
    )
    training_system: str | None = asked("text", "System of the trainer.", metavar="SYSTEM", blank="the generators' own")
    gpus: int | None = asked(
        "whole", "GPUs of the run.", least=1, metavar="N", label="GPUs", group="What", slider=(8, 16384),
        blank="one scale-up domain",
    )  # fmt: skip
    training_gpus: int | None = asked(
        "whole", "Of them, those that only train.", least=1, metavar="N", label="GPUs that only train",
        group="Asynchrony", slider=(8, 16384), blank="all take turns; searched with a lag",
    )  # fmt: skip
    generation_gpus: int | None = asked(
        "whole", "Of them, those that only generate.", least=1, metavar="N", blank="the rest"
    )
    layout: str | None = asked(
        "text", "Layout of one generation replica.", metavar="tp8-ep8", label="Generation layout", group="How",
        blank="searched",
    )  # fmt: skip
    training_layout: str | None = asked(
        "text", "Layout of the trainer.", metavar="tp2-pp4", label="Training layout", group="How", blank="searched"
    )
    precision: str | None = asked(
        "text", "Precision of rollouts, as `serve` takes it: bf16, fp8, int4, ...", metavar="P",
        blank="as stored",
    )  # fmt: skip
    kv_precision: str = asked("text", "Precision of the KV cache.", "bf16", metavar="P")
    training_precision: str = asked("text", "Precision of the update.", "bf16", metavar="P")
    framework: str = asked(
        "text", "RL framework: its engine, placement, lag, weight sync and log-prob passes where you name none.",
        USUAL_STACK, choices=rl_framework_ids(), label="Framework", group="How",
    )  # fmt: skip
    weight_sync: str | None = asked(
        "text", "How new weights reach the generators.", choices=tuple(sync_mechanisms()), label="Weight sync",
        group="How", blank="the framework's",
    )  # fmt: skip
    backend: str | None = asked(
        "text", "Generation engine, or ideal.", metavar="E", label="Engine", group="How", blank="the framework's"
    )
    memory_fraction: float | None = asked(
        "fraction", "Share of a GPU's memory that the generation engine fills.", is_open=True, most=1.0, is_single=True,
        metavar="F", blank="the framework's on shared GPUs; what servers fill otherwise",
    )  # fmt: skip
    rollout_tokens: Uncertain | None = asked(
        "tokens", "Mean length of a rollout.", unit="tokens", is_open=True, metavar="L", aliases=("rollout",),
        label="Rollout, mean", group="Sampling", slider=(128, 131072), blank="needed, or a median or a file",
    )  # fmt: skip
    rollout_p50_tokens: Uncertain | None = asked(
        "tokens", "Median length; with --rollout-p95-tokens.", unit="tokens", is_open=True, metavar="L",
        aliases=("rollout_p50",),
    )  # fmt: skip
    rollout_p95_tokens: Uncertain | None = asked(
        "tokens", "Length that one rollout in twenty exceeds.", unit="tokens", is_open=True, metavar="L",
        aliases=("rollout_p95",),
    )  # fmt: skip
    rollout_lengths: str | None = asked("text", "Observed lengths, one number per line.", metavar="FILE")
    rollout_limit_tokens: Uncertain | None = asked(
        "tokens", "Where rollouts are cut.", unit="tokens", is_open=True, metavar="L",
        aliases=("longest", "rollout_limit"), blank="3 x the mean",
    )  # fmt: skip
    longest_over_mean: Uncertain | None = asked(
        "count", "Longest rollout of a step over the mean.", least=1.0, most=MOST_RATIO, metavar="N", blank="3"
    )
    prompt_tokens: Uncertain = asked(
        "tokens", "Mean prompt.", 500.0, unit="tokens", metavar="L", aliases=("prompt",), label="Prompt, mean",
        group="Sampling", slider=(16, 65536),
    )  # fmt: skip
    turns: str | None = asked(
        "text", "Turns of an episode, on average, or lognormal:P50:P95, uniform:LOW:HIGH, exponential:MEAN; its "
        "rollout tokens are those it writes in all of them.", metavar="N", takes_number=True, label="Turns",
        group="Turns and tools", blank="1",
    )  # fmt: skip
    observation_tokens: Uncertain = asked(
        "tokens", "Tokens that the answer of a tool adds to the context, per call.", 0.0, unit="tokens", metavar="L",
        aliases=("observation",), label="Observed a call", group="Turns and tools", slider=(16, 65536),
    )  # fmt: skip
    tool_latency: str | None = asked(
        "text", "From a tool's call to its answer: a time, a range, or a distribution, such as lognormal:2s:20s.",
        metavar="T", takes_number=True, label="Tool latency", group="Turns and tools", blank="0s",
    )  # fmt: skip
    agents: int = asked(
        "whole", "Agents of an episode that the policy plays (self-play, debate, a team): each has its own rollout of "
        "--turns, and observes what the others write.", 1, least=1, most=1024, metavar="N", label="Agents",
        group="Turns and tools", slider=(1, 16),
    )  # fmt: skip
    trained_agents: int | None = asked(
        "whole", "Of the agents, those that are trained on; the others play frozen.", least=1, metavar="N", blank="all"
    )
    message_tokens: Uncertain | None = asked(
        "tokens", "Tokens of a turn that the other agents see.", unit="tokens", metavar="L", blank="all it writes"
    )
    agents_at_once: bool = asked(
        "switch", "Agents write their turns at the same time, and not one after the other.", False
    )
    turn_limit: Uncertain | None = asked(
        "count", "Turns at which an episode is cut.", least=1.0, is_whole=True, metavar="N", blank="none"
    )
    environments: Uncertain | None = asked(
        "count", "Environments, or sandboxes: episodes under way at once.", least=1.0, most=MOST_COUNT, is_whole=True,
        metavar="N", label="Environments", group="Turns and tools", slider=(8, 65536), blank="one for each rollout",
    )  # fmt: skip
    environment_cores: Uncertain = asked(
        "count", "CPU cores that an environment holds.", 1.0, most=MOST_COUNT, metavar="N"
    )
    failed_fraction: Uncertain = asked(
        "fraction", "Attempts at an episode that fail, half-way on average (assumption), and are begun again.", 0.0,
        most=0.9, metavar="F",
    )  # fmt: skip
    reread_cache: bool = asked("switch", "Caches are computed anew with new weights.", False)
    no_shared_prefix: bool = asked("switch", "A group's prompt is prefilled once per rollout.", False)
    prompts_per_step: Uncertain = asked(
        "count", "Prompts per step.", 128.0, least=1.0, most=MOST_COUNT, is_whole=True, metavar="N",
        aliases=("prompts",), label="Prompts a step", group="Sampling", slider=(1, 4096),
    )  # fmt: skip
    group_size: Uncertain = asked(
        "count", "Rollouts per prompt.", 16.0, least=1.0, most=MOST_COUNT, is_whole=True, metavar="N",
        label="Rollouts a prompt", group="Sampling", slider=(1, 256),
    )  # fmt: skip
    steps: Uncertain = asked(
        "count", "Steps of the run.", 1000.0, least=1.0, is_whole=True, metavar="N", label="Steps", group="Sampling",
        slider=(1, 100000),
    )  # fmt: skip
    kept_fraction: Uncertain = asked(
        "fraction", "Rollouts trained on, of those sampled.", 1.0, is_open=True, most=1.0, metavar="F",
        aliases=("kept",), blank="100%",
    )  # fmt: skip
    sampling_rounds: Uncertain = asked(
        "count", "Times a batch is sampled until enough groups carry a signal.", 1.0, least=1.0, most=MOST_RATIO,
        metavar="N",
    )  # fmt: skip
    oversampling: Uncertain = asked(
        "count", "Rollouts started over those taken in.", 1.0, least=1.0, most=MOST_RATIO, metavar="N"
    )
    partial_rollouts: bool = asked("switch", "Rollouts broken off go on in the next step.", False)
    logprob_passes: Uncertain | None = asked(
        "count", "Forward passes: old policy, reference.", most=MOST_RATIO, metavar="N", blank="the framework's"
    )
    updates_per_batch: Uncertain = asked(
        "count", "Passes of the update over kept rollouts.", 1.0, is_open=True, most=MOST_RATIO, metavar="N",
        aliases=("updates",),
    )  # fmt: skip
    optimizer_steps: Uncertain = asked(
        "count", "Optimizer steps in a pass.", 1.0, least=1.0, is_whole=True, metavar="N"
    )
    global_batch_tokens: Uncertain | None = asked(
        "tokens", "Tokens per optimizer step, instead of --optimizer-steps.", unit="tokens", is_open=True, metavar="T",
        aliases=("global_batch",), blank="one step a pass",
    )  # fmt: skip
    sequence_tokens: Uncertain | None = asked(
        "tokens", "Packed length of a training sequence.", unit="tokens", is_open=True, metavar="S",
        aliases=("sequence",), blank="8K",
    )  # fmt: skip
    packing: str | None = asked(
        "text", "Rollouts of a training microbatch one behind the other, or padded to the longest of them.",
        choices=("packed", "padded"), label="Packing", group="How", blank="the framework's",
    )  # fmt: skip
    microbatch_sequences: int | None = asked(
        "whole", "Rollouts of a training microbatch on one rank, at most.", least=1, most=MOST_COUNT, metavar="M",
        aliases=("microbatch",), blank="the framework's, or as many as --sequence-tokens holds",
    )  # fmt: skip
    sharding: str | None = asked(
        "text", "What data-parallel ranks of the trainer share: the optimizer (zero-1), or the weights too (zero-3, "
        "FSDP).", choices=("zero-1", "zero-3"), label="Sharding", group="How", blank="the framework's",
    )  # fmt: skip
    lora_rank: int | None = shared(PretrainQuestion, "lora_rank", label="LoRA rank", group="How")
    lora_targets: str | None = shared(PretrainQuestion, "lora_targets", label="LoRA layers", group="How")
    lora_sync: str | None = asked(
        "text", "What generators take of adapters: the adapters alone, which they run beside the weights, or all "
        "weights with the adapters merged.", choices=LORA_SYNCS, label="LoRA sync", group="How",
        blank="the framework's, with --lora-rank",
    )  # fmt: skip
    critic_ratio: Uncertain = asked(
        "count", "Size of a critic over the policy; 0 without one.", 0.0, most=MOST_RATIO, metavar="N"
    )
    reward_ratio: Uncertain = asked(
        "count", "Size of a reward model on the trainer over the policy, one forward pass; 0 without one. A model that "
        "is served is --judge.", 0.0, most=MOST_RATIO, metavar="N",
    )  # fmt: skip
    judge: str | None = asked(
        "text", "Model that judges rollouts, served by itself: it reads each one and writes its verdict, or only a "
        "score.", metavar="MODEL", label="Judge", group="Verifying", blank="none",
    )  # fmt: skip
    judge_gpus: int | None = asked(
        "whole", "GPUs that only judge, beside those of the run: rollouts are judged as they end. Without any, the "
        "generators judge when all rollouts have ended.", least=1,
        metavar="N", label="GPUs that only judge", group="Verifying", slider=(1, 1024),
        blank="none: generators, in turn",
    )  # fmt: skip
    judge_tokens: Uncertain = asked(
        "tokens", "Tokens that the judge writes per verdict; 0 for a score.", 0.0, unit="tokens", metavar="L",
        label="Judge writes", group="Verifying", slider=(16, 16384),
    )  # fmt: skip
    judge_calls: Uncertain = asked(
        "count", "Verdicts of the judge per rollout: votes, criteria, or turns; they share one reading of it.", 1.0,
        least=1.0, most=MOST_COUNT, metavar="N",
    )  # fmt: skip
    verifier_time: Uncertain = asked(
        "s", "CPU time per verdict.", 0.0, unit=None, metavar="T", label="Verdict", group="Verifying",
        slider=(0.001, 100), blank="0s",
    )  # fmt: skip
    verifier_cores: Uncertain = asked(
        "count", "Verdicts that run at once.", 1024.0, least=1.0, most=MOST_COUNT, is_whole=True, metavar="N",
        label="Verdicts at a time",
        group="Verifying", slider=(1, 65536),
    )  # fmt: skip
    verifier: tuple[str, ...] = asked(
        "texts", "One kind of task, such as 30%:2s:512; may be repeated.", (), metavar="SHARE:TIME:CORES"
    )
    continuation_tokens: Uncertain | None = asked(
        "tokens", "RL on text: tokens that follow a position; their likelihood rewards a thought.", unit="tokens",
        is_open=True, metavar="L", aliases=("gold",), blank="no RL on text",
    )  # fmt: skip
    train_on_continuation: bool = asked(
        "switch", "The update goes over the continuation as well.", False, aliases=("train_on_gold",)
    )
    next_token_tokens: Uncertain = asked(
        "tokens", "Tokens of next-token training beside the update, per step.", 0.0, unit="tokens", metavar="L",
        aliases=("next_token",),
    )  # fmt: skip
    text_tokens_per_position: Uncertain | None = asked(
        "tokens", "One position in so many tokens of text.", unit="tokens", is_open=True, metavar="L",
        aliases=("text_per_place",), blank="prompt and continuation",
    )  # fmt: skip
    max_lag: int | None = asked(
        "whole", "Versions a rollout may be behind; 0 is synchronous.", metavar="K", label="Versions behind",
        group="Asynchrony", slider=(0, 8), blank="the framework's",
    )  # fmt: skip
    in_flight: bool = asked(
        "switch", "Under a lag live rollouts go on with new weights, which is the default there.", False,
        aliases=("in_flight_updates",),
    )  # fmt: skip
    drained: bool = asked(
        "switch", "Under a lag generation drains before it takes new weights.", False,
        label="Drain generation before new weights", group="Asynchrony",
    )  # fmt: skip
    live_limit: Uncertain | None = asked(
        "count", "Rollouts that a replica decodes at once at most.", least=1.0, most=MOST_COUNT, is_whole=True,
        metavar="N", aliases=("batch",), blank="the framework's, or its engine's on the chip",
    )  # fmt: skip
    draft_tokens: Uncertain = asked(
        "count", "Speculative decoding: tokens drafted per step.", 0.0, most=MOST_RATIO, metavar="N"
    )
    tokens_per_step: Uncertain = asked(
        "count", "Tokens that a speculative step yields.", 1.0, is_open=True, most=MOST_RATIO, metavar="N"
    )
    recompute: str | None = asked(
        "text", "Activations that the trainer recomputes.", choices=("none", "selective", "full"), blank="searched"
    )
    mfu: Uncertain = asked(
        "fraction", "Of the pretraining that beta compares with.", 0.4, is_open=True, most=1.0, metavar="F",
        blank="40%",
    )  # fmt: skip
    pretraining_flop: Uncertain | None = asked(
        "flop", "A pretraining run to match in GPU-time.", unit="FLOP", is_open=True, metavar="C"
    )
    price_ratio: Uncertain = asked(
        "count", "Price of an output token over an input token: read as utilisation it is a rule of thumb beside "
        "--pretraining-flop.", 5.0, is_open=True, metavar="N",
    )  # fmt: skip
    budget_flop: Uncertain = asked(
        "flop", "FLOP to put into RL: tokens, steps and tasks it takes.", 1e26, unit="FLOP", is_open=True,
        metavar="C", aliases=("flop",),
    )  # fmt: skip
    search: bool = asked("switch", "Search the best split of the GPUs under the lag.", False)
    scale_up: bool = asked("switch", "Does it fit a scale-up domain: rollouts, longest trace, largest model.", False)
    levers: bool = asked("switch", "What would bring GPU-time down, one change at a time.", False)
    compare_to: str | None = asked(
        "text", "A step of yours beside this one: step=290,generation=180,update=70, or a log of verl, NeMo RL, slime, "
        "SkyRL, OpenRLHF, AReaL or TRL, or a run ledger, whose mean rollout and GPUs are taken where you name none.",
        metavar="PHASES|FILE", label="Your step", group="Yours", blank="none",
        example="step=290,generation=180,update=70",
    )  # fmt: skip
    emit: str | None = asked(
        "text", "Print the command that runs this in a framework, whose defaults it takes.", choices=EMITTED
    )
    samples: int = asked("whole", "Samples of uncertain inputs.", 512, least=1, most=MOST_SAMPLES)

    @property
    def stack(self) -> str:
        """The framework: the one named, or the one that the run is written for."""
        return self.emit if self.emit is not None and self.framework == USUAL_STACK else self.framework

    @property
    def reads_log(self) -> bool:
        """Whether a log is compared with, which may say how long rollouts are."""
        return self.compare_to is not None and "=" not in self.compare_to

    @property
    def numbers(self) -> dict[str, Uncertain]:
        """Quantities that are stated or have a default, by field; the price apart."""
        known = fields_of(RLQuestion).values()
        named = [one.name for one in known if one.dimension not in (SWITCH, TEXT, TEXTS, WHOLE) and one.name != "price"]
        one = self.settled
        found = {name: getattr(one, name) for name in named if getattr(one, name) is not None}
        return found | {name: spread.mean for name, spread in self.spreads.items()}

    @property
    def settled(self) -> RLQuestion:
        """The question with what its framework has where nobody names it: engine, lag, log-prob passes.

        Examples
        --------
        >>> question = RLQuestion(model="m", system="s", framework="slime", rollout_tokens=1000)
        >>> question.settled.backend, question.settled.max_lag, question.settled.logprob_passes
        ('sglang', 0, 2.0)
        """
        missing = {name: value for name, value in self.from_framework.items() if getattr(self, name) is None}
        return replace(self, framework=self.stack, **missing) if missing or self.stack != self.framework else self

    @property
    def from_framework(self) -> dict[str, Any]:
        """What the framework has for fields that may be left open; GPUs that take turns have no lag."""
        one = load_rl_framework(self.stack)
        found = {
            "backend": one.engine, "max_lag": one.max_lag, "logprob_passes": one.logprob_passes,
            "sharding": one.sharding or None, "recompute": one.recompute or None,
            "microbatch_sequences": one.microbatch_sequences or None, "packing": None if one.packs else "padded",
        }  # fmt: skip
        if self.lora_rank is not None and (ways := self._lora_syncs):
            found["lora_sync"] = ways[0]
        is_shared = one.placement != "separate" and not (self.max_lag or one.max_lag)
        if is_shared and self.training_gpus is None and self.generation_gpus is None and one.shared_hbm_fraction:
            found["memory_fraction"] = one.shared_hbm_fraction
        return {name: value for name, value in found.items() if value is not None}

    @property
    def spreads(self) -> dict[str, Spread]:
        """Quantities that differ from episode to episode, or from call to call, by field."""
        said = {"turns": (self.turns, "count"), "tool_latency": (self.tool_latency, "s")}
        return {
            name: read_spread(text, f"--{name.replace('_', '-')}", dimension)
            for name, (text, dimension) in said.items()
            if text is not None
        }

    @property
    def takes_weights_live(self) -> bool | None:
        """Whether live rollouts go on with new weights; None for the default."""
        return True if self.in_flight else False if self.drained else None

    def check(self) -> None:
        """Refuse fields that contradict one another."""
        most = 1 + high_of(self.draft_tokens)
        if not 1 <= low_of(self.tokens_per_step) <= high_of(self.tokens_per_step) <= most:
            raise InputError(
                f"--tokens-per-step {high_of(self.tokens_per_step):g}: between 1 and one more than the drafted tokens "
                f"({most:g})"
            )
        lengths = ("rollout_tokens", "rollout_p50_tokens", "rollout_lengths")
        n_said = sum(getattr(self, name) is not None for name in lengths)
        if n_said != 1 and not (n_said == 0 and self.reads_log):
            either, file = of_files(", ", " or "), of_files(", or --rollout-lengths FILE (one length a line)")
            raise InputError(
                "how long is a rollout? give one of --rollout-tokens 4K (the mean)"
                f"{either}--rollout-p50-tokens 2K with --rollout-p95-tokens 12K{file}"
            )
        if self.rollout_p50_tokens is not None and self.rollout_p95_tokens is None:
            raise InputError("--rollout-p50-tokens: needs --rollout-p95-tokens beside it")
        if self.longest_over_mean is not None and (self.rollout_tokens is None or self.rollout_p95_tokens is not None):
            raise InputError("--longest-over-mean tells the tail of --rollout-tokens: leave other tails out")
        of_text = self.train_on_continuation or self.next_token_tokens or self.text_tokens_per_position is not None
        if self.continuation_tokens is None and of_text:
            raise InputError(
                "--train-on-continuation, --next-token-tokens and --text-tokens-per-position belong to RL on text: "
                "state --continuation-tokens"
            )
        self._check_turns()
        self._check_adapters()
        self._check_judge()
        self._check_agents()
        if self.emit is not None and self.stack != self.emit:
            raise InputError(
                f"--emit {self.emit}: times and defaults are those of --framework {self.framework}: give --framework "
                f"{self.emit}, or leave it out"
            )
        if self.in_flight and self.drained:
            raise InputError("--in-flight and --drained exclude one another")
        if self.in_flight and not self.settled.max_lag:
            raise InputError(
                "--in-flight: live rollouts take new weights only where they may be behind; state --max-lag 1"
            )
        self._check_sides()
        self._check_lag()
        self._check_unused()

    def _check_sides(self) -> None:
        """Refuse sides that are not all GPUs of the run, and a lag or sides where one program has them in turns."""
        stated = {"--generation-gpus": self.generation_gpus, "--training-gpus": self.training_gpus}
        apart = " and ".join(f"{name} {n}" for name, n in stated.items() if n)
        together = sum(n for n in stated.values() if n)
        if self.gpus is not None and all(stated.values()) and together != self.gpus:
            raise InputError(f"{apart}: together {together}, and --gpus says {self.gpus}; leave one of them out")
        one = load_rl_framework(self.stack)
        if one.is_one_program and (apart or self.max_lag):
            said = apart or f"--max-lag {self.max_lag}"
            raise InputError(
                f"{said}: {one.name} generates and trains on the same GPUs in turns, synchronously; leave it out, or "
                f"state --framework {USUAL_STACK}"
            )

    def _check_unused(self) -> None:
        """Refuse numbers that say nothing without another field, or beside it."""
        known, has_kinds = fields_of(RLQuestion), bool(self.verifier)
        names = ("environment_cores", "verifier_cores", "price_ratio")
        environment, verdict, price = (getattr(self, name) != known[name].default for name in names)
        unused = {
            "--environment-cores: cores are counted for episodes with turns; state --turns": environment
            and self.turns is None,
            "--verifier-cores: no verdict takes time; state --verifier-time": verdict
            and not (self.verifier_time or has_kinds),
            "--verifier-cores: --verifier says the cores of each kind of task; leave it out": verdict and has_kinds,
            "--price-ratio: a rule of thumb beside a pretraining run to match; state --pretraining-flop": price
            and self.pretraining_flop is None,
        }
        for said, is_unused in unused.items():
            if is_unused:
                raise InputError(said)

    def _check_lag(self) -> None:
        """Refuse what would have no effect: under a lag, without one, or without rollouts that are broken off."""
        lag, is_oversampled = self.settled.max_lag or 0, high_of(self.oversampling) > 1
        if self.drained and not lag:
            raise InputError("--drained: without a lag generation always drains before new weights; state --max-lag 1")
        if lag and (is_oversampled or self.partial_rollouts):
            name = "--oversampling" if is_oversampled else "--partial-rollouts"
            raise InputError(
                f"{name}: only a synchronous step is ended before all of its rollouts are; under --max-lag {lag} "
                "leave it out, or state --max-lag 0"
            )
        if self.partial_rollouts and not is_oversampled:
            raise InputError(
                "--partial-rollouts: none is broken off where as many start as are taken in; state --oversampling 1.5"
            )
        if self.reread_cache and not lag and not self.partial_rollouts:
            raise InputError(
                "--reread-cache: no rollout outlives its weights in a synchronous step; state --max-lag 1, or "
                "--partial-rollouts"
            )

    def _check_agents(self) -> None:
        """Refuse agents that never meet, more of them trained than there are, and options that part them."""
        if self.agents == 1:
            if self.trained_agents is not None or self.message_tokens is not None or self.agents_at_once:
                raise InputError("--trained-agents, --message-tokens and --agents-at-once: state --agents 2, or more")
            return
        if (self.trained_agents or 1) > self.agents:
            raise InputError(f"--trained-agents {self.trained_agents}: of {self.agents} agents, at most {self.agents}")
        turns = self.spreads.get("turns")
        if turns is None or low_of(turns.mean) < 2:
            raise InputError("--agents: they speak with one another between turns; state --turns of at least 2")
        told, written = self.message_tokens, self.rollout_tokens
        if told is not None and written is not None and low_of(told) > (most := high_of(written) / low_of(turns.mean)):
            raise InputError(
                f"--message-tokens {low_of(told):,.0f}: a turn writes {most:,.0f} tokens, and others see no more of it"
            )
        if self.continuation_tokens is not None:
            raise InputError("--agents: RL on text has no other agents; leave --continuation-tokens out")
        if self.partial_rollouts or self.drained or high_of(self.oversampling) > 1 or high_of(self.failed_fraction) > 0:
            raise InputError(
                "--agents: rollouts of an episode end together; leave --partial-rollouts, --drained, --oversampling "
                "and --failed-fraction out"
            )

    def _check_judge(self) -> None:
        """Refuse what is said of a judge where there is none, and one that waits for the end of an endless stream."""
        if self.judge is None and (self.judge_gpus is not None or self.judge_tokens or self.judge_calls != 1):
            raise InputError("--judge-gpus, --judge-tokens and --judge-calls are said of a judge: state --judge")
        if self.judge is not None and self.judge_gpus is None and self.settled.max_lag:
            raise InputError(
                "--judge: on the generators' GPUs it waits until all rollouts of a step have ended, which under a lag "
                "they never have; state --judge-gpus, or --max-lag 0"
            )

    def _check_turns(self) -> None:
        """Refuse tools without turns, and less than a turn."""
        spreads = self.spreads
        if "tool_latency" in spreads and low_of(spreads["tool_latency"].mean) < 0:
            raise InputError(f"--tool-latency {shown(str(self.tool_latency))}: must be at least 0s")
        turns = spreads.get("turns")
        if turns is not None and min((low_of(turns.mean), *turns.ends)) < 1:
            raise InputError(f"--turns {shown(str(self.turns))}: must be at least 1")
        written = self.rollout_tokens
        if turns is not None and written is not None and low_of(turns.mean) > high_of(written):
            raise InputError(
                f"--turns {shown(str(self.turns))}: an episode of {high_of(written):,.0f} tokens has no more turns"
            )
        if turns is not None and self.turn_limit is not None and low_of(self.turn_limit) < low_of(turns.mean):
            raise InputError(
                f"--turn-limit {low_of(self.turn_limit):g}: less than the mean of {low_of(turns.mean):g} turns"
            )
        if turns is None and (self.observation_tokens or self.tool_latency is not None or self.turn_limit is not None):
            raise InputError("--observation-tokens, --tool-latency and --turn-limit are said of calls: state --turns")
        has_tail = self.rollout_tokens is None or self.rollout_p95_tokens is not None
        if turns is not None and turns.form and has_tail:
            raise InputError(
                "--turns as a distribution tells how rollouts differ in length: state --rollout-tokens, and no other "
                "tail"
            )

    @property
    def _lora_syncs(self) -> tuple[str, ...]:
        """Ways in which the framework's adapters reach its engine, where these GPUs are shared or not."""
        one = load_rl_framework(self.stack)
        lag = one.max_lag if self.max_lag is None else self.max_lag
        stated = self.training_gpus is not None or self.generation_gpus is not None
        is_apart = bool(lag) or stated or one.placement == "separate"
        return () if one.lora is None else one.lora.on(self.backend or one.engine, is_apart)

    def _check_adapters(self) -> None:
        """Refuse adapters that the framework cannot train, and ways in which it cannot send them."""
        self.check_lora()
        if self.lora_rank is None:
            if self.lora_sync is not None:
                raise InputError("--lora-sync needs --lora-rank")
            return
        one, known = load_rl_framework(self.stack), self._lora_syncs
        if not known:
            able = ", ".join(name for name in rl_framework_ids() if load_rl_framework(name).lora is not None)
            raise InputError(f"--lora-rank: {one.name} trains no adapters; allowed: --framework {able}")
        if self.lora_sync is not None and self.lora_sync not in known:
            sent = "the adapters alone" if known == ("adapters",) else "all weights, merged"
            has_both = one.lora is not None and self.lora_sync in one.lora.ways
            to = f" to {self.backend or one.engine} on these GPUs" if has_both else ""
            raise InputError(f"--lora-sync {self.lora_sync}: {one.name} sends {sent}{to}; leave it out")
        alone = (self.lora_sync or known[0]) == "adapters"
        if self.weight_sync is not None and alone and not load_sync_mechanism(self.weight_sync).sends_adapters:
            merged = "state --lora-sync merged, or " if "merged" in known else ""
            raise InputError(f"--weight-sync {self.weight_sync}: hands over all weights; {merged}leave it out")
