"""Trackers of a run: TensorBoard, W&B and MLflow by transformers' callbacks, their files within the run's folder.

Nothing is sent anywhere unless the environment asks for it (``WANDB_MODE=online``, ``MLFLOW_TRACKING_URI``): what it
sets takes precedence over what is said here. A run that is resumed stays one run of each tracker.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    MLflowCallback,
    TensorBoardCallback,
    WandbCallback,
)
from transformers.utils.generic import flatten_dict

from computeledger.errors import InputError, nearest, shown
from rntp.recipe import Recipe
from rntp.recipe_file import document
from rntp.run_folder import TRACKING, read_json, write_json

#: Project of W&B and experiment of MLflow that runs are gathered in.
PROJECT = "rntp"
#: Under the trackers' folder, the ids by which a run goes on.
_IDS = "runs.json"
#: What MLflow's database needs, which its skinny package leaves out.
_DATABASE = ("sqlalchemy", "alembic")


@dataclass(frozen=True, slots=True)
class _Run:
    """What trackers are told of a run: its recipe as a document, and flat."""

    folder: Path
    name: str
    recipe: dict[str, Any]
    settings: dict[str, Any]

    def known_as(self, tracker: str) -> str | None:
        """The run that a tracker knows this one as."""
        found = (read_json(self.folder / _IDS) or {}).get(tracker)
        return found if isinstance(found, str) else None

    def keep(self, tracker: str, name: str) -> None:
        """Remember it."""
        write_json(self.folder / _IDS, {**(read_json(self.folder / _IDS) or {}), tracker: name})


class _TensorBoard(TensorBoardCallback):
    """Takes back what was written of steps that are made again."""

    def __init__(self, run: _Run) -> None:
        super().__init__()
        self._run = run
        self.tb_writer: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **said: Any) -> None:
        if state.is_world_process_zero and self.tb_writer is None:
            is_new = not Path(self.logging_dir).exists()
            self.tb_writer = self._SummaryWriter(log_dir=self.logging_dir, purge_step=state.global_step + 1)
            if is_new:
                self.tb_writer.add_hparams(self._run.settings, {}, run_name=".")
        super().on_train_begin(args, state, control, **said)

    def close(self, *, has_failed: bool) -> None:  # noqa: ARG002 - a file of events does not say how a run ended
        if self.tb_writer is not None:
            self.tb_writer.close()


class _Wandb(WandbCallback):
    """Opens the run that its folder names, with the recipe as its configuration."""

    def __init__(self, run: _Run) -> None:
        super().__init__()
        self._run, self._is_ours = run, False

    def setup(self, args: Any, state: Any, model: Any, **more: Any) -> None:
        if state.is_world_process_zero and self._wandb.run is None:
            said, run = os.environ, self._run
            known = said.get("WANDB_RUN_ID") or run.known_as("wandb") or secrets.token_hex(4)
            run.keep("wandb", known)
            quiet = {"silent": True} if said["WANDB_MODE"] == "offline" and "WANDB_SILENT" not in said else {}
            self._wandb.init(
                project=said.get("WANDB_PROJECT", PROJECT), name=said.get("WANDB_NAME", run.name), id=known,
                resume="allow", config=run.recipe, dir=said["WANDB_DIR"], mode=said["WANDB_MODE"],
                settings=self._wandb.Settings(console="off", **quiet),
            )  # fmt: skip
            self._is_ours = True
        super().setup(args, state, model, **more)

    def close(self, *, has_failed: bool) -> None:
        if self._is_ours:
            self._wandb.finish(exit_code=int(has_failed))


class _MLflow(MLflowCallback):
    """Opens the run that its folder names, with the recipe as its parameters."""

    def __init__(self, run: _Run) -> None:
        super().__init__()
        self._run, self._is_ours = run, False

    def setup(self, args: Any, state: Any, model: Any) -> None:
        flow = self._ml_flow
        if state.is_world_process_zero and flow.active_run() is None and "MLFLOW_RUN_ID" not in os.environ:
            known = self._run.known_as("mlflow")
            if known is None:
                begun = flow.start_run(run_name=self._run.name, experiment_id=self._experiment())
                flow.log_params(self._run.settings)
                self._run.keep("mlflow", begun.info.run_id)
            else:
                flow.start_run(run_id=known)
            self._is_ours = self._auto_end_run = True
        super().setup(args, state, model)
        self._async_log = False  # a run that is killed loses no figures, and what cannot be written is said

    def _experiment(self) -> str | None:
        """The experiment that the environment names, else one for all runs of this tracking address."""
        if {"MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"} & set(os.environ):
            return None
        client = self._ml_flow.MlflowClient()
        found = client.get_experiment_by_name(PROJECT)
        if found is not None:
            return str(found.experiment_id)
        is_here = self._ml_flow.get_tracking_uri().startswith("sqlite:")
        files = (self._run.folder / "mlflow").resolve().as_uri() if is_here else None
        return str(client.create_experiment(PROJECT, artifact_location=files))

    def close(self, *, has_failed: bool) -> None:
        if self._is_ours and self._ml_flow.active_run() is not None:
            self._ml_flow.end_run("FAILED" if has_failed else "FINISHED")


def check_trackers(recipe: Recipe) -> None:
    """Refuse trackers that are unknown, or whose packages are not there.

    Examples
    --------
    >>> from rntp.recipe import ReportSpec
    >>> check_trackers(Recipe(report=ReportSpec(trackers=("tensorbord",))))
    Traceback (most recent call last):
    computeledger.errors.InputError: [report] trackers 'tensorbord': did you mean 'tensorboard'?
    """
    for name in recipe.report.trackers:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InputError(f"[report] trackers {shown(name)}: {nearest(name, INTEGRATION_TO_CALLBACK)}")
        try:
            INTEGRATION_TO_CALLBACK[name]()
        except (RuntimeError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"[report] trackers {shown(name)}: cannot be used here: {reason}") from None
        missing = [one for one in _DATABASE if importlib.util.find_spec(one) is None] if name == "mlflow" else []
        if missing and "MLFLOW_TRACKING_URI" not in os.environ:
            raise InputError(
                f"[report] trackers 'mlflow': its database needs {' and '.join(missing)}: "
                "pip install 'computeledger[trackers]', or set MLFLOW_TRACKING_URI to a server"
            )


@contextmanager
def tracking(recipe: Recipe) -> Iterator[list[TrainerCallback]]:
    """Make the callbacks of a run's trackers, and close what they opened, however the run ends.

    Parameters
    ----------
    recipe : Recipe
        Its ``[report] trackers``, and its output, under which ``tracking/`` is made.

    Yields
    ------
    list of TrainerCallback
        For the trainer, of those trackers that have a folder here; the trainer makes the others itself.

    Examples
    --------
    >>> with tracking(Recipe(output="out")) as none:
    ...     none
    []
    """
    kinds: dict[str, Callable[[_Run], _TensorBoard | _Wandb | _MLflow]]
    kinds = {"tensorboard": _TensorBoard, "wandb": _Wandb, "mlflow": _MLflow}
    wanted = [kinds[name] for name in recipe.report.trackers if name in kinds]
    if not wanted:
        yield []
        return
    run = _run_of(recipe)
    run.folder.mkdir(parents=True, exist_ok=True)
    with _environment(run.folder):
        callbacks = [kind(run) for kind in wanted]
        has_failed = True
        try:
            yield callbacks
            has_failed = False
        finally:
            for one in callbacks:
                one.close(has_failed=has_failed)


def _run_of(recipe: Recipe) -> _Run:
    made = document(recipe)
    flat = {key: one if isinstance(one, int | float) else str(one) for key, one in flatten_dict(made).items()}
    return _Run(Path(recipe.output) / TRACKING, recipe.name, made, flat)


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Where trackers write, as far as the caller's environment does not say it."""
    here = folder.resolve()
    ours = {
        "TENSORBOARD_LOGGING_DIR": str(here / "tensorboard"),
        "WANDB_MODE": "offline", "WANDB_DIR": str(here), "WANDB_CACHE_DIR": str(here / "wandb" / "cache"),
        "WANDB_DATA_DIR": str(here / "wandb" / "data"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{here / 'mlflow.db'}",
        "MLFLOW_MAX_LOG_PARAMS": "0",  # the recipe is logged instead: a trainer's arguments may differ after a resume
    }  # fmt: skip
    added = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ |= added
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
