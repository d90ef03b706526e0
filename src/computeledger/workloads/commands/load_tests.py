"""Benchmark commands that put a question's load on a deployment and count what stays within its limits.

Options as the tools' own parsers have them: ``vllm/benchmarks/serve.py`` and ``datasets.py`` of vLLM 0.33.0, the
command ``run`` of GuideLLM 0.8.1 (``schemas/benchmark``), ``config/flags/cli_config.py`` of AIPerf 0.13.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from computeledger.errors import InputError
from computeledger.units import KILO
from computeledger.workloads.engines.engine import shell

#: Tools that a benchmark is written for.
BENCHMARKS = ("vllm-bench", "guidellm", "aiperf")
#: Seconds of load, and requests at least: fewer say little of a 99th percentile (assumptions).
TEST_S, FEWEST_REQUESTS = 300.0, 1000
_SERVER = "http://localhost:8000"
_PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class LoadTest:
    """What a benchmark sends, and the limits of a request by quantity: the share that keeps it, and the limit [s]."""

    model: str
    input_tokens: float
    cached_tokens: float
    output_tokens: float
    requests_per_s: float | None
    arrival_spread: float = 1.0
    concurrency: float = 1.0
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def n_requests(self) -> int:
        """Requests of the whole run."""
        return max(FEWEST_REQUESTS, math.ceil((self.requests_per_s or 0.0) * TEST_S))

    @property
    def burstiness(self) -> float:
        """Shape of the gamma distribution of gaps: 1 is Poisson."""
        if self.arrival_spread == 0:
            raise InputError("--arrival-spread 0: this benchmark sends no even arrivals; give one above 0")
        return 1 / self.arrival_spread**2

    def limit(self, quantity: str) -> float | None:
        """A limit of a request in milliseconds."""
        found = self.limits.get(quantity)
        return None if found is None else found[1] * KILO


def benchmark(tool: str, test: LoadTest) -> list[str]:
    r"""Lines of the command that tests a promise.

    Examples
    --------
    >>> test = LoadTest("m", 1024, 0, 256, 10.0, limits={"ttft_s": (0.95, 2.0)})
    >>> [line.strip(" \\") for line in benchmark("vllm-bench", test) if "goodput" in line or "rate" in line]
    ['--request-rate 10', '--goodput ttft:2000']
    """
    write = {"vllm-bench": _vllm, "guidellm": _guidellm, "aiperf": _aiperf}[tool]
    promised = [
        f"# promised: {share:.4g} of requests with {name.removesuffix('_s')} within {limit:g} s"
        for name, (share, limit) in test.limits.items()
    ]
    # completions: a chat needs a template, which base models lack, and adds its own tokens to the lengths
    load = "no rate was asked about: requests in flight are held" if test.requests_per_s is None else ""
    return [*([f"# {load}"] if load else []), *promised, *write(test)]


def _whole(tokens: float) -> int:
    return max(round(tokens), 1)


def _vllm(test: LoadTest) -> list[str]:
    rate = test.requests_per_s
    options = [f"--model {test.model}", f"--base-url {_SERVER}", "--dataset-name random"]
    options += [f"--random-input-len {_whole(test.input_tokens)}", f"--random-output-len {_whole(test.output_tokens)}"]
    options += [f"--random-prefix-len {_whole(test.cached_tokens)}"] if test.cached_tokens else []
    options += [f"--max-concurrency {_whole(test.concurrency)}"] if rate is None else [f"--request-rate {rate:g}"]
    options += [f"--burstiness {test.burstiness:g}"] if rate is not None and test.arrival_spread != 1 else []
    options += [f"--num-prompts {test.n_requests}", "--ignore-eos", "--percentile-metrics ttft,tpot,e2el"]
    options.append(f"--metric-percentiles {','.join(map(str, _PERCENTILES))}")
    named = {"ttft": "ttft_s", "tpot": "tpot_s", "e2el": "e2e_s"}
    kept = [f"{name}:{limit:g}" for name, of in named.items() if (limit := test.limit(of)) is not None]
    options += [f"--goodput {' '.join(kept)}"] if kept else []
    return shell("vllm bench serve", options)


def _guidellm(test: LoadTest) -> list[str]:
    rate = test.requests_per_s
    if rate is not None and test.arrival_spread not in (0, 1):
        raise InputError("--emit guidellm: its arrivals are even or Poisson: leave out --arrival-spread, or give 0")
    kind = "constant" if test.arrival_spread == 0 else "poisson"
    data = f"kind=synthetic_text,prompt_tokens={_whole(test.input_tokens)},output_tokens={_whole(test.output_tokens)}"
    data += f",prefix_tokens={_whole(test.cached_tokens)},prefix_count=1" if test.cached_tokens else ""
    load = f"kind=concurrent,streams={_whole(test.concurrency)}" if rate is None else f"kind={kind},rate={rate:g}"
    options = [
        f"--backend kind=openai_http,target={_SERVER},model={test.model},request_format=/v1/completions",
        f"--profile {load}",
        f"--data {data}",
    ]
    options.append(f"--constraint kind=max_requests,count={test.n_requests}")
    named = {"ttft_ms": "ttft_s", "tpot_ms": "tpot_s", "e2el_ms": "e2e_s"}
    kept = {name: limit for name, of in named.items() if (limit := test.limit(of)) is not None}
    options += [f"--metrics '{json.dumps({'kind': 'generative', 'slo': kept})}'"] if kept else []
    return shell("guidellm run", options)


def _aiperf(test: LoadTest) -> list[str]:
    rate, spread = test.requests_per_s, test.arrival_spread
    options = [f"--model {test.model}", f"--url {_SERVER}", "--endpoint-type completions", "--streaming"]
    options += [f"--isl {_whole(test.input_tokens)}", f"--osl {_whole(test.output_tokens)}"]
    options += (
        [f"--prefix-prompt-length {_whole(test.cached_tokens)} --num-prefix-prompts 1"] if test.cached_tokens else []
    )
    if rate is None:
        options.append(f"--concurrency {_whole(test.concurrency)}")
    else:
        pattern = {0.0: "constant", 1.0: "poisson"}.get(spread, "gamma")
        options += [f"--request-rate {rate:g}", f"--arrival-pattern {pattern}"]
        options += [f"--arrival-smoothness {test.burstiness:g}"] if pattern == "gamma" else []
    options.append(f"--request-count {test.n_requests}")
    named = {"time_to_first_token": "ttft_s", "inter_token_latency": "tpot_s", "request_latency": "e2e_s"}
    kept = [f"{name}:{limit:g}" for name, of in named.items() if (limit := test.limit(of)) is not None]
    options += [f'--goodput "{" ".join(kept)}"'] if kept else []
    return shell("aiperf profile", options)
