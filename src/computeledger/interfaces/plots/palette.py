"""What each colour means, on every page.

A colour of a table below stands for nothing else. All stand out from white and from near-black (3:1); no meaning is
told by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Phases of a model's life: colours of Okabe and Ito, the purple a shade darker.
PHASES: Mapping[str, str] = {
    "pretraining": "#0072B2", "rl": "#D55E00", "inference": "#009E73", "experiments": "#B5648F",
}  # fmt: skip
#: What limits a step.
BOUNDS: Mapping[str, str] = {
    "compute": "#46688A", "memory": "#7291B0", "network": "#A87B2D", "overhead": "#A58585",
}  # fmt: skip
#: What is right, what holds on a condition, what is not: more than planned, what does not fit, work that is lost.
GOOD, CONDITIONAL, BAD = "#2E8540", "#A67C00", "#C22F2F"
#: What is right as far as its own inputs are.
GOOD_BY_ITSELF = "#5C9B6A"
#: What was asked for, or chosen of several; what it is chosen of, and what nothing is said of.
CHOSEN, OTHER = "#7B5BD6", "#7A838D"
#: Quantities of one kind, and series without a meaning of their own: marks, dashes and a legend tell them apart.
PLAIN = "#4477AA"
SERIES = (PLAIN, "#CC6677", "#8F8F2B", "#AA4499")
#: More of them, where a chart has many groups.
GROUPS = (*SERIES, "#2E9385", "#8A6D3B", "#6B7F99", "#882255")
#: Verdicts on a claim.
VERDICTS: Mapping[str, str] = {
    "fails": BAD, "holds_if": CONDITIONAL, "holds": GOOD, "derived": "#6B7F99", "input": OTHER,
    "not_checkable": "#5F6770",
}  # fmt: skip
#: Kinds of memory, and what is free.
MEMORY: Mapping[str, str] = {
    "weights": PLAIN, "KV cache": "#2E9385", "activations": "#CC6677", "workspace": "#8F8F2B", "gradients": "#8A6D3B",
    "optimizer": "#8C6BB1", "logits": "#C4622D", "free": OTHER,
}  # fmt: skip

#: How much of a colour fills an interval that holds 90 %, and the part of it that holds half. Its outline, or the line
#: from end to end, has the whole colour: what is faint does not stand out (3:1) from near-black.
BAND, HALF = 0.3, 0.65


def luminance(color: str) -> float:
    """Relative luminance of a colour, as WCAG defines it, from 0 to 1.

    Examples
    --------
    >>> luminance("#000000"), round(luminance("#FFFFFF"), 6)
    (0.0, 1.0)
    """
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink(color: str) -> str:
    """Black or white, whichever stands out more from a colour.

    Examples
    --------
    >>> ink("#D55E00"), ink("#C22F2F")
    ('#000000', '#FFFFFF')
    """
    light = luminance(color) + 0.05
    return "#000000" if light / 0.05 > 1.05 / light else "#FFFFFF"
