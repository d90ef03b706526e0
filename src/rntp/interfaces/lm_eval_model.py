"""``--model rntp`` of lm-evaluation-harness: its interface to :mod:`rntp.interfaces.answers.lm_eval`.

Releases of the harness that read entry points find it by this package's; for the others ``rntp lm-eval`` registers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from computeledger.errors import InputError, shown
from rntp.interfaces.answers.lm_eval import AskedModel, Generation, Ids, Settings
from rntp.quiet import hush
from rntp.recipe_file import record

#: What the harness hands over: the texts, and the tokens of context and continuation.
Request = tuple[tuple[str, str], Sequence[int], Sequence[int]]
NAME, MODEL = "rntp", "RntpLM"
#: Keys of a task's ``generation_kwargs`` that are no options of transformers' ``generate``.
_OURS = ("until", "max_gen_toks", "temperature", "do_sample")


def __getattr__(name: str) -> Any:
    """``RntpLM``, where the harness is installed: the module can be read without it."""
    if name != MODEL:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return model_class()


@cache
def model_class() -> type:
    """The model as a class of the harness."""
    from lm_eval.api.model import TemplateLM

    return type(MODEL, (_Rntp, TemplateLM), {"__module__": __name__, "__doc__": _Rntp.__doc__})


def register() -> None:
    """Let the harness find the model by its name."""
    from lm_eval.api.registry import model_registry, register_model

    if NAME not in model_registry:
        register_model(NAME)(model_class())


class _Rntp:
    """A checkpoint of this trainer, with thoughts or without."""

    #: Of the harness: keeps answers where it is asked to.
    cache_hook: Any

    def __init__(
        self,
        pretrained: str = "",
        batch_size: int | str = 1,
        device: str | None = None,
        max_batch_size: int | None = None,  # noqa: ARG002 - of the harness, for a batch size that it searches
        **given: Any,
    ) -> None:
        super().__init__()
        if not str(batch_size).isdecimal() or not int(batch_size):
            raise InputError(f"batch_size {shown(batch_size)}: a whole number from 1 is needed, of thoughts to a pass")
        if not pretrained:
            raise InputError("model_args: pretrained=FOLDER is needed, of a run or a checkpoint")
        hush()
        # the harness's own models take what there is, too: its command says cuda:0 where nobody has said anything
        where = device or "cuda"
        where = "cpu" if where.startswith("cuda") and not torch.cuda.is_available() else where
        self._asked = AskedModel(Path(pretrained), record(Settings, given, "model_args"), int(batch_size), where)
        self._name = str(pretrained)
        self._device = self._asked.model.device
        self.tokenizer = self._asked.tokenizer

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text."""
        return int(self._asked.tokenizer.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        """The token that stands for an empty context."""
        first = self._asked.tokenizer.bos_token_id
        return self.eot_token_id if first is None else int(first)

    @property
    def tokenizer_name(self) -> str:
        """By which the harness keeps what it has tokenized."""
        return self._name.replace("/", "__")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Messages as the tokenizer's template writes them."""
        text: str = self._asked.tokenizer.apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )  # fmt: skip
        return text

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_options: Any) -> list[int]:
        """Tokens of a text, read as in training."""
        return self._asked.encode(string, begins=add_special_tokens is not False)

    def _loglikelihood_tokens(
        self,
        requests: Sequence[Request],
        disable_tqdm: bool = False,
        **_options: Any,
    ) -> list[tuple[float, bool]]:
        asked = [(tuple(context), tuple(continuation)) for _, context, continuation in requests]
        with tqdm(total=len(asked), desc="Scoring after thoughts", disable=disable_tqdm) as bar:
            found = self._asked.likelihoods(asked, bar.update)
        for (texts, _, _), answer in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood", texts, answer)
        return found

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Log-likelihood of whole texts, without thoughts: in a text read as one there is no place to think at."""
        if self._asked.thoughts:
            raise InputError("a task of whole texts (loglikelihood_rolling) has no place to think at: set thoughts=0")
        texts = [one.args[0] for one in requests]
        asked = [(number, *window) for number, text in enumerate(texts) for window in self._windows(text)]
        with tqdm(total=len(asked), desc="Scoring", disable=disable_tqdm) as bar:
            found = self._asked.likelihoods([(context, after) for _, context, after in asked], bar.update)
        sums = [0.0] * len(texts)
        for (number, *_), (value, _) in zip(asked, found, strict=True):
            sums[number] += value
        for text, value in zip(texts, sums, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), value)
        return sums

    def _windows(self, text: str) -> Iterator[tuple[Ids, Ids]]:
        """A text in pieces, each with as much before it as the model's context holds."""
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

        ids = self._asked.encode(text, begins=False)
        for window in get_rolling_token_windows(ids, self.prefix_token_id, self._asked.window - 1, 1):
            context, after = make_disjoint_window(window)
            yield tuple(context), tuple(after)

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Answers, each after a thought; those whose task asks alike share a batch."""
        alike: dict[str, list[int]] = {}
        for number, one in enumerate(requests):
            alike.setdefault(repr(one.args[1]), []).append(number)
        found: dict[int, str] = {}
        with tqdm(total=len(requests), desc="Thinking and answering", disable=disable_tqdm) as bar:
            for numbers in alike.values():
                contexts = [tuple(self._asked.encode(requests[one].args[0])) for one in numbers]
                answers = self._asked.answers(contexts, _generation(requests[numbers[0]].args[1]), bar.update)
                found |= dict(zip(numbers, answers, strict=True))
        for number, one in enumerate(requests):
            self.cache_hook.add_partial("generate_until", one.args, found[number])
        return [found[number] for number in range(len(requests))]


def _generation(given: dict[str, Any]) -> Generation:
    """A task's ``generation_kwargs``, with the harness's own defaults."""
    from lm_eval.models.utils import normalize_gen_kwargs

    said = normalize_gen_kwargs(given)
    stops = [said["until"]] if isinstance(said["until"], str) else said["until"]
    sampled = {"do_sample": True, "temperature": said["temperature"]} if said["do_sample"] else {"do_sample": False}
    more = {name: value for name, value in said.items() if name not in _OURS}
    return Generation(int(said["max_gen_toks"]), tuple(one for one in stops or () if one), {**sampled, **more})
