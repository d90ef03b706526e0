"""The questions of ``computeledger simulate serve`` and ``simulate rl``: serving and RL through time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.errors import InputError
from computeledger.fields import asked, fields_of, shared
from computeledger.files import of_files
from computeledger.workloads.engines import scheduler_of
from computeledger.workloads.questions.adapters import Adapting
from computeledger.workloads.questions.conversations import Conversing
from computeledger.workloads.questions.images import WithImages
from computeledger.workloads.questions.serve import ServeQuestion, engine_on
from computeledger.workloads.questions.setup import EngineRun, Simulated
from computeledger.workloads.questions.structured import Structured

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain
    from computeledger.distributions import Spread
    from computeledger.economics.plan.read import Plan

#: Loads, and lags, that one command simulates.
MOST_LOADS = 1000
#: Options of the rule that --autoscale turns on.
_OF_SCALING = (
    "target_requests", "tick", "tolerance", "scale_up", "scale_down", "scale_up_window", "scale_down_window", "start",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SimulateServeQuestion(EngineRun, Conversing, Adapting, WithImages, Structured, Simulated):
    """A fleet under a load, request by request; ranges are taken at their medians."""

    model: str = shared(ServeQuestion, "model")
    system: str = shared(ServeQuestion, "system")
    layout: str | None = shared(ServeQuestion, "layout", help="Parallel layout of one replica.", metavar="tp8-ep8")
    precision: str | None = shared(
        ServeQuestion,
        "precision",
        help="As `serve` takes it: bf16, fp8, int4, gguf-q4_k_m, ...",
        blank="as stored",
    )
    kv_precision: str = shared(ServeQuestion, "kv_precision")
    price: Uncertain | None = shared(ServeQuestion, "price")
    backend: str | None = shared(ServeQuestion, "backend", blank="as in `serve`")
    profile: str | None = shared(ServeQuestion, "profile")
    anchor: tuple[str, ...] = shared(ServeQuestion, "anchor")
    two_batches: bool = shared(ServeQuestion, "two_batches")
    redundant_experts: int = shared(ServeQuestion, "redundant_experts")
    speculation: str | None = shared(ServeQuestion, "speculation")
    draft_tokens: float = shared(ServeQuestion, "draft_tokens")
    tokens_per_step: float | None = shared(ServeQuestion, "tokens_per_step")
    replicas: int = asked("whole", "Replicas; with --autoscale, the largest number.", 1, least=1, metavar="N")
    prefill_replicas: int | None = asked(
        "whole", "Additional replicas that only prefill (disaggregated).", least=1, metavar="N"
    )
    prefill_layout: str | None = asked(
        "text", "Layout of a prefill replica.", metavar="tp4", blank="that of the other replicas"
    )
    prefill_system: str | None = shared(
        ServeQuestion, "prefill_system", help="System of the prefill replicas, where it is another.",
        blank="that of the other replicas",
    )  # fmt: skip
    prefill_price: Uncertain | None = shared(ServeQuestion, "prefill_price")
    transfer_bytes_per_s: Uncertain | None = shared(ServeQuestion, "transfer_bytes_per_s")
    routing: str | None = asked(
        "text", "least-requests, least-tokens, prefix, session (a conversation stays on its replica, a new one goes to "
        "the one with the fewest requests), round-robin or random.", metavar="R",
        blank="session with --turns, else least-requests",
    )  # fmt: skip
    priority: tuple[str, ...] = asked(
        "texts", "A class of requests with its share and targets, such as chat:30%:1s:40ms, the most urgent first; may "
        "be repeated. A class waits before those behind it, and is preempted after them.", (),
        metavar="NAME:SHARE[:TTFT[:TPOT]]",
    )  # fmt: skip
    queue_limit: int | None = asked(
        "whole", "Requests that wait for one replica at most; more are turned away (SGLang: --max-queued-requests).",
        least=1, metavar="N", blank="no limit",
    )  # fmt: skip
    scheduler: str | None = asked(
        "text", "How a replica fills its steps: as vLLM, SGLang (prompts in steps of their own, or mixed; lpm: first "
        "in line whose prompt the cache has most of; lof: who writes longest) or TensorRT-LLM (room for whole outputs, "
        "or as many as fit) do, or plain.",
        choices=("vllm", "sglang", "sglang-lpm", "sglang-lof", "sglang-mixed", "trtllm", "trtllm-max-utilization",
                 "plain"),
        blank="the engine's own",
    )  # fmt: skip
    long_prefill_tokens: int | None = asked(
        "whole", "Tokens of one prompt that a step reads at most (vLLM: --long-prefill-token-threshold).", least=1,
        metavar="N", blank="a whole chunk",
    )  # fmt: skip
    workload: str | None = shared(
        ServeQuestion, "workload", help="The requests: a trace (Azure or BurstGPT CSV, Mooncake or Qwen-Bailian JSONL, "
        "or arrival,input_tokens,output_tokens[,prefix,prefix_tokens]), a TOML file of lengths and arrivals, or a "
        "named workload, such as azure-conv-2023.", aliases=("trace",),
    )  # fmt: skip
    arrivals: str | None = asked(
        "text", "poisson:RATE, gamma:RATE:SPREAD or even:RATE, in requests/s.", metavar="P", blank="the workload's"
    )
    requests: int | None = asked(
        "whole", "Requests to measure, at least.", least=1, metavar="N", blank="2000, or the whole trace"
    )
    pace: float = asked(
        "count", "Arrival rate relative to the trace's own.", 1.0, is_open=True, is_single=True, metavar="X"
    )
    input_tokens: Uncertain | Spread = shared(
        ServeQuestion, "input_tokens", default=1024.0, metavar="L",
        help="Length of the input: a number, lognormal:P50:P95, quantiles:p50=A,p90=B,p99=C, uniform:LOW:HIGH or "
        "exponential:MEAN.",
    )  # fmt: skip
    output_tokens: Uncertain | Spread = shared(
        ServeQuestion, "output_tokens", default=256.0, metavar="L", help="Length of the output, written alike."
    )
    load_curve: str | None = asked("text", "Load over the day, such as 0:0.4,9:1,15:1.6,22:0.8.", metavar="H:LOAD,...")
    ttft: Uncertain | None = shared(
        ServeQuestion, "ttft", help="Time to first token that a good request may take, such as 2s.",
        takes_quantile=False,
    )  # fmt: skip
    tpot: Uncertain | None = shared(
        ServeQuestion,
        "tpot",
        help="Time per output token that a good request may take, such as 50ms.",
        blank="none",
        takes_quantile=False,
    )
    e2e: Uncertain | None = shared(
        ServeQuestion, "e2e", help="Time of a whole request that a good one may take, such as 30s.",
        takes_quantile=False,
    )  # fmt: skip
    goodput: float = shared(
        ServeQuestion, "goodput", default=0.9, help="Share of requests that must be good: within all limits at once.",
        least=0.0, most=1.0, is_open=True, aliases=("good", "good_fraction"),
    )  # fmt: skip
    find_load: bool = asked("switch", "Find the largest stable load, within --ttft and --tpot.", False)
    sweep: int | None = asked(
        "whole", "Simulate N loads from a quarter to twice this one.", least=2, most=MOST_LOADS, metavar="N",
    )  # fmt: skip
    autoscale: int | None = asked(
        "whole", "Scale between N and --replicas, of two pools those that decode.", least=1, metavar="N"
    )
    target_requests: float = asked(
        "count", "Requests in flight that a replica is meant to carry.", 32.0, is_open=True, is_single=True,
        metavar="N",
    )  # fmt: skip
    tick: Uncertain = asked(
        "s", "Time between two scaling decisions.", 15.0, unit=None, is_open=True, metavar="T", blank="15s"
    )
    tolerance: Uncertain = asked(
        "fraction", "How far requests in flight may be from the target before the number of replicas changes.", 0.1,
        metavar="F",
    )  # fmt: skip
    scale_up: str = asked(
        "text", "Policies of a rise: replicas, or share of them, in a time; the largest counts (min: before them the "
        "smallest), and never allows none.", "4/15s,100%/15s", metavar="N/T,...",
    )  # fmt: skip
    scale_down: str = asked("text", "Policies of a fall, written alike.", "100%/15s", metavar="N/T,...")
    scale_up_window: Uncertain = asked(
        "s", "A rise goes to the least that was wanted within this time.", 0.0, unit=None, metavar="T", blank="0s"
    )
    scale_down_window: Uncertain = asked(
        "s", "A fall goes to the most that was wanted within this time.", 300.0, unit=None, metavar="T", blank="300s"
    )
    start: Uncertain = asked("s", "Time until a new replica serves.", 300.0, unit=None, metavar="T", blank="300s")
    failures: Uncertain | None = asked(
        "s", "Mean time between failures of a replica.", unit=None, is_open=True, metavar="T", blank="never"
    )
    repair: Uncertain = asked("s", "Time until a failed replica is back.", 900.0, unit=None, metavar="T", blank="900s")

    @property
    def engine(self) -> str:
        """Engine, physical limit, or path of a machine's profile."""
        return self.profile or self.backend or engine_on(self.system)

    @property
    def rule_of_routing(self) -> str:
        """How a request finds its replica, as asked for or as is usual."""
        return self.routing or ("least-requests" if self.turns is None else "session")

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        super().check()
        if self.has_settings:
            self.check_settings(self.engine)
        if self.profile is not None and self.anchor:
            raise InputError("--profile: a machine's own kernels have nothing to anchor")
        if self.prefill_system is not None and self.anchor:
            raise InputError("--anchor is read on one kind of chip: leave out --prefill-system")
        if self.workload is None and self.arrivals is None:
            trace = of_files("FILE (a trace)", "azure-conv-2023 (a published load)")
            raise InputError(f"give --workload {trace} or --arrivals poisson:RATE")
        if self.arrivals is None and self.load_curve is not None:
            raise InputError("--load-curve shapes --arrivals; a trace has its own")
        if self.turns is not None:
            self._check_turns()
        if self.max_loras is not None and (self.turns is not None or self.prefill_replicas is not None):
            other = "--turns" if self.turns is not None else "--prefill-replicas"
            raise InputError(f"--max-loras with {other} is not built: leave out one of the two")
        self._check_unused()
        self._check_scheduler()
        for name in ("prefill_layout", "prefill_system", "transfer_bytes_per_s"):
            if getattr(self, name) is not None and self.prefill_replicas is None:
                raise InputError(f"--{name.replace('_', '-')} needs --prefill-replicas")
        if self.prefill_price is not None and self.prefill_system is None:
            raise InputError("--prefill-price is of --prefill-system: add that")

    def _check_unused(self) -> None:
        """Refuse options that would change nothing."""
        limits = (self.ttft, self.tpot, self.e2e, *self.priority)
        has_limit = any(one is not None for one in limits)
        needed = {
            "--autoscale, the fewest replicas": (self.autoscale is not None, _OF_SCALING),
            "--failures, the time between them": (self.failures is not None, ("repair",)),
            "a limit of a good request: --ttft, --tpot or --e2e": (has_limit, ("goodput",)),
        }
        for what, (is_there, names) in needed.items():
            given = [name for name in names if getattr(self, name) != fields_of(SimulateServeQuestion)[name].default]
            if given and not is_there:
                options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
                raise InputError(f"{options}: nothing changes without {what}")

    def _check_scheduler(self) -> None:
        """Refuse what the engine of a scheduler does not have."""
        scheduler = self.scheduler or scheduler_of(self.engine)
        if self.long_prefill_tokens is not None and scheduler not in ("vllm", "plain"):
            raise InputError(f"--long-prefill-tokens is a limit of vLLM, and replicas schedule as {scheduler}")
        if scheduler == "sglang-lpm" and self.priority:
            raise InputError("--scheduler sglang-lpm knows no classes: leave out --priority, or give sglang-lof")
        if scheduler == "sglang-lpm" and self.no_prefix_cache:
            raise InputError("--scheduler sglang-lpm orders by the prefix cache: leave out --no-prefix-cache")

    def _check_turns(self) -> None:
        """Conversations are drawn, and last."""
        replayed = self.workload if self.arrivals is None else None
        others = {
            "--workload without --arrivals": replayed,
            "--load-curve": self.load_curve,
            "--autoscale": self.autoscale,
            "--failures": self.failures,
        }
        named = next((name for name, value in others.items() if value is not None), None)
        if named is not None:
            raise InputError(f"{named}: conversations are drawn in steady state: leave out it or --turns")


@dataclass(frozen=True, kw_only=True)
class SimulateRLQuestion(Simulated):
    """The RL section of a plan, rollout by rollout."""

    plan: str | Plan = asked("text", "Plan file.", ..., metavar="PLAN.toml", takes_record=True)
    steps: int = asked("whole", "Training steps to simulate.", 20, least=1, metavar="N")
    lags: tuple[int, ...] = asked(
        "whole", "Compare these largest policy lags, on the same GPUs and the same seed.", (), is_list=True,
        most=MOST_LOADS, metavar="0,1,4",
    )  # fmt: skip
