"""Ledger lines from the metrics that RL frameworks hand to their loggers, step by step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path

from computeledger.actuals.readers.framework_timers import framework_timers, step_times
from computeledger.actuals.recording.run import LedgerLines, PhaseBook, RunMachine, join
from computeledger.errors import InputError, nearest, shown
from computeledger.fields import MOST_COUNT
from computeledger.units import LARGEST, SMALLEST

#: Frameworks whose loggers get the metrics of a step.
FRAMEWORKS = ("verl", "nemo-rl", "skyrl", "openrlhf", "areal", "prime-rl")


class FrameworkLogger(LedgerLines):
    """Write a run ledger from a framework's own metrics: a logger beside its others.

    It has the methods that frameworks call on a logger: ``log(data, step)`` of verl, SkyRL and prime-rl,
    ``log_metrics(metrics, step, prefix)`` of NeMo-RL, ``log_train(step, metrics)`` of OpenRLHF, and those for what a
    ledger does not keep; AReaL's own goes to ``log`` beside its others. A step is written when the metric of its time
    arrives; times go to phases by the framework's own names of them, and what no timer covers is idle.

    A logger stops no run. What is no finite number from 0 (NaN, infinite, negative, a truth value, a tensor of several)
    is not taken. A step with such a time, or with times that cannot be, is written undivided; one whose own time or
    devices are such is not written. Each of them warns.

    Parameters
    ----------
    path : str or Path
        File that lines are added to. A run that resumes goes on in it as its next attempt.
    framework : str
        ``verl``, ``nemo-rl``, ``skyrl``, ``openrlhf``, ``areal`` or ``prime-rl``.
    devices : int or None
        Devices that the run holds; needed but for verl, whose throughput per GPU tells them [-].
    model : object
        What FLOP are counted by: a model of :func:`computeledger.load_model` or a Hugging Face configuration; None
        counts none.
    device : str
        What one device is.
    run : str or None
        Name of the run; else the file's name.

    Raises
    ------
    InputError
        The framework is unknown, the file is none to write to, or nobody says how many devices the run holds.

    Examples
    --------
    >>> import tempfile
    >>> from computeledger.actuals.run_ledger import read_ledger
    >>> path = Path(tempfile.mkdtemp(), "run.jsonl")
    >>> logger = FrameworkLogger(path, "verl", devices=16)
    >>> logger.log(data={"timing_s/step": 100.0, "timing_s/gen": 60.0, "timing_s/update_actor": 30.0,
    ...     "perf/total_num_tokens": 5e6, "prompt_length/mean": 200.0, "response_length/mean": 800.0}, step=1)
    >>> [(one.phase, one.duration_s) for one in read_ledger(path).entries]
    [('generation', 60.0), ('update', 30.0), ('idle', 10.0)]
    """

    def __init__(
        self, path: str | Path, framework: str, *, devices: int | None = None, model: object = None, device: str = "",
        run: str | None = None,
    ) -> None:  # fmt: skip
        if framework not in FRAMEWORKS:
            raise InputError(f"framework {shown(framework)}: {nearest(framework, FRAMEWORKS)}")
        if devices is None and framework != "verl":
            raise InputError(f"devices: how many the run holds is needed, as {framework} does not log it")
        self._timers, self._devices, self._device = framework_timers(framework), devices, device
        self._seen: dict[str, float] = {}
        self._lost: dict[str, str] = {}
        self._told: int | None = None
        self._at: int | None = None
        super().__init__(path, model, RunMachine(device, devices or 1), run=run or Path(path).stem)

    def log(self, data: Mapping[str, object], step: int, commit: bool = True) -> None:
        """Take metrics as verl gives them to a logger: full names, a step at a time.

        Parameters
        ----------
        data : mapping of str to object
            Metrics by name; what is no number is left out.
        step : int
            Step of the optimizer [-].
        commit : bool
            Not needed here.
        """
        del commit
        if step != self._at:
            self._seen, self._lost, self._at = {}, {}, step
        for name, value in data.items():
            if (number := _number(value)) is not None:
                self._seen[name] = number
            else:
                self._lost[name] = str(value)
        is_summed = bool(self._timers.sum_of) and any(name.startswith(self._timers.sum_of) for name in data)
        if is_summed or self._timers.step_s in data:
            self._write_step(step, self._timers.with_step(self._seen))
            self._seen, self._lost = {}, {}

    def log_metrics(
        self, metrics: Mapping[str, object], step: int, prefix: str | None = "", step_metric: str | None = None,
        step_finished: bool = False,
    ) -> None:  # fmt: skip
        """Take metrics as NeMo-RL gives them to a logger: several calls a step, the times last.

        Parameters
        ----------
        metrics : mapping of str to object
            Metrics by name; what is no number is left out.
        step : int
            Step of the optimizer [-].
        prefix : str or None
            What stands before the names, such as ``timing/train``.
        step_metric : str or None
            Not needed here.
        step_finished : bool
            Not needed here: a step ends with the metric of its time.
        """
        del step_metric, step_finished
        self.log({f"{prefix}/{name}" if prefix else name: value for name, value in metrics.items()}, step)

    def log_train(self, global_step: int, logs_dict: Mapping[str, object]) -> None:
        """Take metrics as OpenRLHF gives them to a logger.

        Parameters
        ----------
        global_step : int
            Step of the optimizer [-].
        logs_dict : mapping of str to object
            Metrics by name; what is no number is left out.
        """
        self.log(logs_dict, global_step)

    def log_eval(self, global_step: int, logs_dict: Mapping[str, object]) -> None:
        """Keep no evaluations.

        Parameters
        ----------
        global_step : int
            Step of the optimizer [-].
        logs_dict : mapping of str to object
            Metrics by name.
        """

    def log_hyperparams(self, params: Mapping[str, object]) -> None:
        """Keep no settings.

        Parameters
        ----------
        params : mapping of str to object
            Settings of the run.
        """

    def log_histogram(self, histogram: object, step: int, name: str) -> None:
        """Keep no histograms.

        Parameters
        ----------
        histogram : object
            What is not kept.
        step : int
            Step of the optimizer [-].
        name : str
            Its name.
        """

    def log_plot(self, figure: object, step: int, name: str) -> None:
        """Keep no plots.

        Parameters
        ----------
        figure : object
            What is not kept.
        step : int
            Step of the optimizer [-].
        name : str
            Its name.
        """

    def finish(self, exit_code: int = 0) -> None:
        """Close the file.

        Parameters
        ----------
        exit_code : int
            How the run ended; not kept [-].
        """
        del exit_code
        self.close()

    def _write_step(self, step: int, metrics: Mapping[str, float]) -> None:
        if not metrics.get(self._timers.step_s):
            said = self._lost.get(self._timers.step_s, "0")
            return self._warn(step, f"{self._timers.step_s} is {shown(said)}; it is not written")
        needed = (self._timers.total_tokens, self._timers.throughput_per_gpu)
        if self._devices is None and (missing := [name for name in needed if name not in {**self._lost, **metrics}]):
            raise InputError(
                f"devices: how many the run holds is needed, as the step has no {missing[0]} to tell it by"
            )
        devices = self._devices or self._stated_devices(metrics)
        if devices is None:
            return self._warn(step, "its tokens and throughput tell no number of devices; it is not written")
        self.machine = RunMachine(self._device, devices)
        books, found = self._counted(metrics), step_times(self._timers, metrics)
        if lost := [name for name in self._timers.phases if name in self._lost]:
            found = f"{lost[0]} is {shown(self._lost[lost[0]])}"
        if isinstance(found, str):
            self._warn(step, f"{found}; it is written undivided")
            whole = PhaseBook(None)
            for book in books.values():
                join(whole, book)
            books, times = {"step": whole}, {"step": metrics[self._timers.step_s]}
        else:
            times = dict(found.by_phase)
        for phase, duration_s in times.items():
            if duration_s:
                book = books.get(phase, PhaseBook(None))
                book.duration_s = duration_s
                self.add(phase, book, step)
        return None

    def _warn(self, step: int, what: str) -> None:
        warnings.warn(f"{self.path}: step {step}: {what}", stacklevel=4)

    def _stated_devices(self, metrics: Mapping[str, float]) -> int | None:
        """GPUs that a throughput per GPU tells, else those of the step before; None where the step's cannot be."""
        names = self._timers
        total, rate = metrics.get(names.total_tokens), metrics.get(names.throughput_per_gpu)
        if total and rate and 1 <= round(told := total / (rate * metrics[names.step_s])) <= MOST_COUNT:
            self._told = round(told)
        return self._told

    def _counted(self, metrics: Mapping[str, float]) -> dict[str, PhaseBook]:
        """Tokens and work of the phases: as many sequences as the tokens tell, each of the mean lengths."""
        names = self._timers
        total, prompt = metrics.get(names.total_tokens, 0.0), metrics.get(names.prompt_tokens_mean, 0.0)
        output = metrics.get(names.output_tokens_mean, 0.0)
        if not total and output and (rollouts := metrics.get(names.rollouts, 0.0)):
            alone = PhaseBook(None)
            alone.tokens(sampled=rollouts * output)
            alone.went_over(rollouts)
            return {"generation": alone}
        # environments add tokens of their own: a sequence may be longer than prompt and completion
        mean = max(metrics.get(names.sequence_tokens_mean, 0.0), prompt + output)
        if not total or not output or total > MOST_COUNT * mean:
            return {}
        rows, read = total / mean, mean - output
        sampled, trained, scored = (PhaseBook(self.model) for _ in range(3))
        sampled.generate(output, read)
        sampled.went_over(1.0)
        trained.update(mean, mean)
        for _ in [name for name in names.scoring if name in metrics]:
            scored.forward(mean)
        return {"generation": sampled.times(rows), "update": trained.times(rows), "log-probs": scored.times(rows)}


def _number(value: object) -> float | None:
    """A metric as a number; None for what is none."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if number == 0 or SMALLEST <= number <= LARGEST else None
