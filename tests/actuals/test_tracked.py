"""Files of experiment trackers, written by the trackers themselves, give the entries of the tool that logged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import Hints, Tally
from computeledger.errors import InputError

HINTS = Hints(devices=8, sequence_tokens=4096, rollouts_per_step=64)
STEPS = range(1, 6)


def read(path: Path) -> tuple[list[tuple[str, int | None, float, dict[str, float]]], Tally]:
    tally = Tally()
    entries = list(read_actuals(path, HINTS, tally))
    return [(one.phase, one.step, one.duration_s, dict(one.tokens_by_kind)) for one in entries], tally


def events(folder: Path, rows: dict[int, dict[str, float]]) -> Path:
    """A TensorBoard file as its own writer leaves it, a row every two seconds."""
    writer_module = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    writer: Any = writer_module.EventFileWriter(str(folder))
    for step, metrics in rows.items():
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        writer.add_event(Event(step=step, wall_time=1e9 + 2 * step, summary=Summary(value=values)))
    writer.close()
    return next(folder.iterdir())


def test_tensorboard_of_megatron(tmp_path: Path) -> None:
    rows = {step: {"iteration-time": 1.5, "batch-size": 64.0, "lm loss": 3.0} for step in STEPS}
    found, tally = read(events(tmp_path, rows))
    assert found[0] == ("step", 1, 1.5, {"trained": 64.0 * 4096})
    assert sum(seconds for phase, _, seconds, _ in found if phase == "step") == pytest.approx(7.5)
    assert not tally.damaged


@pytest.mark.parametrize("kept", [0.3, 0.999])
def test_tensorboard_that_was_cut_says_so(kept: float, tmp_path: Path) -> None:
    rows = {step: {"iteration-time": 1.5, "batch-size": 64.0, "lm loss": 3.0} for step in range(1, 40)}
    path = events(tmp_path, rows)
    whole, data = len(read(path)[0]), path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    found, tally = read(path)
    assert len(found) < whole and [*tally.damaged] == ["cut off within a record"]


def test_tensorboard_of_torchtitan_counts_what_each_gpu_reads(tmp_path: Path) -> None:
    rows = {step: {"time_metrics/end_to_end(s)": 2.0, "throughput(tps)": 1000.0} for step in STEPS}
    found, _ = read(events(tmp_path, rows))
    assert found == [("step", step, 2.0, {"trained": 16_000.0}) for step in STEPS]


def test_tensorboard_of_the_trainer_takes_times_from_the_rows_where_none_are_logged(tmp_path: Path) -> None:
    rows = {step: {"train/loss": 1.0, "train/num_input_tokens_seen": 500.0 * step} for step in STEPS}
    found, _ = read(events(tmp_path, rows))
    assert found == [("step", step, 2.0, {"trained": 500.0}) for step in STEPS]


def test_tensorboard_of_verl_is_read_as_its_own_file(tmp_path: Path) -> None:
    metrics = {"timing_s/gen": 6.0, "timing_s/update_actor": 3.0, "timing_s/step": 10.0,
               "perf/total_num_tokens": 6400.0, "response_length/mean": 80.0, "prompt_length/mean": 20.0}  # fmt: skip
    found, _ = read(events(tmp_path, dict.fromkeys(STEPS, metrics)))
    first = {phase: (seconds, tokens) for phase, step, seconds, tokens in found if step == 1}
    assert first["generation"] == (6.0, {"input": 1280.0, "sampled": 5120.0})
    assert first["update"] == (3.0, {"trained": 6400.0})


@pytest.mark.parametrize("cut", [False, True])
def test_wandb_of_the_trainer(cut: bool, tmp_path: Path) -> None:
    wandb: Any = pytest.importorskip("wandb")
    run = wandb.init(project="p", dir=tmp_path, mode="offline", settings=wandb.Settings(silent=True, console="off"))
    for step in STEPS:
        text = {"note": "x" * 40_000} if step == 3 else {}  # longer than a block of the file
        metrics = {"train/loss": 1.0, "train/num_input_tokens_seen": 500 * step, "train/step_time": 0.5}
        run.log({**metrics, "train/global_step": step, **text}, step=step)
    run.finish()
    wandb.teardown()  # its service writes the last block as it ends
    path = next(tmp_path.rglob("*.wandb"))
    if cut:
        path.write_bytes(path.read_bytes()[:20_000])
    assert reader_of(path).tool == "W&B run"
    found, tally = read(path)
    kept = [step for step in STEPS if step < 3] if cut else STEPS
    assert found == [("step", step, 0.5, {"trained": 500.0}) for step in kept]
    assert [*tally.damaged] == ["cut off within a record"] * cut


def database(path: Path, rows: list[tuple[str, str, float, int, int]], status: str = "FINISHED") -> Path:
    """The two tables of MLflow's database that are read, with the columns of its own schema."""
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, lifecycle_stage TEXT, status TEXT)")
        base.execute("CREATE TABLE metrics (run_uuid TEXT, key TEXT, value REAL, timestamp INT, step INT, is_nan INT)")
        base.executemany("INSERT INTO runs VALUES (?, ?, ?)", [("a", "active", status), ("b", "deleted", "RUNNING")])
        base.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, 0)", rows)
    base.close()
    return path


def trainer_rows(run: str) -> list[tuple[str, str, float, int, int]]:
    names = {"loss": 1.0, "num_input_tokens_seen": 500.0}
    return [(run, name, value * (step if name != "loss" else 1), 2000 * step, step)
            for step in STEPS for name, value in names.items()]  # fmt: skip


def test_mlflow_counts_runs_that_were_not_deleted(tmp_path: Path) -> None:
    path = database(tmp_path / "mlflow.db", [*trainer_rows("a"), *trainer_rows("b")])
    found, tally = read(path)
    assert found == [("step", step, 2.0, {"trained": 500.0}) for step in STEPS]
    assert not tally.remarks
    _, tally = read(database(tmp_path / "now.db", trainer_rows("a"), "RUNNING"))
    assert [*tally.remarks] == ["a run that had not ended: its steps so far are counted"]


@pytest.mark.stress
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::sqlalchemy.exc.SADeprecationWarning")
def test_mlflow_as_it_writes_itself(tmp_path: Path) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.set_experiment("e")
    with mlflow.start_run():
        for step in STEPS:
            mlflow.log_metrics({"loss": 1.0, "num_input_tokens_seen": 500.0 * step, "step_time": 0.5}, step=step)
    found, _ = read(tmp_path / "mlflow.db")
    assert found == [("step", step, 0.5, {"trained": 500.0}) for step in STEPS]


def test_other_databases_and_other_metrics_are_refused_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as base:
        base.execute("CREATE TABLE t (a INT)")
    base.close()
    with pytest.raises(InputError, match="no database of MLflow"):
        read(other)
    mine = database(tmp_path / "mine.db", [("a", "accuracy", 0.5, 1000, 1)])
    with pytest.raises(InputError, match="of no trainer that is known here"):
        read(mine)
