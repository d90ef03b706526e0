"""The question of ``computeledger serve``: how fast and how cheap a model is served, and what binds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from computeledger.distributions import Spread
from computeledger.errors import InputError
from computeledger.fields import WITHIN_ALL, Given, Promise, Record, asked, fields_of
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.workloads.engines import default_engine, engines
from computeledger.workloads.questions.adapters import Adapting
from computeledger.workloads.questions.conversations import Conversing
from computeledger.workloads.questions.corpus import AskingDocuments
from computeledger.workloads.questions.images import WithImages
from computeledger.workloads.questions.rl import MOST_RATIO
from computeledger.workloads.questions.setup import BACKENDS, EngineRun, OnSystem
from computeledger.workloads.questions.speculation import method_of
from computeledger.workloads.questions.structured import Structured

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain


#: Ways to serve.
ONE_POOL, TWO_POOLS, BOTH = "aggregated", "disaggregated", "both"
#: Fields that two pools do not have.
_OF_ONE_POOL = ("kv_tiers", "wanted_context", "max_loras", "corpus")
_OF_HOST = ("host_weights", "host_experts", "host_kv")
#: Profiles of no engine that two pools can be asked of.
_UNFITTED = ("ideal", "generic")


@dataclass(frozen=True, kw_only=True)
class ServeQuestion(EngineRun, OnSystem, Conversing, Adapting, WithImages, Structured, AskingDocuments):
    """Serve a model: speed, cost and memory at a layout and batch, or the best of both."""

    batch: int | None = asked(
        "whole", "Sequences decoding per replica, all attention-DP ranks together.", least=1, metavar="B",
        label="Batch", group="Load", slider=(1, 16384), blank="the cheapest that is fast enough",
    )  # fmt: skip
    workload: str | None = asked(
        "text", "Lengths and arrivals of the requests: a named workload, such as azure-conv-2023, a trace, or a TOML "
        "file of lengths and arrivals.", metavar="NAME|FILE", label="Workload", group="Load",
        blank="the lengths given",
    )  # fmt: skip
    input_tokens: Uncertain | Spread = asked(
        "tokens", "New input tokens of a request: a number, or how they differ, such as lognormal:P50:P95 or "
        "quantiles:p50=1K,p90=4K.", 4096.0, unit="tokens", is_open=True, metavar="I",
        label="New input", group="Load", takes_spread=True,
        slider=(64, 131072), aliases=("input",),
    )  # fmt: skip
    output_tokens: Uncertain | Spread = asked(
        "tokens", "Output tokens of a request, written alike.", 1024.0, unit="tokens", is_open=True, metavar="O",
        label="Output", group="Load", takes_spread=True,
        slider=(16, 65536), aliases=("output",),
    )  # fmt: skip
    cached_tokens: Uncertain = asked(
        "tokens", "Cached prefix of a request.", 0.0, unit="tokens", metavar="C", label="Cached prefix", group="Load",
        slider=(64, 131072), aliases=("cached",),
    )  # fmt: skip
    cached_images: int = asked(
        "whole", "Of the images, those in the cached prefix: neither encoded nor read again.", 0, least=0, metavar="N",
        label="Cached images", group="Images", blank="none",
    )  # fmt: skip
    context_tokens: int | None = asked(
        "whole", "Longest context served (--max-model-len); beyond the configuration, as with YaRN: an assumption.",
        least=1, metavar="N", label="Longest context", group="Engine", blank="as configured",
    )  # fmt: skip
    kv_precision: str = asked("text", "Precision of the KV cache.", "bf16", metavar="P", label="KV cache", group="How")
    backend: str | None = asked(
        "text", f"Engine: {', '.join(BACKENDS)}.", metavar="E", label="Engine", group="Engine",
        blank="vllm; llama.cpp on Macs, CPUs",
    )  # fmt: skip
    profile: str | None = asked("text", "Profile of a machine, from calibrate; in place of --backend.", metavar="FILE")
    host_weights: float = asked(
        "fraction", "Share of the layers' weights in host memory: layers that are not on the GPU.", 0.0, most=1.0,
        metavar="F", label="Weights in host memory", group="Host memory", slider=(0, 1), is_single=True,
    )  # fmt: skip
    host_experts: float = asked(
        "fraction", "Share of the routed experts' weights in host memory.", 0.0, most=1.0, metavar="F",
        label="Experts in host memory", group="Host memory", slider=(0, 1), is_single=True,
    )  # fmt: skip
    host_kv: float = asked(
        "fraction", "Share of the KV cache in host memory.", 0.0, most=1.0, metavar="F",
        label="Cache in host memory", group="Host memory", slider=(0, 1), is_single=True,
    )  # fmt: skip
    host_bandwidth: float | None = asked(
        "bytes_per_s", "Bandwidth of the host's memory per accelerator: an assumption.", unit="GB/s", is_open=True,
        is_single=True, metavar="B/s", label="Host memory", group="Host memory", blank="80 GB/s",
    )  # fmt: skip
    host_link: float | None = asked(
        "bytes_per_s", "Bandwidth from host memory to an accelerator: an assumption.", unit="GB/s", is_open=True,
        is_single=True, metavar="B/s", label="Host link", group="Host memory", blank="25 GB/s",
    )  # fmt: skip
    draft_tokens: float = asked(
        "count", "Speculative decoding: tokens drafted per step.", 0.0, most=MOST_RATIO, metavar="D",
        label="Drafted tokens", group="Speculative decoding", slider=(0, 16), is_single=True,
    )  # fmt: skip
    speculation: str | None = asked(
        "text", "What drafts: mtp, eagle, eagle3, ngram, draft:MODEL, auto or none; the length is searched up to "
        "8 unless --draft-tokens states it, acceptance is published unless --tokens-per-step states it.",
        metavar="METHOD", label="Speculation", group="Speculative decoding", blank="none",
    )  # fmt: skip
    tokens_per_step: float | None = asked(
        "count", "Tokens that a step yields, its own token included.", is_open=True, metavar="A",
        label="Tokens per step", group="Speculative decoding", slider=(1, 17), is_single=True, blank="1",
    )  # fmt: skip
    rounds: int | None = asked(
        "whole", "Requests per client when all clients start at once, as benchmarks do.", least=1, metavar="N",
        label="Requests per client", group="Benchmark runs", blank="steady state",
    )  # fmt: skip
    equal_lengths: bool = asked(
        "switch", "With --rounds: all requests alike; on sglang, which reads prompts first, every round is a burst.",
        False, label="Equal lengths", group="Benchmark runs",
    )  # fmt: skip
    statistic: str = asked(
        "text", "With --rounds: which time to first token of the requests.", "mean",
        choices=("mean", "median", "p90", "last"), label="Time to first token as", group="Benchmark runs",
    )  # fmt: skip
    anchor: tuple[str, ...] = asked(
        "texts", "Your own measurement: batch=32,isl=1024,osl=1024,tpot=21ms, or the result of a benchmark of vLLM, "
        "SGLang, GenAI-Perf, AIPerf, GuideLLM, trtllm-bench or llama-bench, with what it lacks: r.json,layout=tp8; may "
        "be repeated.", (), metavar="A", label="Your measurements", group="How", blank="none",
        example="batch=32,isl=1024,osl=1024,tpot=21ms",
    )  # fmt: skip
    requests_per_s: Uncertain | None = asked(
        "requests_per_s", "Load to size a fleet for.", unit="requests/s", is_open=True, metavar="R",
        label="Load", group="Load", blank="none",
    )  # fmt: skip
    arrival_spread: float | None = asked(
        "ratio", "With percentiles promised: standard deviation of the gaps between arrivals over their mean: 1 is "
        "Poisson, 0 even, above 1 bursty.", most=20.0, metavar="CV", is_single=True, label="Spread of arrivals",
        group="Load", blank="1, or the workload's",
    )  # fmt: skip
    ttft: Uncertain | Promise | None = asked(
        "s", "Longest acceptable time to first token, such as 2s; or, with --requests-per-s, that of a share of "
        "requests, such as p95:2s.", unit=None, is_open=True, metavar="T", takes_quantile=True,
        label="Slowest first token", group="Promise", slider=(0.05, 20), blank="none",
    )  # fmt: skip
    tpot: Uncertain | Promise | None = asked(
        "s", "Longest acceptable time per output token, such as 50ms, p95:50ms, or as a speed for each user: "
        "20tokens/s.", unit=None, is_open=True, metavar="T", takes_quantile=True, inverse="tokens_per_s",
        label="Slowest time per token", group="Promise", slider=(0.005, 0.5), blank="none, or 50 ms to search batches",
    )  # fmt: skip
    e2e: Uncertain | Promise | None = asked(
        "s", "Longest time of a whole request that a share of requests may take, such as p99:30s.", unit=None,
        is_open=True, metavar="T", takes_quantile=True, is_single=True, label="Slowest request", group="Promise",
        blank="none",
    )  # fmt: skip
    goodput: float | None = asked(
        "fraction", "Share of requests that keep all limits (--ttft, --tpot, --e2e) at once; a limit without a "
        "percentile is then one of each request.", least=0.5, most=0.999, is_single=True, metavar="F",
        label="Goodput", group="Promise", blank="none",
    )  # fmt: skip
    mode: str | None = asked(
        "text", "One pool of replicas, prefill and decode apart, or whichever takes fewer GPUs for a load.",
        choices=(ONE_POOL, TWO_POOLS, BOTH), label="Pools", group="Two pools",
        blank="aggregated; both where percentiles are promised",
    )  # fmt: skip
    prefill_layout: str | None = asked(
        "text", "Layout of the workers that read prompts, where those that decode have one of their own.",
        metavar="tp1-pp1-dp32-ep32", label="Prefill layout", group="Two pools", blank="searched, or one pool for both",
    )  # fmt: skip
    prefill_system: str | None = asked(
        "text", "System of the workers that read prompts, where those that decode run on another.", metavar="ID",
        label="Prefill system", group="Two pools", blank="that of the other workers",
    )  # fmt: skip
    prefill_price: Uncertain | None = asked(
        "usd_per_hour", "Price of a GPU-hour of --prefill-system.", unit="$/h", metavar="$/h", blank="rent",
        label="Prefill price", group="Two pools",
    )  # fmt: skip
    transfer_bytes_per_s: Uncertain | None = asked(
        "bytes_per_s", "Rate at which a KV cache moves from a prefill worker to one that decodes.", unit="GB/s",
        is_open=True, is_single=True, metavar="B/s", label="Cache transfer", group="Two pools",
        blank="one replica's NICs", aliases=("transfer",),
    )  # fmt: skip
    two_batches: bool = asked(
        "switch", "Run every pass as two batches in turn: one computes while the other's tokens travel to their "
        "experts.", False, label="Two batches in turn", group="Engine",
    )  # fmt: skip
    redundant_experts: int = asked(
        "whole", "Copies of busy experts in every layer, beside the model's own.", 0, least=0, most=4096.0, metavar="N",
        label="Redundant experts", group="Engine",
    )  # fmt: skip
    kv_tiers: bool = asked(
        "switch",
        "Compare the cost of keeping a cached prefix in HBM, DDR, flash and disk, and of GPUs with less HBM.",
        False,
    )
    cache_discount: Uncertain | None = asked(
        "fraction", "Price of cached over new input, with --kv-tiers.", most=1.0, metavar="F", blank="10 %"
    )
    wanted_context: float | None = asked(
        "tokens", "A longer context: which bytes a token, layers, heads and bits keep the answer's price and speed.",
        unit="tokens", is_open=True, is_single=True, metavar="L", blank="none",
    )  # fmt: skip
    user_requests: float | None = asked(
        "count", "Requests that a user sends a day, which say how many users fill a replica.", is_open=True,
        is_single=True, metavar="N", blank="3.7, messages of ChatGPT's weekly users in 2025",
    )  # fmt: skip
    emit: str | None = asked(
        "text", "Print the launch command for an engine, such as vllm; the manifest of the fleet for dynamo, kserve or "
        "llm-d; or the benchmark that tests the answer: vllm-bench, guidellm, aiperf.", metavar="ENGINE",
    )  # fmt: skip
    from_command: str | None = asked(
        "text", "Take model, engine, layout and settings from a launch command, such as 'vllm serve ...'; options "
        "beside it go before what it says.", metavar="TEXT",
    )  # fmt: skip

    @classmethod
    def expanded(cls, given: Mapping[str, Given]) -> Mapping[str, Given]:
        """What was given, filled up from a launch command."""
        text = given.get("from_command")
        if not isinstance(text, str):
            return given
        from computeledger.workloads.commands.read import filled, read_commands

        model = given.get("model")
        return filled(given, read_commands(text, None if model is None else str(model)))

    @property
    def engine(self) -> str:
        """Engine, physical limit, or path of a machine's profile."""
        return self.profile or self.backend or self.emitted_engine or engine_on(self.system)

    @property
    def emitted_engine(self) -> str | None:
        """Engine whose launch command is printed; None for a manifest, a benchmark, or nothing."""
        return self.emit if self.emit in engines() else None

    @property
    def yielded_tokens(self) -> float:
        """Tokens that a step yields: its own alone where nothing is drafted."""
        return 1.0 if self.tokens_per_step is None else self.tokens_per_step

    @property
    def has_host_memory(self) -> bool:
        """Whether weights or cache stay in host memory."""
        return bool(self.host_weights or self.host_experts or self.host_kv)

    @property
    def is_searched(self) -> bool:
        """Whether the batch is searched, and the layout where none is stated."""
        return self.batch is None

    @property
    def limits(self) -> dict[str, float]:
        """Medians of the limits on times that were given, by ``tpot`` and ``ttft`` [s]."""
        given = {"tpot": self.tpot, "ttft": self.ttft}
        return {name: limit_s(one) for name, one in given.items() if one is not None}

    @property
    def promises(self) -> dict[str, Promise]:
        """Limits that a share of requests keeps, by the quantity of a request."""
        given = {"ttft_s": self.ttft, "tpot_s": self.tpot, "end_to_end_s": self.e2e}
        stated = {name: one for name, one in given.items() if isinstance(one, Promise)}
        if self.goodput is None:
            return stated
        # where so many keep all limits at once, at least as many keep each
        plain = {name: Promise(self.goodput, limit_s(one)) for name, one in given.items() if one is not None}
        return plain | stated | {WITHIN_ALL: Promise(self.goodput, 1.0)}

    @property
    def modes(self) -> tuple[str, ...]:
        """Ways to serve that are searched."""
        if self.mode in (ONE_POOL, TWO_POOLS):
            return (self.mode,)
        if self.prefill_layout is not None or self.prefill_system is not None:
            return (TWO_POOLS,)
        if (self.mode is None and not self.promises) or self.bound_to_one_pool:
            return (ONE_POOL,)
        return ONE_POOL, TWO_POOLS

    @property
    def bound_to_one_pool(self) -> str | None:
        """Why two pools are not searched: what was given that they do not have."""
        given = {name: getattr(self, name) for name in (*_OF_ONE_POOL, *_OF_HOST, "anchor", "profile", "layout")}
        name = next((name for name, one in given.items() if one), None)
        if name is None:
            return None if self.engine in (*calibrated_engines(), *_UNFITTED) else f"{self.engine} has one pool"
        return f"--{name.replace('_', '-')} is of one pool"

    def check(self) -> None:
        """Refuse parts that contradict one another."""
        super().check()
        if self.has_settings:
            self.check_settings(self.engine)
        if self.emit is not None and self.backend == "ideal":
            raise InputError(f"--emit {self.emit}: the physical limit is no engine: leave out --backend ideal")
        if self.emit in calibrated_engines() and self.backend not in (None, "generic", self.emit):
            raise InputError(
                f"--emit {self.emit}: the answer is {self.backend}'s: give --backend {self.emit}, or leave it out"
            )
        if self.profile is not None and (self.emit or self.anchor or TWO_POOLS in self.modes):
            raise InputError(
                "--profile: a machine's own kernels have no engine to launch, to anchor or to disaggregate"
            )
        if self.profile is not None and self.backend_version is not None:
            raise InputError("--backend-version: a machine's own kernels have no release: leave out --profile")
        self._check_experts()
        if self.cached_images > self.images:
            raise InputError(f"--cached-images {self.cached_images}: at most the --images of a request, {self.images}")
        if self.anchor and self.prefill_system is not None:
            raise InputError("--anchor is read on one kind of chip: leave out --prefill-system")
        if self.cache_discount is not None and not self.kv_tiers:
            raise InputError("--cache-discount is the price of a cached read in --kv-tiers: add that")
        self._check_drafts()
        if self.rounds is None and (self.equal_lengths or self.statistic != "mean"):
            raise InputError("--statistic and --equal-lengths are of a run that starts at once: add --rounds N")
        self._check_pools()
        self._check_promises()
        self._check_turns()
        copied = self.host_link if self.adapters else None
        if not self.has_host_memory and (self.host_bandwidth or self.host_link) and not copied:
            raise InputError("--host-bandwidth and --host-link are of what is in host memory: add --host-weights")

    def _check_drafts(self) -> None:
        """How many tokens are drafted, by what, and how many stay."""
        drafts, accepted = self.draft_tokens, self.yielded_tokens
        method = method_of(self.speculation)[0]
        if self.speculation == "none" and drafts:
            raise InputError(f"--draft-tokens {drafts:g} with --speculation none: leave out one of the two")
        if method != "none" and self.tokens_per_step is not None and not drafts:
            raise InputError(f"--tokens-per-step {accepted:g}: of how many drafts? add --draft-tokens")
        if drafts and self.tokens_per_step is None and method == "none":
            raise InputError("--draft-tokens needs --tokens-per-step: the tokens that a step yields, its own included")
        if not 1 <= accepted <= 1 + drafts:
            most = f"{1 + drafts:g}"
            raise InputError(f"--tokens-per-step {accepted:g}: between 1 and one more than the drafted tokens ({most})")

    def _check_experts(self) -> None:
        given = "--two-batches" if self.two_batches else "--redundant-experts" if self.redundant_experts else None
        if given and self.emit:
            raise InputError(f"--emit {self.emit}: launch commands have no {given} yet: leave out one of the two")
        if given and self.anchor:
            raise InputError(f"--anchor: measurements are read without {given} yet: leave out one of the two")

    def _check_promises(self) -> None:
        """Percentiles are those of a load on a fleet that is sized for it."""
        if self.no_prefix_cache and self.cached_tokens and isinstance(self.input_tokens, Spread):
            raise InputError("--no-prefix-cache: write the prefix into the distribution of --input-tokens")
        if self.goodput is not None and self.ttft is None and self.tpot is None and self.e2e is None:
            raise InputError(f"--goodput {self.goodput:g}: within which limits? such as --ttft 2s --tpot 50ms")
        if self.e2e is not None and not isinstance(self.e2e, Promise) and self.goodput is None:
            raise InputError(f"--e2e {limit_s(self.e2e):g}s: of how many requests? write for example p99:30s")
        if not self.promises:
            if self.arrival_spread is not None:
                raise InputError("--arrival-spread is of a load with promised percentiles: add --ttft p95:2s")
            return
        name, one = next(iter(self.promises.items()))
        option = f"--{'e2e' if name == 'end_to_end_s' else name.removesuffix('_s')} p{100 * one.share_fraction:g}"
        option = option if self.goodput is None else f"--goodput {self.goodput:g}"
        if self.requests_per_s is None:
            raise InputError(f"{option}: a percentile is that of a load: add --requests-per-s")
        if self.batch is not None:
            raise InputError(
                f"--batch {self.batch}: under a promise ({option}) the load fills the batch: leave out --batch, or cap "
                "it with --max-batch"
            )
        if self.tpot is not None and self.output_tokens == 1:
            raise InputError("--tpot: requests of --output-tokens 1 have no time per output token: leave out --tpot")
        if self.rounds is not None:
            raise InputError(f"{option}: requests arrive one by one, not in --rounds: leave out one of the two")

    @property
    def _replays(self) -> bool:
        """No trace is replayed for its prefixes here."""
        return False

    def _check_turns(self) -> None:
        """Conversations are those of a promise, whose caches are found by simulation."""
        if self.turns is None:
            return
        if not self.promises:
            raise InputError(
                "--turns: conversations are simulated for a promise: add --requests-per-s (turns per second) and "
                "--ttft p95:2s or --tpot p95:50ms"
            )
        others = {
            "--cached-tokens": self.cached_tokens,
            "--pool-cache": self.pool_cache,
            "--workload": self.workload,
            "--anchor": self.anchor,
            "--max-loras": self.max_loras,
        }
        why = {
            "--cached-tokens": "what turns find cached is derived; a beginning that all share is --shared-tokens",
            "--pool-cache": "its share of a replica depends on the fleet that is sized: simulate serve takes it",
            "--workload": "a promise over conversations takes --input-tokens and --output-tokens as distributions",
            "--anchor": "measurements are of requests on their own",
            "--max-loras": "adapters that wait for a slot are drawn for requests on their own",
        }
        named = next((name for name, value in others.items() if value), None)
        if named is not None:
            raise InputError(f"{named} with --turns: {why[named]}: leave out one of the two")

    def _check_prefill(self) -> None:
        """What is of prefill workers alone needs two pools."""
        if self.transfer_bytes_per_s is not None and TWO_POOLS not in self.modes:
            raise InputError("--transfer-bytes-per-s is of two pools: add --mode disaggregated")
        if self.prefill_price is not None and self.prefill_system is None:
            raise InputError("--prefill-price is of --prefill-system: add that")
        if self.prefill_system is not None and self.mode not in (None, TWO_POOLS):
            raise InputError(
                f"--mode {self.mode}: --prefill-system is of two pools: --mode disaggregated, or leave one out"
            )
        if self.prefill_system is not None and self.requests_per_s is None:
            raise InputError("--prefill-system is of two pools for a load: add --requests-per-s")

    def _check_pools(self) -> None:
        self._check_prefill()
        if self.prefill_layout is not None and (self.mode == ONE_POOL or not (self.mode or self.promises)):
            raise InputError("--prefill-layout is of workers that only read prompts: add --mode disaggregated")
        if self.mode == BOTH and self.requests_per_s is None:
            raise InputError("--mode both compares fleets for a load: add --requests-per-s")
        if self.mode == BOTH and (why := self.bound_to_one_pool):
            raise InputError(f"--mode both: {why}: leave out one of the two")
        if self.modes != (TWO_POOLS,):
            return
        if bool(self.layout) != bool(self.prefill_layout):
            raise InputError(
                "two pools have two layouts: state --prefill-layout and --layout (of decoding), or neither"
            )
        if self.batch and not self.layout:
            raise InputError("--batch is of a decoding worker: state --prefill-layout and --layout too")
        if self.batch and self.max_batch and self.batch > self.max_batch:
            raise InputError(f"--batch {self.batch}: a decoding worker takes at most --max-batch {self.max_batch}")
        for name in (*_OF_ONE_POOL, *_OF_HOST):
            if getattr(self, name):
                option = name.replace("_", "-")
                raise InputError(f"--{option} is not built for two pools: leave out --mode disaggregated")


def limit_s(given: Uncertain | Promise) -> float:
    """Median of a limit on a time [s].

    Examples
    --------
    >>> limit_s(Promise(0.95, 2.0)), limit_s(0.05)
    (2.0, 0.05)
    """
    if isinstance(given, Promise):
        return given.limit
    return float(given if isinstance(given, (int, float)) else given.quantile(0.0))


def engine_on(system: str) -> str:
    """Engine that answers on a system where a question names none.

    Examples
    --------
    >>> engine_on("h100-nvl8"), engine_on("1xm4-max")
    ('vllm', 'llama.cpp')
    """
    from computeledger.facts.load import load_system

    return default_engine(load_system(system).accelerator)


def serve_question(question: Record, **given: Any) -> ServeQuestion:
    """The serving question that another question asks: the fields that both have, and what is given.

    Examples
    --------
    >>> from computeledger.workloads.questions.setup import EngineRun
    >>> serve_question(EngineRun(tuning="recipe"), model="qwen3-8b", system="h100-nvl8").tuning
    'recipe'
    """
    both = fields_of(ServeQuestion).keys() & fields_of(type(question)).keys()
    return ServeQuestion(**{**{name: getattr(question, name) for name in both}, **given})
