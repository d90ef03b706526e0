"""Controls of a page from the fields of its question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from computeledger.fields import SWITCH, TEXT, WHOLE, Field, Record, fields_of
from computeledger.interfaces.web.spec import Control
from computeledger.validation.published.real_systems import real_systems

#: The look of a box for a time per token: milliseconds, as people say it.
TIME_PER_TOKEN: Mapping[str, Any] = {"unit": "ms", "low": 5.0, "high": 500.0}
#: Of which requests a limit may be: none stated is the median; where no limit is without a share, the strictest first.
_SHARES = (("", "median"), ("p95", "95\u00a0% of requests"), ("p99", "99\u00a0% of requests"))
_SHARES_ALONE = (*_SHARES[:0:-1], ("p50", "half of requests"))
#: An option in a sentence, and an aside in brackets that has one.
_OPTION, _ASIDE = re.compile(r"--([a-z0-9]+(?:-[a-z0-9]+)*)"), re.compile(r" ?\(([^()]*--[^()]*)\)")
_KINDS = {SWITCH: "switch", TEXT: "text"}


def controls_of(question: type[Record], looks: Mapping[str, Mapping[str, Any]]) -> tuple[Control, ...]:
    """A control for each field that has a label; ``looks`` says what is the page's own, such as a first value.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> [one.name for one in controls_of(ServeQuestion, {"model": {}, "batch": {}})][:2]
    ['model', 'system']
    """
    known = fields_of(question)
    names = [*looks, *(name for name in known if name not in looks)]
    labels = {_hyphened(name): one.label for name, one in known.items() if one.label}
    made = [control_of(known[name], looks.get(name, {}), labels) for name in names if known[name].label]
    groups = list(dict.fromkeys(one.group for one in made))
    return tuple(sorted(made, key=lambda one: groups.index(one.group)))


def control_of(one: Field, look: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> Control:
    """The control of a field; ``look`` comes before what the field says, and ``labels`` are those of all boxes."""
    low, high = one.slider or (1.0, 1.0)
    default = f"{one.default:g}" if isinstance(one.default, float) else str(one.default or "")
    made: dict[str, Any] = {
        "kind": "choice" if one.choices else _KINDS.get(one.dimension, "number" if one.slider else "text"),
        "unit": one.unit or ("s" if one.dimension == "s" else ""),
        "default": "" if one.dimension == SWITCH else default,
        "low": low,
        "high": high,
        "whole": one.is_whole or one.dimension in (WHOLE, "tokens"),
        "choices": ("", *one.choices) if one.choices and one.default is None else one.choices,
        "blank": one.blank or "searched",
        "help": one.help,
        "shares": () if not one.takes_quantile else _SHARES_ALONE if one.is_single else _SHARES,
        "group": one.group,
    }
    name = _hyphened(one.name)
    said = {"name": name, "label": one.label, **made, **look, "option": name}
    return Control(**{**said, **{key: in_boxes(said[key], labels or {}) for key in ("help", "blank")}})


def in_boxes(text: str, labels: Mapping[str, str]) -> str:
    """A hint as a page says it: an option by the label of its box, and no flag of an engine.

    Examples
    --------
    >>> in_boxes("Requests at once (--max-num-seqs); with --turns: each.", {"turns": "Turns"})
    'Requests at once; with “Turns”: each.'
    >>> in_boxes("The matrices, or the images (data; vLLM: --mm-encoder-tp-mode data).", {})
    'The matrices, or the images (data).'
    """
    named = _OPTION.sub(lambda found: f"\u201c{labels[found[1]]}\u201d" if found[1] in labels else found[0], text)
    return _ASIDE.sub(_without_flags, named)


def _without_flags(aside: re.Match[str]) -> str:
    kept = "; ".join(part for part in aside[1].split("; ") if "--" not in part)
    return f" ({kept})" if kept else ""


def real_presets(command: str, renamed: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """Presets of the real systems that a command answers about; some controls have other names than their fields.

    Examples
    --------
    >>> [one["model"] for one in real_presets("rl").values()]
    ['deepseek-ai/DeepSeek-V3']
    """
    names = renamed or {}
    return {
        one.name: {
            names.get(key, key): text for key, text in zip(map(_hyphened, one.asked), one.asked.values(), strict=True)
        }
        for one in real_systems(command)
    }


def _hyphened(name: str) -> str:
    return name.replace("_", "-")


def several(names: Callable[[], Iterable[str]], choice_of: Callable[[str], str], between: str) -> dict[str, Any]:
    """The look of a box that takes several of many names, or other texts, with a sign between them."""
    return {"kind": "text", "choices": tuple(names()), "choice_of": choice_of, "several": between}


def choices(names: Callable[[], Iterable[str]], choice_of: Callable[[str], str], default: str) -> dict[str, Any]:
    """The look of a box that takes one of many names."""
    return {"kind": "choice", "choices": tuple(names()), "choice_of": choice_of, "default": default}
