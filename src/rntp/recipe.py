"""What a training recipe says: one frozen record per table of its file, with the bounds of every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RULES = ("random", "several", "stride", "entropy-band", "learnability-band", "sentence", "proxy", "marked")
REWARDS = (
    "log-likelihood-gain", "probability", "first-token", "exact-prefix", "token-boundary-prefix", "token-accuracy",
    "similarity-bleu", "similarity-chrf", "entropy-weighted-gain", "self-evaluation",
)  # fmt: skip
#: Qwen3 with a causal smear of the embeddings.
SMEAR = "qwen3-smear"
CONTROLS = (
    "ntp-equal-tokens", "ntp-equal-time", "mixed-sft", "empty-thought", "swapped-thought", "frozen-scorer",
    "independent-scorer", "overlap", "repeats",
)  # fmt: skip


def _among(*choices: str) -> dict[str, Any]:
    return {"choices": choices}


def _within(low: float, high: float = float("inf")) -> dict[str, Any]:
    return {"low": low, "high": high}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The model to train: a local Hugging Face folder, or a small one made from scratch.

    Attributes
    ----------
    path : str
        Folder with weights and tokenizer; empty where the model is made from scratch.
    architecture : str
        ``qwen3``, or ``qwen3-smear``: the same with the embeddings of the last tokens mixed into each.
    hidden_size, layers, heads, kv_heads, intermediate_size : int
        Shape of a model from scratch.
    context_tokens : int
        Longest sequence of a model from scratch [token].
    rope_base : float
        Base of its rotary embedding [-].
    tie_embeddings : bool
        Whether its head is its embedding.
    tokenizer : str
        ``bpe`` or ``word`` (split at white space), learnt from the corpus.
    vocabulary : int
        Entries of that tokenizer at most.
    tokenizer_documents : int
        Documents that it is learnt from.
    """

    path: str = ""
    architecture: str = field(default="qwen3", metadata=_among("qwen3", SMEAR))
    hidden_size: int = field(default=128, metadata=_within(4))
    layers: int = field(default=2, metadata=_within(1))
    heads: int = field(default=4, metadata=_within(1))
    kv_heads: int = field(default=4, metadata=_within(1))
    intermediate_size: int = field(default=512, metadata=_within(1))
    context_tokens: int = field(default=1024, metadata=_within(8))
    rope_base: float = field(default=10000.0, metadata=_within(1))
    tie_embeddings: bool = False
    tokenizer: str = field(default="bpe", metadata=_among("bpe", "word"))
    vocabulary: int = field(default=1024, metadata=_within(16))
    tokenizer_documents: int = field(default=2000, metadata=_within(1))


@dataclass(frozen=True, slots=True)
class PretrainSpec:
    """Plain next-token training before RL.

    Attributes
    ----------
    steps : int
        Updates.
    batch_sequences : int
        Sequences per update.
    sequence_tokens : int
        Longest sequence; longer documents are cut, shorter ones padded [token].
    learning_rate : float
        Peak [-].
    warmup_fraction : float
        Share of the steps over which it rises [-].
    final_fraction : float
        Share of the peak at which its cosine ends [-].
    weight_decay : float
        Of AdamW [-].
    max_grad_norm : float
        Gradients are clipped to it [-].
    save_steps : int
        Updates between checkpoints.
    """

    steps: int = field(default=300, metadata=_within(1))
    batch_sequences: int = field(default=16, metadata=_within(1))
    sequence_tokens: int = field(default=128, metadata=_within(2))
    learning_rate: float = field(default=2e-3, metadata=_within(0))
    warmup_fraction: float = field(default=0.03, metadata=_within(0, 1))
    final_fraction: float = field(default=0.03, metadata=_within(0, 1))
    weight_decay: float = field(default=0.05, metadata=_within(0))
    max_grad_norm: float = field(default=1.0, metadata=_within(0))
    save_steps: int = field(default=500, metadata=_within(1))


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """Where documents come from.

    Attributes
    ----------
    kind : str
        ``text`` (files and globs), ``jsonl``, ``parquet``, ``datasets`` (a Hugging Face id or a saved folder) or
        ``generator`` (a registered name, or ``FILE.py:FUNCTION``).
    source : tuple of str
        Paths, globs, the id, or the generator; relative to the recipe.
    text_field : str
        Name of the text in a JSONL, Parquet or ``datasets`` row.
    split, subset : str
        Of a ``datasets`` id.
    options : dict
        What a generator takes beside the seed.
    documents : int
        Documents read at most; 0 for all.
    held_out_fraction : float
        Share of the documents, by the hash of their text, that is never trained on [-].
    weight : float
        Weight of text beside the environments' in RL [-].
    """

    kind: str = field(default="text", metadata=_among("text", "jsonl", "parquet", "datasets", "generator"))
    source: tuple[str, ...] = ()
    text_field: str = "text"
    split: str = "train"
    subset: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    documents: int = field(default=0, metadata=_within(0))
    held_out_fraction: float = field(default=0.05, metadata=_within(0, 0.9))
    weight: float = field(default=1.0, metadata=_within(0))


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """Verifiable tasks mixed into RL.

    Attributes
    ----------
    name : str
        Under which its tasks are counted.
    weight : float
        Beside the other environments' and the text's [-].
    tasks : str
        File of tasks with a prompt each, relative to the recipe; or
    puzzle : str
        name of a procedural task.
    config : dict
        Options of the puzzle.
    answer_tokens : int
        Longest answer after the thought [token].
    held_out_fraction : float
        Share of the tasks of a file, by the hash of their id, that is never trained on [-].
    """

    name: str = ""
    weight: float = field(default=1.0, metadata=_within(0))
    tasks: str = ""
    puzzle: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    answer_tokens: int = field(default=16, metadata=_within(1))
    held_out_fraction: float = field(default=0.1, metadata=_within(0, 0.9))


@dataclass(frozen=True, slots=True)
class ThoughtSpec:
    """How the model thinks.

    Attributes
    ----------
    start, end : str
        Marker tokens.
    budget : int
        Tokens of a thought at most, its end marker included.
    truncation : str
        What a thought that never ended is worth: ``worst`` (the least of its group, and never better than no
        thought), ``drop`` (left out of the loss), ``keep`` (the end is written for it).
    length_weight : float
        Subtracted from the reward per token of the thought [-].
    kl_weight : float
        Of the divergence from the model before RL [-].
    """

    start: str = "<think>"
    end: str = "</think>"
    budget: int = field(default=64, metadata=_within(1))
    truncation: str = field(default="worst", metadata=_among("worst", "drop", "keep"))
    length_weight: float = field(default=0.0, metadata=_within(0))
    kl_weight: float = field(default=0.0, metadata=_within(0))


@dataclass(frozen=True, slots=True)
class PositionSpec:
    """Where in a text the model thinks.

    Attributes
    ----------
    rule : str
        One of :data:`RULES`.
    per_chunk : int
        Places taken from a chunk at most.
    stride : int
        Tokens between places of the rule ``stride``.
    context_tokens, gold_tokens : int
        Before the thought, and of the continuation that is scored, at most [token].
    min_context_tokens, min_gold_tokens : int
        A place with less is not taken [token].
    low, high : float
        Of a band: quantiles of entropy within the chunk, of the reward's spread, or of the proxy's loss [-].
    candidates : int
        Places per chunk whose reward spread is measured for ``learnability-band``.
    proxy : str
        Folder of the model of the rule ``proxy``.
    skip_first_gold : int
        First gold tokens left out of every score: what separates thought from text is no prediction.
    kinds : tuple of str
        Kinds of documents that places are taken from, names or patterns such as ``bare-*``; empty for all.
    distinct : int
        Places that RL goes over again and again; 0 for new ones without end.
    """

    rule: str = field(default="random", metadata=_among(*RULES))
    per_chunk: int = field(default=1, metadata=_within(1))
    stride: int = field(default=64, metadata=_within(1))
    context_tokens: int = field(default=512, metadata=_within(1))
    gold_tokens: int = field(default=32, metadata=_within(1))
    min_context_tokens: int = field(default=8, metadata=_within(1))
    min_gold_tokens: int = field(default=2, metadata=_within(1))
    low: float = field(default=0.0, metadata=_within(0))
    high: float = field(default=1.0, metadata=_within(0))
    candidates: int = field(default=4, metadata=_within(1))
    proxy: str = ""
    skip_first_gold: int = field(default=1, metadata=_within(0))
    kinds: tuple[str, ...] = ()
    distinct: int = field(default=0, metadata=_within(0))


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """What a thought is rewarded for.

    Attributes
    ----------
    name : str
        One of :data:`REWARDS`.
    nll_weight : float
        Of the gold's negative log-likelihood given the thought, beside the policy's loss [-].
    scorer : str
        Whose predictions are scored: the ``policy``'s, its running mean's (``ema``), or the ``frozen`` model's.
    ema_decay : float
        Of the running mean, per update [-].
    k : int
        Gold tokens that ``token-accuracy`` and the prefixes look at; 0 for all.
    per_token : bool
        Whether likelihoods are averaged over the gold's tokens rather than added up.
    entropy_power : float
        Exponent of the entropy in ``entropy-weighted-gain`` [-].
    """

    name: str = field(default="log-likelihood-gain", metadata=_among(*REWARDS))
    nll_weight: float = field(default=0.0, metadata=_within(0))
    scorer: str = field(default="policy", metadata=_among("policy", "ema", "frozen"))
    ema_decay: float = field(default=0.999, metadata=_within(0, 1))
    k: int = field(default=0, metadata=_within(0))
    per_token: bool = False
    entropy_power: float = field(default=1.0, metadata=_within(0))


@dataclass(frozen=True, slots=True)
class RlSpec:
    """The updates of RL.

    Attributes
    ----------
    steps : int
        Updates.
    prompts_per_step, group_size : int
        Places per update, and thoughts per place.
    micro_batch : int
        Thoughts per forward and backward pass of a process; 0 for all of its share.
    gradient_checkpointing : bool
        Whether activations are computed again in the backward pass, to save memory.
    learning_rate : float
        Peak [-].
    schedule : str
        ``constant``, ``linear`` or ``cosine`` after the warm-up.
    warmup_steps : int
        Updates over which the rate rises.
    temperature : float
        Of sampling [-].
    advantage : str
        ``group-mean``, or ``leave-one-out``: the mean of the others.
    scale : str
        Advantages are divided by the standard deviation of the batch (``batch-std``), of the group (``group-std``),
        or by 1 (``none``).
    min_spread : float
        A group whose rewards' standard deviation is below is left out of the update [-].
    min_gain : float
        A group of text is left out too when none of its thoughts beats no thought by this reward [-].
    clip : float
        Of the probability ratio [-].
    updates_per_batch : int
        Passes over the same thoughts.
    ntp_weight : float
        Of plain next-token loss on documents beside the policy's loss [-].
    ntp_sequences, ntp_tokens : int
        Documents per update for it [-], and their length at most [token].
    max_grad_norm : float
        Gradients are clipped to it [-].
    weight_decay : float
        Of AdamW [-].
    save_steps : int
        Updates between checkpoints; 0 for at the end only.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    precision : str
        ``float32`` or ``bfloat16``.
    engine : str
        What generates: ``transformers``, or vLLM in the same process or as a server.
    """

    steps: int = field(default=100, metadata=_within(1))
    prompts_per_step: int = field(default=8, metadata=_within(1))
    group_size: int = field(default=8, metadata=_within(2))
    micro_batch: int = field(default=0, metadata=_within(0))
    gradient_checkpointing: bool = False
    learning_rate: float = field(default=1e-5, metadata=_within(0))
    schedule: str = field(default="constant", metadata=_among("constant", "linear", "cosine"))
    warmup_steps: int = field(default=0, metadata=_within(0))
    temperature: float = field(default=1.0, metadata=_within(1e-3))
    advantage: str = field(default="group-mean", metadata=_among("group-mean", "leave-one-out"))
    scale: str = field(default="batch-std", metadata=_among("batch-std", "group-std", "none"))
    min_spread: float = field(default=0.0, metadata=_within(0))
    min_gain: float = field(default=float("-inf"), metadata=_within(float("-inf")))
    clip: float = field(default=0.2, metadata=_within(0))
    updates_per_batch: int = field(default=1, metadata=_within(1))
    ntp_weight: float = field(default=0.0, metadata=_within(0))
    ntp_sequences: int = field(default=8, metadata=_within(1))
    ntp_tokens: int = field(default=128, metadata=_within(2))
    max_grad_norm: float = field(default=1.0, metadata=_within(0))
    weight_decay: float = field(default=0.0, metadata=_within(0))
    save_steps: int = field(default=50, metadata=_within(0))
    device: str = field(default="auto", metadata=_among("auto", "cpu", "cuda"))
    precision: str = field(default="float32", metadata=_among("float32", "bfloat16"))
    engine: str = field(default="transformers", metadata=_among("transformers", "vllm-colocate", "vllm-server"))


@dataclass(frozen=True, slots=True)
class VllmSpec:
    """Where and how vLLM runs, where it is the engine.

    Attributes
    ----------
    address : str
        Of a server, such as ``http://10.0.0.7:8000``; empty for this machine's port 8000.
    memory_fraction : float
        Share of a GPU's memory that the engine takes in the trainer's own processes [-].
    tensor_parallel : int
        GPUs that share an engine in the trainer's own processes.
    context_tokens : int
        Longest sequence of the engine; 0 for the model's own [token].
    """

    address: str = ""
    memory_fraction: float = field(default=0.3, metadata=_within(0.01, 1))
    tensor_parallel: int = field(default=1, metadata=_within(1))
    context_tokens: int = field(default=0, metadata=_within(0))


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """What a gain is held against.

    Attributes
    ----------
    names : tuple of str
        Among :data:`CONTROLS`.
    judge : str
        Folder of an independently trained model, for ``independent-scorer``.
    """

    names: tuple[str, ...] = field(default=(), metadata=_among(*CONTROLS))
    judge: str = ""


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """What is reported at the end, and to whom.

    Attributes
    ----------
    places : int
        Held-out places that are evaluated.
    trackers : tuple of str
        Trackers that the trainer reports to, such as ``tensorboard``.
    """

    places: int = field(default=64, metadata=_within(0))
    trackers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a run depends on.

    Attributes
    ----------
    name : str
        Of the run.
    seed : int
        Of every draw.
    output : str
        Folder of the run, relative to where the command is given.
    model : ModelSpec
        What is trained.
    pretrain : PretrainSpec or None
        None where the model is taken as it is.
    corpus : CorpusSpec or None
        None where environments alone are trained on.
    environments : tuple of EnvironmentSpec
        May be empty.
    thought : ThoughtSpec
        How it thinks.
    positions : PositionSpec
        Where.
    reward : RewardSpec
        What for.
    rl : RlSpec
        The updates.
    vllm : VllmSpec
        The engine, where it is vLLM.
    controls : ControlSpec
        What a gain is held against.
    report : ReportSpec
        What is said of it.
    folder : Path
        Where the file stands; paths in it are relative to it.
    """

    name: str = ""
    seed: int = field(default=0, metadata=_within(0, 2**31 - 1))
    output: str = ""
    model: ModelSpec = field(default_factory=ModelSpec)
    pretrain: PretrainSpec | None = None
    corpus: CorpusSpec | None = None
    environments: tuple[EnvironmentSpec, ...] = ()
    thought: ThoughtSpec = field(default_factory=ThoughtSpec)
    positions: PositionSpec = field(default_factory=PositionSpec)
    reward: RewardSpec = field(default_factory=RewardSpec)
    rl: RlSpec = field(default_factory=RlSpec)
    vllm: VllmSpec = field(default_factory=VllmSpec)
    controls: ControlSpec = field(default_factory=ControlSpec)
    report: ReportSpec = field(default_factory=ReportSpec)
    folder: Path = field(default=Path(), compare=False)
