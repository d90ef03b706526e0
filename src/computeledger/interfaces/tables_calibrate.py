"""A machine's profile as terminal tables: peaks, constants with their residuals, what is left unexplained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.tables import console, new_table, note
from computeledger.units import format_percent, format_si


def print_calibration(document: Mapping[str, Any]) -> None:
    """Peaks, constants, residuals."""
    out = console()
    device = document["device"]
    names = {"bf16": device["measured_as_bf16"]}
    peaks = ", ".join(
        f"{names.get(name, name)} {format_si(value, 'FLOP/s')}" for name, value in document["peak_flop_per_s"].items()
    )
    out.print(
        f"{document['name']}: {device['name']}, {device['backend']} {device['version']}, {device['threads']} threads"
    )
    out.print(f"matrix products {peaks}; memory {format_si(document['hbm_bytes_per_s'], 'B/s')}")
    if document["link"]:
        link = document["link"]
        speed = f"{format_si(link['bytes_per_s'], 'B/s')}, {format_si(link['latency_s'], 's')}"
        out.print(f"all-reduce of {link['n_processes']} processes: {speed}")
    table = new_table("Constants of the profile", "constant", ">value", "residual")
    for name, one in document["factors"].items():
        table.add_row(
            name, format_si(one["value"], one["unit"]) if one["unit"] else f"{one['value']:.3g}", one["residual"]
        )
    out.print(table)
    left = new_table("Predicted over measured time - 1", "kind", ">cases", ">median", ">90th percentile", ">bias")
    for kind, one in document["residuals"].items():
        errors = (format_percent(one[name]) for name in ("median_abs_error", "p90_abs_error"))
        left.add_row(kind, f"{one['n']}", *errors, f"{one['bias']:.2f}")
    out.print(left)
    median, spread = (format_percent(document[name]) for name in ("residual_median", "spread_fraction"))
    clock = document["device"]["clock"]
    note(out, f"median error over all {median}; spread of repeats {spread}; times are the {clock} clock's")
    for name in document.get("files", []):
        out.print(f"wrote {name}")
