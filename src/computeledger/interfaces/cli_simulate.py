"""The commands ``simulate serve`` and ``simulate rl``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from computeledger.interfaces.cli_options import (
    CONTEXT,
    COUNT,
    NUMBER,
    SHARE,
    at_least_one,
    counted_to,
    help_alone,
    json_option,
    parse_price,
    parse_seconds,
    print_json,
    quantity_option,
    seed_option,
    write_bytes,
    write_file,
)

#: Loads that one command simulates.
_MOST_LOADS = 1000
_FLEET = (
    click.option("--model", required=True, help="Model id, or path to a config.json."),
    click.option("--system", required=True, help="System id, or path to a system TOML."),
    click.option("--layout", metavar="tp8-ep8", help="Of one replica; searched when left out."),
    click.option(
        "--precision",
        metavar="P",
        help="bf16, fp8, fp4, int8, int4, w8a16, w4a8, fp4-a16, fp4-a8; left out: as stored.",
    ),
    click.option("--kv-precision", default="bf16", show_default=True, metavar="P", help="Precision of the KV cache."),
    click.option("--price", callback=parse_price, metavar="$/h", help="GPU-hour; the edition's rent when left out."),
    click.option(
        "--replicas",
        default=1,
        type=COUNT,
        show_default=True,
        callback=at_least_one,
        help="Replicas; the most, where they scale.",
    ),
    click.option(
        "--backend", default="vllm", show_default=True, metavar="E", help="Engine: trtllm, vllm, sglang, or ideal."
    ),
    click.option(
        "--prefill-replicas",
        type=COUNT,
        callback=at_least_one,
        metavar="N",
        help="Further replicas that only read prompts (disaggregated).",
    ),
    click.option("--prefill-layout", metavar="tp4", help="Of one of those; the same layout when left out."),
    click.option(
        "--transfer",
        callback=quantity_option("bytes_per_s", "GB/s"),
        metavar="B/s",
        help="Rate at which a cache moves between them; one replica's NICs when left out.",
    ),
    click.option(
        "--max-batch",
        type=COUNT,
        callback=at_least_one,
        metavar="B",
        help="Most live sequences of a replica. [default: what memory holds]",
    ),
    click.option(
        "--chunk-tokens",
        default=8192,
        type=COUNT,
        show_default=True,
        callback=at_least_one,
        help="Prompt tokens a rank reads per step.",
    ),
    click.option(
        "--routing",
        default="least-requests",
        show_default=True,
        metavar="R",
        help="least-requests, least-tokens, prefix, round-robin or random.",
    ),
    click.option("--no-prefix-cache", is_flag=True, help="Read every prompt in full."),
)
_LOAD = (
    click.option(
        "--trace",
        metavar="FILE",
        help="Azure CSV, Mooncake JSONL, or arrival,input_tokens,output_tokens[,prefix,prefix_tokens].",
    ),
    click.option("--arrivals", metavar="P", help="poisson:RATE, gamma:RATE:SPREAD or even:RATE, in requests/s."),
    click.option(
        "--requests",
        type=COUNT,
        callback=at_least_one,
        metavar="N",
        help="How many to measure at least. [default: 2000, or the whole trace]",
    ),
    click.option(
        "--pace", default=1.0, type=NUMBER, show_default=True, help="Speed of the arrivals over the trace's own."
    ),
    click.option(
        "--input-tokens",
        default="1024",
        show_default=True,
        metavar="L",
        help="A length, lognormal:P50:P95, uniform:LOW:HIGH or exponential:MEAN.",
    ),
    click.option("--output-tokens", default="256", show_default=True, metavar="L", help="The same for the output."),
    click.option("--load-curve", metavar="H:LOAD,...", help="Load over the day, such as 0:0.4,9:1,15:1.6,22:0.8."),
    click.option("--ttft", callback=parse_seconds, metavar="T", help="Longest good time to first token."),
    click.option("--tpot", callback=parse_seconds, metavar="T", help="Longest good time per output token."),
    click.option(
        "--good",
        default=0.9,
        type=SHARE,
        show_default=True,
        metavar="F",
        help="Share of requests that must be good.",
    ),
)
_CHANGES = (
    click.option("--autoscale", type=COUNT, callback=at_least_one, metavar="N", help="Scale between N and --replicas."),
    click.option(
        "--target-requests",
        default=32.0,
        type=NUMBER,
        show_default=True,
        help="Requests in flight a replica is meant to carry.",
    ),
    click.option(
        "--tick",
        default="60s",
        show_default=True,
        callback=parse_seconds,
        metavar="T",
        help="Time between two decisions.",
    ),
    click.option(
        "--start",
        default="300s",
        show_default=True,
        callback=parse_seconds,
        metavar="T",
        help="Until a new replica serves.",
    ),
    click.option("--failures", callback=parse_seconds, metavar="T", help="Mean time between failures of a replica."),
    click.option(
        "--repair", default="900s", show_default=True, callback=parse_seconds, metavar="T", help="Until it is back."
    ),
)
_RUN = (
    click.option(
        "--workers",
        default=1,
        type=COUNT,
        show_default=True,
        callback=at_least_one,
        help="Processes for several simulations.",
    ),
    click.option("--cluster", metavar="tcp://...", help="Dask scheduler for several simulations."),
    click.option("--records", metavar="FILE", help="Write every request as .csv, .npz or .parquet."),
    click.option("--html", "html_file", metavar="FILE", help="Write the report as one self-contained HTML file."),
    seed_option,
    json_option,
)


def _with(*groups: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Options in the order in which they are listed."""

    def decorate(command: Any) -> Any:
        """Add them."""
        for option in reversed([one for group in groups for one in group]):
            command = option(command)
        return command

    return decorate


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def simulate(context: click.Context) -> None:
    """Serving and RL through time: queues, tails, idle GPUs."""
    help_alone(context)
    from computeledger.simulation.compiled import can_compile

    if context.invoked_subcommand is not None and not can_compile():
        click.echo("numba is not installed: long simulations run as Python, some hundred times slower", err=True)


@simulate.command("serve")
@_with(_FLEET, _LOAD)
@click.option("--find-load", is_flag=True, help="Find the largest stable load, within --ttft and --tpot.")
@click.option(
    "--sweep",
    type=COUNT,
    callback=counted_to(_MOST_LOADS),
    metavar="N",
    help="Simulate N loads from a quarter to twice this one.",
)
@_with(_CHANGES, _RUN)
def simulate_serve(**options: Any) -> None:
    """A fleet under a load, request by request: percentiles, goodput, cost, saturation.

    Continuous batching with chunked prefill and a prefix cache. Give --trace or --arrivals: a trace is simulated from
    beginning to end, arrivals in steady state.
    """
    from computeledger.interfaces.answers_simulate import answer_simulate_serve

    document, records = answer_simulate_serve(options)
    _finish(document, records, options)


@simulate.command("rl")
@click.argument("plan_file", metavar="PLAN.toml")
@click.option(
    "--steps", default=20, type=COUNT, show_default=True, callback=at_least_one, help="Training steps to simulate."
)
@click.option("--lags", metavar="0,1,4", help="Compare these largest lags, on the same GPUs and the same seed.")
@_with(_RUN)
def simulate_rl(plan_file: str, **options: Any) -> None:
    """The RL section of a plan, rollout by rollout: step time, what waits for what, staleness."""
    from computeledger.interfaces.answers_simulate import answer_simulate_rl

    document, records = answer_simulate_rl(plan_file, options)
    _finish(document, records, {**options, "read_from": plan_file})


def _finish(document: dict[str, Any], records: Any, options: dict[str, Any]) -> None:
    """Print the answer, and write what was asked for."""
    if options["records"] is not None:
        from computeledger.interfaces.record_files import record_bytes

        write_bytes(options["records"], record_bytes(options["records"], records), "--records")
    if options["html_file"] is not None:
        from computeledger.interfaces.report_simulate import simulation_report

        write_file(options["html_file"], simulation_report(document), options.get("read_from"))
    if options["as_json"]:
        print_json(document)
        return
    from computeledger.interfaces.tables_simulate import print_simulation

    print_simulation(document)
    for name in ("records", "html_file"):
        if options[name] is not None:
            click.echo(f"{'report' if name == 'html_file' else name}: {options[name]}")
