"""A session of watching: scrapes as they come in, over failures and restarts, and the prediction beside them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from computeledger.actuals.live.endpoint import Address
from computeledger.actuals.live.names import EngineMetrics
from computeledger.actuals.live.scrape import Scrape
from computeledger.actuals.live.window import Window, between, together
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.questions.answers.watch.deployment import Deployment, deployment_of
from computeledger.questions.answers.watch.predict import (
    LEVERS_PAUSE_S,
    PREDICTION_PAUSE_S,
    Lever,
    Load,
    Prediction,
    check_deployment,
    levers,
    predict,
)
from computeledger.questions.watch import WatchQuestion

#: Requests from which a span says how long requests are [-].
_ENOUGH_REQUESTS = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How an address has answered so far.

    Attributes
    ----------
    address : str
        As it is shown.
    engine : str or None
        Id of the engine whose metrics it has.
    scrapes, damaged : int
        Scrapes that were read, and lines of them that were no samples [-].
    failures : Mapping
        How often it failed, by reason, the newest last [-].
    is_down : bool
        Whether the last scrape failed.
    silence : str
        Since when it gives no answer, why, and how often; empty while it answers.
    """

    address: str
    engine: str | None
    scrapes: int
    damaged: int
    failures: Mapping[str, int]
    is_down: bool
    silence: str = ""

    def said(self, reason: str) -> str:
        """A reason with the address before it, once."""
        return reason if reason.startswith(self.address) else f"{self.address}: {reason}"


class Watched:
    """One address: its last scrape, what happened since the one before and since the beginning, and failures."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.last: Scrape | None = None
        self.window: Window | None = None
        self.session: Window | None = None
        self.scrapes, self.damaged, self.is_down = 0, 0, False
        self.failures: dict[str, int] = {}
        self.missed, self.silent_since = 0, ""

    @property
    def engine(self) -> EngineMetrics | None:
        """Whose metrics the address has."""
        return None if self.last is None else self.last.engine

    def take(self, scrape: Scrape) -> Window | None:
        """A scrape; gives what happened since the last one."""
        if scrape.engine is None:
            self.fail("no metrics of vLLM, SGLang, TGI, llama.cpp or DCGM")
            return None
        if self.last is not None and self.engine is not scrape.engine:  # another server answers there
            self.last = self.session = None
        first = self.last is None
        self.window = between(self.last, scrape)
        if not first:
            self.session = self.window if self.session is None else together(self.session, self.window)
        self.last, self.is_down, self.missed = scrape, False, 0
        self.scrapes += 1
        self.damaged += scrape.damaged
        return self.window

    def fail(self, reason: str, when: datetime.datetime | None = None) -> None:
        """No scrape, and why; now where no time is given."""
        self.failures[reason] = self.failures.pop(reason, 0) + 1
        if not self.missed:
            self.silent_since = f"{(when or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC):%H:%M:%S} UTC"
        self.missed += 1
        self.is_down = True

    @property
    def silence(self) -> str:
        """Since when it gives no answer, why, and how often; empty while it answers."""
        if not self.is_down:
            return ""
        reason = [*self.failures][-1].removeprefix(f"{self.address.shown}: ").removeprefix("answers with ")
        often = "once" if self.missed == 1 else f"{self.missed} times"
        return f"no answer since {self.silent_since} ({reason}, {often})"

    @property
    def endpoint(self) -> Endpoint:
        """How it has answered so far."""
        engine = None if self.engine is None else self.engine.id
        failures = dict(self.failures)
        return Endpoint(
            self.address.shown, engine, self.scrapes, self.damaged, failures, self.is_down, self.silence
        )  # fmt: skip


class Session:
    """Everything that is watched together."""

    def __init__(self, question: WatchQuestion, watched: Sequence[Watched]) -> None:
        self.question, self.watched = question, watched
        self.deployment: Deployment | None = None
        self.prediction: Prediction | None = None
        self.levers: tuple[Lever, ...] = ()
        self.refused = ""
        self._predicted_s = self._levers_s = float("-inf")

    @property
    def server(self) -> Watched | None:
        """The address that serves a model, where one answers."""
        return next((one for one in self.watched if one.engine is not None and one.engine.serves), None)

    @property
    def gpus(self) -> Window | None:
        """What DCGM says of the last span."""
        seen = [one for one in self.watched if one.engine is not None and not one.engine.serves]
        return next((one.window for one in seen if not one.is_down), None)

    def load(self) -> Load | None:
        """The load of the last span, its lengths over the longest that tells them; None where nothing is in flight."""
        server = self.server
        if server is None or server.window is None or server.window.duration_s <= 0 or server.window.restarts:
            return None  # after a restart counters cover a part of the span that nobody knows
        batch = server.window.batch
        spans = [one for one in (server.window, server.session) if one is not None]
        lengths = next((found for one in spans if (found := _lengths(one)) is not None), None) or self._stated()
        if lengths is None and server.last is not None:
            lengths = _lengths(between(None, server.last))  # since the server began
        if not batch or lengths is None:
            return None
        return Load(batch, *lengths)

    @property
    def lacks(self) -> str:
        """Why nothing is predicted although it is said what runs there; empty where something is, or none is asked."""
        server, deployed = self.server, self.deployment
        is_asked = deployed is not None and self.prediction is None and not self.refused
        if not is_asked or server is None or server.window is None or server.window.duration_s <= 0:
            return ""
        if server.window.restarts:
            return "nothing is predicted: counters began again in this span, and count a part of it that nobody knows"
        if not server.window.batch:
            return "nothing is predicted: no request was worked on in this span"
        if self.load() is not None:
            return ""
        name = server.window.engine.name
        given = {"--input-tokens": self.question.input_tokens, "--output-tokens": self.question.output_tokens}
        missing = " and ".join(option for option, value in given.items() if value is None)
        return f"nothing is predicted: the metrics of {name} tell no lengths of requests: add {missing}"

    def _stated(self) -> tuple[float, float, float] | None:
        """Lengths that the question or its plan states, where the metrics tell none."""
        asked, plan = self.question, self.deployment
        read = asked.input_tokens or (None if plan is None else plan.input_tokens)
        written = asked.output_tokens or (None if plan is None else plan.output_tokens)
        return None if read is None or written is None else (read, 0.0, written)

    def look(self, now_s: float) -> None:
        """Predict the load of the last span, where it moved away from what was predicted."""
        server = self.server
        if server is None:
            return
        if self.deployment is None:
            self.deployment = deployment_of(self.question, server.engine)
        load = self.load()
        if self.deployment is None or load is None or now_s - self._predicted_s < PREDICTION_PAUSE_S:
            return
        if self.prediction is not None and self.prediction.load.is_near(load):
            return
        self._predicted_s = now_s
        try:
            self.prediction, self.refused = predict(self.deployment, load), ""
        except InputError as error:
            self.prediction, self.levers, self.refused = None, (), str(error)
            return
        if now_s - self._levers_s >= LEVERS_PAUSE_S:
            self._levers_s = now_s
            self.levers = levers(self.deployment, self.prediction)

    def entry(self, started: datetime.datetime) -> Entry | None:
        """The last span as a line of a run ledger; None where there is none."""
        server = self.server
        window = None if server is None else server.window
        if server is None or window is None or window.duration_s <= 0:
            return None
        devices = self.n_gpus
        cached = window.added.get("cached_tokens", 0.0)
        counts = {
            "input": window.new_input_tokens or 0.0,
            "cached": cached,
            "output": window.added.get("output_tokens"),
        }
        tokens = {kind: float(count) for kind, count in counts.items() if count}
        restarts = 0 if server.session is None else server.session.restarts
        return Entry(
            run=server.address.shown,
            workload="serving",
            phase="step" if tokens else "idle",
            duration_s=window.duration_s,
            devices=devices,
            attempt=restarts,
            tokens_by_kind=tokens,
            energy_j=self._energy_j(window, devices),
            sequences=window.requests,
            started=started.isoformat(timespec="milliseconds"),
        )

    @property
    def n_gpus(self) -> int:
        """GPUs of the server: of its layout, as stated, or as many as DCGM sees."""
        if self.prediction is not None:
            return self.prediction.n_gpus
        seen = self.gpus
        return self.question.gpus or (1 if seen is None else seen.series)

    def _energy_j(self, window: Window, devices: int) -> float | None:
        """Energy of the server's GPUs; None where others are measured with them."""
        seen = self.gpus
        if seen is None or seen.series != devices:
            return None
        if seen.added.get("energy_j") and seen.duration_s > 0:
            return seen.added["energy_j"] / seen.duration_s * window.duration_s
        return seen.gauges["power_w"] * window.duration_s if "power_w" in seen.gauges else None


def new_session(question: WatchQuestion, addresses: Sequence[Address]) -> Session:
    """A session before its first scrape; what was deployed is read at once, so that a slip is said at once."""
    found = Session(question, [Watched(one) for one in addresses])
    deployed = deployment_of(question, None)
    if deployed is not None:
        check_deployment(deployed)
    if deployed is not None and (question.plan is not None or question.backend or question.profile):
        found.deployment = deployed
    return found


def at_load(session: Session) -> Prediction | None:
    """The prediction, its throughput for the sequences in flight in the last span."""
    load, known = session.load(), session.prediction
    if known is None or load is None or not known.load.batch:
        return known
    share = load.batch / known.load.batch
    q = known.output_tokens_per_s
    moved = replace(q, p05=q.p05 * share, p10=q.p10 * share, p50=q.p50 * share, p90=q.p90 * share, p95=q.p95 * share)
    return replace(known, output_tokens_per_s=moved)


def _lengths(window: Window) -> tuple[float, float, float] | None:
    """New input, cached and output tokens of a request that finished in a span."""
    n, read, written = window.requests, window.new_input_tokens, window.added.get("output_tokens")
    if not n or n < _ENOUGH_REQUESTS or read is None or not written:
        return None
    return read / n, window.added.get("cached_tokens", 0.0) / n, written / n
