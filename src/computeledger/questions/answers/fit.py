"""Answer what the measured tables say of a calibration: its constants, how well they are known, errors, its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from computeledger.errors import InputError
from computeledger.fields import Given
from computeledger.files import check_user_file
from computeledger.physics.calibration.anchors import AnchorSpread
from computeledger.physics.calibration.efficiency import load_factors, median_of
from computeledger.physics.calibration.rl import FITTED
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.executors import open_executor
from computeledger.questions.fit import FitQuestion
from computeledger.validation.compare import Array
from computeledger.validation.rl import fit as fit_rl
from computeledger.validation.rl.fit import RLFit
from computeledger.validation.serving import anchor_spread, local_fit
from computeledger.validation.serving import fit as fit_serving
from computeledger.validation.serving.anchor_spread import AnchorFit
from computeledger.validation.serving.fit import ServingFit
from computeledger.validation.serving.local_fit import LocalFit
from computeledger.validation.serving.neighbours import NeighbourFit, fit_neighbours, neighbours_text
from computeledger.validation.training.calibration_file import calibration_toml
from computeledger.validation.training.fit import TrainingFit, fit_training
from computeledger.writing import write_file

Fits: TypeAlias = "ServingFit | TrainingFit | RLFit | NeighbourFit | LocalFit | AnchorFit"
_OF_SERVING = {
    "everything": "nothing fitted: the assumed constants",
    "nothing": "fitted, on the same points",
    "fifth": "a fifth of the points left out",
    "pair": "one architecture on one system left out",
    "model": "one architecture left out",
    "chip": "one generation of chips left out",
}
_OF_LOCAL = {
    "everything": "nothing fitted: the generic constants",
    "nothing": "fitted, on the same figures",
    "source": "a source left out",
    "chip": "a chip left out",
    "kind": "a kind of chip left out",
}
_OF_RL = {
    "no constants": "nothing that RL adds",
    "priors": "nothing fitted: the assumed constants",
    "nothing": "fitted, on the same runs",
    "run": "a configuration left out",
    "model": "a model left out",
    "chip": "a system left out",
}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FitAnswer(Answer):
    """A finished fit, and the calibration file that it gives; empty where nothing was left out in turn."""

    question: FitQuestion
    fit: Fits
    calibration: str

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger fit --json`` prints it."""
        del working
        return {"fit": self.question.what, **_DOCUMENTS[type(self.fit)](self.fit)}


def fit(question: FitQuestion | None = None, /, **given: Given) -> FitAnswer:
    """Derive a shipped calibration again from measured tables: constants, how well they are known, intervals.

    Parameters
    ----------
    question : FitQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str or bool
        Fields of :class:`~computeledger.questions.fit.FitQuestion`.

    Returns
    -------
    FitAnswer
        Its ``calibration`` is the text of the file that the package ships.

    Raises
    ------
    InputError
        For an unknown calibration or a folder without the tables.

    Examples
    --------
    >>> fit(what="serving", data="nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: data nowhere: no such folder
    """
    return from_python(FitQuestion, answer_fit, question, given)


def answer_fit(question: FitQuestion) -> FitAnswer:
    """Answer ``computeledger fit``, and write the calibration where that is asked for."""
    folder = Path(question.data)
    check_user_file(question.data, "start the server as `computeledger mcp --files`")
    if not folder.is_dir():
        raise InputError(f"--data {question.data}: no such folder")
    with open_executor(question.workers, question.cluster) as executor:
        answer = FitAnswer(question, *_FITS[question.what](folder, question.quick, executor))
    if question.write is not None:
        write_file(question.write, answer.calibration)
    return answer


def _fit_serving(folder: Path, quick: bool, executor: Executor | None) -> tuple[ServingFit, str]:
    table, leave = folder / "measured" / "serving_points.csv", () if quick else fit_serving.LEFT_OUT
    made = fit_serving.fit_serving(table, leave, executor)
    return made, "" if quick else fit_serving.calibration_text(made)


def _fit_training(folder: Path, _quick: bool, executor: Executor | None) -> tuple[TrainingFit, str]:
    made = fit_training(folder, executor)
    return made, calibration_toml(made, date.today().isoformat())


def _fit_rl(folder: Path, _quick: bool, executor: Executor | None) -> tuple[RLFit, str]:
    made = fit_rl.fit_rl(folder, executor)
    return made, fit_rl.calibration_text(made)


def _fit_local(folder: Path, quick: bool, executor: Executor | None) -> tuple[LocalFit, str]:
    made = local_fit.fit_local(folder, () if quick else tuple(local_fit.LEFT_OUT), executor)
    return made, "" if quick else local_fit.calibration_text(made)


def _fit_anchors(folder: Path, quick: bool, executor: Executor | None) -> tuple[AnchorFit, str]:
    made = anchor_spread.fit_anchors(folder, quick, executor)
    return made, "" if quick else anchor_spread.calibration_text(made)


def _fit_neighbours(folder: Path, quick: bool, executor: Executor | None) -> tuple[NeighbourFit, str]:
    made = fit_neighbours(folder / "measured" / "serving_points.csv", quick, executor)
    return made, "" if quick else neighbours_text(made)


_FITS: Mapping[str, Callable[[Path, bool, Executor | None], tuple[Fits, str]]] = {
    "serving": _fit_serving,
    "training": _fit_training,
    "rl": _fit_rl,
    "neighbours": _fit_neighbours,
    "local": _fit_local,
    "anchors": _fit_anchors,
}


def _serving(made: ServingFit) -> dict[str, Any]:
    constants = []
    for place, one in enumerate(made.names):
        assumed = load_factors("assumed")[one.constant]
        prior, before = median_of(assumed.value), fit_serving.prior_sd(one.constant)
        after = float(made.fitted.sd[place])
        constants.append(
            {
                "constant": one.constant,
                "engine": one.engine,
                "prior": prior,
                "value": prior * float(np.exp(made.fitted.change[place])),
                "prior_sd": before,
                "sd": after,
                "identified_fraction": max(0.0, 1 - (after / before) ** 2),
                "what": assumed.why,
            }
        )
    kinds = np.array([one.kind for one in made.points])
    errors = [
        _of_two(label, kind, made.residuals[name][:, kinds == kind])
        for name, label in _OF_SERVING.items()
        for kind in ("aggregated", "disaggregated")
        if name in made.residuals and np.any(kinds == kind)
    ]
    if (beside := made.residuals["incomplete"]).size:
        errors.append(_of_two(_OF_SERVING["nothing"], "incomplete record, not fitted", beside))
    return {
        "n": len(made.points),
        "n_constants": len(made.names) + len(made.others.makers),
        "constants": constants,
        "errors": errors,
        "sources": _sources(made),
    }


def _sources(made: ServingFit) -> list[dict[str, Any]]:
    """Other people's sources: their effect on the time of a step, and errors with each left out."""
    others, n = made.others, len(made.names) + len(made.others.makers)
    first = others.first_tokens
    return [
        {
            "source": name,
            "n": int(np.sum(others.places == place)),
            "effect": float(np.exp(made.fitted.change[n + place])),
            "sd": float(made.fitted.sd[n + place]),
            **{
                quantity: _summary(rows) if len(rows) else None
                for quantity, of_it in (("step", ~first), ("ttft", first))
                for rows in [made.elsewhere[(others.places == place) & of_it]]
            },
        }
        for place, name in enumerate(others.sources)
    ]


def _of_two(label: str, kind: str, rows: Array) -> dict[str, Any]:
    tpot, ttft = (_summary(row) for row in rows)
    return {"left_out": label, "kind": kind, "n": rows.shape[1], "tpot": tpot, "ttft": ttft}


def _training(made: TrainingFit) -> dict[str, Any]:
    return {
        "n_constants": len(made.constants),
        "constants": [asdict(one) for one in made.constants],
        "interval_factors": dict(made.ratios),
        "errors": {
            name: {value: asdict(summary) for value, summary in slices.items()} for name, slices in made.tables.items()
        },
    }


def _rl(made: RLFit) -> dict[str, Any]:
    constants = []
    for place, name in enumerate(FITTED):
        prior, width = fit_rl.prior_of(name)
        value, sd = prior * float(np.exp(made.fitted.change[place])), float(made.fitted.sd[place])
        constants.append({"constant": name, "prior": prior, "value": value, "prior_sd": width, "sd": sd})
    modes = np.array([run.row["mode"] for run in made.runs])
    errors = [
        {"left_out": label, "runs": name, "n": int(np.sum(modes == name)), "step_time": _summary(row[modes == name])}
        for key, label in _OF_RL.items()
        if (row := made.residuals.get(key)) is not None
        for name in sorted(set(modes.tolist()), reverse=True)
    ]
    return {"n": len(made.runs), "n_constants": len(FITTED), "constants": constants, "errors": errors}


def _local(made: LocalFit) -> dict[str, Any]:
    constants = [
        {
            "constant": one.name,
            "engine": one.engine,
            "prior": one.prior,
            "value": one.value,
            "prior_sd": one.prior_sd,
            "sd": one.sd,
            "identified_fraction": one.identified_fraction,
            "what": load_factors("assumed")[one.name].why,
        }
        for one in local_fit.constants_of_fit(made)
    ]
    times = np.array([one.time for one in made.figures])
    engines = np.array([one.case.engine for one in made.figures])
    errors = [
        {"left_out": label, "kind": engine, "n": int(np.sum(engines == engine))}
        | {name: _summary(made.residuals[key][(times == name) & (engines == engine)]) for name in ("tpot", "ttft")}
        for key, label in _OF_LOCAL.items()
        for engine in sorted(set(engines))
        if key in made.residuals
    ]
    return {"n": len(made.figures), "n_constants": len(constants), "constants": constants, "errors": errors}


def _neighbours(made: NeighbourFit) -> dict[str, Any]:
    laws = [{"n": law.n, "errors": asdict(law.errors)} for law in (made.law, *made.left_out)]
    covered = [{f"coverage_{100 * level:.0f}": share for level, share in law.coverage.items()}
               for law in (made.law, *made.left_out)]  # fmt: skip
    left_out = [{"architectures": list(one.architectures), **law, **share}
                for one, law, share in zip(made.left_out, laws[1:], covered[1:], strict=True)]  # fmt: skip
    return {**laws[0], "coverage": covered[0], "left_out": left_out}


def _anchors(made: AnchorFit) -> dict[str, Any]:
    spreads = {name: asdict(one) | {"tails": list(one.tails)} for name, one in made.spreads.items()}
    left_out = {name: asdict(one) for name, one in made.left_out.items()}
    counts = {"n": made.n, "n_deployments": made.n_runs, "n_sources": made.n_sources}
    n_constants = len(made.spreads) * len(fields(AnchorSpread))
    document = {**counts, "n_constants": n_constants, "spreads": spreads, "source_left_out": left_out}
    if (trained := made.training) is not None:
        document["training"] = {
            "n": trained.n, "n_sources": trained.n_sources, "n_sources_and_chips": trained.n_runs,
            "spread": asdict(trained.spread) | {"tails": list(trained.spread.tails)},
            "source_left_out": [asdict(one) for one in trained.left_out],
        }  # fmt: skip
    return document


_DOCUMENTS: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {
    ServingFit: _serving,
    TrainingFit: _training,
    RLFit: _rl,
    NeighbourFit: _neighbours,
    LocalFit: _local,
    AnchorFit: _anchors,
}


def _summary(residuals: Array) -> dict[str, float]:
    """Median, mean and 90th percentile of relative errors, and the median of predicted over measured."""
    error = np.expm1(residuals)
    size = np.abs(error)
    return {
        "median_abs_error": float(np.median(size)),
        "mean_abs_error": float(np.mean(size)),
        "p90_abs_error": float(np.quantile(size, 0.9)),
        "bias": float(np.median(1 + error)),
    }
