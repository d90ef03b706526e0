"""The command ``rl``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.cli_options import (
    COUNT,
    NUMBER,
    OF_PEAK,
    json_option,
    number_of_samples,
    parse_count,
    parse_price,
    parse_seconds,
    parse_tokens,
    print_json,
    quantity_option,
    seed_option,
    working_option,
)

_parse_fraction = quantity_option("fraction", "")
_parse_flop = quantity_option("flop", "FLOP")


def _count(name: str, default: str | None, help_text: str) -> Any:
    """An option that is a count, certain or uncertain."""
    shown = default is not None
    return click.option(name, default=default, show_default=shown, callback=parse_count, metavar="N", help=help_text)


_ABOUT = [
    click.option("--model", help="Model id, or path to a config.json."),
    click.option("--system", help="System id of the generators, or path to a system TOML."),
    click.option("--training-system", metavar="SYSTEM", help="Of the trainer; the generators' own when left out."),
    _count("--gpus", None, "GPUs of the run; one scale-up domain when left out."),
    _count("--training-gpus", None, "Of them, those that only train; all take turns, or are searched with a lag."),
    click.option("--layout", metavar="tp8-ep8", help="Of one generation replica; searched when left out."),
    click.option("--training-layout", metavar="tp2-pp4", help="Of the trainer; searched when left out."),
    click.option(
        "--precision",
        metavar="P",
        help="Of rollouts: bf16, fp8, fp4, int8, int4, w8a16, w4a8, fp4-a16, fp4-a8; as stored when left out.",
    ),
    click.option("--kv-precision", default="bf16", show_default=True, metavar="P", help="Of the KV cache."),
    click.option("--training-precision", default="bf16", show_default=True, metavar="P", help="Of the update."),
    click.option("--backend", default="vllm", show_default=True, metavar="E", help="Generation engine, or ideal."),
]
_ROLLOUTS = [
    click.option("--rollout", callback=parse_tokens, metavar="L", help="Mean length of a rollout."),
    click.option("--rollout-p50", callback=parse_tokens, metavar="L", help="Median length; with --rollout-p95."),
    click.option("--rollout-p95", callback=parse_tokens, metavar="L", help="Length that one in twenty exceeds."),
    click.option("--rollout-lengths", metavar="FILE", help="Observed lengths, one number per line."),
    click.option(
        "--longest", callback=parse_tokens, metavar="L", help="Where rollouts are cut; 3 x the mean if not given."
    ),
    click.option("--prompt", default="500", show_default=True, callback=parse_tokens, metavar="L", help="Mean prompt."),
    click.option("--no-shared-prefix", is_flag=True, help="A group's prompt is read once per rollout."),
    _count("--prompts", "128", "Prompts per step."),
    _count("--group-size", "16", "Rollouts per prompt."),
    _count("--steps", "1000", "Steps of the run."),
]
_ALGORITHM = [
    click.option(
        "--kept", default="100%", show_default=True, callback=_parse_fraction, metavar="F", help="Share trained on."
    ),
    _count("--sampling-rounds", "1", "Times a batch is sampled until enough groups carry a signal."),
    _count("--oversampling", "1", "Rollouts started over those taken in."),
    click.option("--partial-rollouts", is_flag=True, help="Rollouts broken off go on in the next step."),
    _count("--logprob-passes", "1", "Forward passes: old policy, reference."),
    _count("--updates", "1", "Passes of the update over kept rollouts."),
    _count("--optimizer-steps", "1", "Optimiser steps in a pass."),
    _count("--critic-ratio", "0", "Size of a critic over the policy; 0 without one."),
    _count("--reward-ratio", "0", "Size of a reward model on the trainer over the policy; 0 without one."),
    click.option(
        "--verifier-time",
        default="0s",
        show_default=True,
        callback=parse_seconds,
        metavar="T",
        help="CPU time of a verdict.",
    ),
    _count("--verifier-cores", "1024", "Verdicts at a time."),
    click.option(
        "--verifier",
        multiple=True,
        metavar="SHARE:TIME:CORES",
        help="One kind of task, such as 30%:2s:512; may be repeated.",
    ),
]
_TEXT = [
    click.option(
        "--gold",
        callback=parse_tokens,
        metavar="L",
        help="RL on text: tokens that go on behind a place; their likelihood is scored, and rewards a thought.",
    ),
    click.option("--train-on-gold", is_flag=True, help="The update goes over the gold as well."),
    click.option(
        "--next-token",
        default="0",
        show_default=True,
        callback=parse_tokens,
        metavar="L",
        help="Tokens of next-token training beside the update, per step.",
    ),
    click.option(
        "--text-per-place",
        callback=parse_tokens,
        metavar="L",
        help="One place in so many tokens of text; prompt and gold when left out.",
    ),
]
_SPLIT = [
    click.option(
        "--max-lag",
        default=0,
        type=COUNT,
        show_default=True,
        metavar="K",
        help="Versions a rollout may be behind; 0 is synchronous.",
    ),
    click.option(
        "--in-flight/--drained",
        default=None,
        help="Under a lag live rollouts go on with new weights (the default), or generation drains first.",
    ),
    _count("--live-limit", "1024", "Rollouts that a replica decodes at once at most."),
    _count("--draft-tokens", "0", "Speculative decoding: tokens drafted per step."),
    _count("--tokens-per-step", "1", "Tokens that a speculative step yields."),
    click.option(
        "--recompute", metavar="MODE", help="Of the trainer: none, selective or full; searched when left out."
    ),
]
_COMPARED = [
    click.option(
        "--mfu",
        default=OF_PEAK,
        show_default=True,
        callback=_parse_fraction,
        metavar="F",
        help="Of the pretraining that beta compares with.",
    ),
    click.option(
        "--pretraining-flop", callback=_parse_flop, metavar="C", help="A pretraining run to match in GPU-time."
    ),
    click.option(
        "--flop",
        "budget_flop",
        default="1e26",
        show_default=True,
        callback=_parse_flop,
        metavar="C",
        help="FLOP to put into RL: tokens, steps and tasks it takes.",
    ),
    click.option("--price", callback=parse_price, metavar="$/h", help="GPU-hour; the edition's rent when left out."),
    click.option("--search", is_flag=True, help="Search the best split of the GPUs under the lag."),
    click.option("--scale-up", is_flag=True, help="Does it fit the scale-up world: domains, rollouts, longest trace."),
    click.option("--levers", is_flag=True, help="What would bring GPU-time down, one change at a time."),
    click.option("--published", is_flag=True, help="Beta of published runs, by phase; needs no model."),
    click.option("--reward", metavar="F.csv", help="Fit what RL buys from columns compute,reward; needs no model."),
    click.option(
        "--coverage", metavar="F.csv", help="Fit pass@k from columns k,coverage or samples,correct; needs no model."
    ),
    click.option("--forecast", type=NUMBER, metavar="X", help="Compute, or samples, to forecast the fit at."),
    click.option(
        "--samples",
        default=512,
        type=COUNT,
        show_default=True,
        callback=number_of_samples,
        help="Samples of uncertain inputs.",
    ),
    seed_option,
    working_option,
    json_option,
]


def _all_options(command: Any) -> Any:
    for option in reversed([*_ABOUT, *_ROLLOUTS, *_ALGORITHM, *_TEXT, *_SPLIT, *_COMPARED]):
        command = option(command)
    return command


@click.command()
@_all_options
def rl(**options: Any) -> None:
    """An RL run: rollout, verify, score, update, weight sync; beta in both currencies, and who waits.

    The step by phase, GPU-hours, FLOP, utilisation, tokens, cores, dollars and energy; with --search the best split of
    the GPUs; with --published the beta of published runs.
    """
    from computeledger.interfaces.answers_rl import answer_rl

    document = answer_rl(options)
    if options["as_json"]:
        print_json(document)
        return
    from computeledger.interfaces.tables_rl import print_rl

    print_rl(document, options["working"])
