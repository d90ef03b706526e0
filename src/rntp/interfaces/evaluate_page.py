"""An evaluation as one HTML page: the result, its controls, and samples to read."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from computeledger.interfaces.page import assets, version
from computeledger.writing import write_report
from rntp.interfaces.tables import evaluate as words

#: Gain of a token, in nats, from which on its colour is full.
FULL_NATS = 2.0
#: Characters of a context shown before it is folded.
SHOWN_CHARACTERS = 400


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("rntp.interfaces", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("evaluate.html")


def _style() -> Markup:
    own = resources.files("rntp.interfaces").joinpath("templates", "evaluate.css").read_text("utf-8")
    return assets("report.css") + Markup(own)  # noqa: S704 (shipped)


def _sample(sample: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A sample as the page shows it."""
    context = sample["context"]
    return {
        **sample,
        "number": number,
        "near": context[-SHOWN_CHARACTERS:],
        "far": context[:-SHOWN_CHARACTERS],
        "gain": f"{sample['gain']:+.2f}",
        "gold": [
            {
                "text": token["text"],
                "side": "up" if token["gain"] >= 0 else "down",
                "share": round(100 * min(1.0, abs(token["gain"]) / FULL_NATS)),
                "gain": f"{token['gain']:+.2f}",
            }
            for token in sample["gold"]
        ],
    }


def write_page(path: str, document: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> None:
    """Write the page."""
    text = document if "settled" in document else None
    curves = {name: part for name, part in document["environments"].items() if part["problems"]}
    curves |= {"the gold itself": text["pass_at_k"]} if text else {}
    page = _template().render(
        title="No gain" if text and not text["settled"]["reported_gain"] else "What thinking gains",
        checkpoint=document["checkpoint"], document=text, version=version(), style=_style(),
        headline=words.headline(text["settled"]) if text else "",
        losses=words.loss_rows(text["loss"]) if text else [],
        controls=words.control_rows(text["settled"]) if text else [],
        class_head=words.CLASS_HEAD, classes=words.class_rows(text["classes"]) if text else [],
        curves=[
            (f"{name}{words.seen_words(part)}", words.curve_rows(part["curve"]), words.crossover_words(part))
            for name, part in curves.items()
        ],
        samples=[_sample(one, number) for number, one in enumerate(samples, 1)],
    )  # fmt: skip
    write_report(path, page)
