"""The command ``serve``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from computeledger.interfaces.cli_options import (
    NUMBER,
    common_options,
    parse_count,
    parse_seconds,
    parse_tokens,
    print_json,
    quantity_option,
    write_file,
)


def serving_parts_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options that ask for further parts of the answer."""
    options = [
        click.option(
            "--mode",
            type=click.Choice(["aggregated", "disaggregated"]),
            default="aggregated",
            show_default=True,
            help="One pool of replicas, or prefill and decode apart.",
        ),
        click.option("--kv-tiers", is_flag=True, help="A cached prefix in HBM, DDR, flash, disk; less HBM."),
        click.option(
            "--cache-discount",
            callback=quantity_option("fraction", ""),
            metavar="F",
            help="Price of cached over new input, with --kv-tiers; 10 % when left out.",
        ),
        click.option("--emit", metavar="ENGINE", help="Print the launch command for vllm, sglang or trtllm."),
        click.option("--html", metavar="FILE", help="Write the working as a page."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@common_options
@click.option(
    "--batch",
    callback=parse_count,
    metavar="B",
    help="Sequences decoding per replica, all attention-DP ranks together.",
)
@click.option(
    "--input-tokens", default="4096", show_default=True, callback=parse_tokens, metavar="I", help="New input."
)
@click.option("--output-tokens", default="1024", show_default=True, callback=parse_tokens, metavar="O", help="Output.")
@click.option(
    "--cached-tokens", default="0", show_default=True, callback=parse_tokens, metavar="C", help="Cached prefix."
)
@click.option(
    "--context-tokens",
    callback=parse_tokens,
    metavar="N",
    help="Longest context served, as with YaRN, in place of the one in the model's configuration: an assumption.",
)
@click.option("--kv-precision", default="bf16", show_default=True, metavar="P", help="Precision of the KV cache.")
@click.option(
    "--backend", default="vllm", show_default=True, metavar="E", help="Engine: trtllm, vllm, sglang, or ideal."
)
@click.option("--profile", metavar="FILE", help="Profile of a machine, from calibrate; in place of --backend.")
@click.option(
    "--draft-tokens", default=0.0, type=NUMBER, metavar="D", help="Speculative decoding: tokens drafted per step."
)
@click.option(
    "--tokens-per-step", default=1.0, type=NUMBER, metavar="A", help="Tokens that a step yields, its own included."
)
@click.option(
    "--rounds",
    type=NUMBER,
    metavar="N",
    help="Requests per client when all clients start at once, as benchmarks do; left out: steady state.",
)
@click.option(
    "--equal-lengths",
    is_flag=True,
    help="With --rounds: all requests alike; on sglang, which reads prompts first, every round is then a burst.",
)
@click.option(
    "--statistic",
    default="mean",
    show_default=True,
    metavar="S",
    help="With --rounds: time to first token as mean, median, p90 or last of the requests.",
)
@click.option(
    "--anchor",
    multiple=True,
    metavar="A",
    help="A point of yours: batch=32,isl=1024,osl=1024,tpot=21ms, or the JSON of vLLM's benchmark; may be repeated.",
)
@click.option(
    "--requests-per-s",
    callback=quantity_option("requests_per_s", "requests/s"),
    metavar="R",
    help="Load to size a fleet for.",
)
@click.option("--ttft", callback=parse_seconds, metavar="T", help="Slowest acceptable time to first token, such as 2s.")
@click.option(
    "--tpot", callback=parse_seconds, metavar="T", help="Slowest acceptable time per output token, such as 50ms."
)
@serving_parts_options
def serve(**options: Any) -> None:
    """Serving: prefill and decode by operation, TTFT, TPOT, throughput, USD/Mtok, memory.

    Without --batch, the Pareto front of speed against throughput over legal layouts and batches; with
    --requests-per-s, how many GPUs that load needs.
    """
    from computeledger.interfaces.answers_serving import answer_serve, profile_path

    if (profile := options.pop("profile")) is not None:
        options["backend"] = profile_path(profile, options)
    named = click.get_current_context().get_parameter_source("backend")
    if options["emit"] and named is click.core.ParameterSource.DEFAULT:
        options["backend"] = options["emit"]  # what is launched is what is predicted
    document = answer_serve(options)
    if options["html"] is not None:
        from computeledger.interfaces.report_serving import serving_report

        write_file(options["html"], serving_report(document))
    if options["as_json"]:
        print_json(document)
        return
    if "launch" in document and not (options["working"] or options["kv_tiers"] or options["html"] is not None):
        click.echo(document["launch"]["text"])
        return
    from computeledger.interfaces.tables_serving import print_serve

    print_serve(document, options["working"])
    if options["html"] is not None:
        click.echo(f"report: {options['html']}")
