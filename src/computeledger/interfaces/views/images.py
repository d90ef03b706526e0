"""The part of a serving view that images add: tokens of the prompt, and what their encoder takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import figure_words, percent, words
from computeledger.units import format_count


def images_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One line each on tokens and on the encoder; none where prompts are text."""
    one = document.get("images")
    if one is None:
        return []
    of_size = f" of {one['size']}" if one["size"] else ""
    share = one.get("tokens_of_input_fraction")
    of_input = "" if share is None else f": {percent(share)} of the input"
    cached = f", {one['cached']:,} of them in the cached prefix" if one["cached"] else ""
    count = format_count(one["count"], "image")
    tokens = (
        f"{count}{of_size}, {one['tokens_per_image']:,} tokens each ({one['patches_per_image']:,} patches; "
        f"{one['rule']['source']}){cached}{of_input}"
    )
    encoder = one["encoder"]
    if "encode_s" not in encoder:
        held = f"{words(encoder['n_params'], 'params')}, {words(encoder['flop_per_image'], 'FLOP')} an image"
        return [("Images", tokens), ("Image encoder", held)]
    held = f"{words(encoder['n_params'], 'params')}, {words(encoder['weights_bytes'], 'B')} on each GPU"
    spread = "its matrices" if encoder["spread"] == "tensor" else "images"
    share = percent(encoder["ttft_fraction"])
    time = f"{figure_words(encoder['encode_s'], 's')} of a prompt's prefill, {share} of TTFT"
    work = f"{words(encoder['flop_per_image'], 'FLOP')} an image; {time}; TP spreads {spread}"
    return [("Images", tokens), ("Image encoder", f"{held}; {work}")]
