"""The part of a serving view that a promise in percentiles adds: what is attained, and how it breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.view import Cell, Table
from computeledger.questions.wording import chips_words, headline_words, headroom, percent, short_model, words
from computeledger.units import format_count

#: Tiers as readers know them.
PLACES = {"hbm": "HBM", "host": "host memory", "ssd": "flash", "pool": "the shared pool"}
#: Names of the quantities in tables.
_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "whole request"}


def promise_headline(document: Mapping[str, Any], chip: str) -> str:
    """How many GPUs keep the promise, and how surely."""
    kept, chance = document["promise"], document["promise"]["kept_probability"]
    limits = ", ".join(f"{_limit_name(one)} {words(one['limit_s'], 's')}" for one in kept["limits"])
    if kept["goodput"] is not None:
        limits = f"{percent(kept['goodput']['share_fraction'])} of the requests within {limits}"
    surely = "" if chance is None else f", with a chance of about {100 * chance:.0f} %"
    return headline_words(
        f"{short_model(document['model'])} on {chips_words(document['gpus'], chip)}", f"keeps {limits}{surely}"
    )


def promise_context(document: Mapping[str, Any]) -> str:
    """The fleet, what it attains of each promise, and what would be surer."""
    kept = document["promise"]
    parts = [
        f"{_limit_name(one)} {words(one['attained_s'], 's')} of {words(one['limit_s'], 's')}" for one in kept["limits"]
    ]
    if kept["goodput"] is not None:
        attained = percent(kept["goodput"]["attained_fraction"])
        parts.insert(0, f"{attained} of the requests within all limits ({percent(kept['goodput']['share_fraction'])})")
    layout = {"layout": document["layout"]} if "pools" not in document else {}
    fleet = _fleet({**kept["finalists"][0], **layout})
    fleet += f" with at most {kept['max_batch']} sequences" if kept["max_batch"] else ""
    said = f"{fleet[:1].upper()}{fleet[1:]}, simulated: {', '.join(parts)}."
    said += _memory_sentence(document) + _slots_sentence(document)
    room = headroom(kept["headroom_fraction"])
    said = f"{said} {room[0].upper()}{room[1:]}."
    if kept["kept_probability"] is None:
        return said
    surest = kept["at_90_percent"]
    if surest is None:
        return f"{said} {_no_surer(kept)}."
    more = f" For a chance of 90 %: {format_count(surest['gpus'], 'GPU')}, {_fleet(surest)}."
    return f"{said}{more if surest['gpus'] > document['gpus'] else ''}"


def _memory_sentence(document: Mapping[str, Any]) -> str:
    """That a node has less host memory than the answer rests on."""
    one = document.get("host_caches")
    if one is None or one["fits"]:
        return ""
    taken, room = words(one["caches_bytes"], "B"), words(one["of_replica_bytes"], "B")
    return f" Each replica takes {taken} of host memory where a node has {room}."


def _slots_sentence(document: Mapping[str, Any]) -> str:
    """The fewest GPUs that more slots for adapters would leave, where they save any."""
    by_slots = document.get("gpus_by_adapter_slots", {})
    least = min(by_slots.values(), default=document["gpus"])
    if least >= document["gpus"]:
        return ""
    slots = next(one for one, gpus in by_slots.items() if gpus == least)
    return f" With --max-loras {slots}: {format_count(least, 'GPU')}."


def _no_surer(kept: Mapping[str, Any]) -> str:
    """Why more replicas do not make a chance of 90 %."""
    one = kept["out_of_reach_at_90_percent"]
    if one is None or one["attained_s"] is None:
        return "No number of replicas of the layouts below keeps it with a chance of 90 %"
    left = f"{_limit_name(one)} at {words(one['attained_s'], 's')} on {format_count(one['gpus'], 'GPU')}"
    return f"More replicas do not make it 90 %: they shorten queues alone, and slow times leave {left}"


def promise_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the promise costs."""
    kept, rate = document["promise"], document["goodput_requests_per_s"]
    cost = f"{words(document['usd_per_request'], 'USD')} and {document['joules_per_token']:.3g} J per output token"
    surest = kept["at_90_percent"]
    more = f"for a chance of 90 %: {format_count(surest['gpus'], 'GPU')}, {_fleet(surest)}" if surest else ""
    more = more or _no_surer(kept)[0].lower() + _no_surer(kept)[1:]
    more = "" if kept["kept_probability"] is None else f"; {more}"
    one = "one of each" if "pools" in document else "one"
    spare = f"{_fleet(kept['with_spare'])} with {one} to spare{more}"
    return [
        ("Goodput", f"{words(rate, 'requests/s')} within all limits at once"),
        (
            "A request costs",
            f"{cost.replace(' and ', ' per request, ', 1)}; {words(document['facility_w'], 'W')} in all",
        ),
        ("Fleet", f"{_fleet(kept['finalists'][0])}; {spare}"),
        ("One pool or two", document["modes"]["why"]),
        *_talks(document),
    ]


def _talks(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How much of the prompts of conversations is cached, and what that saves; nothing where requests are no turns."""
    talks = document.get("conversations")
    if talks is None:
        return []
    begun = f"{talks['per_s']:.3g} begin a second, {talks['turns']:.3g} turns each (the requests); "
    of_prompts = "prefill worker with its cache (of prompts: what was decoded is prefilled in the next turn)"
    returns = of_prompts if "pools" in document else "replica with its cache"
    mean = f"{words(talks['prompt_tokens'], 'tokens')} a prompt on average; a turn returns to the {returns}"
    mean += ", a new conversation goes to the one with the fewest requests"
    parts = [f"{percent(share)} in {PLACES[name]}" for name, share in talks["hit_fraction"].items()]
    where = f" ({', '.join(parts)})" if len(parts) > 1 else ""
    found = f"{percent(sum(talks['hit_fraction'].values()))}{where}, simulated"
    expected = percent(sum(talks["expected_hit_fraction"].values()))
    bare = talks["gpus_without_cache"]
    less = f"without: {format_count(bare, 'GPU')} of this layout" if bare else "without: no number of GPUs keeps it"
    return [
        ("Conversations", begun + mean),
        ("Prompt tokens found in the prefix cache", f"{found}; by the closed form {expected}; {less}"),
        *host_caches(document),
    ]


def host_caches(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whether caches in host memory fit what the node has for the GPUs of a replica."""
    one = document.get("host_caches")
    if one is None:
        return []
    which = "prefill worker" if len(document.get("pools", document.get("layouts", ()))) > 1 else "replica"
    room, each = words(one["of_replica_bytes"], "B"), format_count(one["n_gpus"], "GPU")
    source = "assumption" if one["host_bytes_per_gpu"]["source"] == "assumption" else "the system's own memory"
    verdict = "" if one["fits"] else "; it does not fit: the answer is of more memory than such a node has"
    said = f"{words(one['caches_bytes'], 'B')} of caches in the {room} that a node has for its {each} ({source})"
    return [(f"Host memory of a {which}", said + verdict)]


def promise_tables(document: Mapping[str, Any]) -> list[Table]:
    """Promises, percentiles, the curve over load and the layouts that were simulated."""
    return [
        _limits(document),
        _attained(document),
        _curve(document["promise"], "conversations" in document),
        _finalists(document["promise"]),
    ]


def _fleet(one: Mapping[str, Any]) -> str:
    """Replicas of one pool, or workers of both."""
    if "prefill_layout" not in one:
        return f"{one['replicas']} x {one['layout']}"
    reading = _workers("prefill", one["prefill_replicas"], one["prefill_layout"])
    return f"{reading}, {_workers('decode', one['replicas'], one['layout'])}"


def _workers(what: str, n: int, layout: str) -> str:
    return f"{format_count(n, f'{what} worker')} of {layout}"


def _briefly(one: Mapping[str, Any]) -> str:
    """A fleet in a column of a table."""
    decode = f"{one['replicas']} x {one['layout']}"
    return f"{one['prefill_replicas']} x {one['prefill_layout']} > {decode}" if "prefill_layout" in one else decode


def _limit_name(one: Mapping[str, Any]) -> str:
    return f"p{100 * one['share_fraction']:g} {_NAMES[one['quantity']]}"


def _limits(document: Mapping[str, Any]) -> Table:
    rows: list[Sequence[str | Cell]] = []
    if (good := document["promise"]["goodput"]) is not None:
        ends = [
            percent(good[f"attained_{key}fraction"]) for key in ("", "p95_", "p05_")
        ]  # beside the times that make it
        rows.append(["goodput: all limits at once", percent(good["share_fraction"]), *ends])
    for one in document["promise"]["limits"]:
        high = one["attained_p95_s"]
        ends = [words(one["attained_p05_s"], "s"), words(high, "s") if high is not None else "queue grows"]
        rows.append([_limit_name(one), words(one["limit_s"], "s"), words(one["attained_s"], "s"), *ends])
    columns = ("promise", "limit #", "attained #", "p05 #", "p95 #")
    note = (
        "p05 and p95: the same fleet simulated at the ends of the interval of this answer's class; slow steps and slow "
        "first tokens go together (assumption)."
    )
    return Table("The promise, and what is attained", columns, rows, note=note)


def _attained(document: Mapping[str, Any]) -> Table:
    shares = ("p50", "p90", "p95", "p99")
    rows = [
        [_NAMES[name], *("–" if found[key] is None else words(found[key], "s") for key in shares)]
        for name, found in document["attained"].items()
    ]
    kept = document["promise"]
    title = f"Percentiles over {kept['simulated_requests']:,} simulated requests, at the medians"
    n, part = document["replicas"] + document.get("prefill_replicas", 0), kept["simulated_replicas"]
    note = f"{part} of the {n} replicas were simulated, with their share of the load." if part < n else ""
    return Table(title, ("time", *(f"{key} #" for key in shares)), rows, note=note)


def _curve(kept: Mapping[str, Any], of_turns: bool) -> Table:
    names = [one["quantity"] for one in kept["limits"]]
    rows = [
        [
            f"{percent(one['load_ratio'])}",
            words(one["requests_per_s"], ""),
            *([] if kept["goodput"] is None else [percent(one["good_fraction"])]),
            *(words(one[name], "s") if one[name] is not None else "queue grows" for name in names),
            "yes" if one["keeps"] else "no, queue grows" if one["is_saturated"] else "no",
        ]
        for one in kept["curve"]
    ]
    good = [] if kept["goodput"] is None else ["within all #"]
    columns = ("load", "requests/s #", *good, *(f"{_limit_name(one)} #" for one in kept["limits"]), "kept")
    note = "each load is one simulation, with its noise; a fleet that less load breaks is enlarged"
    return Table("How the promise breaks as the load grows", columns, rows, note=note if of_turns else "")


def _finalists(kept: Mapping[str, Any]) -> Table:
    has_chance, found = kept["kept_probability"] is not None, kept["finalists"]
    rows = [
        [
            _briefly(one),
            f"{one['max_batch']:,}" if one["max_batch"] else "what fits",
            f"{one['gpus']:,}",
            percent(one["used_fraction"]),
            *([percent(one["kept_probability"]) if one["kept_probability"] is not None else "–"] * has_chance),
        ]
        for one in found
    ]
    chance = ["chance #"] * has_chance
    columns = ("replicas x layout", "largest batch #", "GPUs #", "of the tightest limit #", *chance)
    note = "of layouts that take as many GPUs the one with the greatest chance to keep the promise is chosen"
    notes = [note] if len(rows) > 1 and chance else []
    notes += ["A > B: A prefill workers, B decode workers"] if any("prefill_layout" in one for one in found) else []
    return Table(
        "Layouts that keep it, each with its fewest replicas", columns, rows, strong=(0,), note="; ".join(notes)
    )
