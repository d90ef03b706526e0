"""TensorBoard, W&B and MLflow themselves read what a run has written, before and after it was ended."""

from __future__ import annotations

import importlib
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from computeledger.errors import InputError
from rntp.preflight import check_recipe
from rntp.recipe_file import read_recipe
from rntp.run import LEARNING, run
from rntp.run_folder import prepare, read_metrics
from tests.rntp.test_before_training import FAST, TEXT

#: MLflow's database layer and W&B's client use what SQLAlchemy and protobuf are about to drop.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ALL = "report.trackers=['tensorboard', 'wandb', 'mlflow']"


def stop_at_two(stage: str, step: int, _steps: int, _figures: Mapping[str, float]) -> None:
    """End the run in its second step of RL."""
    if (stage, step) == (LEARNING, 2):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Any]]:
    """The folder of a run that was ended in step 2 and gone on with, an empty home, and whom the run has called."""
    import wandb

    torch.set_num_threads(1)
    folder, home = tmp_path_factory.mktemp("tracked") / "run", tmp_path_factory.mktemp("home")
    recipe = read_recipe(TEXT, [f"output={folder}", *FAST, "report.places=0", ALL])
    called: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("WANDB", "MLFLOW", "TENSORBOARD"))]:
            patch.delenv(name)
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(home))
        patch.chdir(home)
        connect = socket.socket.connect

        def noted(self: socket.socket, address: Any) -> None:
            called.extend([address] * (self.family != socket.AF_UNIX))
            connect(self, address)

        patch.setattr(socket.socket, "connect", noted)
        before = dict(os.environ)
        with pytest.raises(KeyboardInterrupt):
            run(recipe, report=stop_at_two)
        assert wandb.run is None
        run(recipe)
        assert {name for name in os.environ if os.environ[name] != before.get(name)} == {"WANDB_SERVICE"}  # W&B's own
    wandb.teardown()
    return folder, home, called


def test_nothing_is_written_or_sent_elsewhere(tracked: tuple[Path, Path, list[Any]]) -> None:
    folder, home, called = tracked
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert [address for address in called if address[0] not in ("127.0.0.1", "localhost", "::1")] == []
    assert {path.name for path in (folder / "tracking").iterdir()} >= {"tensorboard", "wandb", "mlflow.db", "runs.json"}


def test_tensorboard_has_every_step_once_and_the_recipe(tracked: tuple[Path, Path, list[Any]]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    folder, _, _ = tracked
    read = EventAccumulator(str(folder / "tracking" / "tensorboard"))
    read.Reload()
    rows = read_metrics(folder)
    for name in ("reward_spread", "gain", "loss", "thought/tokens"):
        found = [(event.step, event.value) for event in read.Scalars(f"train/{name}")]
        assert found == [(step, pytest.approx(row[name], rel=1e-6)) for step, row in zip((1, 2, 3), rows, strict=True)]
    begun = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert HParamsPluginData.FromString(begun).session_start_info.hparams["rl.steps"].number_value == 3


def records(path: Path) -> Iterator[Any]:
    """What W&B keeps of a run until it is synchronised: records of protobuf in a log of LevelDB's form."""
    read = importlib.import_module("wandb.proto.wandb_internal_pb2").Record.FromString
    held, place, part = path.read_bytes(), 7, b""
    while place + 7 <= len(held):
        if 32768 - place % 32768 < 7:  # no header is cut by the end of a block
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack("<HB", held[place + 4 : place + 7])
        part, place = part + held[place + 7 : place + 7 + length], place + 7 + length
        if kind in (1, 4):
            yield read(part)
            part = b""


def test_wandb_goes_on_in_the_same_run_with_the_recipe_as_its_configuration(
    tracked: tuple[Path, Path, list[Any]],
) -> None:
    folder, _, _ = tracked
    parts = sorted((folder / "tracking" / "wandb").glob("offline-run-*/*.wandb"))
    assert len(parts) == 2 and parts[0].name == parts[1].name
    steps, settings, names = [], set(), set()
    for record in (record for path in parts for record in records(path)):
        if record.HasField("run"):
            names.add((record.run.display_name, record.run.project))
            settings |= {(item.key, item.value_json) for item in record.run.config.update}
        if record.HasField("history"):
            said = {
                item.nested_key[0] if item.nested_key else item.key: item.value_json for item in record.history.item
            }
            steps += [int(said["train/global_step"])] * ("train/gain" in said)
    assert steps == [1, 2, 2, 3]  # the second was ended after its figures, and made again
    assert names == {("tiny_text", "rntp")}
    assert any(key == "rl" and '"steps":3' in value.replace(" ", "") for key, value in settings)


def test_mlflow_has_one_run_with_the_recipe_as_its_parameters(tracked: tuple[Path, Path, list[Any]]) -> None:
    from mlflow import MlflowClient

    folder, _, _ = tracked
    client = MlflowClient(f"sqlite:///{folder / 'tracking' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("rntp")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.run_name == "tiny_text" and found.info.status == "FINISHED"
    assert found.data.params["rl.steps"] == "3" and found.data.params["thought.budget"] == "4"
    assert {metric.step for metric in client.get_metric_history(found.info.run_id, "gain")} == {1, 2, 3}
    assert found.data.metrics["gain"] == pytest.approx(read_metrics(folder)[-1]["gain"])
    assert experiment.artifact_location.endswith("/tracking/mlflow")


def test_beginning_anew_begins_new_runs_of_the_trackers(tmp_path: Path) -> None:
    recipe = read_recipe(TEXT, [f"output={tmp_path / 'run'}", *FAST, ALL])
    prepare(tmp_path / "run", recipe, fresh=False)
    (tmp_path / "run" / "tracking").mkdir()
    prepare(tmp_path / "run", recipe, fresh=True)
    assert not (tmp_path / "run" / "tracking").exists()


def test_what_mlflow_s_database_needs_is_named_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = read_recipe(TEXT, [f"output={tmp_path / 'run'}", *FAST, "report.trackers=['mlflow']"])
    monkeypatch.setattr("rntp.trackers._DATABASE", ("sqlalchemy", "no_such_package"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(
        InputError, match=r"its database needs no_such_package: pip install 'computeledger\[trackers\]'"
    ):
        check_recipe(recipe)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.org")
    check_recipe(recipe)
