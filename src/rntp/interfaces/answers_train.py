"""What the command ``train`` asks of the trainer."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from computeledger.errors import InputError
from rntp.recipe_file import read_recipe

#: What the extra ``train`` brings, as far as every run needs it.
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "datasets", "tokenizers")


def train_answer(
    config: Path, settings: Sequence[str], report: Callable[[str, int, int, Mapping[str, float]], None], *, fresh: bool
) -> dict[str, Any] | None:
    """Carry a recipe out; None in the processes that are not the first."""
    recipe = read_recipe(config, settings)
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"training needs {', '.join(missing)}: pip install 'computeledger[train,verify]'")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    _quiet()
    from rntp.run import run

    summary = run(recipe, fresh=fresh, report=report)
    return summary if int(os.environ.get("RANK", "0")) == 0 else None


def _quiet() -> None:
    """Keep the frameworks' own bars and advice from the terminal; their errors come through."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\.")
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
