"""What a GGUF file of a name holds: llama.cpp gives some tensors more bits than most, by a rule of layers and shapes.

The rule is that of ``llama-quantize`` without an importance matrix, and with one for the types that need it
(``llama-cpp-gguf`` in the sources, ``src/llama-quant.cpp``). A rule is a list of types, each with the layers that get
it. ``q5_k@1/8``: the first eighth; ``@4``: the first four; ``@more``: the first and last eighth and every third of the
others; ``@middle``: all but the first and last eighth; ``@shared``: all, where four query heads or more share a KV
head. A type alone gets what is left.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from computeledger.errors import UnknownIdError, nearest
from computeledger.facts.formats import FORMATS, format_key


@dataclass(frozen=True, slots=True)
class Mix:
    """Types of one GGUF file: of most tensors, the rules of those that differ, and of all but routed experts."""

    name: str
    rest: str
    attn_v: str = ""
    attn_qk: str = ""
    attn_output: str = ""
    ffn_down: str = ""
    ffn_up: str = ""
    output: str = "q6_k"
    embedding: str = ""
    dense: str = ""


def _narrow(name: str, rest: str, more: str, attn_output: str = "", embedding: str = "q2_k") -> Mix:
    """The mixes of 1 and 2 bits share one rule."""
    return Mix(
        name, rest, attn_v=f"q4_k@shared {more}", ffn_down=f"{more}@1/8", attn_output=attn_output, output="q5_k",
        embedding=embedding,
    )  # fmt: skip


_ALL = (
    Mix("q2_k", "q2_k", attn_v="q4_k@shared q3_k", attn_output="q3_k", ffn_down="q3_k"),
    Mix("q2_k_s", "q2_k", attn_v="q4_k@shared", ffn_down="q4_k@1/8"),
    Mix("q3_k_s", "q3_k"),
    Mix("q3_k_m", "q3_k", attn_v="q5_k@2 q4_k", attn_output="q4_k", ffn_down="q5_k@1/16 q4_k"),
    Mix("q3_k_l", "q3_k", attn_v="q5_k", attn_output="q5_k", ffn_down="q5_k"),
    Mix("q4_0", "q4_0"), Mix("q4_1", "q4_1"), Mix("q5_0", "q5_0"), Mix("q5_1", "q5_1"),
    Mix("q4_k_s", "q4_k", attn_v="q5_k@4", ffn_down="q5_k@1/8"),
    Mix("q4_k_m", "q4_k", attn_v="q6_k@more", ffn_down="q6_k@more"),
    Mix("q5_k_s", "q5_k"),
    Mix("q5_k_m", "q5_k", attn_v="q6_k@more", ffn_down="q6_k@more"),
    Mix("q6_k", "q6_k"),
    Mix("q8_0", "q8_0", output="q8_0"),
    Mix("iq4_nl", "iq4_nl", attn_v="q5_k@shared", ffn_down="q5_k@1/8"),
    Mix("iq4_xs", "iq4_xs", attn_v="q5_k@shared", ffn_down="q5_k@1/8"),
    Mix("iq3_s", "iq3_s", attn_v="q4_k@shared"),
    Mix("iq3_m", "iq3_s", attn_v="q4_k", attn_output="q4_k", ffn_down="q4_k@1/8"),
    Mix("iq3_xs", "iq3_s", attn_v="q4_k@shared", attn_qk="iq3_xxs", ffn_up="iq3_xxs@middle"),
    Mix("iq3_xxs", "iq3_xxs", attn_v="q4_k@shared", attn_qk="iq2_s", attn_output="iq3_s", output="q5_k",
        embedding="iq3_s"),
    _narrow("iq2_m", "iq2_s", "iq3_s", "iq3_s", "iq3_s"),
    _narrow("iq2_s", "iq2_xs", "iq3_s", "iq3_s", "iq3_s"),
    _narrow("iq2_xs", "iq2_xs", "q2_k"),
    _narrow("iq2_xxs", "iq2_xxs", "q2_k"),
    _narrow("iq1_m", "iq1_m", "q2_k", "iq2_xxs"),
    _narrow("iq1_s", "iq1_s", "q2_k", "iq2_xxs"),
    Mix("tq1_0", "tq1_0", embedding="q4_k"), Mix("tq2_0", "tq2_0", embedding="q4_k"),
    Mix("mxfp4_moe", "mxfp4", dense="q8_0", output="q8_0", embedding="q8_0"),
)  # fmt: skip
#: The mixes of GGUF files by name.
MIXES = {one.name: one for one in _ALL}
_SHORT = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}
_BY_KEY = {format_key(name): MIXES[of] for name, of in ({one: one for one in MIXES} | _SHORT).items()}
#: Types that take the place of one whose block of 256 values does not divide a row.
FALLBACKS = {
    "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "q2_k": "q4_0", "q3_k": "q4_0", "tq1_0": "q4_0", "tq2_0": "q4_0",
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
}  # fmt: skip


def mix_named(text: str) -> Mix | None:
    """The GGUF file that a text names, if any.

    Examples
    --------
    >>> mix_named("gguf-Q4_K_M").ffn_down, mix_named("gguf-mxfp4").dense, mix_named("int4")
    ('q6_k@more', 'q8_0', None)
    """
    key = format_key(text)
    if key == "mxfp4" and "gguf" in text.lower():
        return MIXES["mxfp4_moe"]
    return _BY_KEY.get(key)


def unknown_precision(text: str) -> UnknownIdError:
    """Name the formats and GGUF files nearest to a misspelt one.

    Examples
    --------
    >>> str(unknown_precision("gguf-q4km"))
    "unknown precision 'gguf-q4km': did you mean 'gguf-q4_k_m'?"
    """
    files = [f"gguf-{name}" for name in MIXES]
    others = [one.name for one in FORMATS.values() if one.name not in MIXES]
    bare = _bare(text).removeprefix("ud")
    same = [one for one in (*files, *others) if _bare(one) == bare]
    is_file = re.match("i?q[1-9]", bare) is not None
    near = (
        f"did you mean {same[0]!r}?"
        if same
        else nearest(f"gguf-{bare}" if is_file else text, files if is_file else others)
    )
    return UnknownIdError(f"unknown precision {text!r}: {near}")


def _bare(name: str) -> str:
    """The letters and figures of a format's name."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("gguf")


def bytes_of_row(name: str, row_values: int) -> float:
    """Bytes of one value in a row, in the type itself or the one that stands in where its block does not fit."""
    for fits in (name, FALLBACKS.get(name, name)):
        if row_values % FORMATS[fits].block_values == 0:
            return FORMATS[fits].bits / 8
    return FORMATS["bf16"].bits / 8


def mean_bytes(rule: str, base: str, shape: tuple[int, int, bool]) -> float:
    """Mean bytes of one value over the layers, of a tensor with a rule.

    Examples
    --------
    >>> mean_bytes("q6_k@more", "q4_k", (32, 4096, True)) * 8
    5.53125
    """
    layers, row_values, shared = shape
    types = [base] * layers
    for part in reversed(rule.split()):
        name, _, condition = part.partition("@")
        for layer in _layers(condition, layers, shared):
            types[layer] = name
    return sum(bytes_of_row(one, row_values) for one in types) / layers


def _layers(condition: str, n: int, shared: bool) -> list[int]:
    """Layers that a condition names."""
    ends = (n // 8, 7 * n // 8)
    if condition == "shared" and not shared:
        return []
    if condition in ("", "shared"):
        return list(range(n))
    if condition == "more":
        return [i for i in range(n) if i < ends[0] or i >= ends[1] or (i - ends[0]) % 3 == 2]
    if condition == "middle":
        return list(range(*ends))
    share = condition.split("/")
    return list(range(min(n, n // int(share[1]) if len(share) > 1 else int(share[0]))))
