"""A model given by numbers, such as ``100B-A10B``: its text, and a rule for the shape that the text leaves open.

The rule is fitted on open models (``data/shape_rule.toml`` says which, and how far each quantity misses). It gives
layers, widths, heads and cache; the feed-forward widths are solved so that total and active parameters are those that
were typed.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from computeledger.arrays import Range
from computeledger.errors import ModelConfigError, QuantityError, UnknownIdError, nearest
from computeledger.facts.architecture import Attention, FeedForward, LayerGroup, Model
from computeledger.facts.catalog import shipped_file
from computeledger.facts.formats import format_name, known_format
from computeledger.facts.naming import unknown_model
from computeledger.facts.reading import read_file
from computeledger.units import GIGA, MEGA, MULTIPLIERS, PETA, format_count, format_si, parse_quantity

_SIZES = re.compile(r"\s*([\d.]+)\s*([MBT])(?:[-_ ]?A([\d.]+)([MBT]))?(?=[\s,]|$)[\s,]*", re.IGNORECASE)
_PAIR = re.compile(r"([A-Za-z_-]+)\s*=\s*([^\s,=]+)(?:[\s,]+|$)")
#: Allowed values of what may be typed: smallest and largest.
_BOUNDS = {
    "parameters": (100 * MEGA, PETA), "layers": (1, 2000), "hidden": (64, 1_000_000), "vocab": (256, 10_000_000),
    "context": (1, GIGA), "experts": (2, 65536), "active_experts": (1, 4096), "heads": (1, 16384), "kv": (4, 1e8),
}  # fmt: skip
_KEYS = (*(name for name in _BOUNDS if name != "parameters"), "precision")
#: Bytes of one cached value in bf16, in which ``kv`` is stated [byte].
_KV_VALUE_BYTES = 2
#: Head width that cache and heads are cut to [-].
_HEAD = 128
#: Tokens that a layer without a cache of its own sees, where ``kv`` is too small for all layers (assumption) [token].
_WINDOW_TOKENS = 128
#: Largest share of the active parameters that a vocabulary by rule may take (assumption) [-].
_VOCABULARY_FRACTION = 0.25
#: Experts up to which their number is a multiple of 8 by rule, and beyond which of 32 (assumption) [-].
_FEW_EXPERTS = 64
#: Largest distance from the parameters that were typed [-].
_EXACT = 0.005


@dataclass(frozen=True, slots=True)
class ShapeRule:
    """Laws ``a (active / 10B)^b (total / active)^c`` with the spread of open models around them.

    Attributes
    ----------
    laws : mapping of str to tuple of float
        ``a``, ``b``, ``c`` by quantity: ``hidden``, ``layers``, ``kv`` [byte/token], ``mixers`` (share of the active
        parameters in attention).
    spread : mapping of str to float
        Standard deviation of the logarithm [-].
    vocab_size, n_experts_active : int
        Medians.
    tied_below : float
        Parameters below which input and output embedding are one [-].
    time_spread : mapping of str to float
        Standard deviation of the logarithm of times predicted with the rule's shape over those with the real one, by
        quantity, and ``QUANTITY_kv`` where the cache was given [-].
    """

    laws: Mapping[str, tuple[float, float, float]]
    spread: Mapping[str, float]
    vocab_size: int
    n_experts_active: int
    tied_below: float
    time_spread: Mapping[str, float]

    def of(self, quantity: str, total: float, active: float) -> float:
        """A quantity's law at a size."""
        a, b, c = self.laws[quantity]
        return float(a * (active / 1e10) ** b * (total / active) ** c)

    def spread_of(self, time: str, model: Model) -> float:
        """What a guessed shape adds to the spread of ``tpot``, ``ttft`` or ``step``; 0 where none was guessed."""
        if not model.guessed:
            return 0.0
        return float(self.time_spread[time if "kv" in model.guessed else f"{time}_kv"])


@functools.cache
def shape_rule() -> ShapeRule:
    """Load the rule.

    Examples
    --------
    >>> round(shape_rule().of("layers", 70e9, 70e9))
    79
    """
    table = read_file(shipped_file("shape_rule.toml"), shipped=True).table
    return ShapeRule(
        {name: tuple(law) for name, law in table["laws"].items()}, table["spread"], table["vocab_size"],
        table["n_experts_active"], table["tied_below"], table["time_spread"],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was typed."""

    text: str
    total: float
    active: float
    given: Mapping[str, float]
    precision: str

    def error(self, name: str, told: str) -> ModelConfigError:
        return ModelConfigError(f"model {self.text!r}: {name}: {told}")

    def get(self, name: str, otherwise: float) -> float:
        return self.given.get(name, otherwise)


def is_numbers(text: str) -> bool:
    """Whether a text begins with a size, so that it means numbers and not a name.

    Examples
    --------
    >>> is_numbers("2T-A100B layers=61"), is_numbers("qwen3-8b"), is_numbers("4-layer")
    (True, False, False)
    """
    return _SIZES.match(text) is not None


def model_from_numbers(text: str, rule: ShapeRule | None = None) -> Model:
    """Build a model from ``TOTAL[-AACTIVE] [KEY=VALUE ...]``.

    Examples
    --------
    >>> made = model_from_numbers("100b-a10b, experts=128")
    >>> made.id, made.n_experts, made.is_moe
    ('100B-A10B experts=128', 128, True)
    >>> model_from_numbers("70B layer=80")
    Traceback (most recent call last):
    computeledger.errors.ModelConfigError: model '70B layer=80': layer: unknown; did you mean 'layers'?
    """
    asked = _read(text)
    return _Maker(asked, rule or shape_rule()).model()


def _read(text: str) -> _Asked:
    sizes = _SIZES.match(text)
    if sizes is None:
        raise ModelConfigError(f"model {text!r}: expected a size such as 70B or 100B-A10B")
    total, active = (_size(text, number, unit) for number, unit in (sizes.group(1, 2), sizes.group(3, 4)))
    if active > total:
        raise ModelConfigError(f"model {text!r}: {format_si(active)} active of {format_si(total)}; at most all can be")
    said = sizes[1] + sizes[2].upper() + (f"-A{sizes[3]}{sizes[4].upper()}" if sizes[3] else "")
    written: dict[str, str] = {}
    for name, value in _pairs(text, text[sizes.end() :]):
        if name in written:
            raise ModelConfigError(f"model {text!r}: {name}: given twice")
        written[name] = value
    given = {name: _number(text, name, value) for name, value in written.items() if name != "precision"}
    canonical = " ".join([said, *(f"{name}={value}" for name, value in written.items())])
    precision = _format(text, written.get("precision", "bf16"))
    return _Asked(canonical, total, active or total, given, precision)


def _format(text: str, given: str) -> str:
    try:
        return format_name(given)
    except UnknownIdError as error:
        raise ModelConfigError(f"model {text!r}: precision: {error}") from None


def _size(text: str, number: str | None, unit: str | None) -> float:
    if number is None or unit is None:
        return 0.0
    low, high = _BOUNDS["parameters"]
    try:
        size = float(number) * MULTIPLIERS[unit.upper()]
    except ValueError:
        raise ModelConfigError(f"model {text!r}: {number!r} is not a number") from None
    if not low <= size <= high:
        raise ModelConfigError(f"model {text!r}: {number}{unit} parameters: allowed are 100M to 1000T")
    return size


def _pairs(text: str, rest: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(rest):
        pair = _PAIR.match(rest, at)
        if re.match(r"[(/]?\s*[\d.]+\s*[mbt]", rest, re.IGNORECASE):
            raise unknown_model(text, ())
        if known_format(rest[at:]) is not None:
            raise ModelConfigError(f"model {text!r}: a format is written precision={rest[at:].strip()}")
        if pair is None:
            raise ModelConfigError(
                f"model {text!r}: {rest[at:].strip()!r}: expected KEY=VALUE with one of {', '.join(_KEYS)}"
            )
        name = pair[1].lower().replace("-", "_")
        if name not in _KEYS:
            raise ModelConfigError(f"model {text!r}: {name}: unknown; {nearest(name, _KEYS)}")
        yield name, pair[2]
        at = pair.end()


def _number(text: str, name: str, value: str) -> float:
    is_cache = name == "kv"
    low, high = _BOUNDS[name]
    try:
        found = parse_quantity(value.removesuffix("/token").removesuffix("/tok"), "bytes" if is_cache else "count")
    except QuantityError:
        found = math.nan
    if isinstance(found, Range) or not low <= found <= high or (not is_cache and found % 1):
        wanted = (
            "bytes per token in bf16 such as 2KB/token, of 4 B to 100 MB"
            if is_cache
            else (f"a whole number of {low:,.0f} to {high:,.0f}")
        )
        raise ModelConfigError(f"model {text!r}: {name}: {value!r}; expected {wanted}")
    return found


def _rounded(least: float) -> int:
    """Experts that expert parallelism divides: a multiple of 8, or of 32 beyond 64."""
    step = 8 if least <= _FEW_EXPERTS else 32
    return int(step * math.ceil(least / step))


class _Maker:
    """Fills a shape: first what the rule says, then the widths that make the parameters those that were typed."""

    def __init__(self, asked: _Asked, rule: ShapeRule) -> None:
        self.asked, self.rule = asked, rule
        total, active = asked.total, asked.active
        hidden, layers = (rule.of(name, total, active) for name in ("hidden", "layers"))
        volume = layers * hidden**2  # kept where one of the two is typed
        if "layers" in asked.given:
            hidden = math.sqrt(volume / asked.given["layers"])
        elif "hidden" in asked.given:
            layers = volume / asked.given["hidden"] ** 2
        self.hidden = int(asked.get("hidden", max(_HEAD * round(hidden / _HEAD), _HEAD // 2)))
        self.n_layers = int(asked.get("layers", max(round(layers), 1)))
        most = _VOCABULARY_FRACTION * active / self.hidden
        self.vocab = int(asked.get("vocab", min(rule.vocab_size, max(most, _BOUNDS["vocab"][0]))))
        self.tied = total < rule.tied_below
        tables = self.vocab * self.hidden
        self.is_moe = total - active > tables or bool({"experts", "active_experts"} & set(asked.given))
        if self.is_moe and total - active <= tables:
            raise asked.error("experts", f"the two sizes leave none: {format_si(active)} active of {format_si(total)}")
        most_kv = 2 * _KV_VALUE_BYTES * self.hidden * self.n_layers  # of as many KV heads as query heads
        self.kv = asked.get("kv", min(rule.of("kv", total, active), most_kv))
        self.mixers = self._mixers(1.0)

    def _mixers(self, fraction: float) -> tuple[tuple[int, Attention], ...]:
        """Layers with a cache of their own, and those that slide over it where the cache is too small for all.

        The heads are a fraction of the rule's, unless they are typed.
        """
        values = self.kv / _KV_VALUE_BYTES
        own = min(self.n_layers, max(1, math.ceil(values / (2 * _HEAD))))
        heads_kv = 2 ** max(0, round(math.log2(values / (2 * _HEAD * own))))
        head = max(1, round(values / (2 * own * heads_kv)))
        share = (
            fraction * self.rule.of("mixers", self.asked.total, self.asked.active) * self.asked.active / self.n_layers
        )
        step = max(8, heads_kv)
        wanted = (share / (2 * self.hidden) - heads_kv * head) / head
        heads = int(self.asked.get("heads", max(step * round(wanted / step), step)))
        if heads % heads_kv:
            raise self.asked.error("heads", f"{heads} is no multiple of the {heads_kv} KV heads that the cache gives")
        full = Attention("gqa", heads, heads_kv, head, head)
        near = replace(full, window=_WINDOW_TOKENS, shares_kv=True)
        return tuple((count, mixer) for count, mixer in ((own, full), (self.n_layers - own, near)) if count)

    def _mixer_params(self) -> float:
        """Projections of all layers: those of layers that share a cache have none for keys and values."""
        total = 0.0
        for count, mixer in self.mixers:
            kept = 0 if mixer.shares_kv else mixer.n_kv_heads
            total += count * 2.0 * self.hidden * mixer.qk_head_dim * (mixer.n_query_heads + kept)
        return total

    def _feed_forward(self) -> FeedForward:
        """What the parameters leave to the MLPs; where typed experts need more, attention gets fewer heads."""
        d, n = self.hidden, self.n_layers
        tables = self.vocab * d
        for fraction in (1.0,) if "heads" in self.asked.given else (1.0, 0.75, 0.5, 0.25):
            self.mixers = self._mixers(fraction)
            mixers = self._mixer_params()
            kept = self.asked.total - tables * (1 if self.tied else 2) - mixers - d * (2 * n + 1)
            used = (self.asked.active - tables - mixers) if self.is_moe else kept
            if min(kept, used) < 3 * d * n:
                continue
            part = self._experts(kept / n, used / n) if self.is_moe else FeedForward(width=round(kept / (3 * d * n)))
            if part is not None:
                return part
        if min(kept, used) < 3 * d * n:
            raise self.asked.error(
                "layers, hidden, vocab, heads",
                f"{n} layers of {d} and a vocabulary of {self.vocab} hold {format_si(tables + mixers)} parameters "
                f"without any MLP, of {format_si(self.asked.active)}",
            )
        raise self.asked.error("experts", "no width of them gives both sizes; try more experts or fewer active ones")

    def _experts(self, kept: float, used: float) -> FeedForward | None:
        """Experts of one layer: the fewest that hold all parameters, and a shared one that every token meets."""
        d = self.hidden
        for active in self._tried_active():
            for n in self._tried_counts(active, kept / used):
                width = round((kept - used) / (n - active) / (3 * d))
                common = round(used / (3 * d) - n / 3 - active * width)
                is_exact = width >= 1 and abs(width * 3 * d * (n - active) / (kept - used) - 1) < _EXACT / 2
                if common >= 0 and is_exact:
                    return FeedForward(
                        n_experts=n, n_experts_active=active, expert_width=width,
                        n_shared_experts=1 if common else 0, shared_width=common,
                    )  # fmt: skip
        return None

    def _tried_active(self) -> tuple[int, ...]:
        given = self.asked.given.get("active_experts")
        most = int(self.asked.get("experts", math.inf) - 1) if "experts" in self.asked.given else None
        if given is not None:
            if most is not None and given > most:
                raise self.asked.error(
                    "active_experts", f"{given:.0f} of {most + 1} experts; fewer than all are needed"
                )
            return (int(given),)
        usual = (self.rule.n_experts_active, 4, 2, 1)
        return tuple(one for one in usual if most is None or one <= most)

    def _tried_counts(self, active: int, ratio: float) -> Iterator[int]:
        if "experts" in self.asked.given:
            yield int(self.asked.given["experts"])
            return
        least = max(active * ratio, active + 1)
        n = _rounded(least)
        while n <= min(64 * least + 64, _BOUNDS["experts"][1]):
            yield n
            n = _rounded(n + 1)

    def model(self) -> Model:
        """The model, with what was assumed."""
        asked, part = self.asked, self._feed_forward()
        note = self._note(part)
        return Model(
            id=asked.text,
            hidden_size=self.hidden,
            vocab_size=self.vocab,
            layers=tuple(LayerGroup(count, mixer, part) for count, mixer in self.mixers),
            tied_embeddings=self.tied,
            max_context_tokens=int(asked.get("context", 0)),
            weight_precision=asked.precision,
            dense_precision=asked.precision,
            expert_precision=asked.precision,
            norm_params_per_layer=2 * self.hidden,
            notes=(note,),
            remarks=(note,),
            guessed=tuple(name for name in ("layers", "hidden", "kv") if name not in asked.given),
        )

    def _note(self, part: FeedForward) -> str:
        asked, spread = self.asked, self.rule.spread
        (own, full), rest = self.mixers[0], self.mixers[1:]
        sizes = f"{format_si(asked.total)} total" + (f", {format_si(asked.active)} active" if self.is_moe else "")
        heads = f"{format_count(full.n_kv_heads, 'KV head')} of {full.qk_head_dim}"
        near = "".join(f"; {own} layers keep it, {n} slide over its last {_WINDOW_TOKENS} tokens" for n, _ in rest)
        experts = f"{part.n_experts} experts of {part.expert_width}, {part.n_experts_active} of them active" + (
            f", and a shared one of {part.shared_width}" if part.n_shared_experts else ""
        )
        parts = [
            f"{self.n_layers} layers, hidden {self.hidden}, {full.n_query_heads} heads",
            f"{heads} ({format_si(self.kv, 'B')} per token in bf16){near}",
            experts if self.is_moe else f"MLP of {part.width}",
            f"vocabulary {self.vocab}{', tied' if self.tied else ''}, weights in {asked.precision}",
        ]  # fmt: skip
        misses = {"layers": "layers", "hidden": "hidden", "kv": "cache"}
        told = ", ".join(
            f"{word} x{math.exp(spread[name]):.2g}" for name, word in misses.items() if name not in asked.given
        )
        tail = f"; open models lie around the rule by {told} (one standard deviation)" if told else ""
        return f"shape by rule from {sizes}: {'; '.join(parts)}{tail} (assumption)"
