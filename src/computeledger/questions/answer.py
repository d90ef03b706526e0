"""What every answer is: a frozen record that becomes a dictionary, a view, a page or a notebook's table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from computeledger.arrays import Num
from computeledger.display import Displayed, drawing
from computeledger.errors import InputError, shown
from computeledger.facts.catalog import user_path
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import Accelerator, System
from computeledger.fields import Given, Record, fields_of, python_spelling, question_from
from computeledger.questions.document import document
from computeledger.units import format_count, format_si
from computeledger.workloads.engines import default_file
from computeledger.workloads.result import quantity
from computeledger.writing import write_report

#: The document that was made last, where none is made twice in a row.
_ONCE: ContextVar[dict[tuple[int, bool], tuple[object, dict[str, Any]]] | None] = ContextVar("_ONCE", default=None)


@contextmanager
def documents_once() -> Iterator[None]:
    """Within it whoever asks for the document that was made last reads the same one.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import serve
    >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=8)
    >>> with documents_once():
    ...     answer.to_dict() is answer.to_dict()
    True
    >>> answer.to_dict() is answer.to_dict()
    False
    """
    token = _ONCE.set({})
    try:
        yield
    finally:
        _ONCE.reset(token)


_Q = TypeVar("_Q", bound=Record)
_A = TypeVar("_A")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure of an answer: its median and its quantiles over the sampled inputs."""

    p05: float
    p10: float
    p50: float
    p90: float
    p95: float
    unit: str

    @classmethod
    def of(cls, value: Num, unit: str) -> Quantity:
        """Quantiles of samples.

        Examples
        --------
        >>> Quantity.of(2.0, "s").p95
        2.0
        """
        found = quantity(value, unit)
        if isinstance(found, Mapping):
            return cls(**found)
        return cls(found, found, found, found, found, unit)


#: Figures that an answer's repr names, at most.
_MOST_SAID = 6


def _short(value: object) -> str:
    """A value in a few characters: a quantity's median, a text cut off, how many of several."""
    if isinstance(value, Quantity):
        return f"{value.p50:.4g} {value.unit}".rstrip()
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value:.4g}"
    if isinstance(value, str):
        return shown(value[:40])
    return f"<{len(value)}>" if isinstance(value, Sized) else f"<{type(value).__name__}>"


def schema_name(kind: str, version: int = 1) -> str:
    """What the key ``schema`` of a document says.

    Examples
    --------
    >>> schema_name("cite")
    'computeledger/cite/1'
    """
    return f"computeledger/{kind}/{version}"


class Answer(Displayed):
    """An answer; what it holds is in the attributes of each kind, and all of it in :meth:`to_dict`."""

    __slots__ = ()
    #: One more when a key of its document goes, moves, or changes its meaning or unit; a new key changes nothing.
    schema_version: ClassVar[int] = 1

    def __repr__(self) -> str:
        """Name and headline figures, at their medians: all of it stands in :meth:`to_dict`."""
        kind = type(self)
        quantities = [
            name
            for parent in kind.__mro__
            for name, one in vars(parent).items()
            if isinstance(one, property) and "Quantity" in str(one.fget.__annotations__.get("return"))
        ]
        said = [f"{name}={_short(getattr(self, name))}" for name in quantities]
        if not said:
            values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "question"}  # type: ignore[arg-type]
            said = [f"{name}={_short(value)}" for name, value in values.items()]
        return f"{kind.__name__}({', '.join(said[:_MOST_SAID])}{', ...' if len(said) > _MOST_SAID else ''})"

    @classmethod
    def schema(cls) -> str:
        """Name of its document's kind, and the version of its keys: ``computeledger/serve/1``."""
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__.removesuffix("Answer")).lower()
        return schema_name(kind, cls.schema_version)

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As the command prints it with ``--json``; with ``working``, as with ``--working``."""
        kept, key = _ONCE.get(), (id(self), working)
        if kept is None:
            return {"schema": self.schema(), **self.contents(working=working)}
        if key not in kept:
            made = {"schema": self.schema(), **self.contents(working=working)}
            kept.clear()  # one alone, for answers can be large; it stays beside its document, so that its id is its own
            kept[key] = self, made
        return kept[key][1]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (a plain record has none)
        """What its document holds below the name of its schema."""
        return document(self, leave_out=("question",))

    @property
    def has_working(self) -> bool:
        """Whether its figures come with formula and inputs; a report then shows them."""
        return True

    @property
    def read_from(self) -> tuple[str, ...]:
        """Texts of the question: where one names a file, no report is written over it."""
        question = getattr(self, "question", None)
        given = [] if question is None else [getattr(question, name) for name in fields_of(question.__class__)]
        parts = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
        return tuple(part for part in parts if isinstance(part, str))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was taken from the name of a model or a system, assumed of it, or fetched; its document repeats it."""
        question = getattr(self, "question", None)
        models, systems, gpus = (getattr(question, name, None) for name in ("model", "system", "gpus"))
        return remarks_of(models) + file_remarks(question) + system_remarks(systems, gpus)

    @property
    def unit_name(self) -> str:
        """What one accelerator of its systems is called; a GPU where they differ, or none is named."""
        question = getattr(self, "question", None)
        given = getattr(question, "system", None)
        texts = (given,) if isinstance(given, str) else given if isinstance(given, tuple) else ()
        own = getattr(getattr(self, "setting", None), "system", None)
        systems = [own] if isinstance(own, System) else [load_system(one) for one in texts if user_path(one) is None]
        return unit_name_of(one.accelerator for one in systems)

    def view(self, *, working: bool = False) -> Any:
        """As terminal, report, notebook and app show it: a :class:`computeledger.interfaces.view.View`."""
        return drawing("view")(self, working)

    def to_html(self, path: str | Path) -> None:
        """Write the report: one file that needs nothing from the network."""
        write_report(str(path), drawing("page")(self), self.read_from)


def unit_name_of(chips: Iterable[Accelerator]) -> str:
    """What one of some accelerators is called: a GPU where they differ.

    Examples
    --------
    >>> [unit_name_of([load_system(one).accelerator]) for one in ("h100-nvl8", "tpu-v5p-pod", "1xepyc-9755")]
    ['GPU', 'chip', 'processor']
    """
    names = {one.unit_name for one in chips}
    return names.pop() if len(names) == 1 else "GPU"


def remarks_of(models: object) -> tuple[str, ...]:
    """Remarks of the models that a question names: one, several or none.

    Examples
    --------
    >>> [one.split(";")[0] for one in remarks_of(("qwen3-8b", "qwen3-14b-awq"))]
    ['qwen3-14b-awq: its own configuration was not read']
    """
    named = (models,) if isinstance(models, str) else models if isinstance(models, tuple) else ()
    texts = [one for one in dict.fromkeys(named) if user_path(str(one)) is None]  # a file is not read twice
    return tuple(dict.fromkeys(remark for one in texts for remark in load_model(str(one)).remarks))


def file_remarks(question: object) -> tuple[str, ...]:
    """Which file counts where an engine does not run a checkpoint as it is stored, and no format was named.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> file_remarks(ServeQuestion(model="gpt-oss-20b", system="1xm4-max", backend="llama.cpp"))
    ("counted in gguf-mxfp4, the file that llama.cpp's users download of it: --precision names another",)
    """
    engine, model = getattr(question, "engine", getattr(question, "backend", None)), getattr(question, "model", None)
    if not isinstance(engine, str) or not isinstance(model, str) or getattr(question, "precision", None) is not None:
        return ()
    file = None if user_path(model) is not None else default_file(engine, load_model(model))
    return (
        ()
        if file is None
        else (f"counted in {file}, the file that {engine}'s users download of it: --precision names another",)
    )


def system_remarks(systems: object, gpus: object = None) -> tuple[str, ...]:
    """Remarks of the systems that a question names: GPUs beyond a count, a part of a node, memory that is kept.

    Examples
    --------
    >>> system_remarks("2xl40s", 8)
    ('8 GPUs are 4 x 2xl40s: 25 GB/s a GPU between them, 31.5 GB/s inside; 8xl40s is one node',)
    """
    named = (systems,) if isinstance(systems, str) else systems if isinstance(systems, tuple) else ()
    texts = [str(one) for one in dict.fromkeys(named) if user_path(str(one)) is None]
    found = [load_system(one) for one in texts]
    said = [remark for one in found for remark in (_beyond_the_count(one, gpus), _part_of_a_node(one), _kept(one))]
    return tuple(dict.fromkeys(remark for remark in said if remark))


def _beyond_the_count(system: System, gpus: object) -> str:
    """What more GPUs are than the name of the system counts: more of the same, over the fabric beyond one."""
    n, asked = system.n_gpus, int(gpus) if isinstance(gpus, int | float) else 0
    unit = system.accelerator.unit_name
    if n is None or asked <= n:
        return ""
    domain = int(system.n_gpus_scale_up.value)
    inside, beyond = (
        format_si(one, "B/s")
        for one in (system.scale_up_bytes_per_s_per_gpu.value, system.cross_domain_bytes_per_s_per_gpu)
    )
    said = f"{format_count(asked, unit)} are {asked / n:.3g} x {system.id}: {beyond} a {unit} between them"
    return said if domain == 1 else f"{said}, {inside} inside; {system.id.replace(f'{n}x', f'{asked}x', 1)} is one node"


def _part_of_a_node(system: System) -> str:
    """Which node a few GPUs are a part of, where they are made for one."""
    n, of = system.n_gpus, system.measured_as
    full = int(load_system(of).n_gpus_scale_up.value) if of else 0
    if n is None or n >= full:
        return ""
    others = format_count(full, system.accelerator.unit_name)
    return f"{n} of the {others} of {of}, with their share of its fabric and power"


def _kept(system: System) -> str:
    """How much of a chip's memory its operating system keeps from the GPU."""
    chip = system.accelerator
    if chip.usable_hbm_bytes is None or chip.usable_bytes >= chip.hbm_bytes.value:
        return ""
    usable, whole = (format_si(one, "B") for one in (chip.usable_bytes, chip.hbm_bytes.value))
    return f"{usable} of {chip.id}'s {whole} count: {chip.usable_hbm_bytes.note}"


def remarked(document: dict[str, Any], remarks: tuple[str, ...]) -> dict[str, Any]:
    """A document with remarks, where there are any."""
    return document | {"remarks": [*document.get("remarks", ()), *remarks]} if remarks else document


def from_python(record: type[_Q], answer: Callable[[_Q], _A], question: _Q | None, given: Mapping[str, Given]) -> _A:
    """Answer a question given as a record, as keywords, or as a record with changes.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> asked = {"model": "llama-3.1-8b", "system": "h100-nvl8"}
    >>> from_python(ServeQuestion, lambda question: question.batch, None, {**asked, "batch": "4K"})
    4000
    >>> from_python(ServeQuestion, lambda question: question, None, {**asked, "draft_tokens": 3})
    Traceback (most recent call last):
    computeledger.errors.InputError: draft_tokens needs tokens_per_step: the tokens that a step yields, its own included
    """
    if question is not None and not isinstance(question, record):
        known = fields_of(record)
        needed = [f"{name}=..." for name, one in known.items() if one.is_required] or [f"{next(iter(known))}=..."]
        raise InputError(f"{shown(question)}: expected keywords, such as {', '.join(needed)}, or a {record.__name__}")
    try:
        if question is None:
            return answer(question_from(record, given))
        if given:
            base = {name: getattr(question, name) for name in fields_of(record)}
            return answer(question_from(record, {**base, **given}))
        return answer(question)
    except InputError as error:
        raise type(error)(python_spelling(str(error))) from None
