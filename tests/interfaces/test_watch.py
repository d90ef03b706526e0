"""Watching a server: names and scrapes of each engine, restarts, hostile servers, predictions, what is written."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from computeledger.actuals.live.endpoint import MOST_ANSWER_BYTES, Address, address_of, fetch, new_client
from computeledger.actuals.live.histogram import Observed
from computeledger.actuals.live.names import KINDS, engine_metrics
from computeledger.actuals.live.scrape import MOST_SCRAPE_SAMPLES, read_scrape
from computeledger.actuals.live.window import Window, between, together
from computeledger.actuals.plan_calibration import read_calibration
from computeledger.actuals.run_ledger import read_ledger
from computeledger.errors import EndpointError, InputError
from computeledger.interfaces.cli import main
from computeledger.interfaces.render.terminal import print_view
from computeledger.interfaces.watch import exposition
from computeledger.interfaces.watch.dashboard import dashboard
from computeledger.interfaces.watch.loop import Clock, Watch, once, steps, watching
from computeledger.interfaces.watch.page import Board
from computeledger.interfaces.watch.served import application, serve_board
from computeledger.questions.answers.watch import session as sessions
from computeledger.questions.answers.watch.answer import answer_watch
from computeledger.questions.answers.watch.deployment import deployment_of
from computeledger.questions.answers.watch.predict import Load, predict
from computeledger.questions.answers.watch.session import Session, new_session
from computeledger.questions.watch import WatchQuestion
from tests.commands import call
from tests.gates import ROOT
from tests.interfaces.json_keys import KEPT, folded, keys_of
from tests.interfaces.metrics_server import Answer, drip, metrics_server, silence, text

MODEL: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "samples": 64}


def vllm(tokens: float = 0.0, requests: float = 0.0, gap_s: float = 0.02, **more: Any) -> str:
    """Metrics of vLLM after so many tokens, a few lines of them: 1,000 prompt and 250 output tokens a request."""
    level: dict[str, Any] = {
        "running": 20,
        "waiting": 0,
        "used": 0.3,
        "started": 100,
        "preempted": 0,
        "cached": 0.0,
        "name": "m",
        "first": 0.002,
    } | more
    own = f'{{engine="0",model_name="{level["name"]}"}}'
    hist = [
        line
        for name, count, mean in (
            ("vllm:time_to_first_token_seconds", requests, level["first"]),
            ("vllm:inter_token_latency_seconds", tokens, gap_s),
            ("vllm:request_time_per_output_token_seconds", requests, gap_s),
        )
        for line in (
            f'{name}_bucket{{engine="0",le="0.1",model_name="m"}} {count / 2}',
            f'{name}_bucket{{engine="0",le="+Inf",model_name="m"}} {count}',
            f"{name}_sum{own} {count * mean}", f"{name}_count{own} {count}",
        )
    ]  # fmt: skip
    return "\n".join([
        "# TYPE vllm:num_requests_running gauge", f"vllm:num_requests_running{own} {level['running']}",
        f"vllm:num_requests_waiting{own} {level['waiting']}", f"vllm:kv_cache_usage_perc{own} {level['used']}",
        "# TYPE vllm:generation_tokens_total counter", f"vllm:generation_tokens_total{own} {tokens}",
        f"vllm:prompt_tokens_total{own} {1000 * requests}", f"vllm:prefix_cache_hits_total{own} {level['cached']}",
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {requests}',
        f"vllm:num_preemptions_total{own} {level['preempted']}", *hist,
        # as an aibrix page shows it of a real server
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="81767",sliding_window="None"} 1.0',
        f"process_start_time_seconds {level['started']}", "python_gc_objects_collected_total 7",
    ])  # fmt: skip


def window(first: str, second: str, seconds: float = 10.0) -> Window:
    return between(read_scrape(first, 0.0), read_scrape(second, seconds))


class Machine:
    """A clock that stands still unless somebody waits, and a server that answers from a list."""

    def __init__(self, *answers: str | InputError) -> None:
        self.answers, self.now_s, self.waited = list(answers), 0.0, list[float]()

    async def fetch(self, _address: Address) -> str:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, InputError):
            raise answer
        return answer

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now_s += seconds


@pytest.fixture
def watch_of() -> Iterator[Callable[..., tuple[Watch, Machine]]]:
    with asyncio.Runner() as runner:

        def made(*answers: str | InputError, **asked: Any) -> tuple[Watch, Machine]:
            machine = Machine(*answers)
            question = WatchQuestion(**{"urls": ("http://gpu-1:8000",), "every": 10.0, **asked})
            session = new_session(question, [address_of(one) for one in question.urls])
            clock = Clock(lambda: machine.now_s, machine.wait)
            return Watch(session, machine.fetch, runner, clock), machine

        yield made


def test_every_engine_is_told_by_its_names_and_every_quantity_has_a_kind() -> None:
    for key, one in engine_metrics().items():
        assert one.names.keys() <= KINDS.keys() and re.search(r"commit [0-9a-f]{7}|scraped", one.source)
        assert all(name.startswith(one.mark) for names in one.names.values() for name in names), key


def test_vllm_rates_times_and_load() -> None:
    found = window(vllm(10_000, 40, first=0.5), vllm(14_000, 56, cached=4000, first=0.5))
    assert (found.rate("output_tokens"), found.rate("requests"), found.requests) == (400.0, 1.6, 16.0)
    assert found.new_input_tokens == 12_000.0 and found.hit_fraction == 0.25
    assert found.tpot_s is not None and found.tpot_s.mean_s == pytest.approx(0.02)
    # 4,000 gaps of 20 ms and 16 prompts of 500 ms in 10 s: by Little's law, not by the gauge
    assert found.batch == pytest.approx(8.8)
    assert found.gauges["kv_capacity_tokens"] == 16 * 81767


def test_sglang_as_its_page_records_a_real_server() -> None:
    """Values of docs/references/production_metrics.md; a tenth of them lay below 7.5 s, and most beyond 30 s."""
    own = 'model_name="meta-llama/Llama-3.1-8B-Instruct"'
    ends = {"5.0": 314, "7.5": 941, "10.0": 1330, "30.0": 2513, "+Inf": 11008}
    scrape = read_scrape(
        "\n".join([
            f"sglang:num_running_reqs{{{own}}} 162.0", f"sglang:num_queue_reqs{{{own}}} 2826.0",
            f"sglang:token_usage{{{own}}} 0.28", f"sglang:generation_tokens_total{{{own}}} 7.557572e+06",
            f"sglang:prompt_tokens_total{{{own}}} 8.128902e+06",
            *(f'sglang:time_to_first_token_seconds_bucket{{le="{end}",{own}}} {n}' for end, n in ends.items()),
            f"sglang:time_to_first_token_seconds_sum{{{own}}} 2.3518979474117756e+06",
            f"sglang:time_to_first_token_seconds_count{{{own}}} 11008.0",
        ]),
        0.0,
    )  # fmt: skip
    found = between(None, scrape)
    assert (found.engine.name, found.gauges["running"], found.gauges["waiting"]) == ("SGLang", 162.0, 2826.0)
    first = found.times["ttft_s"]
    assert first.mean_s == pytest.approx(213.65, abs=0.01)
    tenth = first.quantile_s(0.1)
    assert tenth == pytest.approx(7.5 + 2.5 * (1100.8 - 941) / 389) and first.quantile_s(0.5) is None


def test_tgi_and_llama_cpp_and_dcgm() -> None:
    tgi = [
        f"tgi_batch_current_size 4\ntgi_queue_size 1\ntgi_request_generated_tokens_sum {1000 * n}\n"
        f"tgi_request_generated_tokens_count {10 * n}\ntgi_request_input_length_sum {5000 * n}\n"
        f"tgi_request_success {10 * n}\ntgi_request_mean_time_per_token_duration_sum {0.2 * n}\n"
        f"tgi_request_mean_time_per_token_duration_count {10 * n}\n"
        for n in (1, 2)
    ]
    found = window(tgi[0], tgi[1])
    assert (found.rate("output_tokens"), found.requests, found.new_input_tokens) == (100.0, 10.0, 5000.0)
    assert found.batch == pytest.approx(2.0)
    # as llama.cpp's server wrote them before and after a request of 32 and 32 tokens
    names = ("prompt_tokens_total", "prompt_seconds_total", "tokens_predicted_total", "tokens_predicted_seconds_total")
    values = ((0, 0, 0, 0), (32, 0.999028, 32, 1.87741))
    llama = ["\n".join(f"llamacpp:{n} {v}" for n, v in zip(names, each, strict=True)) for each in values]
    found = window(llama[0], llama[1])
    assert found.tpot_s is not None and found.tpot_s.mean_s == pytest.approx(1.87741 / 32)
    assert found.batch == pytest.approx(0.2876438) and found.requests is None
    dcgm = [
        "\n".join(
            f'DCGM_FI_DEV_POWER_USAGE{{gpu="{gpu}"}} {300 + 100 * gpu}\nDCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}"}} 50\n'
            f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="{gpu}"}} {1e9 + spent}'
            for gpu in (0, 1)
        )
        for spent in (0.0, 3.5e6)
    ]
    found = window(dcgm[0], dcgm[1])
    assert (found.gauges["power_w"], found.gauges["busy_fraction"], found.series) == (700.0, 0.5, 2)
    assert found.added["energy_j"] == pytest.approx(7000.0)


def test_a_restart_counts_from_nothing_whether_counters_tell_or_the_process() -> None:
    back = window(vllm(10_000, 40), vllm(500, 2))
    assert (back.restarts, back.added["output_tokens"], back.added["requests"]) == (1, 500.0, 2.0)
    faster = window(vllm(500, 2), vllm(10_000, 40, started=200))  # beyond the old count by the next scrape
    assert (faster.restarts, faster.added["output_tokens"]) == (1, 10_000.0)
    both = together(window(vllm(0, 0), vllm(1000, 4)), back)
    assert (both.duration_s, both.added["output_tokens"], both.restarts) == (20.0, 1500.0, 1)


def test_quantiles_lie_within_their_buckets() -> None:
    seen = Observed(4.0, 1.0, {0.1: 2.0, 0.2: 2.0, 0.4: 4.0})
    assert [seen.quantile_s(share) for share in (0.25, 0.5, 0.75, 1.0)] == pytest.approx([0.05, 0.1, 0.3, 0.4])
    assert Observed(0.0, 0.0).quantile_s(0.5) is None


@pytest.mark.parametrize(
    ("line", "damaged"),
    [
        ("vllm:num_requests_running{", 1),
        ("vllm:num_requests_running 1e999", 1),
        ("vllm:num_requests_running -3", 1),
        ("vllm:num_requests_running NaN", 0),
        ('vllm:num_requests_running{a="1} 3', 1),
        ("vllm:num_requests_running three", 1),
        ("\x00\x1b[2J garbage", 0),
    ],
)
def test_what_is_no_sample_is_counted_and_left_out(line: str, damaged: int) -> None:
    found = read_scrape(f"{line}\nvllm:num_requests_waiting 2\n", 0.0)
    assert found.damaged == damaged and found.samples == {"vllm:num_requests_waiting": {(): 2.0}}


def test_a_scrape_of_endless_series_is_refused() -> None:
    with pytest.raises(InputError, match="more than 20,000 samples"):
        read_scrape("\n".join(f'vllm:num_requests_running{{a="{n}"}} 1' for n in range(MOST_SCRAPE_SAMPLES + 1)), 0.0)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.fixture(autouse=True)
def own_loop() -> Iterator[None]:
    """No loop of others: tests of a browser in the same process leave theirs running."""
    held = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(held)


def fetched(answer: Answer | None, longest_s: float = 2.0, url: str = "") -> tuple[str, list[str]]:
    """What a fetch of a server gives, and what the server was asked."""

    async def run(address: Address) -> str:
        async with new_client() as client:
            return await fetch(client, address, longest_s)

    with metrics_server(answer or text("")) as server:
        return asyncio.run(run(address_of(url or server.url))), server.asked


def test_a_redirect_on_the_same_server_is_followed_and_one_to_elsewhere_is_not() -> None:
    """As vLLM sends /metrics to /metrics/."""

    def home(one: Any) -> None:
        text("", "307 Temporary Redirect", Location="/metrics/")(one)

    with metrics_server(home, text("up 1")) as server:

        async def run() -> str:
            async with new_client() as client:
                return await fetch(client, address_of(server.url))

        assert asyncio.run(run()) == "up 1" and server.asked == ["/metrics", "/metrics/"]
    with metrics_server(text("secret 1")) as elsewhere:
        for target in (elsewhere.url, f"//127.0.0.1:{elsewhere.port}/metrics", "file:///etc/passwd", "https://[x"):
            with pytest.raises(EndpointError, match=r"another address, which is not followed|broke"):
                fetched(text("", "302 Found", Location=target))
        assert elsewhere.asked == []
    with pytest.raises(EndpointError, match="redirects more than 2 times"):
        fetched(text("", "302 Found", Location="/metrics"))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("missing", "answers with status 404"),
        ("broken", "answers with status 500"),
        ("silent", "no whole answer within 0.1 s"),
        ("headers drip", "no whole answer within 0.1 s"),
        ("body drips", "no whole answer within 0.1 s"),
        ("endless", "more than 8 MB"),
        ("packed", "an encoding that was not asked for"),
        ("no http", "no valid HTTP"),
        ("cut", "no valid HTTP"),
    ],
)
def test_a_bad_server_costs_a_bounded_time_and_one_line(case: str, said: str) -> None:
    with metrics_server(text("")) as server:
        server.answers = [
            {
                "missing": text("not here \x1b[31m", "404 \x1b[2J"),
                "broken": text("", "500 x"),
                "silent": silence(server.stop),
                "headers drip": drip(HEAD, b"X-A: 1\r\n", server.stop),
                "body drips": drip(HEAD + b"\r\n", b"up 1\n", server.stop),
                "endless": drip(HEAD + b"\r\n", b"x" * MOST_ANSWER_BYTES, server.stop),
                "packed": text("x", Content_Encoding="gzip"),
                "no http": lambda one: one.sendall(b"\x16\x03\x01 hello \x1b[31m\r\n\r\n"),
                "cut": lambda one: one.sendall(HEAD + b"Content-Length: 50\r\n\r\nup"),
            }[case]
        ]

        async def run() -> str:
            async with new_client() as client:
                return await fetch(client, address_of(server.url), 0.1 if "0.1 s" in said else 2.0)

        with pytest.raises(EndpointError) as refused:
            asyncio.run(run())
        assert str(refused.value).startswith(server.url) and said in str(refused.value)
        assert str(refused.value).isprintable()


def test_no_server_and_no_address() -> None:
    with pytest.raises(EndpointError, match="no connection"):
        fetched(None, url="http://127.0.0.1:1/metrics")
    for wrong in ("gpu-1:8000", "ftp://gpu-1/", "http://", "http://h:99999", "http://a b", "http://h/\x1b[31m"):
        with pytest.raises(InputError, match="write for example http://HOST:8000/metrics"):
            address_of(wrong)


def test_a_password_is_used_and_never_shown() -> None:
    address = address_of("http://me:secret@gpu-1:8000/metrics?a=1#x")
    assert "secret" in address.url and address.shown == "http://gpu-1:8000/metrics?a=1"


def quantity(document: dict[str, Any], name: str) -> dict[str, Any]:
    """One of those that a document compares."""
    return next(one for one in document["quantities"] if one["quantity"] == name)


def spans(gap_s: float, **more: Any) -> tuple[str, str]:
    """Two scrapes 10 s apart of a server that decodes 20 sequences."""
    tokens = 20 * 10.0 / gap_s
    return vllm(0, 0, gap_s, **more), vllm(tokens, tokens / 250, gap_s, **more)


def predicted_tpot_s() -> Any:
    question = WatchQuestion(urls=("http://h:1",), backend="vllm", **MODEL)
    deployed = deployment_of(question, None)
    assert deployed is not None
    return predict(deployed, Load(20.0, 1000.0, 0.0, 250.0)).tpot_s


@pytest.mark.parametrize(("share", "inside"), [(1.1, True), (10.0, False)])
def test_predicted_against_actual_at_the_load_that_is_seen(share: float, inside: bool, watch_of: Any) -> None:
    predicted = predicted_tpot_s()
    watch, _ = watch_of(*spans(share * predicted.p50), **MODEL)
    answer = once(watch)
    assert answer.load is not None and answer.load.batch == pytest.approx(20.0, rel=0.01)
    row = answer.row("tpot_s")
    assert row is not None and row.predicted is not None and row.predicted.p50 == pytest.approx(predicted.p50)
    assert row.ratio == pytest.approx(share) and row.inside is inside
    document = answer.to_dict()
    assert quantity(document, "tpot_s")["inside"] is inside
    assert document["prediction"] == {"engine": "vllm", "layout": "tp1", "gpus": 1, "bound": "memory", "batch": 20}
    assert document["binds"]["what"].startswith("reading weights") and document["levers"]
    assert document["load"]["output_tokens"] == pytest.approx(250.0)
    if inside:  # ten times slower there are too few tokens in the span
        assert re.fullmatch(r"batch=20,isl=1000,osl=250,tpot=[\d.]+ms,layout=tp1", document["anchor"])


@pytest.mark.parametrize("waiting", [0, 5])
def test_a_higher_limit_of_sequences_is_advised_where_somebody_waits(waiting: int, watch_of: Any) -> None:
    answer = once(watch_of(*spans(predicted_tpot_s().p50, waiting=waiting), **MODEL)[0])
    assert answer.levers
    assert any(one.setting == "a higher limit of sequences" for one in answer.levers) is (waiting > 0)


def test_the_measurement_narrows_the_next_prediction(watch_of: Any) -> None:
    """The anchor that an answer offers is taken by the next question, whose interval then holds what is measured."""
    slow = 1.3 * predicted_tpot_s().p50
    first = once(watch_of(*spans(slow), **MODEL)[0])
    second = once(watch_of(*spans(slow), anchor=(first.anchor,), **MODEL)[0])
    before, after = first.row("tpot_s"), second.row("tpot_s")
    assert before is not None and after is not None and before.predicted is not None and after.predicted is not None
    assert after.inside and after.ratio == pytest.approx(1.0, abs=0.1)
    assert after.predicted.p95 - after.predicted.p05 < 0.6 * (before.predicted.p95 - before.predicted.p05)


@pytest.mark.parametrize(
    ("more", "what", "eased"),
    [
        ({"waiting": 5, "used": 0.97}, "the KV cache", "an 8-bit cache"),
        ({"waiting": 5, "used": 0.2}, "the number of sequences", "--max-num-seqs"),
        ({"running": 0}, "nothing: the server is idle", "fewer GPUs"),
    ],
)
def test_what_binds(more: dict[str, Any], what: str, eased: str, watch_of: Any) -> None:
    first, second = spans(0.02, **more)
    answer = once(watch_of(first, first if "running" in more else second)[0])
    assert answer.binding is not None
    assert what in answer.binding.what and eased in answer.binding.eased_by


def test_what_helps_a_full_cache_is_judged_by_its_gpus_and_the_interval_stays_at_80_columns(
    watch_of: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = once(watch_of(*spans(predicted_tpot_s().p50, waiting=5, used=0.99), **MODEL)[0])
    room = {one.name: one.capacity_ratio for one in answer.levers}
    assert room["twice the tensor parallelism (tp2)"] > room["KV cache in 8 bits"] > 1.9
    whole = answer.view()
    assert "99\u00a0% of the cache" in whole.context and "KV cache in 8 bits helps most for its GPUs" in whole.context
    monkeypatch.setenv("COLUMNS", "80")
    print_view(whole)
    text = capsys.readouterr().out
    assert "left out at this width: actual / predicted" in text
    assert re.search("predicted +90.% interval", text)


def test_a_span_in_which_counters_began_again_says_why_nothing_is_predicted(watch_of: Any) -> None:
    answer = once(watch_of(vllm(9000, 36), vllm(250, 1), **MODEL)[0])
    assert answer.prediction is None
    assert any("nothing is predicted: counters began again in this span" in one for one in answer.remarks)


def test_preempted_requests_say_that_the_cache_binds(watch_of: Any) -> None:
    answer = once(watch_of(vllm(0, 0), vllm(9000, 30, preempted=3))[0])
    assert answer.binding is not None and answer.binding.why == "3 requests were preempted for lack of room"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Load]:
    """The loads that are predicted; no other settings are tried."""
    calls = list[Load]()

    def predicted(deployed: Any, load: Load) -> Any:
        calls.append(load)
        return predict(deployed, load)

    monkeypatch.setattr(sessions, "predict", predicted)
    monkeypatch.setattr(sessions, "levers", lambda *_given: ())
    return calls


def test_the_loop_outlives_failures_and_restarts_and_predicts_seldom(
    watch_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = counted(monkeypatch)
    down = EndpointError("http://gpu-1:8000/metrics: answers with status 404")
    texts = [vllm(4000 * n, 16 * n) for n in range(1, 8)]
    restarted = [vllm(4000 * n, 16 * n, started=500) for n in range(1, 4)]
    watch, machine = watch_of(down, *texts, down, down, *restarted, **MODEL)
    answers = list(steps(watch, 13))
    assert len(answers) == 12 and len(calls) == 1  # none before the first scrape; one load, one prediction
    assert machine.waited == [10.0] * 12
    server = watch.session.server
    assert server is not None and server.session is not None
    assert (server.scrapes, sum(server.failures.values()), server.session.restarts) == (10, 3, 1)
    last = answers[-1]
    assert "answers with status 404 (3 times)" in " ".join(last.remarks)
    assert "counters began again once" in " ".join(last.remarks)
    assert last.session is not None
    assert last.session.added["output_tokens"] == 4000 * 6 + 4000 * 3  # all but what was lost at the restart
    assert last.session.duration_s == 110.0


def test_another_load_is_predicted_anew_but_not_within_half_a_minute(
    watch_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(monkeypatch)
    totals = [0.0]
    for n in range(12):  # the load doubles at every scrape from the second minute on
        totals.append(totals[-1] + 1000 * (1 if n < 6 else 2 ** (n - 6)))
    watch, _ = watch_of(*(vllm(one, one / 250) for one in totals), **MODEL)
    assert len(list(steps(watch, 13))) == 13
    batches = [one.sequences for one in calls]
    assert batches == [2, 4, 32]


def test_a_span_is_a_line_of_a_run_ledger_and_settles_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'model = "llama-3.1-8b"\nsystem = "h100-nvl8"\nprice = "$2/h"\n[pretraining]\nskip = "-"\n[rl]\nskip = "-"\n'
        '[inference]\ntokens = "1B tokens"\ninput_tokens = "1000 tokens"\noutput_tokens = "250 tokens"\n'
        'layout = "tp1"\nbatch = 20\n'
    )
    asked = ["--plan", str(plan), "--every", "0.1s", "--ledger", "run.jsonl", "--calibration", "next.toml", "--brief"]
    with metrics_server(*(text(vllm(250 * n, n, 0.01)) for n in (0, 1, 2, 6, 10))) as server:
        few = call(main, ["watch", server.url, "--once", *asked], tmp_path)
        assert few.returncode == 0 and not (tmp_path / "next.toml").exists()
        assert "no calibration: run.jsonl has 1 request and 250 output tokens; 20 requests or 2,000" in few.stderr
        (tmp_path / "run.jsonl").unlink()
        server.answers[:] = [text(vllm(750 * n, 3 * n, 0.01)) for n in range(1, 6)]
        done = call(main, ["watch", server.url, "--scrapes", "5", *asked], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    schema = json.loads((ROOT / "docs/run_ledger.schema.json").read_text())
    for line in lines:
        jsonschema.validate(json.loads(line), schema)
    entries = read_ledger(tmp_path / "run.jsonl").entries
    assert [one.tokens_by_kind for one in entries] == [{"input": 3000.0, "output": 750.0}] * 4
    assert {(one.workload, one.phase, one.devices, one.sequences) for one in entries} == {("serving", "step", 1, 3.0)}
    known = read_calibration(tmp_path / "next.toml").phases["inference"]
    assert known.model == "meta-llama/Meta-Llama-3.1-8B" and 0 < known.utilization.low < known.utilization.high < 1


def test_once_prints_one_document_one_line_or_a_report(tmp_path: Path) -> None:
    asked = ["--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--every", "0.1s", "--samples=64"]
    with metrics_server(*[text(vllm(n, n / 250, 0.01)) for n in (0, 500)] * 3) as server:
        document = json.loads(call(main, ["watch", "--once", "--json", server.url, *asked], tmp_path).stdout)
        line = call(main, ["watch", "--once", "--brief", server.url, *asked], tmp_path).stdout
        page = call(main, ["watch", "--once", "--html", "now.html", server.url, *asked], tmp_path)
    jsonschema.validate(document, json.loads((ROOT / "docs/answers.schema.json").read_text("utf-8")))
    assert document["schema"] == "computeledger/watch/1"
    assert folded(keys_of(document)) == json.loads(KEPT.read_text("utf-8"))["watch"]
    assert document["engine"] == "vllm" and quantity(document, "tpot_s")["actual"] == pytest.approx(0.01)
    assert document["endpoints"] == [
        {"address": server.url, "engine": "vllm", "scrapes": 2, "failures": 0, "damaged_lines": 0, "is_down": False}
    ]
    assert re.fullmatch(
        r"10 ms \(predicted .*\)  Time per output token, vLLM at http://127.0.0.1:\d+/metrics with m\n", line
    )
    assert page.returncode == 0 and "Predicted against actual" in (tmp_path / "now.html").read_text("utf-8")


def test_levels_alone_need_one_scrape(watch_of: Any) -> None:
    power = 'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 312.4\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 97\n'
    watch, machine = watch_of(power)
    answer = once(watch)
    assert machine.waited == [] and quantity(answer.to_dict(), "power_w_per_gpu")["actual"] == 312.4
    assert answer.remarks[0].startswith("one scrape: levels as they are now")


def test_requests_that_run_without_a_token_are_no_idle_server(watch_of: Any) -> None:
    """As llama.cpp counts: at the end of each request."""
    answer = once(watch_of("llamacpp:tokens_predicted_total 64\nllamacpp:requests_processing 1\n")[0])
    assert answer.binding is None and answer.remarks[0].startswith("requests run and no token was counted")


def test_power_beside_a_server_gives_the_energy_of_its_gpus(watch_of: Any) -> None:
    urls = ("http://gpu-1:8000", "http://gpu-1:9400")
    texts = []
    for n in (0, 1):
        spent = f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="0"}} {4e6 * n}\n'
        texts += [vllm(4000 * n, 16 * n), f'DCGM_FI_DEV_POWER_USAGE{{gpu="0"}} 400\n{spent}']
    watch, _ = watch_of(*texts, urls=urls, **MODEL)
    answer = once(watch)
    row = answer.row("power_w_per_gpu")
    assert row is not None and row.predicted is not None and (row.actual, row.predicted.p50) == (400.0, 700.0)
    entry = watch.session.entry(datetime.datetime.now(datetime.UTC))
    assert entry is not None and entry.energy_j == pytest.approx(4000.0)


def test_a_strangers_words_reach_neither_a_path_nor_the_terminal_as_they_are(
    watch_of: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "../../etc/passwd\\n\x1b]0;gone\x07[red]x\u202e" + "y" * 500
    watch, _ = watch_of(*spans(0.02, name=name))
    opened = list[str]()
    once(watch_of(*spans(0.02))[0]).view()  # our own tables are read once
    monkeypatch.setattr(Path, "open", lambda self, *_a, **_k: opened.append(str(self)))
    answer = once(watch)
    view = answer.view()
    monkeypatch.undo()
    assert opened == []
    print_view(view)
    shown = capsys.readouterr().out
    assert all(one.isprintable() or one == "\n" for one in shown) and "[red]x" in shown
    assert max(len(line) for line in shown.splitlines()) <= 120
    entry = watch.session.entry(datetime.datetime.now(datetime.UTC))
    assert entry is not None and "passwd" not in json.dumps(entry.run)
    board = Board()
    board.show(answer, datetime.datetime.now(datetime.UTC))
    assert "\u202e" not in board.page(is_whole=False)
    collected = exposition.Collector(board).collect()
    labels = {value for family in collected for one in family.samples for value in one.labels.values()}
    assert not any("passwd" in one for one in labels)


def test_our_own_metrics_are_served_to_this_machine_and_the_dashboard_shows_each(watch_of: Any) -> None:
    board = Board()
    port, stop = serve_board(board, 0)
    try:
        assert httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text == ""
        board.show(once(watch_of(*spans(0.02), **MODEL)[0]), datetime.datetime.now(datetime.UTC))
        served = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    finally:
        stop()
    values = dict(line.rsplit(" ", 1) for line in served.splitlines() if not line.startswith("#"))
    name = "computeledger_time_per_output_token_seconds"
    assert float(values[f'{name}{{side="actual"}}']) == pytest.approx(0.02)
    sides = [float(values[f'{name}{{side="{side}"}}']) for side in ("low", "median", "high")]
    assert sides == sorted(sides) and sides[0] > 0
    assert values['computeledger_endpoint_up{address="http://gpu-1:8000/metrics"}'] == "1.0"
    shown = {one["targets"][0]["expr"] for one in dashboard()["panels"]}
    assert shown == {
        exposition.RATIO[0],
        exposition.INSIDE[0],
        exposition.UP[0],
        *(name for name, _ in exposition.METRICS.values()),
    }
    assert {line.split()[2] for line in served.splitlines() if line.startswith("# TYPE")} - shown == {
        "computeledger_scrape_failures_total"
    }


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [("/", "evil.example:80", 403), ("/metrics", "evil.example", 403), ("/../etc/passwd", "127.0.0.1:1", 404)],
)
def test_the_live_page_is_for_this_machine_alone(path: str, host: str, status: int) -> None:
    said: list[str] = []
    body = application(Board())({"PATH_INFO": path, "HTTP_HOST": host, "REQUEST_METHOD": "GET"},
                                lambda status, _headers: said.append(status))  # fmt: skip
    assert said[0].startswith(str(status)) and b"\n" in b"".join(body)


def test_the_dashboard_in_the_examples_is_what_the_command_writes(tmp_path: Path) -> None:
    done = call(main, ["watch", "--dashboard", "grafana.json"], tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "grafana.json").read_text() == (ROOT / "examples/watch/grafana.json").read_text()


RUNS = ("--model", "llama-3.1-8b", "--system", "h100-nvl8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "URL: what is to be watched?"),
        (("gpu-1:8000",), "an address of http or https is needed"),
        (("http://h:1", "--json"), "--json prints one document: add --once"),
        (("http://h:1", "--model", "llama-3.1-8b"), "--system: a prediction needs --model and --system"),
        (("http://h:1", "--model", "llama-3.1-9z", "--system", "h100-nvl8"), "llama-3.1-8b"),
        (("http://h:1", "--once", "--scrapes", "3"), "--once ends after one answer"),
        (("http://h:1", "--calibration", "c.toml"), "add --plan PLAN.toml and --ledger FILE"),
        (("http://h:1", "http://h:1"), "given twice"),
        (("http://h:1", "--every", "10ms"), "--every '10ms': must be at least 0.1 s"),
        (("http://h:1", *RUNS, "--backend", "vlm"), "unknown engine 'vlm': did you mean 'vllm'?"),
        (("http://h:1", *RUNS, "--precision", "fp7"), "unknown precision 'fp7'"),
        (("http://h:1", *RUNS, "--kv-precision", "fp7"), "unknown precision 'fp7'"),
        (("http://h:1", *RUNS, "--layout", "tp3"), "layout tp3: 32 attention heads"),
        (("http://h:1", *RUNS, "--backend-version", "zzz"), "--backend-version 'zzz'"),
        (("http://h:1", *RUNS, "--anchor", "foo"), "--anchor foo: no such file"),
        (("http://h:1", *RUNS, "--profile", "plan.toml"), "plan.toml"),
        (
            ("http://h:1", "--once", "--ledger", "no/run.jsonl"),
            "--ledger 'no/run.jsonl': the folder 'no' does not exist",
        ),
        (("http://127.0.0.1:1", "--once"), "http://127.0.0.1:1/metrics: no connection"),
        (("http://h:1", "--scrapes", "0"), "--scrapes '0': at least 1"),
        (("http://127.0.0.1:1", "--once", "--ledger", "plan.toml"), "plan.toml is no run ledger"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("model = 1\n")
    done = call(main, ["watch", *given], tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert said in done.stderr
    assert (tmp_path / "plan.toml").read_text() == "model = 1\n"


def test_it_watches_a_real_address_through_the_real_client(tmp_path: Path) -> None:
    """The loop with its own client and clock: a 404 between two scrapes, and the counters go on."""
    answers = [text(vllm(0, 0)), text("", "404 Not Found"), text(vllm(400, 2))]
    with metrics_server(*answers) as server:
        session: Session = new_session(WatchQuestion(urls=(server.url,), every=0.1), [address_of(server.url)])
        with watching(session, str(tmp_path / "run.jsonl")) as watch:
            found = list(steps(watch, 3))
    assert [(one.endpoints[0].scrapes, one.endpoints[0].is_down) for one in found] == [
        (1, False),
        (1, True),
        (2, False),
    ]
    assert answer_watch(session).window.added["output_tokens"] == 400.0
    assert len(read_ledger(tmp_path / "run.jsonl").entries) == 1
