"""Live plots of the book: drawn from the package while the site is built, moved by a slider in the page.

A page asks for one with the comment ``<!-- plot: NAME -->``. The script that draws is that of reports and app. Readers
without JavaScript see the plot's picture, ``images/plots/NAME.webp``, which ``docs/pictures.py`` takes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from computeledger.actuals.recording.work import decode_work, forward_work
from computeledger.arrays import quantiles
from computeledger.economics.prices.inversion import PriceClues, revealed_sizes
from computeledger.economics.scaling.laws import loss_besiroglu_2024, loss_hoffmann_2022
from computeledger.facts.editions import load_prices
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.frontier.systems import described_system, flop_per_month
from computeledger.interfaces.page import plotly_script
from computeledger.interfaces.plots.parts import (
    CONFIG,
    LEGEND,
    PHASE_COLORS,
    SERIES,
    Spec,
    bar_text,
    faint,
    layout,
    log_axis,
    note,
    rounded,
    template,
)
from computeledger.physics.blackboard.ledgers import (
    BlackboardMachine,
    BlackboardModel,
    decode_times,
    inference_flop,
    pretraining_flop,
    rl_beta,
    rl_flop,
)
from computeledger.physics.blackboard.serving import usd_per_mtok
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.transformer import kv_bytes_per_token, n_params_active, n_params_total
from computeledger.questions.wording import percent
from computeledger.units import format_si, format_usd
from computeledger.workloads.rl.lengths import SURVIVAL, lengths_of_mean
from computeledger.workloads.serving.estimate import ServingScenario
from computeledger.workloads.serving.search import layouts_that_fit, pareto_front, price_of_speed, search_serving

_ASKED = re.compile(r"<!-- plot: (\w+) -->")
_HEIGHT = 380.0


@dataclass(frozen=True, slots=True)
class Live:
    """A plot and its positions.

    Attributes
    ----------
    title, caption : str
        What it shows, and how to read it.
    positions : mapping of str to sequence of dict
        What stands beside the slider, and the traces that are drawn there; a single one has no slider.
    layout : dict
        Of plotly.
    slider : str
        What it moves.
    start : int
        Where it stands first.
    """

    title: str
    caption: str
    positions: Mapping[str, Sequence[Spec]]
    layout: Spec
    slider: str = ""
    start: int = 0


def _line(name: str, x: Iterable[float], y: Iterable[float], color: str, **parts: object) -> Spec:
    line = {"color": color, "width": 2.5}
    return {"type": "scatter", "mode": "lines", "name": name, "x": rounded(x), "y": rounded(y), "line": line, **parts}


def _dot(name: str, x: float, y: float, color: str) -> Spec:
    return {"type": "scatter", "mode": "markers", "name": name, "x": rounded([x]), "y": rounded([y]),
            "showlegend": False, "cliponaxis": False, "marker": {"color": color, "size": 11}}  # fmt: skip


def _plain(across: Spec, up: Spec, **parts: object) -> Spec:
    return layout(_HEIGHT, [], xaxis=across, yaxis=up, showlegend=True, legend=LEGEND, **parts)


def _axis(values: Sequence[float], title: str, unit: str = "") -> Spec:
    return {**log_axis(values, lambda value: format_si(value, unit)), "title": {"text": title}}


def _power(value: float) -> str:
    return f"{value:.0e}".replace("+", "")


def roofline() -> Live:
    """Rate that a chip can reach over FLOP per byte, with a forward pass of a dense model on it."""
    names = ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm", "tpu-v6e")
    intensity = np.geomspace(0.5, 8192, 60)
    chips = [load_accelerator(name) for name in names]
    rates = [(one.peak_flop_per_s["bf16"].value, one.hbm_bytes_per_s.value) for one in chips]
    roofs = [
        _line(name, intensity, np.minimum(peak, intensity * width), color)
        for name, (peak, width), color in zip(names, rates, SERIES, strict=True)
    ]
    positions = {
        f"{tokens:,}": [
            *roofs,
            *(_dot(name, tokens, min(peak, tokens * width), color)
              for name, (peak, width), color in zip(names, rates, SERIES, strict=True)),
        ]
        for tokens in (1, 4, 16, 64, 256, 1024, 4096)
    }  # fmt: skip
    plain = _plain(_axis([0.5, 8192], "FLOP per byte"), _axis([1e12, 4e15], "FLOP/s that one chip can reach"))
    return Live(
        "How fast one chip can run a pass",
        "Bandwidth limits the slope, the dense bf16 peak limits the flat part. With 16-bit weights a pass of B tokens "
        "does B FLOP per byte it reads.",
        positions,
        plain,
        "tokens in the pass",
        3,
    )


def price() -> Live:
    """Cost of a token over its speed: two equations, and the operation model of the same deployment."""
    model, system = load_model("llama-3.1-70b"), load_system("h200-nvl8")
    chip = system.accelerator
    rent = load_prices().usd_per_gpu_hour[chip.id]["rent"].value
    board = BlackboardModel(n_params_active(model), n_params_total(model), 1.0, float(kv_bytes_per_token(model, 2.0)))
    two = BlackboardMachine(2 * chip.peak_flop_per_s["fp8"].value, 2 * chip.hbm_bytes_per_s.value)
    positions = {}
    for context in (1024, 4096, 16384, 65536):
        scenario = ServingScenario(
            model,
            parse_layout("tp2"),
            Precision("fp8", "fp8", "fp8"),
            float(context),
            256.0,
            1.0,
            usd_per_gpu_hour=rent,
        )
        options = price_of_speed(scenario, Machine(system, efficiency())).options
        batch = np.array([float(one.batch) for one in options])
        step_s = decode_times(batch, context + 128.0, board, two).step_s
        cost = np.asarray(usd_per_mtok(rent, 2, batch / step_s))
        positions[f"{context:,}"] = [
            _line("two equations", 1 / np.asarray(step_s), cost, SERIES[1]),
            _line("operation model", [1 / one.tpot_s for one in options],
                  [one.usd_per_mtok_output for one in options], SERIES[2], mode="lines+markers",
                  text=[f"batch {one.batch}" for one in options], hovertemplate="%{text}: %{x} tokens/s, $%{y}"),
        ]  # fmt: skip
    usd = {**log_axis([0.05, 200], format_usd), "title": {"text": "USD per million tokens"}}
    plain = _plain(_axis([2, 250], "tokens/s for one user"), usd)
    return Live(
        "The price of speed",
        "Llama 3.1 70B in 8 bits on 2 rented H200. Small batches are fast (right), large batches are cheap (down). "
        "The lines end where the memory is full.",
        positions,
        plain,
        "tokens of context",
        1,
    )


def context() -> Live:
    """Times of computing, weights and cache over context."""
    model, chip = load_model("qwen3-235b-a22b"), load_accelerator("h200-sxm5-141gb")
    board = BlackboardModel(n_params_active(model), n_params_total(model), 1.0, float(kv_bytes_per_token(model, 1.0)))
    eight = BlackboardMachine(8 * chip.peak_flop_per_s["fp8"].value, 8 * chip.hbm_bytes_per_s.value)
    tokens = np.geomspace(256, 262_144, 40)
    positions = {}
    for batch in (1, 8, 64, 512, 4096):
        times = decode_times(batch, tokens, board, eight)
        flat = np.ones_like(tokens)
        positions[f"{batch:,}"] = [
            _line("computing", tokens, times.compute_s / batch * flat, SERIES[1]),
            _line("weights", tokens, times.weights_s / batch * flat, SERIES[0]),
            _line("cache", tokens, np.asarray(times.kv_s) / batch, SERIES[2]),
        ]
    plain = _plain(_axis([256, 262_144], "tokens of context"), _axis([1e-7, 1e-2], "time per token", "s"))
    return Live(
        "What a token waits for",
        "Qwen3-235B-A22B in 8 bits on 8 H200, by the two equations and the cache. A larger batch lowers only the line "
        "of the weights; the context at which the cache takes as long as computing stays the same.",
        positions,
        plain,
        "sequences in the batch",
        2,
    )


def domains() -> Live:
    """Speed against throughput of the same model on domains of different size."""
    model, fp8 = load_model("deepseek-v3"), Precision("fp8", "fp8", "fp8")
    positions = {}
    for tokens in (1024, 4096, 16384):
        lines = []
        for name, chips, color in (
            ("h200-nvl8", 8, SERIES[0]),
            ("b200-nvl8", 8, SERIES[1]),
            ("gb200-nvl72", 72, SERIES[2]),
        ):
            machine = Machine(load_system(name), efficiency("sglang"))
            scenario = ServingScenario(model, Layout(), fp8, float(tokens), 1024.0, 1.0)
            front = pareto_front(search_serving(scenario, layouts_that_fit(scenario, machine, chips), machine))
            front = sorted((one for one in front if one.tpot_s < 0.2), key=lambda one: one.tpot_s)
            lines.append(_line(name, [1 / one.tpot_s for one in front],
                               [one.output_tokens_per_s_per_gpu for one in front], color,
                               text=[f"{one.layout}, batch {one.batch}" for one in front],
                               hovertemplate="%{text}: %{x} tokens/s for a user, %{y} per chip"))  # fmt: skip
        positions[f"{tokens:,}"] = lines
    plain = _plain(_axis([5, 120], "tokens/s for one user"), _axis([1, 10_000], "tokens/s per chip"))
    return Live(
        "What a larger domain buys",
        "DeepSeek-V3 in 8 bits, 1,024 output tokens, the best layout at every point. The larger domain gains most "
        "where each user gets few tokens per second.",
        positions,
        plain,
        "tokens of input",
        1,
    )


def isoflop() -> Live:
    """Loss over size at a fixed budget, by two laws."""
    size = np.geomspace(1e8, 1e13, 60)
    laws = (("Hoffmann 2022", loss_hoffmann_2022), ("Besiroglu 2024", loss_besiroglu_2024))
    positions = {}
    for budget in (1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27):
        lines = []
        for (name, law), color in zip(laws, (SERIES[1], SERIES[2]), strict=True):
            loss = np.asarray(law(size, budget / (6 * size)))
            shown = loss < loss.min() + 0.5
            lines.append(_line(name, size[shown], loss[shown], color))
            lines.append(_dot(name, float(size[loss.argmin()]), float(loss.min()), color))
        positions[_power(budget)] = lines
    plain = _plain(
        _axis([1e8, 1e13], "parameters"),
        {"title": {"text": "loss [nats per token]"}, "fixedrange": True, "range": [1.7, 3.2]},
    )
    return Live(
        "The best size for a budget",
        "Loss of a dense model trained on as many tokens as the budget buys; dots mark the best sizes. Both laws are "
        "fitted to the same runs, up to 1e22 FLOP; beyond that they extrapolate.",
        positions,
        plain,
        "FLOP",
        3,
    )


def survivors() -> Live:
    """Share of a step's rollouts that is still being written."""
    positions = {}
    for ratio in (1.5, 2.0, 4.0, 8.0):
        lengths = lengths_of_mean(4000.0, 4000.0 * ratio)
        tokens = np.append(lengths.tokens[:-1, 0], lengths.tokens[-1, 0])
        share = float(np.asarray(lengths.mean_tokens).squeeze()) / (4000.0 * ratio)
        positions[f"{ratio:g}"] = [
            _line("still decoding", tokens, SURVIVAL, PHASE_COLORS["rl"], fill="tozeroy",
                  fillcolor=faint(PHASE_COLORS["rl"], 0.2)),
            _line(f"on average {percent(share)}", [0.0, 4000.0 * ratio], [share, share], SERIES[1]),
        ]  # fmt: skip
    axis = {"title": {"text": "tokens decoded"}, "fixedrange": True, "range": [0, 32_500]}
    up = {"title": {"text": "share of the rollouts"}, "fixedrange": True, "range": [0, 1.02], "tickformat": ".0%"}
    return Live(
        "The tail of a step",
        "Rollouts of 4,000 tokens on average, log-normal, cut off at the longest. Below the curve the batch is busy; "
        "above it, slots stay empty until the step ends.",
        positions,
        _plain(axis, up),
        "longest over mean",
        2,
    )


def ledgers() -> Live:
    """Shares of the three ledgers in FLOP and in GPU-time."""
    size, trained, served, sampled = 37e9, 15e12, 45e12, 1e12
    positions = {}
    for ratio in (1.0, 0.5, 0.33, 0.2, 0.1, 0.05):
        pretraining = pretraining_flop(size, trained)
        rows = {
            "FLOP": (pretraining, rl_flop(size, sampled, rl_beta(1.0)), inference_flop(size, served)),
            "GPU-time": (
                pretraining,
                rl_flop(size, sampled, rl_beta(1.0, ratio)),
                inference_flop(size, served) / ratio,
            ),
        }
        shares = [np.array(part, float) / sum(part) for part in rows.values()]
        positions[f"{ratio:g}"] = [
            {"type": "bar", "orientation": "h", "name": name.upper() if name == "rl" else name, "y": list(rows),
             "x": rounded(part[place] for part in shares),
             "text": [percent(part[place]) if part[place] > 0.08 else "" for part in shares],
             "marker": {"color": PHASE_COLORS[name]}, **bar_text(PHASE_COLORS[name])}
            for place, name in enumerate(("pretraining", "rl", "inference"))
        ]  # fmt: skip
    axis = {"title": {"text": "share"}, "fixedrange": True, "range": [0, 1], "tickformat": ".0%"}
    up = {"fixedrange": True, "autorange": "reversed"}
    return Live(
        "One model, two currencies",
        "Equal shares of FLOP are not equal shares of GPU-time, because decoding uses GPUs less well. Assumed: 15T "
        "tokens of pretraining, 1T tokens of RL, 45T tokens served; inference and rollouts decode alike.",
        positions,
        {**_plain(axis, up, barmode="stack"), "height": 230},
        "utilisation of decoding over pretraining",
        3,
    )


def sizes() -> Live:
    """What an input price says of a model's size, by the premium over the open market that it may carry."""
    prices = (0.1, 0.3, 1.0, 3.0, 10.0)
    positions = {}
    for premium in (1.0, 2.0, 4.0, 8.0):
        traces: list[Spec] = []
        for row, usd in enumerate(prices):
            found, _ = revealed_sizes(PriceClues(usd, 4 * usd, premium_ratio=premium))
            for level, shade in (("90", 0.3), ("50", 0.6)):
                line = _line(f"{level} %", found[level], [row, row], faint(SERIES[1], shade), showlegend=row == 0)
                traces.append(line | {"line": {"color": faint(SERIES[1], shade), "width": 12}})
            traces.append(_dot("median", found["median"][0], row, SERIES[1]))
        positions[f"{premium:g}"] = traces
    rows = [note(f"${usd:g} in, ${4 * usd:g} out", row + 0.32) for row, usd in enumerate(prices)]
    up = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True, "range": [-0.5, 4.7]}
    plain = _plain(_axis([1e8, 1e12], "active parameters"), up) | {"annotations": rows}
    return Live(
        "A price and a size",
        "List prices per million tokens. Dots: medians; bars: 50 and 90 % intervals, checked on models left out of "
        "the fit. Open models sell at 1; a price list does not say what a closed model charges beyond that.",
        positions,
        plain,
        "times the open market's price",
    )


def months() -> Live:
    """FLOP of a run over its length, for facilities of several chips."""
    length = np.linspace(1, 12, 23)
    positions = {}
    for megawatts in (100, 400, 1000, 5000):
        traces = []
        for chip, color in zip(("h100-sxm5-80gb", "gb200-gpu", "gb300-gpu"), SERIES, strict=False):
            month = quantiles(flop_per_month(described_system(f"{megawatts} MW facility of {chip}"))["bf16"])
            middle = float(month["p50"]) if isinstance(month, dict) else month
            traces.append(_line(chip, length, length * middle, color))
        positions[f"{megawatts:,}"] = traces
    across = {"title": {"text": "months of training"}, "fixedrange": True}
    return Live(
        "Power, time and FLOP",
        "Medians, at 40 % of the dense bf16 peak, without interruptions.",
        positions,
        _plain(across, {**log_axis([1e25, 1e29], _power), "title": {"text": "FLOP of the run"}}),
        "MW of the facility",
        1,
    )


def text_beta() -> Live:
    """FLOP of RL on text per parameter and sampled token, by the length of a thought."""
    model, group, following = load_model("qwen3-8b"), 8, 32.0
    lengths = (32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0)
    positions = {}
    for before in (128.0, 512.0, 2048.0):
        rows = []
        for thought in lengths:
            read = forward_work(model, before).flop + forward_work(model, following, before).flop
            write = decode_work(model, np.full(group, thought), before).flop
            score = forward_work(model, np.full(group, thought + following), before).flop
            learn = 3 * group * forward_work(model, before + thought).flop
            rows.append(np.array([learn, score, write, read]) / (n_params_active(model) * group * thought))
        positions[f"{before:,.0f}"] = [
            {"type": "bar", "name": name, "x": [f"{one:g}" for one in lengths], "y": rounded(part),
             "marker": {"color": color}}
            for name, part, color in zip(("learn", "score", "write", "read the context"), np.transpose(rows),
                                         (SERIES[1], SERIES[3], SERIES[2], SERIES[0]), strict=True)
        ]  # fmt: skip
    across = {"title": {"text": "tokens of a thought"}, "fixedrange": True, "type": "category"}
    up = {"title": {"text": "FLOP per parameter and token"}, "fixedrange": True, "rangemode": "tozero"}
    return Live(
        "What a token of thought costs",
        "Qwen3-8B, eight thoughts at a position, a continuation of 32 tokens, the context read again for the update. "
        "Pretraining takes 6 FLOP per parameter and token.",
        positions,
        _plain(across, up, barmode="stack"),
        "tokens of context",
        1,
    )


PLOTS: dict[str, Callable[[], Live]] = {
    "roofline": roofline, "price_of_speed": price, "context": context, "domains": domains, "isoflop": isoflop,
    "survivors": survivors, "ledgers": ledgers, "sizes": sizes, "months": months, "text_beta": text_beta,
}  # fmt: skip


def figure(name: str, page_url: str) -> str:
    """A plot as HTML: slider, plot, data, and its picture for readers without JavaScript."""
    live = PLOTS[name]()
    words = list(live.positions)
    data = {"layout": live.layout, "config": CONFIG, "positions": list(live.positions.values()), "words": words,
            "themes": {"default": template(), "slate": template(dark=True)}}  # fmt: skip
    slider = (
        f'<label for="{name}-slider">{html.escape(live.slider)}: <output>{words[live.start]}</output></label>'
        f'<input id="{name}-slider" type="range" min="0" max="{len(words) - 1}" value="{live.start}" '
        f'aria-valuetext="{words[live.start]}">'
        if len(words) > 1
        else ""
    )
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    picture = get_relative_url(f"images/plots/{name}.webp", page_url)
    label = html.escape(f"{live.title}. {live.caption}", quote=True)
    return (
        f'<figure class="live" id="plot-{name}"><p class="live-title">{html.escape(live.title)}</p>{slider}'
        f'<div class="live-plot" role="img" aria-label="{label}" style="min-height:{live.layout["height"]}px"></div>'
        f'<noscript><img src="{picture}" alt="{label}"></noscript>'
        f"<figcaption>{html.escape(live.caption)}</figcaption>"
        f'<script type="application/json">{text}</script></figure>'
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the drawing library of reports and app to the site."""
    files.append(File.generated(config, "assets/plotly.js", content=str(plotly_script())))
    return files


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the plots where the page asks for them, and the scripts below."""
    del config, files
    if not _ASKED.search(content):
        return content
    scripts = (
        f'<script src="{get_relative_url(f"assets/{one}.js", page.url)}"></script>' for one in ("plotly", "live")
    )
    return _ASKED.sub(lambda asked: figure(asked[1], page.url), content) + "".join(scripts)
