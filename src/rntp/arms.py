"""Arms of a head-to-head: next-token training, verified answers, RL on text and mixtures, at equal device-time.

An arm begins from a pretrained model and spends the same device-time: first the part that is plain next-token training,
then RL, on text, on verified problems made of the same documents, or on both. Both are at a constant rate, so that no
schedule knows the end. The folder of an arm holds ``ntp/``, ``tasks.jsonl``, ``run/`` and, at last, ``summary.json``.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from computeledger.actuals.run_ledger import read_ledger
from computeledger.actuals.run_summary import BESIDE_RL, superseded
from computeledger.files import read_json
from rntp.base_model import PLACES, read_documents
from rntp.corpus import chunks
from rntp.device_time import SPENT, clock_of
from rntp.effects import mean_effect, paired_effect
from rntp.evaluate import places_of
from rntp.experiment import RUN, Plan
from rntp.models import load_model
from rntp.must_think.verified import tasks
from rntp.outcomes import MEASURES, asked_at, outcomes
from rntp.positions import wanted
from rntp.pretraining import batches, next_token_loss
from rntp.recipe import EnvironmentSpec, Recipe
from rntp.recipe_file import fingerprint
from rntp.run import run
from rntp.run_folder import FINAL, LEDGER, SUMMARY, finished, read_metrics, write_json
from rntp.sampling import Sampling

NTP, _TASKS, _TOOK = "ntp", "tasks.jsonl", "took.json"
#: Verified problems of an arm that is not short of them: more than any run draws.
_PLENTY = 8192
#: Stream of the held-out places, the same for every seed and arm.
_HELD_OUT = 31337
#: What arms are compared by.
_SHOWN = ("right", "right_without", "thought_right", "gap_closed", "own_with_nats", "own_without_nats")


@dataclass(frozen=True, slots=True)
class Arm:
    """How an arm spends its device-time.

    Attributes
    ----------
    device_s : float
        Of all training; 0 measures the model before it [s].
    ntp_fraction : float
        Part of it that is plain next-token training, before RL [-].
    ntp_learning_rate : float
        Rate of that part [-].
    rlvr_fraction : float
        Share of RL's prompts whose answer is verified; text is the rest [-].
    problems : int
        Distinct verified problems; 0 for more than are drawn [-].
    """

    device_s: float = field(default=0.0, metadata={"low": 0, "high": 1e10})
    ntp_fraction: float = field(default=0.0, metadata={"low": 0, "high": 1})
    ntp_learning_rate: float = field(default=3e-4, metadata={"low": 0, "high": 1e3})
    rlvr_fraction: float = field(default=0.0, metadata={"low": 0, "high": 1})
    problems: int = field(default=0, metadata={"low": 0, "high": 10**8})


def carry_out_arm(recipe: Recipe, base: Path, arm: Arm, plan: Plan) -> dict[str, Any]:
    """Carry an arm out, or go on with it.

    Examples
    --------
    >>> carry_out_arm(Recipe(output="docs"), Path("nowhere"), Arm(), Plan())
    Traceback (most recent call last):
    computeledger.errors.InputError: model: no folder with a config.json is named 'nowhere'
    """
    folder = Path(recipe.output)
    mark = f"{fingerprint(recipe)}/{arm}/{plan.places}/{plan.samples}/{plan.kinds}"
    mark += f"/{fingerprint(plan.where)}" if plan.where is not None else ""
    before = finished(folder)
    if before is not None and before.get("fingerprint") == mark:
        return before
    if plan.thread_count:
        torch.set_num_threads(plan.thread_count)
    model = base
    took: dict[str, Any] = {}
    if arm.device_s and arm.ntp_fraction:
        model, took[NTP] = _plain(recipe, base, arm)
    if arm.device_s and arm.ntp_fraction < 1:
        model, took["rl"] = _reinforced(recipe, model, arm)
    summary = {"fingerprint": mark, "took": took, "measured": _measured(recipe, base, model, plan)}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / SUMMARY, summary)
    return summary


def _device(recipe: Recipe) -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() and recipe.rl.device != "cpu" else "cpu")


def _plain(recipe: Recipe, base: Path, arm: Arm) -> tuple[Path, dict[str, Any]]:
    """Next-token training on the documents that RL thinks about, until its part of the device-time is spent."""
    folder, seconds = Path(recipe.output) / NTP, arm.device_s * arm.ntp_fraction
    if folder.is_dir():
        return folder, read_json(folder / _TOOK)
    model, tokenizer = load_model(base, recipe.thought)
    model.to(_device(recipe)).train()
    rl, sequences = recipe.rl, recipe.pretrain.batch_sequences if recipe.pretrain else recipe.rl.ntp_sequences
    optimizer = torch.optim.AdamW(model.parameters(), lr=arm.ntp_learning_rate, weight_decay=rl.weight_decay)
    clock = clock_of(model.device.type)
    begun, spent, tokens, losses = clock(), 0.0, 0, []
    for rows in batches(_texts(recipe, tokenizer), sequences, recipe.seed):
        loss = next_token_loss(model, rows)
        loss.backward()  # type: ignore[no-untyped-call]  # torch types it in part
        torch.nn.utils.clip_grad_norm_(model.parameters(), rl.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        tokens, spent = tokens + sum(len(row) - 1 for row in rows), clock() - begun
        if spent >= seconds:
            break
    tenth = max(1, len(losses) // 10)
    said = {SPENT: spent, "steps": len(losses), "tokens": tokens, "loss_first": sum(losses[:tenth]) / tenth,
            "loss_last": sum(losses[-tenth:]) / tenth}  # fmt: skip
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    for one in (model, tokenizer):
        one.save_pretrained(part)
    write_json(part / _TOOK, said)
    part.replace(folder)
    return folder, said


def _texts(recipe: Recipe, tokenizer: Any) -> Iterator[Any]:
    """Documents of the kinds that places are taken from."""
    length = recipe.positions.context_tokens + recipe.positions.gold_tokens
    read = chunks(read_documents(recipe, PLACES), tokenizer, length)
    return (one for one in read if len(one.ids) > 1 and wanted(one.kind, recipe.positions.kinds))


def _reinforced(recipe: Recipe, model: Path, arm: Arm) -> tuple[Path, dict[str, Any]]:
    """RL from a model on, until the rest of the device-time is spent."""
    folder = Path(recipe.output) / RUN
    found = (verified(recipe, arm.rlvr_fraction, arm.problems),) if arm.rlvr_fraction else ()
    rl = replace(recipe.rl, device_s=arm.device_s * (1 - arm.ntp_fraction))
    own = replace(
        recipe, output=str(folder), environments=found, rl=rl,
        model=replace(recipe.model, path=os.path.relpath(model, recipe.folder)),
        corpus=recipe.corpus and replace(recipe.corpus, weight=1 - arm.rlvr_fraction),
    )  # fmt: skip
    taken = run(own)
    entries = read_ledger(folder / LEDGER).entries
    kept = [one for one, again in zip(entries, superseded(entries), strict=True) if not again]
    wall_s = sum(one.device_s for one in kept if one.workload == "rl" and one.phase not in BESIDE_RL)
    rows = read_metrics(folder)
    names = ("steps", "beta_flop", "beta_gpu_time", "phases")
    return folder / FINAL, {
        SPENT: rows[-1][SPENT], "ledger_device_s": wall_s, **{name: taken.get(name) for name in names},
        "curve": _curve(rows),
    }  # fmt: skip


def verified(recipe: Recipe, weight: float, count: int = 0) -> EnvironmentSpec:
    """Make the environment that asks for the ends of the documents that RL would read, and checks them.

    Examples
    --------
    >>> verified(Recipe(output="nowhere"), 0.5)
    Traceback (most recent call last):
    computeledger.errors.InputError: [corpus] is needed: there is no text to read
    >>> Path("nowhere").exists()
    False
    """
    where = os.path.relpath(_problems(recipe, count or _PLENTY), recipe.folder)
    room = recipe.positions.gold_tokens + 1
    return EnvironmentSpec("verified", weight, where, answer_tokens=room, held_out_fraction=0.0)


def _curve(rows: Sequence[dict[str, Any]], parts: int = 10) -> list[dict[str, float]]:
    """Device-time and mean gain and verdict of every tenth of the steps, on what is read once."""
    size = max(1, -(-len(rows) // parts))
    out = []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        found = {SPENT: some[-1][SPENT]}
        for name in ("gain", "reward/verified"):
            values = [row[name] for row in some if name in row]
            found |= {name: sum(values) / len(values)} if values else {}
        out.append(found)
    return out


def _problems(recipe: Recipe, count: int) -> Path:
    """Write documents of the stream that RL reads as questions, the first so many."""
    path = Path(recipe.output) / _TASKS
    if not path.exists():
        read = (one for one in read_documents(recipe, PLACES) if wanted(one.kind, recipe.positions.kinds))
        lines = "".join(f"{json.dumps(one)}\n" for one in itertools.islice(tasks(read), count))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(lines, "utf-8")
        part.replace(path)
    return path


def _measured(recipe: Recipe, base: Path, trained: Path, plan: Plan) -> dict[str, Any]:
    """Measure the trained model at documents that no seed was trained on; the model before is the frozen scorer."""
    device, asked = _device(recipe), plan.where or recipe
    scorer, tokenizer = load_model(base, recipe.thought)
    model = load_model(trained, recipe.thought)[0] if trained != base else scorer
    start, end = tokenizer.convert_tokens_to_ids([recipe.thought.start, recipe.thought.end])
    sampling = Sampling(
        start, end, asked.thought.budget, thoughts=1, temperature=recipe.rl.temperature,
        skip_first_gold=recipe.positions.skip_first_gold, stop_ids=(tokenizer.eos_token_id,), seed=_HELD_OUT,
    )  # fmt: skip
    where = replace(asked.positions, kinds=plan.kinds or asked.positions.kinds, distinct=0)
    scorer, model = (one.to(device).eval() for one in (scorer, model))
    places = places_of(replace(asked, seed=_HELD_OUT, positions=where), scorer, tokenizer, plan.places)
    return outcomes(model, scorer, asked_at(tokenizer, places, sampling), plan.samples)


def compared(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of the arms of a study and their differences, by measure; what each document gave is taken out of the rows.

    Arms are compared within a group, where they were measured with the same seeds.

    Examples
    --------
    >>> compared([{"variant": "a", "measured": {}}])
    {}
    """
    groups: dict[tuple[str, tuple[int, ...]], dict[str, list[dict[str, Any]]]] = {}
    arms: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if "arm" in row:
            arms.setdefault((row["group"], row["variant"]), []).append(row)
    for (group, name), some in arms.items():
        groups.setdefault((group, tuple(row["seed"] for row in some)), {})[name] = some
    found: dict[str, Any] = {"means": [], "effects": []} if arms else {}
    for (group, seeds), members in groups.items():
        measured = {name: _by_measure([row["measured"] for row in some]) for name, some in members.items()}
        for measure, (place, name) in itertools.product(_SHOWN, enumerate(measured)):
            said = {"group": group, "measure": measure, "seeds": list(seeds), "variant": name}
            found["means"].append({**said, **mean_effect(measured[name][measure]).document()})
            for other in list(measured)[: 0 if group else place]:
                effect = paired_effect(measured[name][measure], measured[other][measure])
                found["effects"].append({**said, "against": other, **effect.document()})
    for some in arms.values():
        for row in some:
            row["measured"] = {name: one for name, one in row["measured"].items() if name != "per_document"}
    return found


def _by_measure(measured: Sequence[dict[str, Any]]) -> dict[str, NDArray[np.float64]]:
    """Values of a row per seed and a column per document; gains in shares of the seed's mean gap."""
    out = {name: np.array([one["per_document"][name] for one in measured]) for name in MEASURES}
    out["gap_closed"] = out["gain_nats"] / out["gap_nats"].mean(axis=1, keepdims=True)
    return out
