"""Bars and advice of the libraries kept from the terminal; their errors are not."""

from __future__ import annotations

import os
import warnings

import datasets
import transformers


def hush() -> None:
    """Keep them quiet in this process.

    Examples
    --------
    >>> hush()
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\.")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
