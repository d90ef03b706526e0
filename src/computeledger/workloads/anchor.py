"""Anchors: a user's own measurements as they are written, ``key=value`` or a file with the keys that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from computeledger.arrays import Uncertain
from computeledger.errors import InputError, nearest, shown
from computeledger.files import user_files_allowed
from computeledger.units import DIMENSIONS, parse_quantity

#: Standard deviation of log(real / modelled) between configurations of one machine and software, and between runs of
#: one configuration (assumptions; published configurations that ran again differ by 2 % dense, 7 % with experts).
WITHIN_DENSE, WITHIN_MOE = 0.10, 0.22
REPEAT_DENSE, REPEAT_MOE = 0.03, 0.09


#: Measured over predicted beyond which an anchor is refused: no published run is that far, but mistyped units are.
FARTHEST_RATIO = 12.0
#: What stands between anchors that are one text, as in the app's field.
SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class AnchorKey:
    """A key that an anchor may hold.

    Attributes
    ----------
    dimension : str
        Of :data:`computeledger.units.DIMENSIONS`; empty for a text.
    unit : str
        Unit of a bare number.
    """

    dimension: str = ""
    unit: str = ""


def parse_anchor(text: str, keys: Mapping[str, AnchorKey], what: str = "anchor") -> dict[str, float | str]:
    """Read an anchor as it is written.

    Parameters
    ----------
    text : str
        ``tokens_per_s_per_gpu=4200, layout=tp2-dp64``: keys and values in any order; numbers may carry units.
    keys : mapping of str to AnchorKey
        What may stand there.
    what : str
        What is read, for messages.

    Returns
    -------
    dict of str to float or str
        Numbers in SI, texts as they are.

    Raises
    ------
    InputError
        A part that is no ``key=value``, a key that is unknown or given twice, a value that is not positive or no single
        number.

    Examples
    --------
    >>> parse_anchor("step=2.5 s, layout=tp2", {"step": AnchorKey("s"), "layout": AnchorKey()})
    {'step': 2.5, 'layout': 'tp2'}
    """
    if not text.strip():
        raise InputError(f"{what}: nothing is given; write key=value, such as {_example(keys)}")
    if "=" not in text and is_file(text):
        raise InputError(f"{what} {shown(text)}: is a file; write key=value, such as {_example(keys)}")
    out: dict[str, float | str] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise InputError(f"{what} {shown(part.strip())}: expected key=value, such as {_example(keys)}")
        if name not in keys:
            raise InputError(f"{what} {shown(name)}: unknown key; {nearest(name, keys)}")
        if name in out:
            raise InputError(f"{what} {name}: given twice")
        out[name] = _value(name, value, keys[name])
    return out


def anchor_texts(texts: Iterable[str]) -> list[str]:
    """Take apart what may hold several anchors.

    Parameters
    ----------
    texts : iterable of str
        Each one anchor, or several with ``;`` between them.

    Returns
    -------
    list of str
        One for each anchor.

    Examples
    --------
    >>> anchor_texts(["step=2s; step=3s", "mfu=40%"])
    ['step=2s', 'step=3s', 'mfu=40%']
    """
    parts = [part.strip() for text in texts for part in text.split(SEPARATOR)]
    return [part for part in parts if part or len(parts) == 1]


def file_and_keys(text: str, example: str) -> tuple[str, str]:
    """Split an anchor into the file that it names and the keys behind it.

    Parameters
    ----------
    text : str
        ``run.log``, ``run.log,layout=tp8`` or keys alone.
    example : str
        What a stranger, who may name no file, can write instead.

    Returns
    -------
    tuple of str
        The file, empty where there is none, and the keys.

    Raises
    ------
    InputError
        For a file where none may be named.

    Examples
    --------
    >>> file_and_keys("run.log, layout=tp8", ""), file_and_keys("step=2s, layout=tp8", "")
    (('run.log', 'layout=tp8'), ('', 'step=2s, layout=tp8'))
    """
    path, _, rest = (text, "", "") if is_file(text) else text.partition(",")
    path = path.strip()
    if not path or ("=" in path and not is_file(path)):
        return "", text
    if not user_files_allowed():
        raise InputError(f"--anchor {shown(path)}: files cannot be named here; write {example}")
    return path, rest.strip()


def is_file(text: str) -> bool:
    """Say whether a text names a file that may be opened.

    Parameters
    ----------
    text : str
        What was written as an anchor.

    Returns
    -------
    bool
        Never for a stranger's text.

    Examples
    --------
    >>> is_file("batch=32,isl=1024"), is_file("nowhere.json")
    (False, False)
    """
    try:
        return user_files_allowed() and Path(text).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a zero in it
        return False


def _example(keys: Mapping[str, AnchorKey]) -> str:
    name = next((name for name, key in keys.items() if key.dimension), "key")
    return f"{name}=1"


def _value(name: str, text: str, key: AnchorKey) -> float | str:
    if not key.dimension:
        return text
    dimension = key.dimension if key.dimension in DIMENSIONS else "count"
    try:
        value: Uncertain = parse_quantity(text, dimension, key.unit or None)
    except InputError as error:
        raise InputError(f"anchor {name}={error}") from None
    if not isinstance(value, float) or value <= 0:
        raise InputError(f"anchor {name}={shown(text)}: expected one number greater than 0")
    return value


@dataclass(frozen=True, slots=True)
class Spread:
    """Scatter that no factor explains, as standard deviations of a logarithm.

    Attributes
    ----------
    within : float
        Between configurations of one machine and software [-].
    repeat : float
        Between runs of one configuration [-].
    """

    within: float
    repeat: float


def spread_of(moe: bool) -> Spread:
    """Scatter of a kind of model.

    Parameters
    ----------
    moe : bool
        Whether the model has routed experts.

    Returns
    -------
    Spread
        Larger with experts.

    Examples
    --------
    >>> spread_of(moe=False).within
    0.1
    """
    return Spread(WITHIN_MOE, REPEAT_MOE) if moe else Spread(WITHIN_DENSE, REPEAT_DENSE)
