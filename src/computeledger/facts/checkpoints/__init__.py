"""Models from checkpoint files: shapes from the configuration or the metadata, bytes from the tensors' headers."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from pathlib import Path

from computeledger.errors import ModelConfigError
from computeledger.facts.architecture import Model, WeightBytes
from computeledger.facts.checkpoints.gguf import Tensor, read_gguf
from computeledger.facts.checkpoints.gguf_families import config_of
from computeledger.facts.checkpoints.safetensors import files_of, parts_of, read_tensors
from computeledger.facts.checkpoints.shapes import config_of_tensors
from computeledger.facts.huggingface import parse_config
from computeledger.units import GIGA

_LAYER = re.compile(r"\b(?:blk|layers|h|blocks)\.(\d+)\.")
_APART = re.compile(r"\b(mtp|nextn|visual|vision\w*|audio\w*|mm_projector|multi_modal_projector|v|mm)\.")
_KINDS = (
    ("embedding", re.compile(r"^(token_embd|(?:.*\.)?(embed_tokens|wte|word_embeddings|embed))\.")),
    ("head", re.compile(r"^(output|(?:.*\.)?(lm_head|embed_out|head))\.")),
    ("experts", re.compile(r"(_exps\.|(?<!shared_)\bexperts\b)")),
    ("attention", re.compile(r"(\.attn_|\.ssm_|self_attn|linear_attn|\battn\b|attention|mixer|indexer)")),
    ("dense", re.compile(r"(\.ffn_|mlp|feed_forward|ffn|router|shared_expert|\bgate\b)")),
)
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")
_NORMS = re.compile(r"(norm|\.bias$|_bias$|sinks|rope_)")


def read_gguf_model(path: Path) -> Model:
    """The model of a GGUF file, with the bytes of its tensors."""
    metadata, tensors = read_gguf(path)
    model = parse_config(config_of(metadata, tensors, str(path)), str(path))
    return _with_tensors(model, tensors, named=True)


def gguf_file_of(folder: Path) -> Path:
    """The one GGUF file, or the first part of the one, in a folder without a configuration."""
    files = [one for one in sorted(folder.glob("*.gguf")) if not _LATER_PART.search(one.name)]
    if len(files) == 1:
        return files[0]
    told = f"; of its GGUF files name one: {', '.join(one.name for one in files[:8])}" if files else ""
    raise ModelConfigError(f"{folder}: the folder holds no config.json{told}")


def with_checkpoint(model: Model, folder: Path) -> Model:
    """The model with the bytes of the tensors in its folder; as it is where the folder holds none."""
    files = list(files_of(folder))
    here = [one for one in files if one.is_file()]
    if not here:
        return model
    if len(here) < len(files):
        missing = next(one for one in files if not one.is_file())
        raise ModelConfigError(f"{missing}: the index names it, but it is not there: {len(here)} of {len(files)} are")
    return _with_tensors(model, [tensor for one in here for tensor in read_tensors(one)], named=False)


def read_safetensors_model(path: Path) -> Model:
    """The model of a file, or of all parts of its checkpoint, without a configuration: shapes from the tensors."""
    tensors = [tensor for part in parts_of(path) for tensor in read_tensors(part)]
    config = config_of_tensors(tensors, str(path))
    model = parse_config(config, str(path))
    said = f"{path}: no config.json beside it: shape from names and shapes of tensors, as {config['model_type']}"
    said += f"; heads of {config['head_dim']}" + ("" if config["model_type"] == "qwen3" else " (assumption)")
    said += ", the longest context is not stated"
    read = _with_tensors(model, tensors, named=False)
    return dataclasses.replace(read, notes=(*read.notes, said), remarks=(*read.remarks, said))


def with_file(model: Model, path: Path) -> Model:
    """The model with the bytes of the tensors in one file."""
    return _with_tensors(dataclasses.replace(model, id=str(path)), read_tensors(path), named=False)


def _with_tensors(model: Model, tensors: list[Tensor], named: bool) -> Model:
    held: defaultdict[str, float] = defaultdict(float)
    formats: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in tensors:
        kind = _kind(one, model.n_layers)
        held[kind] += one.bytes
        if not one.is_vector:
            formats[kind][one.format] += one.bytes
    if model.tied_embeddings:
        held["head"] += held.pop("embedding", 0.0)
        formats["head"] |= formats["embedding"]
    kinds = ("attention", "dense", "experts", "head", "embedding", "rest")
    stored = WeightBytes(*(held[one] for one in kinds))
    apart = f"the files also hold {held['apart'] / GIGA:.3g} GB of vision, audio or drafting modules, not counted"
    model = dataclasses.replace(model, stored=stored, notes=(*model.notes, *([apart] if held["apart"] else [])))
    if not named:
        return model
    most = {kind: max(one, key=one.__getitem__) for kind, one in formats.items() if one}
    attention = most.get("attention", "bf16")
    dense = most.get("dense", attention)
    return dataclasses.replace(
        model,
        weight_precision=attention,
        dense_precision=dense,
        expert_precision=most.get("experts", dense),
        head_precision=most.get("head", "bf16"),
        embedding_precision=most.get("embedding", "bf16"),
    )


def _kind(one: Tensor, n_layers: int) -> str:
    """Kind of weight that a tensor's bytes count with."""
    layer = _LAYER.search(one.name)
    if _APART.search(one.name) or (layer is not None and int(layer[1]) >= n_layers):
        return "apart"
    kind = next((kind for kind, words in _KINDS if words.search(one.name)), "rest")
    is_small = one.is_vector and _NORMS.search(one.name)
    return "rest" if is_small or ("norm" in one.name and kind != "experts") else kind
