"""What the planner predicts for a measured row: by the machine's own calibration, and by the shipped data sheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from computeledger.errors import ComputeLedgerError
from computeledger.facts.load import load_system
from computeledger.questions.answers.pretraining.answer import pretrain
from computeledger.questions.answers.serving.answer import serve
from computeledger.workloads.rl.scenario import RLMachines
from rntp.cost import cost, machines_of
from rntp.gpu.learning import BETAS, FLOP, REFERENCE, TIME, run_folder_of
from rntp.gpu.parts import DECODE, MEMORY, MFU, PREFILL, Row
from rntp.gpu.settings import CALIBRATION, CONFIG, Shape

#: Steps of the run whose step is asked for.
_MANY = 1000
#: Decoding of a batch that begins and ends together has no prompts beside it.
_BESIDE = "prefills of other requests"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a prediction is for: ``calibrated`` here, or a shipped accelerator."""

    name: str
    system: str
    profile: str | None = None
    folder: Path | None = None

    def machines(self) -> RLMachines:
        """Find the machines of a step of RL."""
        return machines_of(self.system if self.folder is None else str(self.folder))


def places_of(output: Path, sheet: str | None) -> list[Place]:
    """List where predictions are made for: the calibration where there is one, the data sheet where it is known.

    Parameters
    ----------
    output : Path
        Folder of the report.
    sheet : str or None
        Id of the accelerator.

    Returns
    -------
    list of Place
        Those that there are.

    Examples
    --------
    >>> [one.system for one in places_of(Path("nowhere"), "l4")]
    ['1xl4']
    """
    folder = output / CALIBRATION
    system, profile = folder / "system.toml", folder / "profile.toml"
    is_there = system.is_file() and profile.is_file()
    here = [Place("calibrated", str(system), str(profile), folder)] if is_there else []
    return here + ([Place("data sheet", f"1x{sheet}")] if sheet else [])


@dataclass(frozen=True)
class Predictor:
    """Predicts rows; whole answers are kept, as several rows are read from one."""

    output: Path
    shapes: Mapping[str, Shape]
    place: Place
    _kept: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def predict(self, row: Row) -> float | None:
        """Predict a row; None where the planner has no such figure.

        Parameters
        ----------
        row : Row
            Of a model.

        Returns
        -------
        float or None
            In the row's unit.
        """
        if row.part == "calibrate":
            return self._sheet(row)
        if row.note or row.model not in self.shapes:
            return None
        ask = {"serving": self._serving, "vllm": self._serving, "training": self._training, "rntp": self._learning}
        return ask[row.part](row)

    def _sheet(self, row: Row) -> float | None:
        """Peak of the data sheet, which the calibration is held against."""
        if self.place.profile is not None or row.note:
            return None
        chip, precision = load_system(self.place.system).accelerator, row.setting.get("precision")
        if precision is None:
            return float(chip.hbm_bytes_per_s.value)
        return float(chip.peak(str(precision))) if precision in chip.peak_flop_per_s else None

    def _config(self, row: Row) -> str:
        return str(self.shapes[row.model].folder(self.output) / CONFIG)

    def _serving(self, row: Row) -> float | None:
        """Time of the components of a pass, read of ``serve`` for a batch that begins and ends together."""
        if row.quantity not in (DECODE, PREFILL):
            return None
        engine = "vllm" if row.part == "vllm" else "generic"
        given: dict[str, Any] = {"backend": engine} if self.place.profile is None else {"profile": self.place.profile}
        answer = serve(
            model=self._config(row), system=self.place.system, layout="tp1", precision="bf16",
            batch=row.setting["batch"], input_tokens=row.setting["input_tokens"],
            output_tokens=row.setting.get("output_tokens", 1), samples=16, **given,
        )  # fmt: skip
        components = answer.to_dict()["components"]["decode" if row.quantity == DECODE else "prefill"]
        return float(sum(_median(one["time_s"]) for one in components if one["name"] != _BESIDE))

    def _training(self, row: Row) -> float:
        sequences, tokens = (float(row.setting[name]) for name in ("sequences", "sequence_tokens"))
        key = (row.model, sequences, tokens)
        if key not in self._kept:
            self._kept[key] = pretrain(
                model=self._config(row), system=self.place.system, gpus=1, layout="tp1", recompute="none",
                sequence_tokens=tokens, global_batch_tokens=sequences * tokens, microbatch_sequences=sequences,
                tokens=_MANY * sequences * tokens, samples=16,
            ).to_dict()  # fmt: skip
        found = self._kept[key]
        if row.quantity == MEMORY:
            return float(found["memory_bytes"]["total"])
        return float(_median(found["mfu_fraction" if row.quantity == MFU else "step_s"]))

    def _learning(self, row: Row) -> float | None:
        key = (row.model,)
        if key not in self._kept:
            self._kept[key] = cost(run_folder_of(self.output, self.shapes[row.model]), self.place.machines())
        found = self._kept[key]
        if row.quantity in BETAS:
            pair = found["beta_flop" if row.quantity == "beta_flop" else "beta_gpu_time"]
            return None if pair["predicted"] is None else float(pair["predicted"])
        phase = str(row.setting["phase"])
        if phase == REFERENCE or row.quantity not in (TIME, FLOP):
            return None
        pair = found["phases"][phase]["s_per_step" if row.quantity == TIME else "beta_flop"]
        if pair["predicted"] is None:
            return None
        if row.quantity == TIME:
            return float(pair["predicted"])
        shapes = found["shapes"]
        sampled = shapes["thought_tokens"] * shapes["prompts_per_step"] * shapes["group_size"]
        return float(pair["predicted"] * found["n_params_active"] * sampled)


def _median(value: Any) -> float:
    """A number, or the median of one that is uncertain."""
    return float(value["p50"] if isinstance(value, Mapping) else value)


def predictions(row: Row, predictors: list[Predictor]) -> dict[str, Any]:
    """Hold a row against its predictions.

    Parameters
    ----------
    row : Row
        What was measured.
    predictors : list of Predictor
        One per place.

    Returns
    -------
    dict
        By the place's name what is predicted and ``predicted_over_measured``, or why there is nothing.

    Examples
    --------
    >>> predictions(Row("calibrate", "", "memory", 1e12, "B/s"), [])
    {}
    """
    out: dict[str, Any] = {}
    for one in predictors:
        try:
            value = one.predict(row)
        except ComputeLedgerError as error:
            out[one.place.name] = {"reason": str(error)}
            continue
        if value is not None:
            ratio = value / row.value if row.value else None
            out[one.place.name] = {"predicted": value, "predicted_over_measured": ratio}
    return out
