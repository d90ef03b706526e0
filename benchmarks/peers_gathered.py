"""aiconfigurator's answers to the gathered measurements: other people's deployments, row by row, as a table.

Every row of ``serving_open.csv`` and of the shipped ``serving_elsewhere.csv`` that this project can be asked about is
put to the peer too, read the same way: lengths, requests in flight, layout, formats, drafts, static batches as static.
It is given its best: the configuration that it ships of the very checkpoint, else one written from the published shape;
formats as recorded, the likelier first; measured kernels first, then its own mixture with estimates; and two budgets of
prompt tokens per step, its default and the 8,192 that engines take. What it cannot answer is written down with its
words. Its database is read by its own code only.

    python benchmarks/peers_gathered.py --data FOLDER --write src/computeledger/validation/accuracy/aiconfigurator.csv
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model
from computeledger.units import KILO
from computeledger.validation.measured_table import curated_rows, read_rows
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.elsewhere import IN_FOLDER, SHIPPED
from computeledger.validation.serving.open_points import NEEDED, OpenCase, open_case

#: The other script of this folder: its pinned peer, and how it is asked.
peers: Any = importlib.import_module("peers")
#: The peer's systems; it has no other chip of these tables.
SYSTEMS = {
    "h100-sxm5-80gb": "h100_sxm",
    "h200-sxm5-141gb": "h200_sxm",
    "h100-pcie-80gb": "h100_pcie",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "gb200-gpu": "gb200",
    "gb300-gpu": "gb300",
    "a100-sxm4-80gb": "a100_sxm",
    "a100-pcie-80gb": "a100_pcie",
    "l40s": "l40s",
    "rtx-pro-6000-server": "rtx_pro_6000_server",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
ENGINES = ("vllm", "sglang", "trtllm")
#: Tokens of prompts in a step: the peer's default (one prompt), and what engines take.
BUDGETS = {"default": None, "8192": 8192}
#: The peer's formats of products and of experts, the likelier first; a quantised configuration says its own.
FORMATS = {
    "bf16": (("bfloat16", "bfloat16"),),
    "fp8": (("fp8_block", "fp8_block"), ("fp8", "fp8")),
    "nvfp4": (("nvfp4", "nvfp4"),),
    "fp4": (("nvfp4", "nvfp4"),),
    "int4": (("int4_wo", "int4_wo"),),
    "int8": (("int8_wo", "bfloat16"),),
}
#: Checkpoints that the peer ships under another name of the same shape.
NAMES = {
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.3-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "Qwen/Qwen3-30B-A3B",
}
#: Llama's architecture under the names of other publishers, and Mixtral's.
DENSE, MIXTURE = "LlamaForCausalLM", "Qwen3MoeForCausalLM"
COLUMNS = (
    "id", "tool", "version", "date", "budget", "system", "engine", "database", "model", "formats",
    "tpot_s", "ttft_s", "output_tokens_per_s_per_gpu", "reason",
)  # fmt: skip
Row = Mapping[str, str]


def gathered(folder: Path) -> Iterator[tuple[Row, OpenCase]]:
    """Rows that can be asked, as this project reads them."""
    for row in (*read_rows(folder / "measured" / IN_FOLDER, NEEDED), *curated_rows(SHIPPED)):
        try:
            yield row, open_case(row)
        except Unpredictable:
            continue


def configuration(model: Model, folder: Path) -> str:
    """A checkpoint's configuration written from its shape; empty where its kind of layer is not the peer's."""
    kinds = {(one.attention.kind, one.attention.window, one.attention.gated) for one in model.layers}
    if kinds != {("gqa", None, False)} or len(model.layers) != 1:
        return ""
    one = model.layers[0]
    attention, feed = one.attention, one.feed_forward
    if feed.n_matrices != 3 or feed.n_shared_experts:
        return ""
    written: dict[str, Any] = {
        "architectures": [MIXTURE if feed.n_experts else DENSE],
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "num_hidden_layers": one.count,
        "num_attention_heads": attention.n_query_heads,
        "num_key_value_heads": attention.n_kv_heads,
        "head_dim": attention.qk_head_dim,
        "intermediate_size": feed.width or feed.expert_width,
        "max_position_embeddings": model.max_context_tokens or 32_768,
        "tie_word_embeddings": model.tied_embeddings,
        "torch_dtype": "bfloat16",
    }
    if feed.n_experts:
        written |= {
            "num_experts": feed.n_experts,
            "num_experts_per_tok": feed.n_experts_active,
            "moe_intermediate_size": feed.expert_width,
        }
    home = folder / "configurations" / model.id.replace("/", "--")
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.json").write_text(json.dumps(written), "utf-8")
    return str(home)


def names(row: Row, shipped: Mapping[str, bool], folder: Path) -> list[str]:
    """Where the peer finds the model: its own configuration of the format, of the model, else one of the shape."""
    model = NAMES.get(row["model"], row["model"])
    own = {"fp8": (f"{model}-FP8",), "nvfp4": (f"nvidia/{model.rpartition('/')[2]}-NVFP4",)}.get(row["weights"], ())
    known = [one for one in (*own, model) if one in shipped]
    # some that it ships it wants to download all the same: the same files as a folder
    return [*known, *(copied(one, folder) for one in known)] or [
        one for one in [configuration(load_model(row["model"]), folder)] if one
    ]


def copied(name: str, folder: Path) -> str:
    """A configuration that the peer ships, as a folder of a checkpoint."""
    home = folder / "configurations" / name.replace("/", "--")
    home.mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "hf_quant_config.json"):
        source = shipped_home(folder) / f"{home.name}_{file}"
        if source.is_file():
            shutil.copyfile(source, home / file)
    return str(home)


def questions(row: Row, case: OpenCase, shipped: Mapping[str, bool], folder: Path) -> list[dict[str, Any]]:
    """The peer's own words for a row, the likelier first; nothing for what it has no chip, engine or model of."""
    one, layout = case.scenario, case.scenario.layout
    system = SYSTEMS.get(row["accelerator"])
    if system is None or row["engine"] not in ENGINES or layout.pp * layout.cp > layout.pp:
        return []
    experts = any(group.feed_forward.n_experts for group in one.model.layers)
    n_ranks = layout.tp * layout.dp
    shared: dict[str, Any] = {
        "system_name": system,
        "backend_name": row["engine"],
        "mode": "static" if case.is_static else "agg",
        "isl": round(_first(one.input_tokens + one.cached_tokens)),
        "osl": round(_first(one.output_tokens)),
        "prefix": round(_first(one.cached_tokens)),
        "batch_size": max(1, round(_first(one.batch) / float(layout.dp))),
        "tp_size": layout.tp,
        "pp_size": layout.pp,
        "attention_dp_size": layout.dp,
    }
    if experts:
        shared |= {"moe_ep_size": layout.ep, "moe_tp_size": max(n_ranks // layout.ep, 1)}
    if row["kv_cache"]:
        shared["kvcache_quant_mode"] = {"bf16": "bfloat16"}.get(row["kv_cache"], row["kv_cache"])
    if float(one.draft_tokens):
        accepted = float(one.tokens_per_step) - 1
        shared |= {"nextn": round(float(one.draft_tokens)), "nextn_accepted": min(accepted, float(one.draft_tokens))}
    out: list[dict[str, Any]] = []
    for name in names(row, shipped, folder):
        known = name.removeprefix(str(folder / "configurations") + "/").replace("--", "/")
        said: list[dict[str, str]] = [{}] if shipped.get(known) and row["weights"] != "bf16" else []
        for dense, routed in FORMATS.get(row["weights"], ()):
            said.append({"gemm_quant_mode": dense} | ({"moe_quant_mode": routed} if experts else {}))
        out += [{**shared, "model_path": name, **one} for one in said]
    return out


def _first(value: Num) -> float:
    return float(np.ravel(value)[0])


@functools.cache
def shipped_home(folder: Path) -> Path:
    """Where the peer keeps configurations of models."""
    found = peers.peer_python(folder).parents[1].glob("lib/*/site-packages/aiconfigurator_core/model_configs")
    return Path(next(found))


def shipped_models(folder: Path) -> dict[str, bool]:
    """Models whose configuration the peer ships, and whether it states a quantised format."""
    home = shipped_home(folder)
    names = {one.name.removesuffix("_config.json"): one for one in home.glob("*_config.json")}
    plain = {name: one for name, one in names.items() if not name.endswith("_hf_quant")}
    return {
        name.replace("--", "/"): "quantization_config" in one.read_text("utf-8") or f"{name}_hf_quant" in names
        for name, one in plain.items()
    }


def unasked(row: Row) -> str:
    """Why a row is not put to the peer."""
    if row["engine"] not in ENGINES:
        return f"no such engine: {row['engine']}"
    if row["accelerator"] not in SYSTEMS:
        return f"no such system: {row['accelerator']}"
    return f"no configuration or format: {row['model']} {row['weights']}"


def answers(folder: Path, data: Path) -> list[dict[str, str]]:
    """One line for every row and budget."""
    cases = list(gathered(data))
    shipped = shipped_models(folder)
    asked = [(row, case, questions(row, case, shipped, folder)) for row, case in cases]
    tasks = {
        (json.dumps(several), budget): [{**one, "ctx_tokens": tokens} for one in several]
        for _, case, several in asked
        for budget, tokens in BUDGETS.items()
        if several and not (case.is_static and tokens)
    }
    found = dict(zip(tasks, peers.ask(list(tasks.values()), folder), strict=True))
    tool, _, version = peers.PEER.partition("==")
    out = []
    for row, case, several in asked:
        for budget in BUDGETS if several and not case.is_static else ("default",):
            said = "static" if case.is_static else budget
            line = {"id": row["id"], "tool": tool, "version": version, "date": date.today().isoformat()}
            one = found[json.dumps(several), budget] if several else {"reason": unasked(row)}
            out.append({**dict.fromkeys(COLUMNS, ""), **line, "budget": said, "engine": row["engine"], **_cells(one)})
    return out


def _cells(answer: Mapping[str, Any]) -> dict[str, str]:
    if "reason" in answer:
        return {"reason": re.sub(r"/[\w./-]*/", "", answer["reason"]).replace("--", "/")}
    asked = answer["asked"]
    kinds = (f"{name.removesuffix('_quant_mode')} {asked[name]}" for name in asked if name.endswith("_quant_mode"))
    return {
        "system": asked["system_name"],
        "database": f"{answer['database']} {answer['mode']}",
        "model": "/".join(Path(asked["model_path"]).name.split("--"))
        if Path(asked["model_path"]).is_absolute()
        else asked["model_path"],
        "formats": " ".join(kinds),
        "tpot_s": f"{answer['tpot_ms'] / KILO:.5g}",
        "ttft_s": f"{answer['ttft_ms'] / KILO:.5g}",
        "output_tokens_per_s_per_gpu": f"{answer['output_tokens_per_s_per_gpu']:.5g}",
    }


def main() -> None:
    """Ask, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of measured tables")
    parser.add_argument("--folder", default="build/peers", type=Path, help="for the peer's environment")
    parser.add_argument("--write", required=True, type=Path, help="the table")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows = answers(folder, options.data)
    with options.write.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    n_answered = sum(bool(one["tpot_s"]) for one in rows if one["budget"] != "8192")
    print(f"{n_answered} rows answered, {len({one['id'] for one in rows})} asked", file=sys.stderr)


if __name__ == "__main__":
    main()
