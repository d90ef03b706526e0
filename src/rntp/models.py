"""Models and tokenizers: small ones made from scratch, or those of a local Hugging Face folder.

``qwen3-smear`` is Qwen3 with a causal smear: each embedding has the three before it added, each scaled per channel,

    y_t = e_t + a_1 e_{t-1} + a_2 e_{t-2} + a_3 e_{t-3}

so that a small model sees from the first layer on what has just been said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, WordLevel
from tokenizers.trainers import BpeTrainer, WordLevelTrainer
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3Model,
)
from transformers.cache_utils import DynamicLayer

from computeledger.actuals.recording.work import Counted, ParameterCount, counted_model
from computeledger.errors import InputError, shown
from rntp.head import CACHE
from rntp.recipe import SMEAR, ModelSpec, ThoughtSpec

PAD, BEGIN, END, UNKNOWN = "<pad>", "<doc>", "<eos>", "<unk>"
#: What ``self-evaluation`` asks after thought and gold, and the two answers that are compared.
QUESTION, YES, NO = "\nDid the thought help?", " yes", " no"
#: Entries that every byte-level tokenizer has.
_BYTES = 256
#: Tokens before each one that the smear reaches, and the scale at which it starts.
_REACH, _START = 3, 0.3


class _SmearConfig(Qwen3Config):
    """Shape of a Qwen3 with a smear."""

    model_type = SMEAR


class SmearModel(Qwen3Model):
    """Qwen3's decoder behind a smear of the embeddings.

    The embeddings are kept in one more layer of the cache, so that whatever crops, repeats or reorders a cache does so
    with them. The padding's embedding is zero and adds nothing.
    """

    config_class = _SmearConfig

    def __init__(self, config: _SmearConfig) -> None:
        super().__init__(config)
        self.smear = torch.nn.Parameter(torch.full((_REACH, config.hidden_size), _START))

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        use_cache: bool | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Smear the embeddings, then decode as Qwen3 does."""
        if input_ids is None or inputs_embeds is not None:
            raise InputError("a model with a smear takes input_ids, not embeddings")
        embedded = self.embed_tokens(input_ids)
        keep = self.config.use_cache if use_cache is None else use_cache
        cache = options.pop(CACHE, None)
        if keep and cache is None:
            cache = DynamicCache(config=self.config)
        known = embedded
        if cache is not None:
            if len(cache.layers) == self.config.num_hidden_layers:
                cache.layers.append(DynamicLayer())
            known, _ = cache.update(embedded[:, None], embedded[:, None, :, :1], self.config.num_hidden_layers)
            known = known[:, 0]
        reach = torch.nn.functional.pad(known, (0, 0, _REACH, 0))
        length, total = embedded.shape[1], reach.shape[1]
        smeared = embedded
        for back in range(1, _REACH + 1):
            smeared = smeared + self.smear[back - 1] * reach[:, total - length - back : total - back]
        return super().forward(inputs_embeds=smeared, use_cache=keep, **options, **{CACHE: cache})


class SmearForCausalLM(Qwen3ForCausalLM):
    """Qwen3 with a smear, and its head."""

    config_class = _SmearConfig

    def __init__(self, config: _SmearConfig) -> None:
        super().__init__(config)
        self.model = SmearModel(config)
        self.post_init()


AutoConfig.register(_SmearConfig.model_type, _SmearConfig)
AutoModelForCausalLM.register(_SmearConfig, SmearForCausalLM)
_ARCHITECTURES: dict[str, tuple[type[Qwen3Config], type[Qwen3ForCausalLM]]] = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3-smear": (_SmearConfig, SmearForCausalLM),
}


def make_tokenizer(spec: ModelSpec, thought: ThoughtSpec, texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Learn a tokenizer, with entries of its own for the markers of a thought.

    Examples
    --------
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["a rose is a rose"])
    >>> words.decode(words("a rose <think> is </think>")["input_ids"])
    'a rose <think> is </think>'
    """
    special = [PAD, BEGIN, END, UNKNOWN, thought.start, thought.end]
    marks = re.compile("|".join(map(re.escape, special)))
    texts = (marks.sub(" ", text) for text in texts)  # a marker is an entry of its own, not one learnt once more
    if spec.tokenizer == "word":
        made = Tokenizer(WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        made.train_from_iterator(texts, WordLevelTrainer(vocab_size=spec.vocabulary, special_tokens=special))
    else:
        least = _BYTES + len(special)
        if spec.vocabulary < least:
            raise InputError(f"[model] vocabulary {spec.vocabulary}: at least {least} are needed for bpe")
        made = Tokenizer(BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = BpeTrainer(
            vocab_size=spec.vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        made.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=PAD, bos_token=BEGIN, eos_token=END, unk_token=UNKNOWN,
        extra_special_tokens=[thought.start, thought.end], padding_side="left", clean_up_tokenization_spaces=False,
        model_max_length=spec.context_tokens,
    )  # fmt: skip


def make_model(spec: ModelSpec, tokenizer: PreTrainedTokenizerFast, seed: int = 0) -> Any:
    """Make a model with random weights.

    Examples
    --------
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["a rose is a rose"])
    >>> model = make_model(ModelSpec(hidden_size=8, heads=2, kv_heads=1, intermediate_size=16), words)
    >>> model.config.vocab_size
    9
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _made(spec, len(tokenizer), tokenizer)


def _made(spec: ModelSpec, vocabulary: int, tokenizer: PreTrainedTokenizerFast | None = None) -> Any:
    """A model of a shape, on the device that is set."""
    config, model = _ARCHITECTURES[spec.architecture]
    special = {f"{one}_token_id": getattr(tokenizer, f"{one}_token_id", None) for one in ("pad", "bos", "eos")}
    shape = config(
        vocab_size=vocabulary, hidden_size=spec.hidden_size, num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads, num_key_value_heads=spec.kv_heads, head_dim=spec.hidden_size // spec.heads,
        intermediate_size=spec.intermediate_size, max_position_embeddings=spec.context_tokens,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope_base},
        tie_word_embeddings=spec.tie_embeddings, initializer_range=spec.hidden_size**-0.5 / 2, **special,
    )  # fmt: skip
    return model(shape)


def outline(spec: ModelSpec, folder: Path, vocabulary: int) -> Any:
    """Make a recipe's model without weights, to look at its modules and their sizes; no memory is taken.

    Parameters
    ----------
    spec : ModelSpec
        As the recipe has it.
    folder : Path
        The recipe's: ``path`` is relative to it.
    vocabulary : int
        Entries of the tokenizer of a model from scratch; one of a folder has its own [-].

    Returns
    -------
    PreTrainedModel
        On the device ``meta``.

    Examples
    --------
    >>> large = outline(ModelSpec(hidden_size=8192, heads=64, kv_heads=8, layers=80), Path(), 32000)
    >>> round(sum(one.numel() for one in large.parameters()) / 1e9, 1)
    13.6
    """
    with torch.device("meta"):
        if not spec.path:
            return _made(spec, vocabulary)
        path = folder / spec.path
        _check_folder(path)
        try:
            config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            return AutoModelForCausalLM.from_config(config)
        except (OSError, ValueError, KeyError) as error:
            raise _not_loaded(path, error) from None


def load_model(
    path: Path, thought: ThoughtSpec, precision: Literal["float32", "bfloat16"] = "float32"
) -> tuple[Any, Any]:
    """Load a model and its tokenizer from a local folder; nothing is fetched and no code of the folder is run.

    Parameters
    ----------
    path : Path
        As ``save_pretrained`` writes it.
    thought : ThoughtSpec
        The markers; added, with new embeddings, where the tokenizer lacks them.
    precision : str
        Of the weights.

    Returns
    -------
    tuple of PreTrainedModel and PreTrainedTokenizerFast
        Ready to be trained.

    Examples
    --------
    >>> load_model(Path("nowhere"), ThoughtSpec())
    Traceback (most recent call last):
    computeledger.errors.InputError: model: no folder with a config.json is named 'nowhere'
    """
    model, tokenizer = read_model(path, precision)
    markers = [thought.start, thought.end]
    missing = [one for one in markers if one not in tokenizer.get_vocab()]
    if missing:
        tokenizer.add_tokens(missing, special_tokens=True)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # a marker that is added begins as the same vector wherever the model is loaded
            model.resize_token_embeddings(len(tokenizer))
    return model, tokenizer


def read_model(path: Path, precision: Literal["float32", "bfloat16"] = "float32") -> tuple[Any, Any]:
    """Load a model and its tokenizer as they are, markers or none; else as :func:`load_model` does.

    Examples
    --------
    >>> read_model(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: model: no folder with a config.json is named 'nowhere'
    """
    _check_folder(path)
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **safe)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, precision), **safe)
    except (OSError, ValueError, KeyError) as error:
        raise _not_loaded(path, error) from None
    if not tokenizer.is_fast:
        raise InputError(f"model: {shown(str(path))} has no fast tokenizer, which the places of tokens in a text need")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _check_folder(path: Path) -> None:
    if not (path / "config.json").is_file():
        raise InputError(f"model: no folder with a config.json is named {shown(str(path))}")


def _not_loaded(path: Path, error: Exception) -> InputError:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(f"model: {shown(str(path))} cannot be loaded: {first}")


def planned_config(model: Any) -> dict[str, Any]:
    """Shape of a model as the planner reads it; a smear is Qwen3 to it.

    Examples
    --------
    >>> words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["a rose is a rose"])
    >>> spec = ModelSpec(architecture="qwen3-smear", hidden_size=8, heads=2, kv_heads=1, intermediate_size=16)
    >>> planned_config(make_model(spec, words))["model_type"]
    'qwen3'
    """
    config: dict[str, Any] = model.config.to_dict()
    return config | ({"model_type": "qwen3"} if config["model_type"] == _SmearConfig.model_type else {})


def counted_by(model: Any, name: str = "model") -> Counted | None:
    """Choose what a model's work is counted by; its own parameters where the planner does not know the architecture.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> tiny = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2))
    >>> counted_by(tiny).n_params == sum(one.numel() for one in tiny.parameters()) - 16 * 8
    True
    """
    tables = {id(one.weight) for one in model.modules() if isinstance(one, torch.nn.Embedding)}
    output = model.get_output_embeddings()
    head = output.weight if output is not None else None
    used = [one.numel() for one in model.parameters() if id(one) not in tables or one is head]
    count = ParameterCount(sum(used), 0 if head is None else head.numel(), str(model.config.model_type))
    return counted_model(planned_config(model), name, count)


def marker_id(tokenizer: Any, text: str) -> int:
    """Find the token of a marker.

    Examples
    --------
    >>> class Letters:
    ...     unk_token_id = None
    ...     def encode(self, text, **options):
    ...         return [ord(one) for one in text]
    >>> marker_id(Letters(), "<t>")
    Traceback (most recent call last):
    computeledger.errors.InputError: marker '<t>' is not one token of the tokenizer: add it before training
    """
    found = tokenizer.encode(text, add_special_tokens=False)
    if len(found) != 1 or found[0] == tokenizer.unk_token_id:
        raise InputError(f"marker {shown(text)} is not one token of the tokenizer: add it before training")
    return int(found[0])


def question_ids(tokenizer: Any) -> tuple[list[int], int, int]:
    """Write what ``self-evaluation`` asks in a tokenizer's tokens.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, text, **options):
    ...         return [ord(one) for one in text.strip()]
    >>> question_ids(Letters())[1:] == (ord("y"), ord("n"))
    True
    """
    ask, yes, no = (tokenizer.encode(text, add_special_tokens=False) for text in (QUESTION, YES, NO))
    if not ask or not yes or not no or yes[0] == no[0]:
        raise InputError("reward 'self-evaluation': the tokenizer does not tell yes from no")
    return ask, yes[0], no[0]
