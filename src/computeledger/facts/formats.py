"""Formats of stored values, declared once: exact bits with their scales, what multiplies them, other names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.errors import UnknownIdError, nearest

#: Units that multiply a stored format, the format's own first. Of a weight-only format they are wider than its values.
_WIDE = ("bf16",)
_EIGHT = ("fp8", "bf16")
#: ggml's kernels cut activations to 8-bit integers as they multiply them with narrow weights, where the chip has units.
_DOT = ("int8", "bf16")


@dataclass(frozen=True, slots=True)
class Format:
    """A format of stored values.

    Attributes
    ----------
    name : str
        As answers write it.
    block_size, block_values : int
        Bits of one block with its scales, and the values that it holds.
    units : tuple of str
        Units that multiply it, the format's own first.
    layout : str
        What is stored, in words.
    source : str
        Key of the source of the layout.
    aliases : tuple of str
        Other names that are read.
    """

    name: str
    block_size: int
    block_values: int
    units: tuple[str, ...]
    layout: str
    source: str
    aliases: tuple[str, ...] = ()

    @property
    def bits(self) -> float:
        """Bits of one value, its share of the scales included."""
        return self.block_size / self.block_values

    @property
    def own_unit(self) -> str:
        """The unit of its own width, where there is one: ``fp4`` of MXFP4, none of 4-bit integers."""
        return self.units[0] if self.bits > PRODUCTS_BITS[self.units[0]] - 1 else ""

    @property
    def is_weight_only(self) -> bool:
        """Whether values are read narrow and multiplied in 16 bits."""
        return (self.units == _WIDE or self.source == _GGML) and self.bits < _WIDE_BITS


_WIDE_BITS = 16
#: Bits of a value in units that products are quoted for.
PRODUCTS_BITS = {"bf16": 16, "fp8": 8, "int8": 8, "fp4": 4}
_GGML = "llama-cpp-gguf"
_MX = "modular-fp4"
_INT = "gptqmodel-packing"
_BNB = "qlora-double-quantization"
_VLLM = "vllm-quant-utils"

_FLOATS = (
    Format("bf16", 16, 1, _WIDE, "16-bit floats; fp16 has the same width and rate", _GGML,
           ("fp16", "f16", "half", "float16", "bfloat16")),
    Format("fp8", 8, 1, _EIGHT, "8-bit floats; the scale of a tensor or channel is left out", _VLLM,
           ("fp8-e4m3", "float8")),
    Format("fp8-block", 8 * 128 * 128 + 32, 128 * 128, _EIGHT, "a 32-bit scale for 128 x 128 values", _VLLM),
    Format("mxfp8", 8 * 32 + 8, 32, _EIGHT, "an 8-bit scale for 32 values", _MX),
    Format("bfp8", 8 * 16 + 8, 16, _EIGHT, "an 8-bit exponent for 16 values", "tenstorrent-formats", ("bfp8_b",)),
    Format("fp4", 4 * 16 + 8, 16, ("fp4", *_EIGHT), "NVFP4: an 8-bit scale for 16 values", _MX, ("nvfp4",)),
    Format("mxfp4", 4 * 32 + 8, 32, ("fp4", "bf16"), "an 8-bit scale for 32 values", _MX),
    Format("fp4-a8", 4 * 16 + 8, 16, _EIGHT, "NVFP4 beside activations in 8 bits", _MX, ("w4a8-fp4",)),
    Format("fp4-a16", 4 * 16 + 8, 16, _WIDE, "NVFP4 weights alone", _MX, ("w4a16-fp4",)),
    Format("mxfp4-a8", 4 * 32 + 8, 32, _EIGHT, "MXFP4 beside activations in 8 bits", _MX),
    Format("mxfp4-a16", 4 * 32 + 8, 32, _WIDE, "MXFP4 weights alone", _MX),
)  # fmt: skip
_INTEGERS = (
    Format("int8", 8, 1, ("int8", "bf16"), "weights and activations; a channel's scale is left out", _INT, ("w8a8",)),
    Format("w8a16", 8 * 128 + 16, 128, _WIDE, "weights alone, a 16-bit scale for 128 values", _INT, ("int8-wo",)),
    Format("int4", 4 * 128 + 20, 128, _WIDE, "weights alone, a 16-bit scale and a 4-bit zero for 128 values", _INT,
           ("int4-g128", "awq", "gptq", "w4a16", "int4-wo")),
    Format("int4-g64", 4 * 64 + 16, 64, _WIDE, "weights alone, a 16-bit scale for 64 values", _INT),
    Format("int4-g32", 4 * 32 + 16, 32, _WIDE, "weights alone, a 16-bit scale for 32 values", _INT),
    Format("int4-channel", 4, 1, _WIDE, "weights alone; the scale of a channel is left out", _INT),
    Format("nf4", 4 * 64 + 32, 64, _WIDE, "bitsandbytes, weights alone, a 32-bit scale for 64 values", _BNB,
           ("bnb-4bit",)),
    Format("nf4-dq", (4 * 64 + 8) * 256 + 32, 64 * 256, _WIDE,
           "bitsandbytes, weights alone, an 8-bit scale for 64 values and a 32-bit one for 256 of those", _BNB),
    Format("w4a8", 4 * 128 + 20, 128, _EIGHT, "int4 weights beside activations in 8 bits", _INT, ("int4-a8",)),
)  # fmt: skip
#: Affine formats of MLX: a 16-bit scale and a 16-bit bias for 64 values; embedding and head are stored alike.
_MLX = tuple(
    Format(f"mlx-{bits}bit", bits * 64 + 32, 64, _WIDE, "weights alone, a 16-bit scale and bias for 64", "mlx-lm")
    for bits in (3, 4, 5, 6, 8)
) + tuple(
    Format(f"mlx-mxfp4-q{bits}", 4 * 32 + 8, 32, _WIDE, f"MXFP4 experts, the rest as mlx-{bits}bit", "mlx-lm")
    for bits in (4, 8)
)
#: Types of ggml: bytes of a block, values in it.
_GGML_BLOCKS = {
    "f32": (4, 1), "q4_0": (18, 32), "q4_1": (20, 32), "q5_0": (22, 32), "q5_1": (24, 32), "q8_0": (34, 32),
    "q2_k": (84, 256), "q3_k": (110, 256), "q4_k": (144, 256), "q5_k": (176, 256), "q6_k": (210, 256),
    "iq1_s": (50, 256), "iq1_m": (56, 256), "iq2_xxs": (66, 256), "iq2_xs": (74, 256), "iq2_s": (82, 256),
    "iq3_xxs": (98, 256), "iq3_s": (110, 256), "iq4_nl": (18, 32), "iq4_xs": (136, 256), "tq1_0": (54, 256),
    "tq2_0": (66, 256),
}  # fmt: skip
_GGML_TYPES = tuple(
    Format(name, 8 * size, n, _WIDE if name == "f32" else _DOT, f"ggml block of {size} bytes for {n} values", _GGML)
    for name, (size, n) in _GGML_BLOCKS.items()
)

#: Every format by its name.
FORMATS: Mapping[str, Format] = {one.name: one for one in (*_FLOATS, *_INTEGERS, *_MLX, *_GGML_TYPES)}


def format_key(text: str) -> str:
    """A name as names are compared: ``gguf-Q4_K_M`` and ``q4-k-m`` are one."""
    return text.strip().lower().replace("_", "-").removeprefix("gguf-")


@functools.cache
def _index() -> Mapping[str, str]:
    return {format_key(name): one.name for one in FORMATS.values() for name in (one.name, *one.aliases)}


def beside_experts(name: str) -> str:
    """What an MLX checkpoint keeps beside its routed experts.

    Examples
    --------
    >>> beside_experts("mlx-mxfp4-q8"), beside_experts("mlx-4bit")
    ('mlx-8bit', 'mlx-4bit')
    """
    return name.replace("mxfp4-q", "") + "bit" if "mxfp4-q" in name else name


def known_format(text: str) -> str | None:
    """The name of the format that a text means; None where it means none."""
    return _index().get(format_key(text))


def format_name(text: str) -> str:
    """The name of the format that a text means, in any case and under any of its names.

    Examples
    --------
    >>> format_name("NVFP4"), format_name("awq"), format_name("gguf-Q8_0")
    ('fp4', 'int4', 'q8_0')
    """
    name = known_format(text)
    if name is None:
        raise UnknownIdError(f"unknown precision {text!r}: {nearest(text, FORMATS)}")
    return name
