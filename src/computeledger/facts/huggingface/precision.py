"""Precision of the stored weights, from a configuration's quantisation part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.errors import ModelConfigError, nearest
from computeledger.facts.schema import PRECISION_BYTES

#: Precision that each dtype of unquantised weights counts as.
_DTYPES = {"bfloat16": "bf16", "float16": "bf16", "float32": "bf16", "float8_e4m3fn": "fp8", "auto": "bf16"}
#: Precision of a whole method; None where the method's own fields say it.
_METHODS: dict[str, str | None] = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp8": "mxfp8", "mxfp4": "mxfp4", "nvfp4": "fp4", "modelopt": None,
    "modelopt_fp4": "fp4", "compressed-tensors": None, "awq": None, "gptq": None, "bitsandbytes": None, "quark": None,
}  # fmt: skip
_ALGORITHMS = {
    "FP8": "fp8", "FP8_PB_WO": "fp8-block", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "MXFP8": "mxfp8", "W8A8": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8", "W8A16": "w8a16", "W8A16_GPTQ": "w8a16", "NVFP4": "fp4", "NVFP4_AWQ": "fp4",
    "MXFP4": "mxfp4", "W4A8_NVFP4_FP8": "fp4-a8", "W4A8_MXFP4_MXFP8": "mxfp4-a8", "W4A8_MXFP4_FP8": "mxfp4-a8",
    "W4A16_NVFP4": "fp4-a16", "W4A16_MXFP4": "mxfp4-a16",
    "W4A16": "int4", "W4A16_AWQ": "int4", "W4A16_GPTQ": "int4", "W4A8_AWQ": "w4a8",
}  # fmt: skip
_LEFT_OUT = ("ignore", "modules_to_not_convert", "exclude_modules", "exclude")
_BITS = {4: "fp4", 8: "fp8", 16: "bf16"}
#: int4 by the values that share a scale; another number counts as 128.
_GROUPED = {32: "int4-g32", 64: "int4-g64", 128: "int4"}
#: Values that share a scale in the MX formats; NVFP4 has 16.
_MX_GROUP = 32
#: Rows and columns that share a scale in 8-bit floats by blocks.
_BLOCK = [128, 128]

_MIXER = re.compile(r"(self_attn|linear_attn|\battn|mixer|self_attention)[.*)]*$")
_SHARED = re.compile(r"shared_experts?[.*)]*$")
_DENSE = re.compile(r"(mlp[.*)]*$|mlp\W+(gate|up|gate_up|down)(_proj|\|))")
_EXPERTS = re.compile(r"(?<!shared_)\bexperts\b")
_PROJECTIONS = re.compile(r"(^|[.*])(q|k|v|o|qkv)_proj[.*)$]*$")


@dataclass(frozen=True, slots=True)
class WeightPrecision:
    """Format of the stored weights by kind: a key of ``PRECISION_BYTES``."""

    attention: str
    dense: str
    experts: str
    notes: tuple[str, ...] = ()
    head: str = "bf16"


def read_precision(config: Mapping[str, Any], text: Mapping[str, Any], n_layers: int) -> WeightPrecision:
    """Find the precision of mixers, of dense and shared MLPs, and of routed experts."""
    plain = _dtype(config, text)
    quantised = config.get("quantization_config") or text.get("quantization_config")
    mlx = config.get("quantization") or text.get("quantization")
    if isinstance(mlx, Mapping):
        found = _mlx(mlx)
    elif quantised is None or quantised == {}:
        found = WeightPrecision(plain, plain, plain)
    elif not isinstance(quantised, Mapping):
        raise ModelConfigError(f"quantization_config: {quantised!r} is not an object")
    else:
        found = _quantised(quantised, plain, n_layers)
    stated = text.get("expert_dtype")
    if stated in ("fp4", "fp8", "bf16"):
        found = WeightPrecision(found.attention, found.dense, str(stated), found.notes)
    return found


#: Group that MLX's formats are counted with, and its formats of 4-bit floats.
_MLX_GROUP, _MLX_FLOATS = 64, {"mxfp4": "mxfp4-a16", "nvfp4": "fp4-a16"}


def _mlx(q: Mapping[str, Any]) -> WeightPrecision:
    """MLX's own table: embedding and head are quantised as everything else is."""
    mode, bits, group = q.get("mode") or "affine", q.get("bits"), q.get("group_size", _MLX_GROUP)
    name = _MLX_FLOATS.get(str(mode), f"mlx-{bits}bit")
    if name not in PRECISION_BYTES:
        raise ModelConfigError(f"quantization: {mode!r} of {bits!r} bits is not understood; 3 to 6 and 8 bits are read")
    own = sum(isinstance(one, Mapping) for one in q.values())
    notes = [f"{own} modules in other bits are counted like the rest"] * bool(own)
    if mode == "affine" and group != _MLX_GROUP:
        notes.append(f"weights in {bits} bits with a scale and a bias for {group} values, counted as for {_MLX_GROUP}")
    return WeightPrecision(name, name, name, tuple(notes), head=name)


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    stated = next((part[name] for part in (text, config) for name in ("dtype", "torch_dtype") if part.get(name)), None)
    name = str(stated or "bfloat16").removeprefix("torch.")
    if name not in _DTYPES:
        raise ModelConfigError(f"torch_dtype: {stated!r} is not understood; {nearest(name, _DTYPES)}")
    return _DTYPES[name]


def _quantised(q: Mapping[str, Any], plain: str, n_layers: int) -> WeightPrecision:
    if q.get("quant_algo") == "MIXED_PRECISION":
        return _mixed(q, plain)
    if q.get("quant_method") == "quark":
        return _quark(q, plain, n_layers)
    whole, notes = _whole(q)
    left_out = [str(name) for key in _LEFT_OUT if isinstance(q.get(key), list) for name in q[key]]
    attention = plain if _covers(left_out, _MIXER, n_layers) else whole
    dense = plain if _covers(left_out, _SHARED, n_layers) or _covers(left_out, _DENSE, n_layers) else whole
    if q.get("quant_method") == "mxfp4":  # this method converts experts only
        attention = dense = plain
    return WeightPrecision(attention, dense, whole, notes)


def _whole(q: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The precision of everything that is not left out."""
    method = q.get("quant_method")
    if method is not None and (not isinstance(method, str) or method not in _METHODS):
        raise ModelConfigError(
            f"quantization_config.quant_method: {method!r} is not understood; {nearest(str(method), _METHODS)}"
        )
    algorithm = q.get("quant_algo")
    if algorithm is not None:
        return _algorithm(algorithm), ()
    fixed = _METHODS[method] if method is not None else None
    if fixed is not None:
        return _by_block(fixed, q.get("weight_block_size")), ()
    bits, kind = _bits(q)
    if not isinstance(bits, int) or bits not in _BITS:
        raise ModelConfigError(f"quantization_config: no weights of 4, 8 or 16 bits are named, found {bits!r}")
    if bits < _BF16_BITS and (kind == "int" or method in ("awq", "gptq", "bitsandbytes")):
        return _integer(q, bits)
    if bits == _FOUR_BITS and kind == "float":
        return _float4(q), ()
    groups = _group_weights(q)
    return _by_block(_BITS[bits], groups[0].get("block_structure") if groups else None), ()


def _by_block(precision: str, block: object) -> str:
    """8-bit floats with a scale for 128 x 128 values, where the configuration states such blocks."""
    return "fp8-block" if precision == "fp8" and block == _BLOCK else precision


_BF16_BITS, _FP8_BITS, _FOUR_BITS = 16, 8, 4


def _integer(q: Mapping[str, Any], bits: int) -> tuple[str, tuple[str, ...]]:
    """Integer weights: alone (W4A16, W8A16), or with activations in 8 bits (W4A8, W8A8)."""
    groups = _group_parts(q)
    activations = groups[0].get("input_activations") if groups else None
    narrow = bool(q.get("load_in_8bit")) or isinstance(activations, Mapping)
    if bits > _FOUR_BITS:
        return ("int8" if narrow else "w8a16"), ()
    if narrow:
        return "w4a8", ()
    if q.get("load_in_4bit"):
        return ("nf4-dq" if q.get("bnb_4bit_use_double_quant") else "nf4"), ()
    weights = groups[0]["weights"] if groups else q
    size = weights.get("group_size")
    if size == -1 or "channel" in (weights.get("strategy"), str(weights.get("qscheme")).removeprefix("per_")):
        return "int4-channel", ()
    if size not in _GROUPED:
        return "int4", (f"weights in int4 with a scale for {size} values, counted as for 128",)
    return _GROUPED[size], ()


def _float4(q: Mapping[str, Any]) -> str:
    """Weights of 4-bit floats by what multiplies them: activations in 4 bits, in 8, or as they are."""
    group = _group_parts(q)[0]
    activations = group.get("input_activations")
    name = "mxfp4" if group["weights"].get("group_size") == _MX_GROUP else "fp4"
    if not isinstance(activations, Mapping):
        return f"{name}-a16"
    return f"{name}-a8" if activations.get("num_bits") == _FP8_BITS else name


def _algorithm(name: object) -> str:
    if not isinstance(name, str) or name not in _ALGORITHMS:
        raise ModelConfigError(
            f"quantization_config.quant_algo: {name!r} is not understood; {nearest(str(name), _ALGORITHMS)}"
        )
    return _ALGORITHMS[name]


def _bits(q: Mapping[str, Any]) -> tuple[object, object]:
    if q.get("load_in_4bit"):
        return 4, "int"
    if q.get("load_in_8bit"):
        return 8, "int"
    groups = _group_weights(q)
    return (groups[0].get("num_bits"), groups[0].get("type")) if groups else (q.get("bits"), None)


def _group_parts(q: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    groups = q.get("config_groups") or {}
    parts = groups.values() if isinstance(groups, Mapping) else ()
    return [part for part in parts if isinstance(part, Mapping) and isinstance(part.get("weights"), Mapping)]


def _group_weights(q: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part["weights"] for part in _group_parts(q)]


def _covers(names: Sequence[str], kind: re.Pattern[str], n_layers: int) -> bool:
    """Whether modules of a kind are left out in most layers: by one pattern, or layer by layer."""
    matched = [name for name in names if kind.search(name) and "visual" not in name and "vision" not in name]
    layers = {numbers[0] for name in matched if (numbers := re.findall(r"\d+", name))}
    return any(not re.search(r"\d", name) for name in matched) or 2 * len(layers) >= n_layers > 0


#: Names that AMD's quark has for the types of weights: what is stored, in bits and kind.
_QUARK_TYPES = {
    "fp4": (4, "float"), "fp8_e4m3": (8, "float"), "fp8_e5m2": (8, "float"), "int4": (4, "int"), "uint4": (4, "int"),
    "int8": (8, "int"), "uint8": (8, "int"), "bfloat16": (16, "float"), "float16": (16, "float"),
}  # fmt: skip


def _quark(q: Mapping[str, Any], plain: str, n_layers: int) -> WeightPrecision:
    """AMD's quark: one specification for all, others for the layers that patterns name, and what is left out."""
    whole, notes = _quark_spec(q.get("global_quant_config"), plain)
    named: dict[str, list[str]] = {plain: [str(name) for name in q.get("exclude") or ()]}
    layers = q.get("layer_quant_config") or {}
    if not isinstance(layers, Mapping):
        raise ModelConfigError(f"quantization_config.layer_quant_config: a {type(layers).__name__} is not an object")
    for name, spec in layers.items():
        named.setdefault(_quark_spec(spec, plain)[0], []).append(str(name))

    def of(*kinds: re.Pattern[str]) -> str:
        covering = (one for one, names in named.items() if any(_covers(names, kind, n_layers) for kind in kinds))
        return next(covering, whole)

    return WeightPrecision(of(_MIXER, _PROJECTIONS), of(_SHARED, _DENSE), of(_EXPERTS), notes)


def _quark_spec(spec: object, plain: str) -> tuple[str, tuple[str, ...]]:
    """The format of one specification: of weights and of the activations that they are multiplied with."""
    table = spec if isinstance(spec, Mapping) else {}
    stated = table.get("weight")
    found = [one for one in (stated if isinstance(stated, list) else [stated]) if isinstance(one, Mapping)]
    if not found:
        return plain, ()
    weight = found[-1]  # of two steps the second is the narrower
    bits, kind = _QUARK_TYPES.get(str(weight.get("dtype")), (0, ""))
    if not bits:
        near = nearest(str(weight.get("dtype")), _QUARK_TYPES)
        raise ModelConfigError(
            f"quantization_config: the weight dtype {weight.get('dtype')!r} of quark is not understood; {near}"
        )
    if bits == _BF16_BITS or (bits == _FP8_BITS and kind == "float"):
        return _by_block(_BITS[bits], weight.get("block_size")), ()
    sized = weight if kind == "int" or weight.get("group_size") else {**weight, "group_size": _MX_GROUP}
    group = {"weights": sized, "input_activations": _quark_inputs(table.get("input_tensors"))}
    as_groups = {"config_groups": {"all": group}}
    return (_float4(as_groups), ()) if kind == "float" else _integer(as_groups, bits)


def _quark_inputs(inputs: object) -> Mapping[str, Any] | None:
    """Activations as compressed-tensors states them; None where they stay as they are."""
    if not isinstance(inputs, Mapping) or inputs.get("dtype") not in _QUARK_TYPES:
        return None
    bits = _QUARK_TYPES[str(inputs["dtype"])][0]
    return {"num_bits": bits} if bits < _BF16_BITS else None


def _mixed(q: Mapping[str, Any], plain: str) -> WeightPrecision:
    """Each kind of module by the list; without one, mixers in the widest group and the rest in the narrowest."""
    base = _METHODS.get(str(q.get("quant_method")))
    listed = q.get("quantized_layers") or {}
    if not isinstance(listed, Mapping):
        raise ModelConfigError(f"quantization_config.quantized_layers: a {type(listed).__name__} is not an object")
    found = {
        "attention": _listed(listed, re.compile(r"(self_attn|linear_attn|\battn|mixer)\b")),
        "dense": _listed(listed, re.compile(r"(mlp\.(gate|up|down)_proj|shared_experts?)\b")),
        "experts": _listed(listed, _EXPERTS),
    }
    if q.get("moe_quant_algo"):
        found["experts"] = _algorithm(q["moe_quant_algo"])
    if base is not None:
        found = {kind: precision or base for kind, precision in found.items()}
    if listed:
        found = {kind: precision or plain for kind, precision in found.items()}
    if all(found.values()):
        return WeightPrecision(str(found["attention"]), str(found["dense"]), str(found["experts"]))
    widths = [bits for part in _group_weights(q) if isinstance(bits := part.get("num_bits"), int)]
    groups = sorted((_BITS.get(bits, plain) for bits in widths), key=PRECISION_BYTES.__getitem__)
    narrow, wide = (groups[0], groups[-1]) if groups else ("fp4", "fp8")
    note = f"mixed precision whose list of modules is not given: mixers in {wide}, the rest in {narrow} (assumption)"
    return WeightPrecision(wide, narrow, narrow, (note,))


def _listed(layers: Mapping[str, Any], kind: re.Pattern[str]) -> str | None:
    """The precision that most modules of a kind have in the list."""
    votes: dict[str, int] = {}
    for name, how in layers.items():
        if kind.search(name) and isinstance(how, Mapping):
            precision = _algorithm(how.get("quant_algo"))
            votes[precision] = votes.get(precision, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else None
