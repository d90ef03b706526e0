"""Functions that a recipe names: shipped ones, those that installed packages offer, and a lab's own.

A name is looked up among the shipped ones, then among the entry points of its group (``rntp.rewards``, ...), then as
``MODULE:FUNCTION``, where the module can be imported or lies beside the recipe or where the command is given, or as
``FILE.py:FUNCTION`` beside the recipe. Every process looks a name up for itself.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from computeledger.errors import InputError, close_choices, nearest, shown
from computeledger.files import open_user_file

Function = TypeVar("Function", bound=Callable[..., Any])

REWARDS, POSITIONS, CORPORA = "rntp.rewards", "rntp.positions", "rntp.corpora"
ENVIRONMENTS, JUDGES, GRADED = "rntp.environments", "rntp.judges", "rntp.graded"
#: What a name of each group stands for, as messages say it.
WORDS = {
    REWARDS: "reward", POSITIONS: "position rule", CORPORA: "generator", ENVIRONMENTS: "environment", JUDGES: "judge",
    GRADED: "graded answers",
}  # fmt: skip
_FORMS = "MODULE:FUNCTION or FILE.py:FUNCTION"


def resolve(group: str, name: str, folder: Path, shipped: Mapping[str, Function]) -> Function:
    """Find the function of a name.

    Parameters
    ----------
    group : str
        Group of entry points: a key of ``WORDS``.
    name : str
        Of a shipped function, of an entry point, ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION``.
    folder : Path
        The recipe's: where files are looked for.
    shipped : mapping of str to callable
        What comes with the package.

    Returns
    -------
    callable
        As the module offers it; :func:`check_call` says whether it can be called.

    Examples
    --------
    >>> resolve(REWARDS, "math:sqrt", Path(), {})(4)
    2.0
    >>> resolve(REWARDS, "math:sqr", Path(), {})
    Traceback (most recent call last):
    computeledger.errors.InputError: reward 'math:sqr': math has no function 'sqr': did you mean 'sqrt'?
    >>> resolve(REWARDS, "probable", Path(), {"probability": max})
    Traceback (most recent call last):
    computeledger.errors.InputError: unknown reward 'probable': did you mean 'probability'? ...FILE.py:FUNCTION
    """
    if name in shipped:
        return shipped[name]
    if ":" in name:
        return cast("Function", _named(group, name, folder))
    offered = _offered(group)
    if name not in offered:
        raise InputError(unknown(group, name, shipped))
    try:
        found = offered[name].load()
    except Exception as error:  # a package may fail in any way while it is imported
        raise InputError(f"{WORDS[group]} {shown(name)}: {offered[name].value}: {said(error)}") from error
    if not callable(found):
        raise InputError(f"{WORDS[group]} {shown(name)}: its entry point is no function")
    return cast("Function", found)


def is_known(group: str, name: str, shipped: Iterable[str]) -> bool:
    """Say whether a name can be looked up: nothing is imported, so that a recipe is read without what it names.

    Parameters
    ----------
    group : str
        Group of entry points.
    name : str
        As in :func:`resolve`.
    shipped : iterable of str
        Names that come with the package.

    Returns
    -------
    bool
        True for shipped names, entry points, and whatever has a colon between two names.

    Examples
    --------
    >>> [is_known(REWARDS, name, ["probability"]) for name in ("probability", "mine.py:reward", "mine.py:", "mine")]
    [True, True, False, False]
    """
    module, _, function = name.rpartition(":")
    return name in shipped or bool(module and function) or name in _offered(group)


def unknown(group: str, name: str, shipped: Iterable[str]) -> str:
    """Say that nothing has a name.

    Parameters
    ----------
    group : str
        Group of entry points.
    name : str
        What was given.
    shipped : iterable of str
        Names that come with the package.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> unknown(JUDGES, "exactly", ["exact"])
    "unknown judge 'exactly': did you mean 'exact'? One of your own is MODULE:FUNCTION or FILE.py:FUNCTION"
    """
    return f"unknown {WORDS[group]} {shown(name)}: {choices_like(group, name, shipped)}"


def choices_like(group: str, name: str, shipped: Iterable[str]) -> str:
    """Say what has a name that is like one that nothing has.

    Parameters
    ----------
    group : str
        Group of entry points.
    name : str
        What was given.
    shipped : iterable of str
        Names that come with the package.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> choices_like(JUDGES, "exactly", ["exact"])
    "did you mean 'exact'? One of your own is MODULE:FUNCTION or FILE.py:FUNCTION"
    """
    own = nearest(name, [one for one in (*shipped, *_offered(group)) if one])
    return f"{own}{'' if own.endswith('?') else '.'} One of your own is {_FORMS}"


def check_call(group: str, name: str, function: Callable[..., Any], *values: Any, **named: Any) -> None:
    """Refuse a function that cannot be called with what it will be given.

    Parameters
    ----------
    group : str
        Group of entry points.
    name : str
        Of the function.
    function : callable
        It is not called.
    *values, **named : Any
        The arguments, or anything in their place: for arguments by position their names.

    Examples
    --------
    >>> check_call(REWARDS, "mine:reward", lambda scores: 0.0, "scores", "options")
    Traceback (most recent call last):
    computeledger.errors.InputError: reward 'mine:reward': takes (scores), and is given (scores, options)
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions of C have none to look at
        return
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        given = ", ".join([*map(str, values), *(f"{key}=" for key in named)])
        reason = f": {error}" if named else ""
        raise InputError(f"{WORDS[group]} {shown(name)}: takes {signature}, and is given ({given}){reason}") from None


def source_hash(function: Callable[..., Any], name: str) -> str:
    """Hash the text of the file that a function stands in, its helpers there included.

    Parameters
    ----------
    function : callable
        What was found.
    name : str
        Under which it was: the module that it names counts too, where the function comes from another.

    Returns
    -------
    str
        Sixteen hexadecimal digits.

    Examples
    --------
    >>> source_hash(nearest, "computeledger.errors:nearest") == source_hash(shown, "computeledger.errors:shown")
    True
    """
    inner = inspect.unwrap(function)
    named = sys.modules.get(name.rpartition(":")[0])
    where = sys.modules.get(getattr(inner, "__module__", None) or type(inner).__module__)
    files = {file for one in (named, where) if (file := getattr(one, "__file__", None))}
    if not files:
        raise InputError(f"{shown(name)}: has no file, so that a change of it could not be noticed: put it into one")
    return hashlib.sha256(b"\0".join(sorted(Path(file).read_bytes() for file in files))).hexdigest()[:16]


def said(error: BaseException) -> str:
    """Say an error of somebody else's code in one line, with the last line of a file that it names.

    Parameters
    ----------
    error : BaseException
        As it was caught.

    Returns
    -------
    str
        Class, message and place.

    Examples
    --------
    >>> said(ValueError("not so"))
    'ValueError: not so'
    """
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}{place}" if message else f"{type(error).__name__}{place}"


def _offered(group: str) -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=group)}


def _named(group: str, name: str, folder: Path) -> Any:
    """What ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION`` names."""
    file, _, function = name.rpartition(":")
    label = f"{WORDS[group]} {shown(name)}"
    if not file or not function:
        raise InputError(f"{label}: {_FORMS} is needed")
    try:
        module = _beside(file, folder) if file.endswith(".py") else _module(file, folder)
    except InputError as error:
        raise InputError(f"{label}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever a file of somebody else's does when it is imported
        raise InputError(f"{label}: {file} cannot be imported: {said(error)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise InputError(f"{label}: {file} has no function {shown(function)}: {nearest(function, _own(module))}")
    return found


def _own(module: ModuleType) -> list[str]:
    """Public functions and classes that a module defines, or a package offers of its parts; no imports of others."""
    found = []
    for name, one in vars(module).items():
        where = f"{getattr(one, '__module__', None)}."
        if callable(one) and not name.startswith("_") and where.startswith(f"{module.__name__}."):
            found.append(name)
    return found


def _like(name: str, *folders: Path) -> str:
    """Name a file of a folder that is like one that is not there; nothing where none is."""
    suffix = ".py" if name.endswith(".py") else ""
    files = {f"{one.stem}{suffix}" for folder in folders for one in folder.glob("*.py")}
    return f"; {nearest(name, near)}" if (near := close_choices(name, files)) else ""


def _module(name: str, folder: Path) -> ModuleType:
    """An installed module, or one of a file beside the recipe or where the command is given."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"{shown(name)} is no name of a module: {_FORMS} is needed")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
    for place in (folder, Path()):
        if (path := place / f"{name.replace('.', '/')}.py").is_file():
            return _file(path)
    raise InputError(f"no module is named {shown(name)}, installed or beside the recipe{_like(name, folder, Path())}")


def _beside(name: str, folder: Path) -> ModuleType:
    if not (folder / name).is_file():
        raise InputError(f"no file is named {shown(name)} beside the recipe{_like(name, folder)}")
    return _file(folder / name)


def _file(path: Path) -> ModuleType:
    """The module of a file, read once as long as the file stays as it is."""
    with open_user_file(path) as stream:
        content = hashlib.sha256(f"{path.resolve()}\0".encode() + stream.read()).hexdigest()[:12]
    name = f"rntp_plugin_{path.stem}_{content}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{shown(path.name)} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # records of the file look themselves up there
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let a file import those beside it, behind whatever is installed."""
    place = str(folder.resolve())
    sys.path.append(place)
    try:
        yield
    finally:
        sys.path.remove(place)
