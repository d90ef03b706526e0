"""Files in other tools' own formats, small and whole: Parquet, safetensors, the books, the folder of a run."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.commands import call
from tests.gates import ROOT

ENTRY = {"schema": "run-ledger/1", "run": "a", "workload": "rl", "phase": "update", "duration_s": 2.0, "devices": 8,
         "step": 1, "tokens_by_kind": {"sampled": 1e6, "trained": 5e5}, "flop": 9e15, "peak_flop_per_s": 1e15,
         "versions": {"torch": "2"}, "started": "2026-09-01T12:00:00+02:00"}  # fmt: skip


def parquet_ledger() -> bytes:
    """A ledger as ``rntp ledger --parquet`` writes it."""
    from computeledger.actuals.run_ledger import entry_of
    from rntp.interfaces.answers.ledger import parquet_bytes

    return parquet_bytes([entry_of(json.dumps({**ENTRY, "step": step})) for step in range(4)])


def parquet_corpus() -> bytes:
    """Two documents."""
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    table = pyarrow.table({"text": ["One day.", "Two days."], "id": ["a", "b"], "marks": [[3], []]})
    pyarrow.parquet.write_table(table, stream)
    return stream.getvalue()


def safetensors(scale: float = 1.0) -> bytes:
    """Two tensors."""
    import torch
    from safetensors.torch import save

    tensors = {"w": scale * torch.arange(6.0).reshape(2, 3), "n": torch.tensor([3])}
    return save(tensors, metadata={"format": "pt"})


def books() -> bytes:
    """Books with one entry."""
    from computeledger.interfaces.cli import main

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run.jsonl").write_text(f"{json.dumps(ENTRY)}\n", "utf-8")
        done = call(main, ["books", "add", "run.jsonl", "--book", "b.duckdb"], Path(folder))
        assert done.returncode == 0, done.stderr
        return (Path(folder) / "b.duckdb").read_bytes()


def run_folder() -> dict[str, bytes]:
    """What ``rntp ledger FOLDER`` reads of a run."""
    from rntp.recipe_file import document, read_recipe

    recipe = document(read_recipe(ROOT / "recipes" / "tiny_text" / "config.toml"))
    written: dict[str, Any] = {"fingerprint": "a", "recipe": recipe, "folder": str(ROOT / "recipes" / "tiny_text")}
    shape = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 256,
             "tie_word_embeddings": True, "architectures": ["LlamaForCausalLM"]}  # fmt: skip
    phases = [{**ENTRY, "phase": phase, "step": step} for step in range(2) for phase in ("generation", "update")]
    return {
        "recipe.json": json.dumps(written).encode(),
        "final/config.json": json.dumps(shape).encode(),
        "ledger.jsonl": "".join(f"{json.dumps(one)}\n" for one in phases).encode(),
    }
