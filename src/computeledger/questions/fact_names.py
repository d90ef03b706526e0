"""Names of facts as people read them."""

from __future__ import annotations

import re

_FACT_WORDS = {"flop": "FLOP", "hbm": "memory", "usd": "USD", "gpu": "GPU", "gpus": "GPUs", "tdp": "TDP", "kv": "KV",
               "pue": "PUE", "n params": "parameters", "n gpus": "GPUs", "it w": "IT W", "w": "W"}  # fmt: skip
#: Names of facts in words, by their key.
_FACT_NAMES = {
    "hbm_bytes": "memory", "hbm_bytes_per_s": "memory bandwidth", "usable_hbm_bytes": "memory that programs can use",
    "peak_flop_per_s": "peak compute (dense)", "chip_tdp_w": "power of the chip (TDP)",
    "usd_per_gpu_hour": "price of a GPU-hour", "purchase_usd_per_gpu": "purchase price per GPU",
    "capex_usd_per_gpu": "capital per GPU", "capex_usd_per_w": "capital per watt", "capex_usd": "capital",
    "capex_usd_per_gw_facility": "capital per GW of facility power",
    "capex_usd_per_gw_it": "capital per GW of IT power", "cost_of_capital_fraction": "cost of capital",
    "life_years": "life of the hardware", "occupancy_fraction": "occupancy", "pue_ratio": "PUE",
    "operation_usd_per_gpu_year": "operation per GPU and year", "electricity_usd_per_kwh": "price of electricity",
    "carbon_kg_per_kwh": "carbon per kWh", "it_over_tdp_ratio": "IT power over TDP",
    "facility_over_it_ratio": "facility power over IT power", "facility_w": "facility power", "it_w": "IT power",
    "facility_w_per_chip": "facility power per chip", "it_w_per_chip": "IT power per chip",
    "h100e_8bit": "H100-equivalents at 8 bits", "capacity_bytes": "capacity", "read_bytes_per_s": "read bandwidth",
    "usd_per_byte": "price per byte", "n_params_total": "parameters, total",
    "n_params_active": "parameters, active per token", "tokens_pretraining": "tokens of pretraining",
    "gpu_hours_pretraining": "GPU-hours of pretraining", "gpu_hours_post_training": "GPU-hours of post-training",
    "gpu_hours_context_extension": "GPU-hours of context extension", "usd_training": "cost of training",
    "n_gpus_scale_up": "GPUs in the scale-up domain", "scale_up_latency_s": "scale-up latency",
    "scale_up_bytes_per_s_per_gpu": "scale-up bandwidth per GPU", "scale_out_latency_s": "scale-out latency",
    "scale_out_bytes_per_s_per_gpu": "scale-out bandwidth per GPU", "host_bytes_per_gpu": "host memory per GPU",
    "host_link_bytes_per_s_per_gpu": "bandwidth of the host link per GPU", "n_gpus": "GPUs",
    "n_interruptions": "interruptions", "n_planned": "planned stops",
}  # fmt: skip
#: Parts of a fact's name that say where it stands, not what it is.
_FACT_PLACES = frozenset({"prices", "ownership", "tiers", "extra"})

#: Units of published values that are written behind their number as a sentence has them.
_GIVEN_UNITS = {"us": " µs", "B params": "B parameters", "T tokens": "T tokens", "M GPU-hours": "M GPU-hours"}
#: Units of published amounts of money: what stands behind the number.
_GIVEN_MONEY = {"USD": "", "k$": "K", "M$": "M", "bn$": "bn", "$/GPU-h": " per GPU-hour", "$/GB": "/GB",
                "$/kWh": "/kWh", "$/W": "/W", "$/year": "/year"}  # fmt: skip
_THOUSAND = 1000


def given_words(given: str) -> str:
    """A value as its source publishes it, in the units that people read; its digits stay, but cents of thousands.

    Examples
    --------
    >>> [given_words(one) for one in ("4.0 $/GPU-h", "39083.38 USD", "23.5 k$", "3.23 us", "70.0 B params")]
    ['$4.00 per GPU-hour', '$39,083', '$23.5K', '3.23 µs', '70B parameters']
    >>> given_words("7.8e+24 FLOP"), given_words("$6.4bn"), given_words("1979 TFLOP/s")
    ('7.8e24 FLOP', '$6.4bn', '1,979 TFLOP/s')
    """
    number, _, unit = given.replace("e+", "e").partition(" ")
    if unit in _GIVEN_MONEY:
        return f"${_amount(number, unit)}{_GIVEN_MONEY[unit]}"
    if unit and number.isdigit() and len(number) > len("999"):
        number = f"{int(number):,}"
    number = number.removesuffix(".0") if unit.endswith(" params") else number
    return f"{number}{_GIVEN_UNITS[unit]}" if unit in _GIVEN_UNITS else f"{number} {unit}".rstrip()


def _amount(number: str, unit: str) -> str:
    """Thousands of dollars without cents; a price of a GPU-hour with them."""
    if unit == "USD" and float(number) >= _THOUSAND:
        return f"{float(number):,.0f}"
    return f"{float(number):.2f}" if unit == "$/GPU-h" and len(number.partition(".")[2]) < len("00") else number


def fact_words(name: str) -> str:
    """Name of a fact in words; its unit stands with its value.

    Examples
    --------
    >>> fact_words("peak_flop_per_s.bf16"), fact_words("hbm_bytes_per_s"), fact_words("usd_per_gpu_hour.rent")
    ('peak compute (dense), bf16', 'memory bandwidth', 'price of a GPU-hour, rent')
    >>> fact_words("prices.electricity_usd_per_kwh"), fact_words("tiers.hdd-24tb.capacity_bytes")
    ('price of electricity', 'capacity, hdd-24tb')
    """
    parts = [part for part in name.split(".") if part not in _FACT_PLACES]
    if any(part in _FACT_NAMES for part in parts):
        return ", ".join(
            _FACT_NAMES.get(part, part) for part in sorted(parts, key=lambda part: part not in _FACT_NAMES)
        )
    text = re.sub("_(bytes|w|s)(?=$|[.])", "", name)
    text = text.replace(".", ", ").replace("_per_s", "/s").replace("_", " ")
    for plain, written in _FACT_WORDS.items():
        text = re.sub(rf"(?<![-\w]){plain}(?![-\w])", written, text)
    return text
