"""Processor time of ``computeledger watch`` at a scrape every 5 s, as a share of one core.

Run: ``python benchmarks/watch.py [--scrapes 120] [--every 5]``. A server in a process of its own answers with as many
lines as vLLM does; its load swings by half, so that it is predicted anew. Time between scrapes is skipped, not waited
for: what is measured is the processor time of fetching, reading, predicting and drawing, over the time that would pass.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from computeledger.actuals.live.endpoint import address_of
from computeledger.interfaces.fitting import Page
from computeledger.interfaces.render.terminal import print_view
from computeledger.interfaces.views.watch import on_screen
from computeledger.interfaces.watch.loop import Clock, steps, watching
from computeledger.questions.answers.watch.session import new_session
from computeledger.questions.watch import WatchQuestion
from computeledger.units import KILO

#: Share of a core that may be taken.
MOST_FRACTION = 0.01
#: Bounds of a histogram's buckets, as many as vLLM has for its times.
_BOUNDS = [0.001 * 2**n for n in range(19)]
_HISTOGRAMS = (
    "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:request_inference_time_seconds",
    "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds", "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens", "vllm:iteration_tokens_total", "vllm:request_params_n",
    "vllm:request_params_max_tokens", "vllm:request_max_num_generation_tokens",
)  # fmt: skip


def scrape(n: int, every_s: float, gap_s: float = 0.012) -> str:
    """The n-th scrape of a server whose batch swings between 32 and 96."""
    at = [64 + 32 * math.sin(one / 20) for one in range(n + 1)]
    tokens = sum(batch * every_s / gap_s for batch in at)
    requests = tokens / 256
    own = '{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"}'
    lines = [
        f"vllm:num_requests_running{own} {at[-1]:.0f}", f"vllm:num_requests_waiting{own} 0",
        f"vllm:kv_cache_usage_perc{own} 0.4", f"vllm:prompt_tokens_total{own} {1024 * requests}",
        f"vllm:generation_tokens_total{own} {tokens}", f"vllm:prefix_cache_hits_total{own} 0",
        f"vllm:num_preemptions_total{own} 0", "process_start_time_seconds 1.7e9",
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {requests}',
    ]  # fmt: skip
    for name in _HISTOGRAMS:
        count = tokens if "inter_token" in name else requests
        lines += [f"# HELP {name} A histogram.", f"# TYPE {name} histogram"]
        lines += [
            f'{name}_bucket{{engine="0",le="{end}",model_name="meta-llama/Llama-3.1-8B-Instruct"}} '
            f"{count * min(end / (2 * gap_s), 1.0)}"
            for end in _BOUNDS
        ]
        lines += [f'{name}_bucket{{engine="0",le="+Inf",model_name="m"}} {count}', f"{name}_sum{own} {count * gap_s}",
                  f"{name}_count{own} {count}"]  # fmt: skip
    lines += [f'http_requests_total{{handler="/v1/{n}",method="POST",status="2xx"}} {n}' for n in range(300)]
    return "\n".join(lines) + "\n"


def serve(told: Connection, every_s: float) -> None:
    """Answer on a free port until told to stop."""
    served = [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = scrape(served[0], every_s).encode()
            served[0] += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_given: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        told.send(server.server_port)
        server.serve_forever()


def measure(port: int, scrapes: int, every_s: float) -> Sequence[float]:
    """Processor time of each scrape, from one to the next [s]."""
    skipped = [0.0]
    clock = Clock(lambda: time.monotonic() + skipped[0], lambda seconds: skipped.__setitem__(0, skipped[0] + seconds))
    question = WatchQuestion(
        urls=(f"http://127.0.0.1:{port}",), model="llama-3.1-8b", system="h100-nvl8", layout="tp1", every=every_s
    )
    session = new_session(question, [address_of(one) for one in question.urls])
    taken = []
    with watching(session, None) as real:
        watch = replace(real, clock=clock)
        began_s = time.process_time()
        for answer in steps(watch, scrapes + 1):
            print_view(on_screen(answer.view()), Page(file=io.StringIO(), width=120))
            taken.append(time.process_time() - began_s)
            began_s = time.process_time()
    assert session.server is not None and session.server.scrapes == scrapes + 1
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scrapes", type=int, default=120)
    parser.add_argument("--every", type=float, default=5.0)
    given = parser.parse_args()
    context = get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there, given.every), daemon=True)
    server.start()
    try:
        first, *taken = measure(here.recv(), given.scrapes, given.every)
    finally:
        server.terminate()
        server.join()
    share = sum(taken) / (len(taken) * given.every)
    middle, longest = sorted(taken)[len(taken) // 2], max(taken)
    print(f"{len(scrape(0, given.every).splitlines()):,} lines a scrape, {given.scrapes} scrapes")
    print(f"start and first scrape {first:.2f} s of processor, then {KILO * sum(taken) / len(taken):.1f} ms a scrape "
          f"(median {KILO * middle:.1f}, longest {KILO * longest:.0f})")  # fmt: skip
    print(f"{share:.2%} of a core at a scrape every {given.every:g} s; {share / MOST_FRACTION:.2f} times the budget")


if __name__ == "__main__":
    main()
