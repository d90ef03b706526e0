"""A machine's fit as three files: its profile, its accelerator and its system, which every other command can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.actuals.machine.fit import MachineFit
from computeledger.errors import InputError
from computeledger.physics.calibration.efficiency import factor_dimension
from computeledger.units import format_count, format_percent
from computeledger.writing import toml_row, toml_text

#: Constant -> kind of measurement whose residual says how well it is known.
_KIND = {
    "gemm_fraction_fp8": "gemm fp8", "attention_fraction": "prefill attention",
    "decode_attention_ratio": "decode attention", "kv_bandwidth_fraction": "decode attention",
    "activation_passes": "elementwise",
}  # fmt: skip
_PRODUCTS = ("gemm_fraction_bf16", "weight_bandwidth_fraction", "overlap_fraction")


@dataclass(frozen=True, slots=True)
class About:
    """What was measured, and what only its owner knows."""

    name: str
    date: str
    data: str
    device_name: str
    like: str
    accelerator: str
    memory_bytes: float
    power_w: float | None


def machine_files(fit: MachineFit, about: About) -> dict[str, str]:
    """Write the three files' texts."""
    if not about.name.isprintable() or not about.name.strip() or {'"', "\\", "/"} & set(about.name):
        raise InputError(f"name {about.name!r}: expected letters, digits, '-' and '.'")
    return {
        "profile.toml": _profile(fit, about),
        "accelerator.toml": _accelerator(fit, about),
        "system.toml": _system(fit, about),
    }


def _residual(name: str, fit: MachineFit) -> str:
    kind = (
        next((kind for kind in fit.residuals if kind.startswith("gemm")), "") if name in _PRODUCTS else _KIND.get(name)
    )
    found = fit.residuals.get(kind or "")
    if found is None:
        return "none: one quantity, measured alone"
    cases = format_count(found.n, f"case of {kind}").replace(f"case of {kind}s", f"cases of {kind}")
    if found.median_abs_error is None:
        return f"not determined: {cases}"
    return f"median {format_percent(found.median_abs_error)} over {cases}"


def _profile(fit: MachineFit, about: About) -> str:
    lines = [
        f"# Efficiency of {about.device_name}, measured by computeledger calibrate.",
        f"# What no micro-benchmark measures is as in the profile {about.like}.",
        f"name = {toml_text(about.name)}",
        f"like = {toml_text(about.like)}",
        f"date = {toml_text(about.date)}",
        f"data = {toml_text(about.data)}",
        *([] if fit.residual_median is None else [f"residual_median = {fit.residual_median:.4f}"]),
        "",
        "[factors]",
    ]
    for name, value in fit.constants.items():
        unit = "s" if factor_dimension(name) == "s" else ""
        entries = {"value": f"{value:.6g}", "unit": toml_text(unit), "residual": toml_text(_residual(name, fit))}
        lines.append(toml_row(name, entries))
    lines += ["", "[residuals]"]
    for kind, one in fit.residuals.items():
        numbers = {
            "n": one.n,
            "median_abs_error": one.median_abs_error,
            "p90_abs_error": one.p90_abs_error,
            "bias": one.bias,
        }
        known = {key: f"{number:.4g}" for key, number in numbers.items() if number is not None}
        lines.append(toml_row(toml_text(kind), known))
    return "\n".join([*lines, ""])


def _fact(name: str, value: float, unit: str, about: About, note: str) -> str:
    texts = {"unit": unit, "date": about.date, "locator": about.data, "note": note}
    return toml_row(name, {"value": f"{value:.6g}", **{key: toml_text(text) for key, text in texts.items()}})


def _accelerator(fit: MachineFit, about: About) -> str:
    if about.accelerator:
        entries = {"like": about.accelerator, "id": about.name, "name": about.device_name}
        return "".join(f"{key} = {toml_text(text)}\n" for key, text in entries.items())
    power = (
        "as its owner gave it" if about.power_w is not None else "not known: energy counts as 0; write the power here"
    )
    lines = [
        f"id = {toml_text(about.name)}",
        f"name = {toml_text(about.device_name)}",
        f"vendor = {toml_text(about.device_name.split()[0])}",
        f"scope = {toml_text(about.data)}",
        _fact("hbm_bytes", about.memory_bytes, "B", about, "memory that the system reports"),
        _fact("hbm_bytes_per_s", fit.hbm_bytes_per_s, "B/s", about, "best rate of copying or reading"),
        _fact("chip_tdp_w", about.power_w or 0.0, "W", about, power),
        "",
        "[peak_flop_per_s]",
        *(
            _fact(
                name,
                value,
                "FLOP/s",
                about,
                f"best rate of a matrix product in {fit.precision if name == 'bf16' else name}",
            )
            for name, value in fit.peak_flop_per_s.items()
            if name in ("bf16", "fp8", "fp4")
        ),
    ]
    return "\n".join([*lines, ""])


def _system(fit: MachineFit, about: About) -> str:
    link, power = fit.link, about.power_w or 0.0
    measured = f"all-reduce of {link.n_processes} processes" if link else ""
    alone = "one process was measured: nothing crosses this link; measure it with --processes"
    beyond = "no link beyond this machine was measured: a figure to be replaced before a plan uses it"
    figures: Mapping[str, tuple[float, str, str]] = {
        "n_gpus_scale_up": (link.n_processes if link else 1, "", "processes that were measured together"),
        "scale_up_bytes_per_s_per_gpu": (link.bytes_per_s if link else fit.hbm_bytes_per_s, "B/s", measured or alone),
        "scale_out_bytes_per_s_per_gpu": (1.25, "GB/s", beyond),
        "scale_up_latency_s": (link.latency_s if link else 0.0, "s", measured or alone),
        "scale_out_latency_s": (50.0, "us", beyond),
        "it_w_per_chip": (power, "W", "as the accelerator's"),
        "facility_w_per_chip": (power, "W", "as the accelerator's"),
    }
    facts = [_fact(name, value, unit, about, note) for name, (value, unit, note) in figures.items()]
    name = toml_text(about.name)
    return "\n".join([f"id = {name}", f"name = {name}", 'accelerator = "accelerator.toml"', *facts, ""])


def factors_document(fit: MachineFit) -> dict[str, dict[str, float | str]]:
    """The constants as other commands print factors."""
    return {
        name: {"value": value, "unit": "s" if factor_dimension(name) == "s" else "", "residual": _residual(name, fit)}
        for name, value in fit.constants.items()
    }
