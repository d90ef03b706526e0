"""Tables of measurements that ``validate`` can read, told apart by their columns, and the set that is shipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from computeledger.errors import InputError
from computeledger.validation.compare import Comparison, merged
from computeledger.validation.explain import serving_explainer
from computeledger.validation.measured_table import curated_rows, read_rows, shipped_names
from computeledger.validation.published import points as published_points
from computeledger.validation.rl import points as rl_points
from computeledger.validation.rl import rows as rl_rows
from computeledger.validation.serving import memory_runs, open_points, tails
from computeledger.validation.serving import points as serving_points
from computeledger.validation.serving import predictions as serving_predictions
from computeledger.validation.suspects import marked
from computeledger.validation.training import points as training_points
from computeledger.validation.training import rows as training_rows

Rows = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of table of measurements."""

    name: str
    needed: tuple[str, ...]
    compare: Callable[[Rows, int, int], Comparison]


def _compare_serving(rows: Rows, n_samples: int, seed: int) -> Comparison:
    comparison = serving_predictions.compare_serving(rows, n_samples, seed)
    if comparison.explain is not None:
        return comparison
    return replace(comparison, explain=serving_explainer(comparison.rows))


#: The first whose columns a file has is taken: a new kind of table is one more entry.
TABLES = (
    Table("serving points", serving_points.NEEDED, _compare_serving),
    Table("percentiles of serving", tails.NEEDED, tails.compare_tails),
    Table("gathered serving figures", open_points.NEEDED, open_points.compare_open),
    Table("published serving figures", published_points.NEEDED, published_points.compare_published),
    Table("memory of a GPU", memory_runs.NEEDED, memory_runs.compare_memory),
    Table("training runs", training_rows.NEEDED, training_points.compare_training),
    Table("RL steps", rl_rows.NEEDED, rl_points.compare_rl),
)
#: Files of measurements that the package ships.
CURATED = ("serving_curated.csv", "published_curated.csv", "memory_curated.csv", "training_memory_curated.csv")


def compare_table(path: str | Path, n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict every row of a table of measurements: a file, or a shipped table by its name.

    Examples
    --------
    >>> compare_table("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    is_shipped = str(path) in shipped_names() and not Path(path).exists()
    rows = curated_rows(str(path)) if is_shipped else read_rows(path)
    return _marked(table_of(rows, str(path)).compare(rows, n_samples, seed))


def compare_curated(n_samples: int = 256, seed: int = 0) -> Comparison:
    """Predict the measurements that the package ships.

    Examples
    --------
    >>> sorted(compare_curated(4).measured)[:2]
    ['activations_memory', 'cache_memory']
    """
    parts = []
    for name in CURATED:
        rows = curated_rows(name)
        parts.append(table_of(rows, name).compare(rows, n_samples, seed))
    return _marked(merged(parts))


def _marked(comparison: Comparison) -> Comparison:
    return replace(comparison, rows=marked(comparison.rows))


def table_of(rows: Rows, path: str) -> Table:
    """Tell a table's kind by its columns.

    Examples
    --------
    >>> table_of([dict.fromkeys(serving_points.NEEDED, "")], "a.csv").name
    'serving points'
    """
    columns = set(rows[0])
    for table in TABLES:
        if columns.issuperset(table.needed):
            return table
    missing = {table.name: [one for one in table.needed if one not in columns] for table in TABLES}
    nearest = min(missing, key=lambda name: len(missing[name]))
    raise InputError(
        f"{path}: the columns fit none of {', '.join(missing)}; for {nearest} {', '.join(missing[nearest])} are missing"
    )
