"""What a training recipe says: one frozen record per table of its file, with the bounds of every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rntp import plugins

RULES = ("random", "several", "stride", "entropy-band", "learnability-band", "sentence", "proxy", "marked")
REWARDS = (
    "log-likelihood-gain", "probability", "first-token", "exact-prefix", "token-boundary-prefix", "token-accuracy",
    "similarity-bleu", "similarity-chrf", "entropy-weighted-gain", "self-evaluation",
)  # fmt: skip
#: Rewards that are made up of the tokens of the continuation, so that each can be credited on its own.
TOKEN_REWARDS = ("log-likelihood-gain", "probability", "token-accuracy", "entropy-weighted-gain")
#: What an answer of text may be scored by; see :mod:`rntp.verify.text`.
SCORERS = ("exact", "pattern", "prefix")
#: Answers of known quality that ship.
HARBOUR = "harbour"
#: An audit by what the task's own domain does.
DOMAIN = "domain"
#: What a rule asks of a model, per token of a chunk: entropy of the prediction, spread of a group's rewards at each
#: candidate, loss of a smaller model.
MEASURED = {"entropy-band": "entropy", "learnability-band": "spread", "proxy": "proxy-loss"}
#: Qwen3 with a causal smear of the embeddings.
SMEAR = "qwen3-smear"
SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt", "warmup_stable_decay")
#: Trackers whose files a run's folder holds.
TRACKERS = ("tensorboard", "wandb", "mlflow")
CONTROLS = (
    "ntp-equal-tokens", "ntp-equal-time", "mixed-sft", "empty-thought", "swapped-thought", "frozen-scorer",
    "independent-scorer", "overlap", "repeats",
)  # fmt: skip


def _among(*choices: str) -> dict[str, Any]:
    return {"choices": choices}


def _open(group: str, *choices: str) -> dict[str, Any]:
    """Names that ship, beside which a recipe may name functions of its own."""
    return {"choices": choices, "group": group}


#: Upper bounds beyond what any laboratory has trained with: tokens of a sequence, steps or documents, and weights of a
#: term. What is larger is a slip of the keyboard, and would begin without ever ending.
_TOKENS, _MANY, _WEIGHT = 2**24, 10**7, 1e6
#: Most prompts of a run: their order is drawn before the first.
MOST_PROMPTS = 10**8


def _within(low: float, high: float) -> dict[str, Any]:
    return {"low": low, "high": high}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The model to train: a local Hugging Face folder, or a small one made from scratch."""

    path: str = ""
    architecture: str = field(default="qwen3", metadata=_among("qwen3", SMEAR))
    hidden_size: int = field(default=128, metadata=_within(4, 2**16))
    layers: int = field(default=2, metadata=_within(1, 2**10))
    heads: int = field(default=4, metadata=_within(1, 2**12))
    kv_heads: int = field(default=4, metadata=_within(1, 2**12))
    intermediate_size: int = field(default=512, metadata=_within(1, 2**21))
    context_tokens: int = field(default=1024, metadata=_within(8, _TOKENS))
    rope_base: float = field(default=10000.0, metadata=_within(1, 1e10))
    tie_embeddings: bool = False
    tokenizer: str = field(default="bpe", metadata=_among("bpe", "word"))
    vocabulary: int = field(default=1024, metadata=_within(16, 2**22))
    tokenizer_documents: int = field(default=2000, metadata=_within(1, _MANY))


@dataclass(frozen=True, slots=True)
class PretrainSpec:
    """Plain next-token training before RL."""

    steps: int = field(default=300, metadata=_within(1, _MANY))
    batch_sequences: int = field(default=16, metadata=_within(1, 2**19))
    sequence_tokens: int = field(default=128, metadata=_within(2, _TOKENS))
    learning_rate: float = field(default=2e-3, metadata=_within(0, 1e3))
    warmup_fraction: float = field(default=0.03, metadata=_within(0, 1))
    final_fraction: float = field(default=0.03, metadata=_within(0, 1))
    weight_decay: float = field(default=0.05, metadata=_within(0, 1e3))
    max_grad_norm: float = field(default=1.0, metadata=_within(0, 1e10))
    save_steps: int = field(default=500, metadata=_within(1, _MANY))


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """Where documents come from."""

    kind: str = field(default="text", metadata=_among("text", "jsonl", "parquet", "datasets", "generator"))
    source: tuple[str, ...] = ()
    text_field: str = "text"
    split: str = "train"
    subset: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    documents: int = field(default=0, metadata=_within(0, 10**10))
    held_out_fraction: float = field(default=0.05, metadata=_within(0, 0.9))
    weight: float = field(default=1.0, metadata=_within(0, _WEIGHT))


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A language model that scores answers: a local Hugging Face folder, or an endpoint that serves one."""

    model: str = ""
    name: str = ""
    prompt: str = ""
    fenced: bool = True
    scale: tuple[str, ...] = ("no", "yes")
    read: str = field(default="auto", metadata=_among("auto", "probability", "reply"))
    no_verdict: float | None = field(default=None, metadata=_within(0, 1))
    verdict_tokens: int = field(default=16, metadata=_within(1, 2**16))
    api: str = field(default="chat", metadata=_among("chat", "completions"))
    key_variable: str = ""
    timeout_s: float = field(default=60.0, metadata=_within(0.01, 1e4))
    retries: int = field(default=2, metadata=_within(0, 16))
    batch: int = field(default=8, metadata=_within(1, 1024))
    graded: str = field(default="", metadata=_open(plugins.GRADED, "", HARBOUR), compare=False)

    @property
    def is_served(self) -> bool:
        """Whether an endpoint serves the model."""
        return "://" in self.model

    @property
    def by_probability(self) -> bool:
        """Whether the probabilities of the scale's words are read, in place of a reply."""
        return self.read == "probability" or (self.read == "auto" and not self.is_served)


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """Verifiable tasks mixed into RL."""

    name: str = ""
    weight: float = field(default=1.0, metadata=_within(0, _WEIGHT))
    tasks: str = ""
    puzzle: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    answer_tokens: int = field(default=16, metadata=_within(1, _TOKENS))
    held_out_fraction: float = field(default=0.1, metadata=_within(0, 0.9))
    judge: str | JudgeSpec = field(default="", metadata=_open(plugins.JUDGES, "", *SCORERS))
    audit: str = field(default="", metadata=_open(plugins.JUDGES, "", DOMAIN, *SCORERS), compare=False)
    source: str = field(default="", metadata=_open(plugins.ENVIRONMENTS, ""))
    turns: int = field(default=8, metadata=_within(1, 10**5))
    episode_tokens: int = field(default=0, metadata=_within(0, _TOKENS))
    stop: tuple[str, ...] = ()
    timeout_s: float = field(default=300.0, metadata=_within(0.01, 1e6))


@dataclass(frozen=True, slots=True)
class ThoughtSpec:
    """How the model thinks."""

    start: str = "<think>"
    end: str = "</think>"
    budget: int = field(default=64, metadata=_within(1, _TOKENS))
    truncation: str = field(default="worst", metadata=_among("worst", "drop", "keep"))
    length_weight: float = field(default=0.0, metadata=_within(0, _WEIGHT))
    kl_weight: float = field(default=0.0, metadata=_within(0, _WEIGHT))


@dataclass(frozen=True, slots=True)
class PositionSpec:
    """Where in a text the model thinks."""

    rule: str = field(default="random", metadata=_open(plugins.POSITIONS, *RULES))
    per_chunk: int = field(default=1, metadata=_within(1, _TOKENS))
    stride: int = field(default=64, metadata=_within(1, _TOKENS))
    context_tokens: int = field(default=512, metadata=_within(1, _TOKENS))
    gold_tokens: int = field(default=32, metadata=_within(1, _TOKENS))
    min_context_tokens: int = field(default=8, metadata=_within(1, _TOKENS))
    min_gold_tokens: int = field(default=2, metadata=_within(1, _TOKENS))
    low: float = field(default=0.0, metadata=_within(0, 1e6))
    high: float = field(default=1.0, metadata=_within(0, 1e6))
    candidates: int = field(default=4, metadata=_within(1, 2**16))
    proxy: str = ""
    measure: str = field(default="", metadata=_among("", *MEASURED.values()))
    options: Mapping[str, Any] = field(default_factory=dict)
    skip_first_gold: int = field(default=1, metadata=_within(0, _TOKENS))
    kinds: tuple[str, ...] = ()
    distinct: int = field(default=0, metadata=_within(0, 10**8))
    folder: Path = field(default=Path(), compare=False)

    @property
    def measured(self) -> str:
        """What the rule asks of a model: a value of ``MEASURED``, or nothing."""
        return MEASURED.get(self.rule, self.measure)


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """What a thought is rewarded for."""

    name: str = field(default="log-likelihood-gain", metadata=_open(plugins.REWARDS, *REWARDS))
    nll_weight: float = field(default=0.0, metadata=_within(0, _WEIGHT))
    scorer: str = field(default="policy", metadata=_among("policy", "ema", "frozen"))
    ema_decay: float = field(default=0.999, metadata=_within(0, 1))
    baseline: str = field(default="scorer", metadata=_among("scorer", "policy", "ema", "frozen"))
    credit: str = field(default="thought", metadata=_among("thought", "token"))
    k: int = field(default=0, metadata=_within(0, _TOKENS))
    per_token: bool = False
    entropy_power: float = field(default=1.0, metadata=_within(0, 100))
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def models(self) -> frozenset[str]:
        """Models that are asked for likelihoods: ``policy``, ``ema``, ``frozen``."""
        return frozenset({self.scorer, self.scorer if self.baseline == "scorer" else self.baseline})


@dataclass(frozen=True, slots=True)
class RlSpec:
    """The updates of RL."""

    steps: int = field(default=100, metadata=_within(1, _MANY))
    device_s: float = field(default=0.0, metadata=_within(0, 1e10))
    prompts_per_step: int = field(default=8, metadata=_within(1, 2**19))
    group_size: int = field(default=8, metadata=_within(2, 2**16))
    micro_batch: int = field(default=0, metadata=_within(0, 2**24))
    gradient_checkpointing: bool = False
    learning_rate: float = field(default=1e-5, metadata=_within(0, 1e3))
    schedule: str = field(default="constant", metadata=_among(*SCHEDULES))
    warmup_steps: int = field(default=0, metadata=_within(0, _MANY))
    decay_steps: int = field(default=0, metadata=_within(0, _MANY))
    final_fraction: float = field(default=0.0, metadata=_within(0, 0.99))
    ema_decay: float = field(default=0.0, metadata=_within(0, 1))
    temperature: float = field(default=1.0, metadata=_within(1e-3, 1e3))
    advantage: str = field(default="group-mean", metadata=_among("group-mean", "leave-one-out"))
    scale: str = field(default="batch-std", metadata=_among("batch-std", "group-std", "none"))
    min_spread: float = field(default=0.0, metadata=_within(0, 1e6))
    min_gain: float = field(default=float("-inf"), metadata=_within(float("-inf"), 1e6))
    clip: float = field(default=0.2, metadata=_within(0, 1e6))
    clip_high: float = field(default=0.0, metadata=_within(0, 1e6))
    average: str = field(default="tokens", metadata=_among("tokens", "thoughts"))
    updates_per_batch: int = field(default=1, metadata=_within(1, 2**10))
    ahead: int = field(default=0, metadata=_within(0, 1))
    ntp_weight: float = field(default=0.0, metadata=_within(0, _WEIGHT))
    ntp_sequences: int = field(default=8, metadata=_within(1, 2**19))
    ntp_tokens: int = field(default=128, metadata=_within(2, _TOKENS))
    max_grad_norm: float = field(default=1.0, metadata=_within(0, 1e10))
    weight_decay: float = field(default=0.0, metadata=_within(0, 1e3))
    save_steps: int = field(default=50, metadata=_within(0, _MANY))
    device: str = field(default="auto", metadata=_among("auto", "cpu", "cuda"))
    precision: str = field(default="float32", metadata=_among("float32", "bfloat16"))
    engine: str = field(default="transformers", metadata=_among("transformers", "vllm-colocate", "vllm-server"))


def decay_steps(rl: RlSpec) -> int:
    """Steps over which a rate that was stable falls.

    Examples
    --------
    >>> decay_steps(RlSpec(steps=200)), decay_steps(RlSpec(decay_steps=7))
    (20, 7)
    """
    return rl.decay_steps or max(1, rl.steps // 10)


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """An adapter of low rank that RL trains in place of the weights."""

    rank: int = field(default=16, metadata=_within(1, 2**16))
    alpha: float = field(default=32.0, metadata=_within(1e-3, 1e6))
    dropout: float = field(default=0.0, metadata=_within(0, 0.9))
    target_modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VllmSpec:
    """Where and how vLLM runs, where it is the engine."""

    address: str = ""
    memory_fraction: float = field(default=0.3, metadata=_within(0.01, 1))
    tensor_parallel: int = field(default=1, metadata=_within(1, 2**12))
    context_tokens: int = field(default=0, metadata=_within(0, _TOKENS))


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """What a gain is held against."""

    names: tuple[str, ...] = field(default=(), metadata=_among(*CONTROLS))
    judge: str = ""


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """What is reported at the end, and to whom."""

    places: int = field(default=64, metadata=_within(0, 10**6))
    trackers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a run depends on."""

    name: str = ""
    preset: str = field(default="", compare=False)
    seed: int = field(default=0, metadata=_within(0, 2**31 - 1))
    output: str = ""
    model: ModelSpec = field(default_factory=ModelSpec)
    pretrain: PretrainSpec | None = None
    corpus: CorpusSpec | None = None
    environments: tuple[EnvironmentSpec, ...] = ()
    thought: ThoughtSpec = field(default_factory=ThoughtSpec)
    positions: PositionSpec = field(default_factory=PositionSpec, metadata={"short": "rule"})
    reward: RewardSpec = field(default_factory=RewardSpec, metadata={"short": "name"})
    rl: RlSpec = field(default_factory=RlSpec)
    lora: LoraSpec | None = None
    vllm: VllmSpec = field(default_factory=VllmSpec)
    controls: ControlSpec = field(default_factory=ControlSpec)
    report: ReportSpec = field(default_factory=ReportSpec)
    folder: Path = field(default=Path(), compare=False)
