"""What a page offers to a name that is no open model's: the price sheet of a closed one, and near open models."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from computeledger.economics.quality.evaluations import evaluated_models, evaluated_prices
from computeledger.errors import InputError, close_choices
from computeledger.facts.load import model_ids, model_name
from computeledger.facts.naming import is_size
from computeledger.facts.packed import is_packed
from computeledger.questions.answers.prices import source
from computeledger.questions.wording import short_model

#: Providers that sell models of their own whose size nobody has published.
_MAKERS = ("openai", "anthropic", "google", "x-ai")
#: First words of names whose models are closed, unless their shape is known.
_CLOSED = {"chatgpt", "gpt", "claude", "gemini", "o"}
#: Open models to begin with where a name is near none.
_OPEN = ("deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b", "moonshotai/Kimi-K2-Instruct")
_MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class Offer:
    """What a closed model sells at [USD/Mtok], and when it came out, where that is known."""

    name: str
    usd_per_mtok_input: float
    usd_per_mtok_output: float
    released: str = ""

    @property
    def sheet(self) -> str:
        """Where its size is worked out from its prices, and its release."""
        price = f"{self.usd_per_mtok_input:g}/{self.usd_per_mtok_output:g}"
        return f"/sheet?{urlencode({'price': price, 'speed': '', 'date': self.released})}"

    @property
    def prices(self) -> str:
        """Where its prices alone are read."""
        given = {"input": f"{self.usd_per_mtok_input:g}", "output": f"{self.usd_per_mtok_output:g}"}
        return f"/prices?{urlencode(given)}"


@dataclass(frozen=True, slots=True)
class Advice:
    """One line that says what is wrong with a name, and ways on from it: words and address.

    ``opened`` are open models that may be taken instead.
    """

    said: str
    ways: tuple[tuple[str, str], ...]
    opened: tuple[tuple[str, str], ...] = ()


def advice_on(text: str, page: str) -> Advice | None:
    """Say what is wrong with a model's name, and where to go on from it; nothing is said of a size.

    Examples
    --------
    >>> closed = advice_on("GPT-5", "serve")
    >>> closed.said.partition(". ")[2]
    'Its list price, $1.25 in and $10 out per million tokens, tells:'
    >>> closed.ways[0]
    ('its likely size, from price and release', '/sheet?price=1.25%2F10&speed=&date=2025-08-07')
    >>> advice_on("qwen3 8c", "serve").ways[0]
    ('Qwen3-8B', '/serve?model=Qwen%2FQwen3-8B')
    """
    name = text.strip()
    if not name or is_size(name) or is_packed(name):
        return None
    offer = closed_offer(name)
    if offer is not None:
        said = (
            f"{_closed_words(offer.name)}, so nothing is computed for it. Its list price, "
            f"{_usd(offer.usd_per_mtok_input)} in and {_usd(offer.usd_per_mtok_output)} out per million tokens, tells:"
        )
        clues = "price and release" if offer.released else "price"
        ways = ((f"its likely size, from {clues}", offer.sheet), ("what the price alone says", offer.prices))
        return Advice(said, ways, _open(_OPEN, page))
    if _is_closed(name):
        said = f"{_closed_words(name)}, and no list price of it is known here. Type what you know of it:"
        known = (("its price, speed and release", "/sheet"), ("its price alone", "/prices"))
        return Advice(said, known, _open(_OPEN, page))
    near = near_models(name)
    said = f"No model called {name} is known here" + ("; near it:" if near else ". Type a size, such as 70B, or take:")
    return Advice(said, _open(near or _OPEN, page))


def _closed_words(name: str) -> str:
    """Why nothing can be worked out for a model."""
    return f"The size of {name} is not public" if _is_closed(name) else f"The shape of {name} is not known here"


def _is_closed(name: str) -> bool:
    """Whether a model is of a family whose sizes nobody has published."""
    first = re.match(r"[a-z]*", name.lower().rpartition("/")[2])
    return first is not None and first[0] in _CLOSED


def closed_offer(text: str) -> Offer | None:
    """The price of the closed model that a text names: of those that were evaluated, else of the price source.

    Examples
    --------
    >>> closed_offer("claude opus 4").usd_per_mtok_output, closed_offer("Qwen3-8B")
    (75.0, None)
    """
    key = _key(text)
    return _evaluated().get(key) or (_sold(key) if key else None)


def near_models(text: str) -> tuple[str, ...]:
    """Ids of open models whose names begin with a text or are spelt nearly like it.

    Examples
    --------
    >>> near_models("lama 3.1 8b")[:1]
    ('meta-llama/Meta-Llama-3.1-8B',)
    """
    names = _open_names()
    word = "-".join(re.findall(r"[a-z]+|[\d.]+", text.lower().rpartition("/")[2]))
    plain = text.strip().lower().rpartition("/")[2].replace(" ", "-")
    begun = [one for one in names if one.startswith(plain)] if plain else []
    close = [*begun, *close_choices(plain, names), *close_choices(word, names)]
    return tuple(dict.fromkeys(names[one] for one in close))[:_MOST_NEAR]


def _open(ids: Iterable[str], page: str) -> tuple[tuple[str, str], ...]:
    """Open models as the page asks for them."""
    return tuple((short_model(one), f"/{page}?{urlencode({'model': one})}") for one in ids)


@functools.cache
def _open_names() -> dict[str, str]:
    """Open models by their names without a publisher."""
    return {one.rpartition("/")[2].lower(): one for one in sorted(model_ids(), key=len, reverse=True)}


@functools.cache
def _evaluated() -> dict[tuple[str, ...], Offer]:
    """Closed models that were evaluated and have a price, the latest version of each, by name and by version."""
    prices, out = evaluated_prices("last"), {}
    for one in sorted(evaluated_models().values(), key=lambda one: one.released):
        if one.version not in prices or one.open_model or not one.model or _is_open(one.model):
            continue
        found = prices[one.version]
        offer = Offer(one.model, found.usd_per_mtok_input, found.usd_per_mtok_output, one.released)
        out[_key(one.version)] = out[_key(one.model)] = offer
    return out


def _sold(key: tuple[str, ...]) -> Offer | None:
    """The offer of a maker in the price source, where that is installed."""
    with contextlib.suppress(InputError):
        for maker in _MAKERS:
            for full in source.model_names(maker):
                name = full.partition("/")[2]
                if _key(name) == key and not _is_open(name):
                    rates = source.load_sheet(full).rates
                    if {"input", "output"} <= rates.keys():
                        return Offer(name, float(rates["input"].base), float(rates["output"].base))
    return None


def _is_open(name: str) -> bool:
    """Whether a name is that of a model whose shape is known."""
    with contextlib.suppress(InputError):
        return bool(model_name(name))
    return False


def _key(name: str) -> tuple[str, ...]:
    """A name by its words and numbers, in whatever order and with whatever stands between them."""
    return tuple(sorted(re.findall(r"[a-z]+|\d+", name.lower().rpartition("/")[2])))


def _usd(price: float) -> str:
    """A price as a sheet lists it."""
    return f"${price:g}"
