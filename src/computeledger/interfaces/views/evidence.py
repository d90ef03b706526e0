"""Whether an answer is right: measurements like it, how far off they were predicted, and the nearest of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlencode

from computeledger.facts.load import load_system
from computeledger.frontier.epoch_files import shipped_runs
from computeledger.interfaces.plots.validation import quantity_words
from computeledger.interfaces.view import Cell, Evidence, Table, cited, quantity_cell
from computeledger.interfaces.views.accuracy_links import accuracy_address, workload_address
from computeledger.interfaces.views.display_names import chip_name, engine_name
from computeledger.interfaces.views.nearest import nearest_tables, off_words
from computeledger.interfaces.views.sides import (
    expected_speed,
    expected_words,
    likely_words,
    side_of_engine,
    side_words,
)
from computeledger.questions.answers.accuracy import errors_by_workload
from computeledger.questions.answers.prices.invert import EXTRAPOLATED
from computeledger.questions.wording import (
    accuracy_command,
    listed,
    percent,
    point,
    short_model,
    trusted_to_words,
    words,
)
from computeledger.units import format_count
from computeledger.validation.accuracy.nearest import Wanted, nearest_figures, own_figures
from computeledger.validation.accuracy.table import FEWEST_FIGURES

Document = Mapping[str, Any]
#: Workloads whose figures are times of a run.
_OF_RUNS = ("training", "rl")
#: Generations of chips that measured training runs are grouped by.
_FAMILIES = ("ampere", "hopper", "blackwell")
#: Answers that nothing was measured of: what they rest on instead.
_NONE = {
    "AllocateAnswer": "No measurement of such a split exists. The loss laws were fitted by their authors to small "
    "runs, and nobody has trained both sides of a split.",
    "BillAnswer": "Nothing is predicted here: prices are as their sheets state them.",
    "ChipsAnswer": "Each figure is as its source states it, or is marked as an assumption.",
    "ClaimAnswer": "No measurement of the site exists beside the data that are shown.",
    "CostAnswer": "No measurement exists of what an owner pays: prices, power and life of hardware are published or "
    "assumed, each with its source.",
    "DiffAnswer": "Each figure is as its source states it, or is marked as an assumption.",
    "FactsAnswer": "Each figure is as its source states it, or is marked as an assumption.",
    "FlopSheetAnswer": "No measurement of the run's FLOP exists: the sides below are held against one another.",
    "ForecastAnswer": "No run of that size has been measured. `computeledger frontier backtest` holds such forecasts "
    "against what came.",
    "FreshnessAnswer": "Nothing is predicted here: dates are those of the facts.",
    "GrowthAnswer": "Growth to come cannot be measured. `computeledger frontier backtest` holds such forecasts against "
    "what came.",
    "LabAnswer": "No lab publishes its fleet: what the data name is a lower bound.",
    "LabsAnswer": "No lab publishes its fleet: these are estimates by others, with their intervals.",
    "ModelAnswer": "Each figure is as its source states it, or is marked as an assumption.",
    "PriceHistoryAnswer": "Nothing is predicted here: prices are as their sheets state them.",
    "PriceSheetAnswer": "Nothing is predicted here: prices are as their sheets state them.",
    "QualityAnswer": "Nothing was measured beside the published scores: ability is fitted to these.",
    "QualityPriceAnswer": "Nothing was measured beside the published scores and prices that are shown.",
    "RouteAnswer": "As right as the numbers given: see whether the advice stays at the worst you believe.",
    "ScheduleAnswer": "No measurement exists: the days of each step are those given.",
    "SearchAnswer": "Each figure is as its source states it, or is marked as an assumption.",
    "SitesAnswer": "No measurement of a site exists beside its data: what is counted here is held against what the "
    "data publish, below.",
    "SourceAnswer": "Nothing is predicted here: this is what the source states.",
    "SpreadAnswer": "No measured run over such links exists: the time of an exchange is bytes over rate.",
}
#: Answers that are made of parts which were measured: what is said of the whole, and which parts.
_OF_PARTS = {
    "CompareAnswer": ("No measurement of a whole offer exists: its times are those of serving.", "serving"),
    "PlanAnswer": ("No whole life of a model was measured; its parts were.", "training", "rl", "serving"),
    "PriceFloorAnswer": ("No provider publishes its cost: the times behind it are those of serving.", "serving"),
    "SimulateRLAnswer": ("No measurement of these queues exists: the times of a step are those of RL runs.", "rl"),
    "SimulateServeAnswer": ("No measurement of a fleet under this load exists: its steps are those of serving.",
                            "serving"),
    "SweepAnswer": ("Each row is an answer of `computeledger serve`.", "serving", "local"),
    "SystemsAnswer": ("No measurement of a run on such a site exists: its steps are those of training.", "training"),
}  # fmt: skip
#: Parts of the table of accuracy.
_PARTS = {
    "training": "a training step",
    "rl": "an RL step",
    "serving": "a token served",
    "local": "a token of local engines",
}


def unmeasured(name: str) -> Evidence | None:
    """That a kind of answer was not measured, and what is known of its parts; None of what itself is a check.

    Examples
    --------
    >>> unmeasured("ForecastAnswer").text.startswith("No run of that size has been measured.")
    True
    >>> unmeasured("AccuracyAnswer") is None
    True
    """
    if name in _OF_PARTS:
        text, *workloads = _OF_PARTS[name]
        return parts_evidence(text, *workloads)
    return Evidence(_NONE[name]) if name in _NONE else None


def serving_evidence(document: Document) -> Evidence:
    """Of a deployment: times per token and to the first token of deployments like it."""
    alike = document.get("measured_alike")
    if alike is None:
        return Evidence(f"No measurement like this one exists: {document['interval']['why']}.")
    text = " ".join((_trust(document, alike), _own_words(alike, document)))
    chosen = (("load", alike["load"]),)
    own = Wanted(
        alike["workload"], document["model"], document["accelerator"], "", (), alike["what"].split()[0], chosen
    )
    said = (side_of_engine(document, alike), _alike_words(alike), _own_error_words(alike))
    details = " ".join(filter(None, said))
    near = nearest_tables(alike)
    return Evidence(text, details, accuracy_command(alike), accuracy_address(alike), near, _own_link(own))


#: Times the median error of all runs from which on those like one are harder to predict.
_HARDER = 1.5
#: Either way from which on a figure is not to be relied on: a factor of three.
_LOOSE = 3.0
#: Share of the measured figures below which intervals of 90 % hold too few to be trusted.
_FEW_HELD = 0.6


def _trust(document: Document, alike: Document) -> str:
    """How far an answer can be trusted: by its intervals, and its speed by what was measured of such deployments."""
    speed = _speed_of(alike)
    held = alike["steps"]["coverage_90"]
    if held < _FEW_HELD:
        return (
            f"Trust neither cost nor speed to its interval: such intervals held only {percent(held)} of the speeds "
            "that were measured."
        )
    cost, first = document.get("usd_per_mtok_output"), document.get("ttft_s")
    expected, held = expected_speed(document, alike), f"{_held_words(speed)} speeds measured like it."
    within = f"Speed within \u00b1{percent(speed['median_abs_error'], 2)} in half of the cases"
    said = f"{expected}. The {held}" if expected else f"{within}; the {held}"
    trusted = ""
    if isinstance(cost, Mapping) and cost["p05"] > 0:  # a token that the prefill gives costs nothing more
        trusted = f"Trust the cost to {trusted_to_words(cost)} in nine of ten cases"
    of_first = first_token_words(first) if isinstance(first, Mapping) else ""
    more = f"{trusted}{of_first}" if trusted else _capital(of_first.lstrip(";, "))
    return f"{said} {more}." if more else said


def _speed_of(alike: Document) -> Document:
    """Errors of the time per token, or of it and all rates together where too few of it were measured."""
    found: Document = next(one for name, one in alike["by"].items() if name != "ttft")
    steps: Document = alike["steps"]
    return found if found["n"] >= FEWEST_FIGURES else steps


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def _held_words(one: Document) -> str:
    """How many of the measured figures lie in their range.

    Examples
    --------
    >>> said = [_held_words({"n": 12, "coverage_90": share}) for share in (1.0, 0.9166)]
    >>> [one.replace(chr(160), " ") for one in said]
    ['90 % range held all 12', '90 % range held 92 % of 12']
    """
    share = one["coverage_90"]
    return f"90\u00a0% range held {f'{percent(share, 2)} of' if share < 1 else 'all'} {one['n']:,}"


def first_token_words(first: Any) -> str:
    """How far a time to first token can be trusted, after what is said of other figures; alone in no interval.

    Examples
    --------
    >>> first_token_words({"p05": 0.1, "p50": 0.2, "p95": 3.0})
    '; do not rely on the time to first token'
    """
    if not isinstance(first, Mapping) or math.sqrt(first["p95"] / first["p05"]) > _LOOSE:
        return "; do not rely on the time to first token"
    return f", the time to first token to {trusted_to_words(first)}"


def _own_error_words(alike: Document) -> str:
    """How far off the answer's own model on its own chip was predicted."""
    errors = {one["quantity"]: one["median_abs_error"] for one in alike["own_errors"]}
    halves = [f"{said_as} {percent(errors[name], 2)}" for name, said_as in _QUANTITY.items() if name in errors]
    return f"Of its own model and chip, on any engine, half lie within: {', '.join(halves)}." if halves else ""


#: Quantities as a sentence without abbreviations calls them.
_QUANTITY = {"tpot": "time per token", "ttft": "time to first token"}


def _alike_words(alike: Document) -> str:
    """Whose measurements are like the question, and what their predictions were worth."""
    tuning, *rest = alike["what"].split()
    whose = {"usual": "other people", "recipe": "the public recipes"}.get(tuning, "their authors")
    of = f" with {' on '.join([*map(engine_name, rest[:1]), *map(chip_name, rest[1:])])}" if rest else ""
    of += ", in one burst" if alike["load"] == "burst" else ""
    each = [
        f"{_QUANTITY.get(name) or quantity_words(name)} within {percent(one['median_abs_error'], 2)} in half of "
        f"{format_count(one['n'], 'figure')} (90\u00a0% range held {percent(one['coverage_90'])})"
        for name, one in alike["by"].items()
    ]
    sources = format_count(alike["sources"], "source")
    return (
        f"Measurements like it: those that {whose} took{of}, from {sources}, each left out of the fit that predicts "
        f"it: {'; '.join(each)}."
    )


def _own_link(wanted: Wanted) -> tuple[tuple[str, str], ...]:
    """Where the figures of the answer's own model and chip are listed, if there are any."""
    rows = own_figures(wanted)
    if not rows:
        return ()
    fields = {"workload": wanted.workload, "tuning": wanted.tuning, **dict(wanted.chosen)}
    fields |= {name: ",".join(sorted({row[name] for row in rows})) for name in ("accelerator", "model")}
    said = f"All {format_count(len(rows), 'figure')} of {short_model(wanted.model)}, or its shape"
    address = f"/accuracy?{urlencode({name: value for name, value in fields.items() if value})}"
    return ((f"{said}, on {chip_name(wanted.accelerator)}", address),)


def _runs_words(document: Document, alike: Document, error: float, cost: str) -> str:
    """How far the cost of a run can be trusted, and within what half of the measured steps lie."""
    measured = f"Half of {_measured_words(alike)} took within {percent(error, 2)} of the predicted step."
    value, framework = document.get(cost), document.get("framework") or {}
    expected = expected_words(alike["nearest"], framework.get("id", ""))
    found = f"{expected}; " if expected else side_words(document, alike)
    if isinstance(value, Mapping):
        said = _capital(f"{found}trust time and cost to")
        return f"{said} {trusted_to_words(value)} in nine of ten cases. {measured}"
    return f"{expected}. {measured}" if expected else measured


def _of_others(document: Document, alike: Document) -> str:
    """That the nearest runs are of other frameworks, where the side to which they were off is told."""
    return " The nearest are of other frameworks, which tells less of this one." if side_words(document, alike) else ""


def _measured_words(alike: Document) -> str:
    """How many runs were measured, and whether any is of the same model and chip."""
    of = "like it" if alike["n_same_model_and_chip"] else "of other models or chips"
    return f"{alike['n']:,} measured runs {of}"


def training_evidence(document: Document) -> Evidence:
    """Of a training run: times of a step of runs like it, and whether they are harder to predict than most."""
    alike = document.get("measured_alike")
    if alike is None:
        return Evidence("No measurement of a run like this one exists: the interval is that of all training runs.")
    sources = f"{alike['sources']} sources" if alike["sources"] > 1 else "one source"
    said = _runs_words(document, alike, alike["step"], "effective_usd")
    kind, _, family = alike["what"].partition(" ")
    what = "mixtures of experts" if kind == "moe" else "dense models"
    chips = f" on {family.capitalize()} chips" if family in _FAMILIES else ""
    details = f"Runs of {what}{chips} from {sources}, each left out of the fit that predicts it with its source."
    every = errors_by_workload()["training"].median_abs_error
    if alike["step"] > _HARDER * every:
        said = f"{said.removesuffix('.')}: they are harder to predict than most ({percent(every, 2)})."
    own = _own_words(alike, document)
    details += _of_others(document, alike)
    wanted = Wanted("training", document["model"], document["accelerator"], "", ())
    found = _of_workload((f"{said} {own}", details), alike, "training")
    return replace(found, links=_own_link(wanted))


#: Why a run is told less well than a step.
_OF_A_STEP = (
    "Errors here and on Accuracy are of one step whose lengths are known; the factor of time and cost also holds what "
    "is a range in this run, such as the lengths of rollouts and the rent."
)


def rl_evidence(document: Document) -> Evidence:
    """Of an RL run: times of a step, whose halves take turns or run at once as its own."""
    alike = document["measured_alike"]
    sources = f" from {alike['sources']} sources" if alike["sources"] > 1 else ""
    said = _runs_words(document, alike, alike["median_abs_error"], "usd")
    held = f"the 90\u00a0% interval held {percent(alike['coverage_90'])} of them"
    what = f"{alike['what'][:1].upper()}{alike['what'][1:]}"
    details = f"{what}{sources}, each left out of the fit that predicts it; {held}.{_of_others(document, alike)}"
    return _of_workload((f"{said} {_own_words(alike, document)}", f"{details} {_OF_A_STEP}"), alike, "rl")


def _of_workload(said: tuple[str, str], alike: Document, workload: str) -> Evidence:
    command = f"computeledger accuracy --workload {workload}"
    return Evidence(*said, command, workload_address(workload), nearest_tables(alike, of_times=workload in _OF_RUNS))


def _own_words(alike: Document, document: Document) -> str:
    """Whether the answer's own model on its own chip was measured."""
    n, chip = alike["n_same_model_and_chip"], chip_name(document["accelerator"])
    model = short_model(document["model"])
    if not n:
        return f"No benchmark is of {model} on {chip}."
    return f"{format_count(n, 'benchmark figure')} {'is' if n == 1 else 'are'} of {model}, or its shape, on {chip}."


def memory_evidence(document: Document) -> Evidence:
    """Of memory: what engines reported that weights take, once they had started."""
    alike = document.get("measured_alike")
    if alike is None:
        return Evidence("Nothing fits, so that there is nothing to hold against measurements.")
    error = percent(alike["median_abs_error"], 2)
    said = f"Weights within {error} in half of {alike['n']:,} sizes that engines report."
    details = f"From {alike['sources']} sources, each model left out of the fit that predicts it."
    return _of_workload((said, details), alike, "memory")


#: Rows of what was left out that tell of longer thinking and of votes, by figures and by what was left out.
_LIMITS, _VOTES = ("limits that lower success by 5 % or more", "way or model"), ("votes", "source")


def think_evidence(document: Document) -> Evidence:
    """Of ways to a success: how far off longer thinking and votes were told of published scores."""
    limits, votes = (
        next((row for row in document["left_out"] if (row["figures"], row["left_out"]) == one), None)
        for one in (_LIMITS, _VOTES)
    )
    if limits is None or votes is None:
        return Evidence("Not checked: the effect of longer thinking and of votes is extrapolated.")
    points, of_votes = (f"{100 * one['median_error']:.2g}" for one in (limits, votes))
    return Evidence(
        f"Within {points} points in half of {limits['n']} scores with a limit of thinking, within {of_votes} "
        f"points in half of {votes['n']} votes.",
        "Limits of thinking and votes are extrapolated from scores of single answers; the scores that this is held "
        "against were left out of the fit: the folded table says which. The cost is that of serving, whose accuracy "
        "stands there.",
        "computeledger accuracy",
        workload_address("serving"),
    )


def sheet_evidence(document: Document) -> Evidence:
    """Of a closed model: open models told by the same clues as if they were closed, and by the price alone."""
    tried, clues = document.get("tried"), [one["clue"] for one in document["clues"]]
    price = price_evidence(document)
    by_price = f"By the price alone: {price.text[:1].lower()}{price.text[1:]}" if "measured_alike" in document else ""
    if tried is None:
        return replace(price, text=f"Not tried on open models of known size: {listed(clues)}.")
    rest = [name for name in clues if name not in tried["clues"]]
    ratio, n = tried["median_error_ratio"], tried["n"]
    by = "these clues" if not rest else listed(tried["clues"])
    text = (
        f"Within a factor of {ratio:.2g} in half of {n} open models sized by {by}. {tried['held']} lie in their "
        f"90\u00a0% range, here {trusted_to_words(document['n_params_active'])} either way."
    )
    text += f" Not tried: {listed(rest)}." if rest else ""
    details = (
        "Of each such clues as are known, and no law had seen the model. Total parameters: within a factor of "
        f"{tried['median_error_ratio_total']:.2g} in half of them; {tried['held_total']} lie in their range."
    )
    return replace(price, text=text, details=" ".join(part for part in (details, by_price, price.details) if part))


#: Where the test of sizes by price stands.
_TESTED = "/docs/money.html#what-a-sheet-reveals"
#: Fewer open models than these near a price are said to be few.
_FEW_NEAR = 10


def price_evidence(document: Document) -> Evidence:
    """Of a price: open models of known size, each told from the prices of the others."""
    alike = document.get("measured_alike")
    if alike is None:
        return Evidence("No price is given, and only sizes by price are held against published ones.")
    held = percent(alike["coverage_90"])
    ratio = alike["median_error_ratio"]
    near = alike["n_near"]
    few = f"; only {near} cost about this" if near < _FEW_NEAR else ""
    said = f"Within a factor of {ratio:.2g} in half of {alike['n']} open models{few}."
    beyond = [one for one in document.get("not_identified", ()) if one.startswith(EXTRAPOLATED)]
    if beyond:
        sold = beyond[0].partition(": ")[2].removesuffix(" per million tokens")
        said = f"Not tried at such a price: {sold}, where half of {alike['n']} come out within a factor of {ratio:.2g}."
    details = (
        "Sized by their prices alone, each left out of the fit that predicts it; the 90\u00a0% interval held "
        f"{held} of them. About this price: half to twice of it."
    )
    rows: list[list[str | Cell]] = [
        [
            Cell(one["model"], below=_prices(one)),
            words(one["measured"], "params"),
            quantity_cell(one, "params"),
            off_words(one["error_fraction"]),
            cited(one["source"], ""),
        ]
        for one in alike["nearest"]
    ]
    columns = ("sold at about this price", "published #", "by price #", "off by #", "source")
    table = Table(
        "The nearest prices", columns, rows, note="active parameters; by price: from the prices of all others"
    )
    command = "computeledger validate --prices"
    return Evidence(said, details, command, "", (table,), (("How sizes from prices were tested", _TESTED),))


def _prices(one: Document) -> str:
    come, go = (words(one[f"usd_per_mtok_{kind}"], "USD") for kind in ("input", "output"))
    return f"{come} and {go} per Mtok"


def run_evidence(document: Document) -> Evidence:
    """Of a run that fills a system's time: which of its figures are given, and that only a step's time is checked."""
    error = percent(errors_by_workload()["training"].median_abs_error, 2)
    largest = max(one.training_flop for one in shipped_runs())
    is_beyond = point(document["trains"]["dense"]["flop"]) > largest
    known = "No run this large has been published; chips" if is_beyond else "Chips"
    found = parts_evidence("", "training")
    checked = f"Only the time of a step is checked, to ±{error} in half of the cases; failures are least sure."
    text = f"{checked} {known} and utilisation are your inputs."
    return replace(found, text=text)


def offers_evidence(offer: Document) -> Evidence:
    """Of offers: the times of serving behind them, and how far that to the first token can be trusted."""
    text, *workloads = _OF_PARTS["CompareAnswer"]
    first = _first_of_offer(offer)
    found, expected = parts_evidence(text, *workloads, more=first), _of_offer(offer)
    return replace(found, text=f"{expected}{first}. {text}") if expected else found


def _first_of_offer(offer: Document) -> str:
    """How far a time to first token can be trusted, and that a chance which rests on it counts that.

    Examples
    --------
    >>> offer = {"ttft_s": 0.2, "rests_on_first_token": True, "kept_probability": 0.9}
    >>> _first_of_offer(offer)
    '; the time to first token is less sure, and the chances allow for that'
    """
    first = offer["ttft_s"]
    if not offer["rests_on_first_token"] or offer["kept_probability"] is None:
        return first_token_words(first)
    how = f"known to {trusted_to_words(first)}" if isinstance(first, Mapping) else "less sure"
    return f"; the time to first token is {how}, and the chances allow for that"


def _of_offer(offer: Document) -> str:
    """By how much the recommended offer is likely off to one side, if the nearest measurements all were."""
    speed, backend = offer.get("tpot_s"), offer.get("backend")
    if not speed or not backend or not offer.get("system"):
        return ""
    chip = load_system(offer["system"]).accelerator.id
    wanted = Wanted("serving", offer["model"], chip, backend, ("tpot",), "usual", (("load", "clients"),))
    near = nearest_figures(wanted, {"tpot": point(speed)}).nearest
    likely = likely_words([asdict(one) for one in near], backend)
    return f"{likely} on {chip_name(chip)}" if likely else ""


def parts_evidence(text: str, *workloads: str, more: str = "") -> Evidence:
    """Of an answer made of parts of which each was measured, though nobody measured the whole."""
    found = errors_by_workload()
    rows: list[list[str | Cell]] = [
        [
            _PARTS[name],
            f"{found[name].n:,}",
            percent(found[name].median_abs_error),
            percent(found[name].coverage_90),
        ]
        for name in workloads
    ]
    columns = ("part", "measurements #", "median error #", "90 % interval held #")
    note = "each measurement left out of the fit that predicts it"
    table = Table("How far off its parts are", columns, rows, note=note)
    trusted = listed([f"{_PARTS[name]} to ±{percent(found[name].median_abs_error, 2)}" for name in workloads])
    return Evidence(
        f"Trust the time of {trusted} in half of the cases{more}. {text}".strip(),
        "",
        "computeledger accuracy",
        workload_address(workloads[0]),
        (table,),
    )
