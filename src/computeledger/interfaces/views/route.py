"""The view of a route: which policy completes a task most cheaply, and how well cascades are predicted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.plots.money import charted_policies, failure_figure, front_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, with_interval
from computeledger.interfaces.working import working_view
from computeledger.questions.answer import Answer
from computeledger.questions.policies import (
    chain,
    has_person,
    next_words,
    order_parts_words,
    order_words,
    other_order,
    policy_in_full,
    policy_in_short,
    route_words,
)
from computeledger.questions.wording import (
    figure_words,
    headline_words,
    interval_words,
    joined,
    listed,
    percent,
    point,
    words,
)

_TILES = (
    ("usd_per_completed_task", "A completed task costs", "USD"),
    ("success_fraction", "Completes", "fraction"),
    ("wrong_fraction", "Delivered wrong", "fraction"),
    ("seconds", "Takes", "s"),
)
#: What the first tile says where a failed task costs something.
_WITH_FAILURES = "A completed task, failures included"
#: Share of tasks from which a sentence names it.
_TOLD = 1e-3
#: Tiles that stand before the cost of a failed task from which on another policy is cheaper.
_BEFORE_SWITCH = 2
_TESTED = "a file of attempts of your own tests such advice: computeledger route --attempts FILE --check"
#: Why policies that end in a person do not complete all.
_PASSED = "Wrong work that passes a check is delivered, so that a policy with a person completes less than all."
_KINDS = {"single": "single model", "retry": "retries", "best_of_k": "best of k", "cascade": "cascade",
          "as_good_as_the_best_single": "as good as the best single model"}  # fmt: skip
_CHECKED = {"success": "success of a cascade", "success_if_independent": "the same, if independent",
            "cost": "cost of a cascade", "retry_success": "success of two attempts"}  # fmt: skip


def view(answer: Answer, working: bool) -> View:
    """Of policies, or of a check against real runs."""
    document = answer.to_dict(working=working)
    return _check(document) if "retry_success" in document else _policies(document, working)


def _policies(document: Mapping[str, Any], working: bool) -> View:
    best = document["best"]
    answer, reason = route_words(document)
    policy, _, said = answer.partition(": ")
    ends = best["interval"]["usd_per_completed_task"]
    return View(
        title=f"{policy_in_full(best['policy'], has_person(document))}, of "
        f"{document['policies_compared']:,} policies compared",
        headline=headline_words(policy, said, ends, "USD"),
        context=" ".join(filter(None, (order_words(document), reason))),
        tiles=_tiles(document),
        facts=tuple(_facts(document)),
        plots=_plots(document),
        tables=(_front(document), _bests(document), *_by_difficulty(document)),
        notes=tuple(_notes(document)),
        grounds=(*(f"assumed: {_assumed(one)}" for one in document["assumptions"]), _TESTED),
        working=tuple(working_view(document)) if working else (),
        sources=tuple(document.get("sources", ())),
        overline="route",
        main="usd_per_completed_task",
    )  # fmt: skip


def _assumed(said: str) -> str:
    """An assumption of a document in words.

    Examples
    --------
    >>> _assumed("failed_cost_ratio of small 1.6"), _assumed("checks never err")
    ('a failed try of small costs 1.6 times a solved one', 'checks never err')
    """
    found = re.fullmatch(r"failed_cost_ratio of (.+) ([\d.]+)", said)
    return f"a failed try of {found[1]} costs {found[2]} times a solved one" if found else said.replace("_", " ")


def _plots(document: Mapping[str, Any]) -> tuple[Plot, ...]:
    given = document["failure_usd"]
    person = ", and a person does what fails them all" if has_person(document) else ""
    is_answer = "; violet: the answer" if document["best"]["policy"] in charted_policies(document) else ""
    is_given = f" The triangle is the {words(given, 'USD')} that it costs here." if given else ""
    return (
        Plot("failure", "Which policy, as failures cost more?", "Bar: what a failed task may cost while that policy "
             f"is the cheapest, whatever share it completes; %: tasks completed{is_answer}.{is_given} Alone: one "
             f"try, unchecked; else up to so many, each checked{person}.",
             failure_figure(document), "usd_per_completed_task"),
        Plot("front", "Cost against success", "No policy beats those on the line; small dots are ways between the "
             f"named ones. Ring: the answer; dotted: the {_floor_words(document)}.",
             front_figure(document), "usd_per_completed_task", is_detail=True),
    )  # fmt: skip


def _floor_words(document: Mapping[str, Any]) -> str:
    """The share that an answer must complete, and why."""
    whose = "asked for" if document["least_success_is"] == "stated" else "of the best single model, which it must reach"
    return f"{words(document['least_success_fraction'], 'fraction', 2)} {whose}"


def _tiles(document: Mapping[str, Any]) -> tuple[Tile, ...]:
    """What the answer costs and completes, and from which cost of a failed task on to take another policy."""
    best = document["best"]
    is_held = bool(document["failure_usd"])
    tiles = [_tile(best, key, _WITH_FAILURES if is_held and unit == "USD" else label, unit)
             for key, label, unit in _TILES if key != "seconds" or best["seconds"]]  # fmt: skip
    return (*tiles[:_BEFORE_SWITCH], *_switch(document), *tiles[_BEFORE_SWITCH:])


def _switch(document: Mapping[str, Any]) -> tuple[Tile, ...]:
    """From which cost of a failed task on a surer policy of other models is the cheapest; none where none is."""
    success = max(document["best"]["success_fraction"], document["least_success_fraction"])
    own = chain(document["best"]["policy"])
    for row in document["by_failure_usd"]:
        is_surer = row["failure_usd"] > document["failure_usd"] and row["success_fraction"] > success
        if is_surer and chain(row["policy"]) != own:
            cost, done = words(row["failure_usd"], "USD", 2), words(row["success_fraction"], "fraction", 2)
            then = f"{_models(row['policy'], has_person(document))}: {done} completed"
            return (Tile("Switch models if a failure costs", f"over {cost}", then),)
    return ()


def _models(policy: str, is_person: bool) -> str:
    """The models of a policy in order, without how often each is asked: what a figure has room for.

    Examples
    --------
    >>> _models("large x3 checked -> small x4 checked", is_person=True), _models("large", is_person=True)
    ('to large, small, then a person', 'to large alone')
    """
    if chain(policy) == policy:
        return f"to {policy_in_short(policy, is_person)}"
    steps = [*chain(policy).replace(" checked", "").split(" -> "), *(["a person"] if is_person else [])]
    return f"to {', '.join(steps[:-1])}, then {steps[-1]}" if steps[1:] else f"to checked tries of {steps[0]}"


_TRIES = re.compile(r" x(\d+) checked")


def _fewer_words(document: Mapping[str, Any]) -> str:
    """Why more tries complete less, where they do among the policies that are named; empty where none do."""
    counts = [sum(map(int, _TRIES.findall(row["policy"]))) for row in document["by_failure_usd"]]
    tried = [count for count in counts if count]
    if not has_person(document) or tried == sorted(tried):
        return ""
    return "they can complete less: each is a chance for a wrong answer to pass"


def _facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the answer's cost is made of, what failing costs, what is cheaper, and why no interval is shown."""
    best, free = document["best"], document["cheapest_without_a_floor"]
    found = [("A completed task costs", _parts(best)), ("A task not completed", _failing(document))]
    if free["policy"] != best["policy"]:
        cost = words(free["usd_per_completed_task"], "USD", 2)
        found.append(("If fewer will do", f"{_name(free, document)} costs {cost}, with {_missing(free)}"))
    told = (("The next", next_words(document)), ("The other order", order_parts_words(document)))
    found += [(label, said) for label, said in told if said]
    if fewer := _fewer_words(document):
        found.append(("More checked tries", fewer))
    if not interval_words(best["interval"]["usd_per_completed_task"], "USD"):
        found.append(("No interval", "every number that this policy uses is exact; give ranges, such as 0.7..0.78"))
    return found


def _missing(free: Mapping[str, Any]) -> str:
    """What a policy does not complete: delivered wrong, and given up."""
    wrong = free["wrong_fraction"]
    parts = ((wrong, "delivered wrong"), (1 - free["success_fraction"] - wrong, "given up"))
    return listed([f"{words(share, 'fraction', 2)} {said}" for share, said in parts if share >= _TOLD])


def _failing(document: Mapping[str, Any]) -> str:
    """What failing costs with the answer, and from which cost on another policy would be cheaper."""
    best, given = document["best"], document["failure_usd"]
    share = percent(1 - best["success_fraction"])
    if given:
        part, whole = (words(best[name], "USD") for name in ("failure_usd_per_task", "usd_per_task"))
        return f"{share} of the tasks at {words(given, 'USD')} each: {part} of the {whole} that a task costs"
    return f"{share} of the tasks; it costs nothing besides its tries unless the cost of a failure is stated"


def _parts(best: Mapping[str, Any]) -> str:
    """What a completed task is made of, with what waiting and failing cost."""
    paid = "the try" if best["single"] else "tries, checks and any person"
    parts = [f"{words(best['attempts_usd_per_task'], 'USD', 2)} for {paid}"]
    if best["waiting_usd_per_task"]:
        waiting = words(best["waiting_usd_per_task"], "USD", 2)
        parts.append(f"{waiting} for {words(best['seconds'], 's', 2)} of waiting")
    if best["failure_usd_per_task"]:
        parts.append(f"{words(best['failure_usd_per_task'], 'USD', 2)} for tasks not completed")
    whole, share = words(best["usd_per_task"], "USD", 2), percent(_ranged(best, "success_fraction"))
    a_task = f"{' + '.join(parts)} = {whole} a task" if len(parts) > 1 else f"{parts[0]} of a task"
    return f"{a_task}; over the {share} completed, {words(best['usd_per_completed_task'], 'USD', 2)} each"


def _tile(row: Mapping[str, Any], key: str, label: str, unit: str) -> Tile:
    return with_interval(Tile(label, "", key=key), row[key], unit, row["interval"][key])


def _front(document: Mapping[str, Any]) -> Table:
    """The answer, the runner-up, then policies that none beats, and single models."""
    best, named, roles = document["best"]["policy"], charted_policies(document), _roles(document)
    kept = [row for row in document["options"] if row["policy"] in {*roles, *named} or row["single"]]
    shown = sorted(kept, key=lambda row: bool(row["policy"] != best))
    rows: list[list[str | Cell]] = [
        [Cell(f"\u2192 {_name(row, document)}" if row["policy"] == best else _name(row, document),
              below=roles.get(row["policy"], "")),
         _cell(row, "usd_per_completed_task", "USD"), _cell(row, "success_fraction", "fraction"),
         words(row["wrong_fraction"], "fraction", 2), words(row["seconds"], "s", 2) if row["seconds"] else "",
         words(row["independent_upper_bound_success_fraction"], "fraction", 2)]
        for row in shown
    ]  # fmt: skip
    columns = ("policy", "a completed task #", "completes #", "delivered wrong #", "takes #",
               "if no failure repeats #")  # fmt: skip
    strong = tuple(place for place, row in enumerate(shown) if row["policy"] == best)
    title = "The policies to choose from"
    person = ", and the person does what fails them all" if has_person(document) else ""
    note = "\u2192: the answer; then the policies of the chart and single models, by cost. Alone: one try, unchecked; "
    note += f"every other try is checked{person}; best of 2: two at once, the check chooses. If no failure "
    note += "repeats: were tries independent, so much would be completed at most."
    failing = document["failure_usd"]
    note += f" Costs include {words(failing, 'USD')} for each task not completed." if failing else ""
    note += f" {_PASSED}" if has_person(document) else ""
    drops = ("if no failure repeats", "takes", "delivered wrong")
    return Table(title, columns, rows, "usd_per_completed_task", note, strong, drops=drops)


def _roles(document: Mapping[str, Any]) -> dict[str, str]:
    """What a policy is among all: the chosen one, the cheapest, the next one, the next of other models, the surest.

    Examples
    --------
    >>> a, b = ({"policy": one, "success_fraction": share} for one, share in (("a", 0.7), ("b", 0.9)))
    >>> _roles({"best": b, "cheapest_without_a_floor": a, "options": [a, b]})
    {'b': 'chosen, surest', 'a': 'cheapest'}
    """
    free, near, other = document["cheapest_without_a_floor"], document.get("runner_up"), document.get("alternative")
    surest = max(document["options"], key=lambda row: float(row["success_fraction"]))
    said = [("chosen", document["best"]), ("cheapest", free), ("runner-up", near), ("cheapest of another kind", other),
            ("the other order", other_order(document)), ("surest", surest)]  # fmt: skip
    policies = dict.fromkeys(row["policy"] for _, row in said if row is not None)
    return {one: ", ".join(word for word, row in said if row is not None and row["policy"] == one) for one in policies}


def _name(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    return policy_in_short(row["policy"], has_person(document))


def _cell(row: Mapping[str, Any], key: str, unit: str) -> Cell:
    """A figure, and its 90 % interval below."""
    return Cell(figure_words(_ranged(row, key), unit), below=interval_words(row["interval"][key], unit))


def _ranged(row: Mapping[str, Any], key: str) -> dict[str, float]:
    """A figure at the middle of all inputs, with the ends of its 90 % interval."""
    ends = row["interval"][key]
    return {"p05": point(ends, "p05"), "p50": row[key], "p95": point(ends, "p95")}


def _bests(document: Mapping[str, Any]) -> Table:
    """The cheapest policy of each kind, and what it would have to cost to draw level with the answer."""
    by_name = {row["policy"]: row for row in document["options"]}
    rows: list[list[str | Cell]] = []
    for kind, policy in document["best_of"].items():
        row = by_name[policy]
        rows.append([_KINDS[kind], _name(row, document), _cell(row, "usd_per_completed_task", "USD"),
                     _cell(row, "success_fraction", "fraction"), f"x{row['break_even_price_ratio']:.2g}"])  # fmt: skip
    columns = ("", "policy", "a completed task #", "completes #", "breaks even at #")
    note = "breaks even at: with its prices times this, a completed task costs what the answer's does"
    return Table("The cheapest of each kind", columns, rows, "usd_per_completed_task", note, is_detail=True)


def _by_difficulty(document: Mapping[str, Any]) -> list[Table]:
    """The best policy of each difficulty, where tasks are told apart."""
    if "by_difficulty" not in document:
        return []
    found = document["by_difficulty"]
    rows: list[list[str | Cell]] = [
        [kind, percent(row["share_of_tasks"]), _name(row, document), _cell(row, "usd_per_completed_task", "USD"),
         _cell(row, "success_fraction", "fraction")]
        for kind, row in found["policies"].items()
    ]  # fmt: skip
    whole = words(found["usd_per_completed_task"], "USD"), percent(found["success_fraction"])
    rows.append(["all", "", "each its own", *whole])
    columns = ("difficulty", "tasks #", "policy", "a completed task #", "completes #")
    return [Table("If the difficulty is known beforehand", columns, rows, "usd_per_completed_task")]


def _notes(document: Mapping[str, Any]) -> list[str]:
    out = [document["remark"]] if document["remark"] else []
    for row in document.get("attempts", ()):
        text = f"{row['model']}: {row['successes']} of {row['attempts']} attempts at {row['tasks']} tasks"
        broke = row.get("tool_failure_fraction")
        out.append(text if broke is None else f"{text}, tools failed in {percent(broke)}")
    if "attempts" not in document:  # it is as given or assumed, not found
        return out
    models = document["model_correlation"]
    ends = joined(*(f"{point(models, end):.2f}" for end in ("p05", "p95")))
    return [*out, f"failures of different models at one task correlate: {point(models):.2f} ({ends})"]


def _check(document: Mapping[str, Any]) -> View:
    """How cascades of real runs were predicted."""
    rows = []
    for key, name in _CHECKED.items():
        row = document[key]
        if not row["n"]:
            continue
        cover = [percent(row[f"coverage_{level}"]) if key != "success_if_independent" else "" for level in (80, 90)]
        rows.append([name, str(row["n"]), percent(row["median_abs_error"]), percent(row["p90_abs_error"]),
                     f"{row['bias']:.3f}", *cover])  # fmt: skip
    columns = ("", "n #", "median error #", "90 % below #", "bias #", "in 80 % #", "in 90 % #")
    error = document["success"]["median_abs_error"]
    return View(
        title=f"{document['n_models']} models on {document['n_tasks']} tasks: half fitted, the other half predicted",
        headline=headline_words(
            f"Cascades of {document['n_models']} models on {document['n_tasks']} tasks",
            f"success predicted with a median error of {percent(error)}",
        ),
        tables=(Table("Predicted against observed, over splits of the tasks", columns, rows),),
        overline="route",
    )
