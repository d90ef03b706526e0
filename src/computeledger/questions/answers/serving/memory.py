"""Answer where a model fits: over formats and systems, on how few GPUs, with which context and batch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import compared_systems, system_ids
from computeledger.facts.counted import read_counted
from computeledger.facts.gguf_mixes import mix_named
from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import Accelerator, System
from computeledger.fields import Given
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.serving.memory import ServingMemory
from computeledger.physics.serving.offload import HostMemory
from computeledger.physics.serving.operations import CHUNK_TOKENS
from computeledger.physics.weights import precision_of
from computeledger.questions.answer import Answer, from_python, remarked
from computeledger.questions.answers.serving.document import precision_document, serving_assumptions
from computeledger.questions.answers.serving.images import tokens_document
from computeledger.questions.answers.serving.launch import MOST_FRACTION, load_problem, loads_fp8, told_of_adapters
from computeledger.questions.document import document as as_document
from computeledger.questions.grounds import figure_document
from computeledger.questions.memory import MemoryQuestion
from computeledger.validation.accuracy.nearest import Wanted, nearest_figures
from computeledger.validation.accuracy.table import errors_of, published
from computeledger.workloads.engines import default_engine, default_file, engines, precision_on
from computeledger.workloads.engines.engine import Engine, Launch
from computeledger.workloads.figures import memory_figure
from computeledger.workloads.result import Figure, Term, fact_term
from computeledger.workloads.serving.fitting import SERVER_FORMATS, Load, fewest_gpus, longest_context
from computeledger.workloads.serving.images import with_images
from computeledger.workloads.serving.reading import adapted, buffers_asked

#: Formats beside the stored one where none are named.
_USUAL = (*SERVER_FORMATS, "gguf-q4_k_m")
_USUAL_FILES = ("gguf-q8_0", "gguf-q4_k_m")
#: Scale-up domains of one replica at most.
_MOST_DOMAINS = 4
#: Longest context that is looked for where the configuration names none [token].
_LONGEST_CONTEXT = 2**24

#: What engines report that weights take, once they have started.
_WEIGHTS = "weights_memory"


@dataclass(frozen=True, slots=True)
class Fit:
    """One format on one system: the fewest GPUs that hold the batch, or the most that were tried."""

    system: str
    precision: str
    engine: str
    fits: bool
    layout: Layout
    memory: ServingMemory
    largest_batch: int
    longest_context_tokens: int
    cache_tokens: int
    launch: str
    launch_problem: str
    chip: Accelerator

    def to_dict(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        held = self.memory
        return {
            "system": self.system,
            "precision": self.precision,
            "engine": self.engine,
            "fits": self.fits,
            "n_gpus": int(self.layout.n_gpus),
            "layout": str(self.layout),
            "memory_bytes": {
                "weights": float(held.weights_bytes),
                "kv_cache": float(held.kv_cache_bytes),
                "activations": float(held.activations_bytes),
                "workspace": float(held.workspace_bytes),
                "total": float(held.total_bytes),
                "capacity": held.capacity_bytes,
                "cache_capacity": float(held.cache_bytes),
                "rest_sd": float(held.rest_sd_bytes),
            },
            "cache_tokens": self.cache_tokens,
            "largest_batch": self.largest_batch,
            "longest_context_tokens": self.longest_context_tokens,
            "launch": self.launch,
            "launch_problem": self.launch_problem,
        }


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class MemoryAnswer(Answer):
    """Formats over systems, and the whole model's bytes by format."""

    question: MemoryQuestion
    model: Model
    fits: tuple[Fit, ...]

    @property
    def best(self) -> Fit | None:
        """Of what fits, the fewest GPUs, of those the smallest, of those one that can be started."""
        fits = [one for one in self.fits if one.fits]
        return min(
            fits, key=lambda one: (int(one.layout.n_gpus), one.memory.capacity_bytes, not one.launch), default=None
        )

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger memory --json`` prints it; the working is that of the best fit."""
        shown = self.best or self.fits[0]
        parts = {"working": [figure_document(one) for one in _figures(shown)]} if working else {}
        document = {
            "model": self.model.id,
            "context_tokens": self.question.context_tokens,
            "batch": self.question.batch,
            "kv_precision": self.question.kv_precision,
            "fits": [one.to_dict() for one in self.fits],
            "assumptions": serving_assumptions(engines()[shown.engine].buffers),
        }
        if self.best is not None:
            document["measured_alike"] = _alike(self.best, self.model.id)
        if seen := tokens_document(self.question, self.model):
            document["images"] = seen
        return remarked(document | parts, self.remarks)


def _alike(best: Fit, model: str) -> dict[str, Any]:
    """Weights as engines report them once they have started, and those of the nearest models."""
    rows = [row for row in published("memory").promised().rows if row["quantity"] == _WEIGHTS]
    wanted = Wanted("memory", model, best.chip.id, best.engine, (_WEIGHTS,))
    near = nearest_figures(wanted, {_WEIGHTS: float(best.memory.weights_bytes)})
    return {**asdict(errors_of(rows)), **as_document(near)}


def memory(question: MemoryQuestion | None = None, /, **given: Given) -> MemoryAnswer:
    """Where a model fits: formats over systems, on how few GPUs, with which context and batch.

    Parameters
    ----------
    question : MemoryQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or sequence
        Fields of :class:`~computeledger.questions.memory.MemoryQuestion`.

    Returns
    -------
    MemoryAnswer
        One :class:`Fit` for each format on each system.

    Raises
    ------
    InputError
        For bad input.

    Examples
    --------
    >>> answer = memory(model="llama-3.1-70b", system="h100-nvl8", precision="bf16,int4")
    >>> [(one.precision, int(one.layout.n_gpus)) for one in answer.fits]
    [('bf16', 2), ('int4', 1)]
    """
    return from_python(MemoryQuestion, answer_memory, question, given)


def answer_memory(question: MemoryQuestion) -> MemoryAnswer:
    """Answer ``computeledger memory``."""
    if question.backend is not None and question.backend not in engines():
        raise InputError(f"--backend {shown(question.backend)}: {nearest(question.backend, engines())}")
    model = adapted(with_images(question, load_model(question.model)), question)
    systems = {one: load_system(one) for one in question.system or compared_systems("model_weights")}
    most = {one: question.gpus or _most_gpus(one, system) for one, system in systems.items()}
    formats = {one: _formats(question, model, system.accelerator) for one, system in systems.items()}
    fits = [
        _fit((question, most[one]), model, text, system)
        for text in dict.fromkeys(text for each in formats.values() for text in each)
        for one, system in systems.items()
        if text in formats[one]
    ]
    return MemoryAnswer(question, model, tuple(fits))


def _figures(one: Fit) -> tuple[Figure, ...]:
    """How the bytes of one GPU come about, the batch that they leave room for, and the longest context."""
    held = one.memory
    capacity = fact_term("memory of one GPU", one.chip.usable_hbm_bytes or one.chip.hbm_bytes)
    parts = {"weights": held.weights_bytes, "activations": held.activations_bytes, "workspace": held.workspace_bytes}
    kept = tuple(Term(name, value, "bytes") for name, value in parts.items())
    sequence, ranks = Term("cache of one sequence", held.sequence_bytes, "bytes"), Term("dp", one.layout.dp, "")
    free = Term("room for the cache", held.cache_bytes, "bytes")
    room = "floor(room for the cache / cache of one sequence) x dp"
    searched = "the longest at which the batch fits, by halving, up to the configuration's own"
    return (
        memory_figure(held, capacity),
        Figure("largest_batch", held.largest_batch, "", room, (free, capacity, *kept, sequence, ranks)),
        Figure("longest_context_tokens", one.longest_context_tokens, "tokens", searched, (capacity, *kept)),
        Figure("n_gpus", one.layout.n_gpus, "", "the fewest of all layouts that hold the batch", (capacity,)),
    )


def _formats(question: MemoryQuestion, model: Model, chip: Accelerator) -> tuple[str | None, ...]:
    """The formats asked for; else the stored one and the usual ones that are narrower, of no file that is at hand."""
    if question.precision or model.stored is not None:
        return question.precision or (None,)
    engine = question.backend or default_engine(chip)
    first = default_file(engine, model)
    now = precision_on(engine, model, None)
    usual: tuple[str, ...] = _USUAL_FILES if engines()[engine].own_files else _USUAL
    if question.backend is not None and not engines()[engine].own_files:
        usual = tuple(text for text in usual if not mix_named(text))
    kept = [text for text in usual if not question.unknown_settings(_engine(model, text, chip, question.backend).id)]
    bits = {text: _width(model, precision_of(model, text)) for text in kept}
    return (first, *(text for text, each in bits.items() if each < _width(model, now)))


def _width(model: Model, precision: Precision) -> float:
    """Bytes of most of the weights' values."""
    return precision.weights.experts if model.is_moe else precision.weights.dense


def _most_gpus(given: str, system: System) -> int:
    """GPUs of one replica at most: as many as were counted, else some domains [-]."""
    domain, counted = int(system.n_gpus_scale_up.value), read_counted(given)
    if counted is None or counted.n is None:
        return _MOST_DOMAINS * domain
    return counted.n * (domain if counted.name in system_ids() else 1)


def _fit(asked: tuple[MemoryQuestion, int], model: Model, text: str | None, system: System) -> Fit:
    """The fewest GPUs of a system that hold the batch; of their layouts, the one that holds most."""
    question, most = asked
    precision = precision_of(model, text, question.kv_precision)
    name = text or _stored_name(model)
    engine = _engine(model, name, system.accelerator, question.backend)
    question.check_settings(engine.id)
    kept = HostMemory(buffers=buffers_asked(question, engine.id))
    load = Load(model, precision, float(question.batch), float(question.context_tokens), kept)
    found = fewest_gpus(load, system, engine, most)
    longest = longest_context(load, system, [found.layout], model.max_context_tokens or _LONGEST_CONTEXT)
    held = found.memory
    return Fit(
        system=system.id,
        precision=name,
        engine=engine.id,
        fits=found.fits,
        layout=found.layout,
        memory=held,
        largest_batch=int(held.largest_batch),
        longest_context_tokens=longest,
        cache_tokens=int(held.cache_bytes / max(float(held.sequence_bytes) / question.context_tokens, 1.0)),
        launch=_launch(question, model, name, (engine, found.layout, precision, held)),
        launch_problem=_launch_problem(engine, model, precision) or "",
        chip=system.accelerator,
    )


def _engine(model: Model, name: str, chip: Accelerator, asked: str | None) -> Engine:
    """The one asked for; else llama.cpp for GGUF files, and what people run on such a chip."""
    if asked is not None:
        return engines()[asked]
    is_file = model.id.endswith(".gguf") or mix_named(name)
    return engines()["llama.cpp" if is_file else default_engine(chip)]


def _stored_name(model: Model) -> str:
    kinds = dict.fromkeys((model.weight_precision, model.expert_precision if model.is_moe else model.dense_precision))
    return "/".join(kinds)


def _launch_problem(engine: Engine, model: Model, precision: Precision) -> str | None:
    """Why nothing can be started, by the rules of ``serve --emit``."""
    if precision.kv not in engine.caches:
        return f"a cache in {precision.kv} has no setting there; use {' or '.join(engine.caches)}"
    return load_problem(engine, model, precision_document(precision))


def _launch(
    question: MemoryQuestion, model: Model, name: str, cut: tuple[Engine, Layout, Precision, ServingMemory]
) -> str:
    """The command that starts it; none where the engine cannot."""
    engine, layout, precision, held = cut
    if _launch_problem(engine, model, precision) is not None:
        return ""
    kept = buffers_asked(question, engine.id)
    beside = float(held.total_bytes - held.kv_cache_bytes)
    whole = kept.whole_fraction if kept.whole_fraction < 1 else (beside + float(held.cache_bytes)) / held.capacity_bytes
    launch = Launch(
        model=model.id,
        layout=layout,
        batch=question.batch,
        context_tokens=question.context_tokens,
        cached=False,
        kv=precision.kv,
        online_fp8=loads_fp8(engine, model, precision_document(precision)),
        role="",
        whole_fraction=min(whole, MOST_FRACTION),
        static_fraction=min(whole, MOST_FRACTION),
        cache_fraction=kept.cache_fraction,
        chunk_tokens=question.chunk_tokens or int(CHUNK_TOKENS),
        eager=question.eager,
        weights=name,
        image_encoder=question.image_encoder or "",
        **told_of_adapters(model.adapters),
    )
    return "\n".join(engine.launched(launch))
