"""The page *Prices*: what a price sheet reveals of the model behind it, and what it does not."""

from __future__ import annotations

from typing import Any

from computeledger.interfaces.cli_money import invert
from computeledger.interfaces.plot_parts import PHASE_COLORS
from computeledger.interfaces.plots_bars import bars_figure
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Tile, Values, View
from computeledger.questions.answers.invert import answer_invert
from computeledger.questions.wording import interval_words, point, words

_NAMES = {
    "n_params_active": ("Active parameters", "params"),
    "n_params_total": ("Total parameters", "params"),
    "gross_margin_fraction": ("Gross margin", "fraction"),
    "decode_batch": ("Decode batch", ""),
    "utilization_fraction": ("Utilisation", "fraction"),
    "kv_bytes_per_token": ("KV cache per token", "B"),
}
_CONTROLS = (
    Control("input", "Input", unit="USD/Mtok", default="3", low=0.01, high=100, group="Prices"),
    Control("output", "Output", unit="USD/Mtok", default="15", low=0.02, high=500, group="Prices"),
    Control("threshold", "Dearer beyond", unit="tokens", low=8192, high=2e6, whole=True, group="Prices", blank="none",
            help="Prompt length from which a request costs more."),
    Control("premium", "Premium", unit="x", default="1", low=0.5, high=20, group="The seller",
            help="Price over that of the open market, such as 3 or 1.5..6: a closed model may sell dearer."),
    Control("premium-spread", "How unsure that is", unit="log sd", default="0", low=0, high=1, log=False,
            group="The seller", help="Where the premium is no range: standard deviation of its logarithm."),
    Control("fast-price", "Fast mode costs", unit="x", low=1.01, high=20, group="Fast mode", blank="none",
            help="Times the plain price; with its speed."),
    Control("fast-speed", "Fast mode is faster", unit="x", low=1.01, high=10, group="Fast mode", blank="none",
            help="Times the plain speed; with its price."),
    Control("samples", "Samples", "choice", default="20000", choices=("20000", "50000", "200000"), group="Sampling"),
)  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask(["invert"], invert, answer_invert, values, working)


def _view(answer: Answer) -> View:
    document = answer.document
    active = document["n_params_active"]
    headline = (
        f"About {words(point(active), 'params')} active parameters, {interval_words(active, 'params')} with 90 % "
        f"confidence. {sum(not one for one in document['identified'].values())} of {len(document['identified'])} "
        f"quantities are not identified by prices."
    )
    return View(
        headline,
        tiles=tuple(_tile(document, key) for key in _NAMES),
        plots=_plots(document),
        tables=(_margins(document), _rejected(document)),
        notes=(*document["not_identified"], *(f"assumed: {one}" for one in document["assumptions"])),
    )


def _tile(document: Any, key: str) -> Tile:
    label, unit = _NAMES[key]
    known = "" if document["identified"][key] else " (not identified)"
    value = document[key]
    return Tile(label + known, words(point(value), unit), interval_words(value, unit), point(value), key)


def _plots(document: Any) -> tuple[Plot, ...]:
    told = {key: max(value, 0.0) for key, value in document["bits"].items() if document["identified"].get(key)}
    bits = {_NAMES[key][0]: value for key, value in told.items() if key in _NAMES}
    rest = ", ".join(label.lower() for key, (label, _) in _NAMES.items() if key not in told)
    likely = [one for one in document["hypotheses"] if one["rejected"] is None]
    weights = {one["name"].rpartition(", ")[0]: one["weight"] for one in likely}
    speeds = dict.fromkeys(", ".join(one["name"].split(", ")[1:]) for one in likely)
    return (
        Plot("bits", "What the prices told", "Bits by which each interval is narrower than before any price was seen. "
             f"Not identified, so that their intervals rest on what is assumed: {rest}.",
             bars_figure(bits, "bits", PHASE_COLORS["pretraining"]), "bits"),
        Plot("hypotheses", "Hypotheses", "Weight of each chip, precision and speed target that the prices allow: "
             f"{'; '.join(speeds)}.",
             bars_figure(weights, "fraction", PHASE_COLORS["inference"], most=10), "hypotheses"),
    )  # fmt: skip


def _margins(document: Any) -> Table:
    rows = [
        [f"{one['extra_margin_ratio']:g} ×", words(one["n_params_active"], "params")]
        for one in document["size_times_margin"]
    ]
    return Table("Size and margin are one product", ["extra margin", "active parameters #"], rows, "n_params_active")


def _rejected(document: Any) -> Table:
    rows = [[one["name"], one["rejected"]] for one in document["hypotheses"] if one["rejected"]]
    return Table("Hypotheses that cannot be", ["hypothesis", "why"], rows, "hypotheses")


PAGE = Page(
    "prices", "Prices", "What does a price sheet reveal of the model behind it?", _CONTROLS, _answer, _view,
    presets={
        "$3 in, $15 out": {},
        "A small model": {"input": "0.1", "output": "0.4"},
        "The same, sold at 1.5 to 6 times the market": {"premium": "1.5..6"},
        "Dearer beyond 200K tokens": {"threshold": "200K"},
        "A fast mode at six times the price": {"fast-price": "6", "fast-speed": "2.5"},
    },
)  # fmt: skip
