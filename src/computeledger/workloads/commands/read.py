"""What launch commands say in the words of a serving question, flag by flag; what no answer models is kept."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from computeledger.errors import InputError, shown
from computeledger.facts.load import load_model, load_system
from computeledger.fields import MOST_COUNT, Given
from computeledger.files import without_user_files
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.weights import stored_precision
from computeledger.units import format_count
from computeledger.workloads.commands.text import LaunchText, launches_in
from computeledger.workloads.engines import engines
from computeledger.workloads.engines.flags import NO_EFFECT, NOT_MODELLED, Flag, Stated, Understood, flags_of
from computeledger.workloads.engines.releases import checked_month
from computeledger.workloads.engines.settings import default_of

#: The field of a question that each word of an engine's table is a part of.
FIELD_OF: Mapping[str, str] = {
    "model": "model", "tp": "layout", "pp": "layout", "dp": "layout", "ep": "layout", "experts": "layout",
    "attention_dp": "layout", "batch": "max_batch", "context": "context_tokens", "chunk": "chunk_tokens",
    "share": "memory_fraction", "quantization": "precision", "kv": "kv_precision", "eager": "eager", "graphs": "eager",
    "no_prefix_cache": "no_prefix_cache", "reuse": "no_prefix_cache", "speculation": "draft_tokens",
    "drafts": "draft_tokens", "two_batches": "two_batches", "redundant": "redundant_experts",
    "balance": "redundant_experts", "role": "mode", "encoder": "image_encoder", "encoder_data": "image_encoder",
    "lora": "adapters", "cpu_loras": "adapters",
    "max_loras": "max_loras", "lora_rank": "lora_rank",
}  # fmt: skip
#: Formats that engines' names of a quantisation stand for, where the checkpoint is stored in 16 bits.
_FORMATS = {
    "fp8": "fp8", "w8a8_fp8": "fp8", "w8a8_int8": "int8", "awq": "awq", "awq_marlin": "awq", "gptq": "int4",
    "gptq_marlin": "int4", "moe_wna16": "int4", "bitsandbytes": "nf4", "mxfp4": "mxfp4", "mxfp8": "mxfp8",
    "modelopt": "fp8", "modelopt_fp4": "fp4",
}  # fmt: skip


#: Words whose variables need no value here: which model drafts, and the model, which may be named beside the command.
_MAY_BE_OPEN = ("drafter", "speculation", "model")
#: Connectors that carry a cache from workers that prefill to workers that decode.
_BETWEEN_POOLS = re.compile(r"--kv-transfer-config .*(Nixl|P2pNccl|Mooncake)Connector")
#: Variables of an engine that say where it logs, listens and keeps files.
_OF_NO_EFFECT = re.compile(r"LOG|PORT|HOST|CACHE|API_KEY|USAGE|TRACE|TELEMETRY")
#: What follows a flag whose value another one replaces.
_AGAIN = " (given again)"
#: How a text of shell starts a line that its answer repeats as a remark.
REMARK = "# remark: "
#: Fields that mean something else, or nothing, for another engine.
_OF_ONE_ENGINE = {"backend", "backend_version", "memory_fraction"}


@dataclass(frozen=True, slots=True)
class Read:
    """What commands say: fields of a question, and every flag with what became of it."""

    engine: str
    fields: Mapping[str, Given]
    options: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    not_modelled: tuple[str, ...]
    drafts: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Worker:
    """One launch, read."""

    launch: LaunchText
    model: str
    said: Understood
    options: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    not_modelled: tuple[str, ...]
    drafts: str
    repeated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """GPUs that a launch takes, its layout, and its pool; no pool where it is told none."""

    n_gpus: int
    layout: str
    role: str


def taken_by(text: str) -> Taken | None:
    """What the one launch of a text takes; None where it has several, or none but further nodes.

    Examples
    --------
    >>> taken_by("vllm serve Qwen/Qwen3-8B -tp 2 -pp 2")
    Taken(n_gpus=4, layout='tp2-pp2', role='')
    """
    launches = [one for one in launches_in(text) if not _is_further_node(one)]
    if len(launches) != 1:
        return None
    said = _worker(launches[0]).said
    layout = str(said.fields["layout"])
    return Taken(said.replicas * int(parse_layout(layout).n_gpus), layout, said.role)


@functools.lru_cache(maxsize=8)
def read_commands(text: str, model: str | None = None) -> Read:
    """Read one launch, or two: of workers that prefill and of workers that decode.

    Parameters
    ----------
    text : str
        Commands of a shell.
    model : str, optional
        The model, where it is named beside the command.

    Returns
    -------
    Read
        Fields of a question, and what became of every flag.

    Raises
    ------
    InputError
        An unknown flag, a value that cannot be read, or a model that is not known here.

    Examples
    --------
    >>> found = read_commands("vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 64 --port 80 --moe-backend triton")
    >>> found.fields["layout"], found.fields["max_batch"], found.ignored, found.not_modelled
    ('tp2', 64, ('--port 80',), ('--moe-backend triton',))
    """
    if not text.strip():
        raise InputError("--from-command: the text is empty; give a launch command, such as 'vllm serve MODEL'")
    read = _read_workers([_worker(one) for one in launches_in(text) if not _is_further_node(one)], text, model)
    own = [line.removeprefix(REMARK).strip() for line in text.split("\n") if line.startswith(REMARK)]
    return replace(read, remarks=(*own, *read.remarks))


def _read_workers(workers: Sequence[_Worker], text: str, model: str | None) -> Read:
    """One pool, or two."""
    if not workers:
        raise InputError(f"--from-command {shown(text.strip())}: only further nodes of a replica; give the first one")
    if len(workers) == 1:
        if workers[0].said.role:
            role = workers[0].said.role
            raise InputError(
                f"--from-command: workers that {role} alone are one of two pools: give both commands, a line each"
            )
        return _one_pool(workers[0], model)
    if len(workers) > 2:
        raise InputError(
            f"--from-command: {len(workers)} launches; one is read, or two: those that prefill, then decode"
        )
    return _two_pools(workers, model)


def filled(given: Mapping[str, Given], read: Read) -> dict[str, Given]:
    """Fields that were given, of all others those of the commands, and what the engine takes by itself."""
    target = given.get("backend") or given.get("emit") or read.engine
    kept = read.fields.keys() - (_OF_ONE_ENGINE if target != read.engine else ())
    own = {name: read.fields[name] for name in kept if given.get(name) is None}
    defaults = engine_defaults(read, str(given.get("system") or ""))
    own |= {name: default for name, default in defaults.items() if given.get(name) is None}
    _check_ranks(read, own.get("max_batch"))
    if given.get("tokens_per_step") is None and given.get("speculation", "none") in (None, "none"):
        # what a step yields is in no command
        own.pop("draft_tokens", None)
    return {**given, **own}


def _check_ranks(read: Read, max_batch: Given) -> None:
    """Refuse data-parallel ranks that together take more sequences than are counted."""
    ranks = int(parse_layout(str(read.fields["layout"])).dp)
    if isinstance(max_batch, int) and max_batch > MOST_COUNT:
        each = max_batch // ranks
        raise InputError(
            f"--from-command: {ranks:,} data-parallel ranks of {each:,} sequences take {max_batch:,} at once; "
            f"at most {MOST_COUNT:,}: {format_count(max(MOST_COUNT // each, 1), 'rank')}"
        )


def engine_defaults(read: Read, system: str) -> dict[str, int]:
    """Settings that the commands leave to the engine's release on a system's chip, where they are known.

    Examples
    --------
    >>> engine_defaults(read_commands("vllm serve Qwen/Qwen3-8B -dp 2 --max-num-batched-tokens 4096"), "h100-nvl8")
    {'max_batch': 2048}
    """
    left = [name for name in ("max_batch", "chunk_tokens") if name not in read.fields]
    if not left or not system:
        return {}
    chip, release = load_system(system).accelerator, read.fields.get("backend_version")
    ranks = int(parse_layout(str(read.fields["layout"])).dp)
    each = {name: default_of(read.engine, name, chip, None if release is None else str(release)) for name in left}
    known = {name: int(one.value) for name, one in each.items() if one is not None}
    if "max_batch" in known:
        known["max_batch"] *= ranks
    if "chunk_tokens" in known and flags_of(read.engine).chunk_of_stage:
        known["chunk_tokens"] //= ranks
    return known


def _is_further_node(launch: LaunchText) -> bool:
    """Whether a launch is that of a further node of the same replica."""
    words = " ".join(launch.arguments)
    return "--headless" in launch.arguments or bool(re.search(r"(?:--node-rank|-r)[ =][1-9]", words))


def _one_pool(worker: _Worker, model: str | None) -> Read:
    fields, remarks = _fields(worker, model)
    if worker.said.replicas > 1:
        n_gpus = int(parse_layout(str(fields["layout"])).n_gpus)
        fields["gpus"] = worker.said.replicas * n_gpus
    return _read(worker, fields, [worker], remarks)


def _two_pools(workers: Sequence[_Worker], model: str | None) -> Read:
    prefill, decode = workers
    if (prefill.said.role, decode.said.role) == ("decode", "prefill"):
        prefill, decode = decode, prefill
    if prefill.launch.engine != decode.launch.engine or prefill.model != decode.model:
        given = " and ".join(f"{one.launch.engine} of {one.model}" for one in workers)
        raise InputError(f"--from-command: two pools are of one engine and one model, not {given}")
    fields, remarks = _fields(decode, model)
    fields |= {"mode": "disaggregated", "prefill_layout": prefill.said.fields["layout"]}
    fields["chunk_tokens"] = prefill.said.fields["chunk_tokens"] or fields.get("chunk_tokens")
    roles = (prefill.said.role, decode.said.role)
    remarks += () if all(roles) else ("two commands: the first is taken for the workers that prefill",)
    shared = ("context_tokens", "memory_fraction", "kv_precision", "eager", "no_prefix_cache")
    apart = [name for name in shared if prefill.said.fields.get(name) != decode.said.fields.get(name)]
    if apart:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in apart)
        remarks += (f"the two commands differ in {names}: that of the workers that decode is taken",)
    own = {name: value for name, value in fields.items() if value is not None}
    read = _read(decode, own, [prefill, decode], remarks)
    moved = tuple(one for one in read.not_modelled if _BETWEEN_POOLS.search(one))  # what two pools model
    kept = tuple(one for one in read.not_modelled if one not in moved)
    return replace(read, not_modelled=kept, ignored=(*read.ignored, *moved))


def _read(worker: _Worker, fields: Mapping[str, Given], workers: Sequence[_Worker], remarks: Sequence[str]) -> Read:
    return Read(
        worker.launch.engine,
        fields,
        options=tuple(dict.fromkeys(part for one in workers for part in one.options)),
        ignored=tuple(dict.fromkeys(part for one in workers for part in one.ignored)),
        not_modelled=tuple(dict.fromkeys(part for one in workers for part in one.not_modelled)),
        drafts=worker.drafts,
        remarks=(*remarks, *dict.fromkeys(part for one in workers for part in one.repeated)),
    )


def _fields(worker: _Worker, model: str | None) -> tuple[dict[str, Given], tuple[str, ...]]:
    """Fields of a question that a worker states, and remarks on how it was read."""
    fields = {name: value for name, value in worker.said.fields.items() if value not in (None, False)}
    remarks: list[str] = []
    fields["backend"] = worker.launch.engine
    if model is None:
        fields["model"] = model = _known_model(worker.model, remarks)
    elif worker.model and worker.model != model:
        fields["model"] = worker.model  # an answer says that another was named beside it
    if worker.launch.release:
        try:
            checked_month(worker.launch.engine, worker.launch.release)
            fields["backend_version"] = worker.launch.release
        except InputError:
            remarks.append(
                f"the image's tag {worker.launch.release} is no release of {worker.launch.engine} known here"
            )
    if "host_gb" in worker.said.left:
        remarks.append("--cpu-offload-gb is not turned into a share of the layers' weights: --host-weights counts one")
    return fields | _format(worker, model, remarks), tuple(remarks)


def _known_model(given: str, remarks: list[str]) -> str:
    """The model of a command: an id, never a file or a folder of this machine."""
    if not given or "$" in given:
        what = f"{shown(given)} is a variable that the text does not set" if given else "names no model"
        raise InputError(f"--from-command {what}: add --model beside it")
    name = given
    if re.match(r"[/~.]|.*:[/\\]|.*\\", given):  # a folder of the server
        name = given.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    with without_user_files():
        try:
            load_model(name)
        except InputError as error:
            raise InputError(f"--from-command: {str(error).rstrip('.')}; or add --model beside it") from None
    if name != given:
        remarks.append(f"{given} is a folder of the server: taken for {name}")
    return name


def _format(worker: _Worker, model: str, remarks: list[str]) -> dict[str, Given]:
    """The format of the weights that an engine makes on loading, where the checkpoint has none of its own."""
    method = worker.said.quantization
    if not method:
        return {}
    try:
        stored = stored_precision(load_model(model))
    except InputError:
        return {}  # a model that is named beside the command is read, and refused, where it is needed
    own = {stored.attention, stored.dense, stored.experts} - {"bf16"}
    if own:
        return {}
    if method in _FORMATS:
        return {"precision": _FORMATS[method]}
    remarks.append(f"weights counted in bf16: of {method} only the checkpoint's configuration says the format")
    return {}


def _worker(launch: LaunchText) -> _Worker:
    given = _tokens(launch)
    told, names, ignored, left = _sorted_out(launch, given)
    stated = Stated(launch.engine, told, names)
    reading = engines()[launch.engine].reading
    said = reading(stated) if reading is not None else Understood({})
    options: list[tuple[str, str]] = []
    drafts = ""
    for word, value in told.items():
        text = f"{names[word]} {value}".strip()
        if word in said.left or (word == "settings" and value not in launch.files):
            left.append(text)
        elif FIELD_OF.get(word) == "draft_tokens":
            drafts = text if said.fields.get("draft_tokens") else ""
        elif word in FIELD_OF:
            options.append((text, FIELD_OF[word]))
        else:
            ignored.append(text)
    for name, value in launch.variables.items():
        if name.startswith(launch.flags.variables):
            (ignored if _OF_NO_EFFECT.search(name) else left).append(f"{name}={value}")
    model = told.get("model", "")
    again = [text.removesuffix(_AGAIN) for text in ignored if text.endswith(_AGAIN)]
    repeated = tuple(f"{text} of the command is given again with another value: the last is taken" for text in again)
    return _Worker(launch, model, said, tuple(options), tuple(ignored), tuple(left), drafts, repeated)


def _sorted_out(
    launch: LaunchText, given: Sequence[tuple[Flag, str, str]]
) -> tuple[dict[str, str], dict[str, str], list[str], list[str]]:
    """Values and names by word, flags without effect on compute, and flags that are not modelled."""
    told: dict[str, str] = {}
    names: dict[str, str] = {}
    ignored: list[str] = []
    left: list[str] = []
    for flag, name, value in given:
        if flag.word in (NO_EFFECT, NOT_MODELLED):
            harmless = launch.flags.harmless.get(flag.name, (value,) if flag.word == NO_EFFECT else ())
            (ignored if value in harmless else left).append(f"{name} {value}".rstrip())
            continue
        if flag.word in told:  # an engine takes the last
            same = told[flag.word] == value
            ignored.append(f"{names[flag.word]} {told[flag.word]}".strip() + (" (twice)" if same else _AGAIN))
        if "$" in value and flag.word not in _MAY_BE_OPEN:
            raise InputError(f"--from-command: {name} {shown(value)}: the text sets no such variable")
        told[flag.word], names[flag.word] = value, name
    return told, names, ignored, left


def _tokens(launch: LaunchText) -> list[tuple[Flag, str, str]]:
    """Flags of a launch with their names and values, and those of a file of settings that the text writes."""
    flags, words = launch.flags, list(launch.arguments)
    out: list[tuple[Flag, str, str]] = []
    while words:
        word = words.pop(0)
        if not _is_flag(word):
            _take_bare(word, out, launch.engine)
            continue
        name, _, value = word.partition("=")
        if (level := re.fullmatch(r"(-O)(\d)", name)) is not None:
            name, value = level[1], level[2]
        flag = flags.find(name)
        if flag.takes_value and "=" not in word and not value:
            if not words or _is_flag(words[0]):
                raise InputError(f"--from-command: {name}: a value is missing")
            value = words.pop(0)
        out.append((flag, name, value))
    named = next((value for flag, _, value in out if flag.word == "settings"), "")
    keys = _settings(launch.files.get(named, ""))
    if flags.settings_win:  # its keys are those of the engine's own table
        return [*out, *((flags.find(key), key, value) for key, value in keys)]
    spelt = [(flags.find(f"--{key}"), f"--{key}", value) for key, value in keys]
    switched = [(flag, name, value if flag.takes_value else "") for flag, name, value in spelt if value != "false"]
    return [*switched, *out]


def _take_bare(word: str, out: list[tuple[Flag, str, str]], engine: str) -> None:
    """A word without dashes: one more value of the flag before it, or the model."""
    if out and out[-1][0].word in (NO_EFFECT, NOT_MODELLED) and out[-1][0].takes_value:
        flag, name, value = out.pop()
        out.append((flag, name, f"{value} {word}"))
        return
    if any(flag.word == "model" for flag, _, _ in out):
        raise InputError(f"--from-command: {shown(word)}: not a flag of {engine}, nor a value of one")
    out.append((Flag("model", "model", takes_value=True), "", word))


def _is_flag(word: str) -> bool:
    return re.match(r"--?[A-Za-z]", word) is not None


def _settings(text: str) -> list[tuple[str, str]]:
    r"""Keys of a file of settings with their values: tables by indentation, dots between their names.

    Examples
    --------
    >>> _settings("kv_cache_config:\n  dtype: fp8  # narrow\nenable_attention_dp: true")
    [('kv_cache_config.dtype', 'fp8'), ('enable_attention_dp', 'true')]
    """
    above: list[tuple[int, str]] = []
    out: list[tuple[str, str]] = []
    for line in text.split("\n"):
        found = re.match(r"(\s*)([A-Za-z_][\w-]*):(?:\s+(.*))?$", re.sub(r"(^|\s)#.*", "", line).rstrip())
        if found is None:
            continue
        indent = len(found[1])
        above = [one for one in above if one[0] < indent]
        value = (found[3] or "").strip().strip("'\"")
        if value:
            out.append((".".join([*(name for _, name in above), found[2]]), value))
        above.append((indent, found[2]))
    return out


def overridden(read: Read, asked: Mapping[str, Given]) -> dict[str, tuple[Given, Given]]:
    """Fields that a question has otherwise than its commands say: what these say, and what it has."""
    return {
        name: (value, asked[name])
        for name, value in read.fields.items()
        if name in asked and asked[name] != value and name != "draft_tokens"
    }
