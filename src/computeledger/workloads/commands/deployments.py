"""Launch commands, replicas and GPUs of a parsed deployment: compose, Kubernetes, KServe, llm-d, Dynamo."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from computeledger.errors import InputError, shown
from computeledger.facts.catalog import system_ids
from computeledger.units import format_count
from computeledger.workloads.commands.read import REMARK, Taken, taken_by
from computeledger.workloads.commands.text import launches_in

#: Flags of Dynamo's own around an engine: which pool a worker belongs to, and where it is found.
_OF_DYNAMO = re.compile(
    r"--is-(?:prefill|decode)-worker|--(?:disaggregation-mode|namespace|endpoint|connector|request-plane|event-plane|"
    r"discovery-backend|migration-limit|store-kv)(?:=.*)?"
)
_BARE = re.compile(r"--is-(?:prefill|decode)-worker")
_PREFILL = re.compile(r"--is-prefill-worker|--disaggregation-mode[= ]prefill")
#: Flags of engines that go over pods which no group names: joined by Ray, or by ranks of their own.
_JOINED = re.compile(
    r"\bray start\b|--distributed-executor-backend[= ]ray|--data-parallel-(?:size-local|address|start-rank)"
)
_NODES = re.compile(r"--nnodes[= ](\d+)")
#: How Kubernetes writes a container's variable in its command; two dollars are one.
_REFERENCE = re.compile(r"\$(\$?)\(([\w.-]+)\)")
_GPU, _BELOW_ZERO = re.compile(r"(?:.*/)?gpus?(?:\.|$)"), re.compile(r"-\s*\d.*")
#: Words of node labels by the family of systems that they name; a server of eight is assumed.
_CHIPS = re.compile(r"(?<![a-z0-9])(gb300|gb200|b300|b200|h800|h200|h100|h20|a100|mi300x|mi355x)(?![0-9])")


@dataclass(frozen=True, slots=True)
class Pod:
    """Containers of one kind: what they start, how many groups of them there are, and a group's pods and GPUs."""

    name: str
    words: tuple[str, ...]
    replicas: int
    n_gpus: int
    is_prefill: bool = False
    n_pods: int = 1
    is_joined: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment as a text of shell, with what a command does not say: GPUs of its engines, and of its pods."""

    text: str
    n_engine_gpus: int | None
    n_gpus: int | None
    system: str | None


def read_deployment(documents: Sequence[Any], name: str, chosen: str = "") -> Deployment:
    """Read the documents of a deployment file.

    Parameters
    ----------
    documents : sequence
        Parsed YAML.
    name : str
        Of the file, for errors.
    chosen : str, optional
        The one service that is read, where the file has more.

    Returns
    -------
    Deployment
        Commands of its workers, those that prefill first; all its GPUs; the system that its nodes are of.

    Raises
    ------
    InputError
        A file without an engine, with several services that are no two pools, or with pods too small for their engine.

    Examples
    --------
    >>> service = {"image": "vllm/vllm-openai:v0.11.0", "command": "--model Qwen/Qwen3-8B -tp 2"}
    >>> read_deployment([{"services": {"a": service}}], "f.yaml").text
    'docker run vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B -tp 2'
    """
    tables = [one for one in documents if isinstance(one, Mapping)]
    pods = [pod for one in tables for pod in _pods(one) if _starts_an_engine(pod)]
    if not pods:
        raise InputError(
            f"--from-file {name}: no launch of an engine; read are compose files, Deployments, StatefulSets, "
            "LeaderWorkerSets, InferenceServices, LLMInferenceServices, values of llm-d and Dynamo's graphs"
        )
    names = ", ".join(one.name for one in pods)
    if chosen and chosen not in (one.name for one in pods):
        raise InputError(f"--from-file {name}#{chosen}: no such service starts an engine there; {names} do")
    fitted = [_fitted(one, name) for one in pods if chosen in ("", one.name)]
    fitted.sort(key=lambda one: one.role != "prefill")
    if len(fitted) > 2 or (len(fitted) == 2 and fitted[0].role == fitted[1].role):
        raise InputError(
            f"--from-file {name}: {names} are several services; one is read, or two: prefill and decode; "
            f"name one, such as {name}#{fitted[-1].pod.name}"
        )
    lines = [f"{REMARK}{one.remark}" for one in fitted if one.remark]
    lines += [shlex.join(one.pod.words) for one in fitted]
    n_gpus = sum(one.pod.replicas * one.pod.n_gpus for one in fitted) or None
    taken = sum(one.n_gpus for one in fitted) or None
    return Deployment("\n".join(lines), taken, n_gpus, _system(tables))


def given_by(deployment: Deployment, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, with what the deployment says of all else; another layout may take all GPUs of its pods."""
    n_gpus = deployment.n_engine_gpus if given.get("layout") is None else deployment.n_gpus
    own = {"from_command": deployment.text, "system": deployment.system, "gpus": n_gpus}
    return {**given, **{name: value for name, value in own.items() if value is not None and given.get(name) is None}}


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Pods and the engines that they start: GPUs that these take, and those that stay idle beside them in words."""

    pod: Pod
    role: str
    n_gpus: int
    remark: str = ""


def _fitted(pod: Pod, name: str) -> _Fitted:
    """One engine a group of pods, whatever GPUs the group has beyond it; refused where it has too few."""
    said = " ".join(pod.words)
    taken = taken_by(shlex.join(pod.words)) or Taken(pod.n_gpus, "", "")
    is_prefill = pod.is_prefill or taken.role == "prefill" or (not taken.role and "prefill" in pod.name.lower())
    role, paid = "prefill" if is_prefill else "decode", pod.replicas * pod.n_gpus
    if pod.is_joined or (pod.n_pods == 1 and _JOINED.search(said)):
        return _Fitted(pod, role, paid)
    groups, group_gpus = pod.replicas, pod.n_gpus
    n_nodes = int(found[1]) if (found := _NODES.search(said)) and pod.n_pods == 1 else 1
    if n_nodes > 1 and groups % n_nodes == 0:
        groups, group_gpus = groups // n_nodes, group_gpus * n_nodes
    if not group_gpus:  # no limit says how many there are
        return _Fitted(pod, role, groups * taken.n_gpus if groups > 1 else 0)
    n_pods = max(pod.n_pods, n_nodes)
    of = f"a pod of {pod.name} has" if n_pods == 1 else f"a group of {n_pods} pods of {pod.name} has"
    has = f"{of} {format_count(group_gpus, 'GPU')} and its engine takes {taken.n_gpus} ({taken.layout})"
    if taken.n_gpus > group_gpus:
        raise InputError(f"--from-file {name}: {has}: it cannot start")
    idle = paid - groups * taken.n_gpus
    remark = f"{idle} of {paid} GPUs stay idle: {has}; no figure counts the idle ones" if idle else ""
    return _Fitted(pod, role, groups * taken.n_gpus, remark)


def _starts_an_engine(pod: Pod) -> bool:
    try:
        return bool(launches_in(shlex.join(pod.words)))
    except InputError:
        return False


def _pods(table: Mapping[str, Any]) -> Iterator[Pod]:
    kind, spec = table.get("kind"), _table(table.get("spec"))
    name = str(_table(table.get("metadata")).get("name") or kind)
    if kind == "DynamoGraphDeployment":
        yield from _of_dynamo(spec)
    elif kind == "LLMInferenceService":
        yield from _of_llm_service(name, spec)
    elif kind == "InferenceService":
        yield from _of_predictor(name, _table(spec.get("predictor")))
    elif kind == "LeaderWorkerSet":
        group = _table(spec.get("leaderWorkerTemplate"))
        leader = _table(group.get("leaderTemplate")) or _table(group.get("workerTemplate"))
        yield from _of_template(name, leader, _whole(spec.get("replicas")), _whole(group.get("size")))
    elif kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        yield from _of_template(name, _table(spec.get("template")), _whole(spec.get("replicas")))
    elif kind == "Pod":
        yield from _of_template(name, {"spec": spec}, 1)
    elif "modelArtifacts" in table:
        yield from _of_llm_d(table)
    elif "services" in table:
        yield from _of_compose(_table(table.get("services")))


def _of_template(name: str, template: Mapping[str, Any], replicas: int, n_pods: int = 1) -> Iterator[Pod]:
    for one in _tables(_table(template.get("spec")).get("containers")):
        words = _container(one)
        yield Pod(name, words, replicas, n_pods * _gpus(one), bool(_PREFILL.search(" ".join(words))), n_pods)


def _of_compose(services: Mapping[str, Any]) -> Iterator[Pod]:
    for name, one in ((str(key), _table(value)) for key, value in services.items()):
        deploy = _table(one.get("deploy"))
        devices = _tables(_table(_table(_table(deploy.get("resources")).get("reservations"))).get("devices"))
        if any(_BELOW_ZERO.fullmatch(str(one.get("count"))) for one in devices):
            raise InputError(f"--from-file: devices of {name}: expected a whole number of GPUs, at least 0, or all")
        counts = [one.get("count") for one in devices] + [len(_list(one.get("device_ids"))) for one in devices]
        n_gpus = max((count for count in counts if isinstance(count, int)), default=0)
        entry, command = _words(one.get("entrypoint")), _words(one.get("command"))
        words = ("docker", "run", *_variables(one.get("environment")), str(one.get("image", "")), *entry, *command)
        yield Pod(name, words, _whole(deploy.get("replicas")), n_gpus, bool(_PREFILL.search(" ".join(words))))


def _of_predictor(name: str, spec: Mapping[str, Any]) -> Iterator[Pod]:
    replicas = _whole(spec.get("minReplicas"))
    is_joined = "workerSpec" in spec
    yield from (replace(one, is_joined=is_joined) for one in _of_template(name, {"spec": spec}, replicas))
    if model := _table(spec.get("model")):
        named = str(model.get("storageUri", "")).removeprefix("hf://")
        args = []
        for word in _filled(model, "args"):
            key, _, value = word.partition("=")
            if key == "--model_id":
                named = value
            elif key not in ("--model_name", "--model_dir", "--backend", "--task"):
                args.append(word)
        words = ("vllm", "serve", *([named] if named else []), *args)
        yield Pod(name, words, replicas, _gpus(model), is_joined=is_joined)


def _of_llm_service(name: str, spec: Mapping[str, Any]) -> Iterator[Pod]:
    named = str(_table(spec.get("model")).get("uri", "")).removeprefix("hf://")
    for one, is_prefill in ((spec, False), (_table(spec.get("prefill")), True)):
        if not one:
            continue
        container = next(iter(_tables(_table(one.get("template")).get("containers"))), {})
        split = _table(one.get("parallelism"))
        flags = {
            "tensor": "--tensor-parallel-size",
            "pipeline": "--pipeline-parallel-size",
            "data": "--data-parallel-size",
        }
        told = [word for key, flag in flags.items() if key in split for word in (flag, str(split[key]))]
        told += ["--enable-expert-parallel"] if split.get("expert") is True else []
        variables = {one.get("name"): one.get("value") for one in _tables(container.get("env"))}
        more = _words(variables.get("VLLM_ADDITIONAL_ARGS"))
        words = ("vllm", "serve", named, *told, *_filled(container, "args"), *more)
        if _words(container.get("command")):
            words = _container(container)
        name_of = f"{name}-prefill" if is_prefill else name
        is_joined = "worker" in one or _whole(split.get("data")) > _whole(split.get("dataLocal") or split.get("data"))
        yield Pod(name_of, words, _whole(one.get("replicas")), _gpus(container), is_prefill, is_joined=is_joined)


def _of_llm_d(values: Mapping[str, Any]) -> Iterator[Pod]:
    artifacts = _table(values.get("modelArtifacts"))
    uri = str(artifacts.get("uri", ""))
    named = uri.removeprefix("hf://") if uri.startswith("hf://") and "{" not in uri else str(artifacts.get("name", ""))
    for role in ("prefill", "decode"):
        one = _table(values.get(role))
        container = next(iter(_tables(one.get("containers"))), {})
        if not container or one.get("create") is False or one.get("replicas") == 0:
            continue
        split, args = _table(one.get("parallelism")), _filled(container, "args")
        if _words(container.get("command")):
            words = _container(container)
        else:
            told = [f"--tensor-parallel-size={split['tensor']}"] if "tensor" in split else []
            told += [f"--data-parallel-size={split['data']}"] if _whole(split.get("data")) > 1 else []
            words = ("vllm", "serve", named, *told, *args)
        n_gpus = _gpus(container) or _whole(split.get("tensor")) * _whole(split.get("dataLocal"))
        is_joined = one.get("multinode") is True or values.get("multinode") is True
        is_joined |= _whole(split.get("data")) > _whole(split.get("dataLocal") or split.get("data"))
        yield Pod(role, words, _whole(one.get("replicas")), n_gpus, role == "prefill", is_joined=is_joined)


def _of_dynamo(spec: Mapping[str, Any]) -> Iterator[Pod]:
    services = [(str(name), _table(one), _table(_table(_table(one).get("extraPodSpec")).get("mainContainer")))
                for name, one in _table(spec.get("services")).items()]  # fmt: skip
    for one in _tables(spec.get("components")):
        pod = _table(_table(one.get("podTemplate")).get("spec"))
        main = next((c for c in _tables(pod.get("containers")) if c.get("name") == "main"), {})
        services.append((str(one.get("name")), one, main))
    for name, one, container in services:
        words = _container(container, _environment(one.get("envs")))
        said = " ".join(words)
        role = str(one.get("subComponentType") or one.get("type") or "")
        is_prefill = role == "prefill" or bool(_PREFILL.search(said))
        n_nodes = _whole(_table(one.get("multinode")).get("nodeCount"))
        n_gpus = _gpus(one) or _gpus(container)
        if "dynamo.sglang" not in said:  # SGLang's own flag is read
            words = _without_own(words)
        yield Pod(name, words, _whole(one.get("replicas")), n_nodes * n_gpus, is_prefill, n_nodes)


def _without_own(words: Sequence[str]) -> tuple[str, ...]:
    out: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif _OF_DYNAMO.fullmatch(word):
            skips = "=" not in word and not _BARE.fullmatch(word)
        else:
            out.append(word)
    return tuple(out)


def _container(one: Mapping[str, Any], around: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """A container as `docker run` would start it; its own shell reads a script."""
    own = {**(around or {}), **_environment(one.get("env"))}
    words = [*_filled(one, "command", own), *_filled(one, "args", own)]
    return ("docker", "run", *_variables(own), str(one.get("image", "")), *words)


def _filled(one: Mapping[str, Any], key: str, own: Mapping[str, str] | None = None) -> list[str]:
    """Words of a container with its variables filled in; those whose value stands elsewhere stay as they are."""
    known = _environment(one.get("env")) if own is None else own

    def value(found: re.Match[str]) -> str:
        return found[0][1:] if found[1] else known.get(found[2], found[0])

    return [_REFERENCE.sub(value, word) for word in _words(one.get(key))]


def _environment(env: Any) -> dict[str, str]:
    """Variables of a container whose values are written."""
    if isinstance(env, Mapping):
        return {str(name): str(value) for name, value in env.items()}
    pairs = [str(one).partition("=")[::2] for one in _list(env) if isinstance(one, str)]
    pairs += [(str(one["name"]), str(one["value"])) for one in _tables(env) if {"name", "value"} <= one.keys()]
    return dict(pairs)


def _variables(env: Any) -> list[str]:
    """Variables of a container, as options of `docker run`."""
    return [word for name, value in _environment(env).items() for word in ("-e", f"{name}={value}")]


def _gpus(one: Mapping[str, Any]) -> int:
    """GPUs that a container is limited to."""
    resources = _table(one.get("resources"))
    for part in ("limits", "requests"):
        for name, value in _table(resources.get(part)).items():
            if _GPU.match(str(name)) and _BELOW_ZERO.fullmatch(str(value)):
                raise InputError(f"--from-file: {name} {shown(str(value))}: expected GPUs, at least 0")
            if _GPU.match(str(name)) and str(value).isdigit():
                return int(value)
    return 0


def _system(tables: Sequence[Mapping[str, Any]]) -> str | None:
    """The system whose chip the labels of a node name, where they name one."""
    said = " ".join(_labels(tables)).lower()
    found = set(_CHIPS.findall(said))
    known = [one for chip in found for one in system_ids() if re.match(rf"{chip}-(nvl)?\d", one)]
    return known[0] if len(known) == 1 else None


def _labels(node: Any, inside: bool = False) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _labels(value, inside or key in ("nodeSelector", "affinity", "nodeAffinity"))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for one in node:
            yield from _labels(one, inside)
    elif inside:
        yield str(node)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else []


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]


def _words(value: Any) -> list[str]:
    """A command as a list, or as one text."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            raise InputError(f"--from-file: {value[:80]!r}: a quotation mark is not closed") from None
    return [str(one) for one in _list(value)]


def _whole(value: Any) -> int:
    """A count of replicas, pods or parts; one where nothing is said, or none until a load comes."""
    if value is None:
        return 1
    if not (isinstance(value, int | str) and re.fullmatch(r"\d{1,6}", str(value))):
        raise InputError(f"--from-file: {shown(value)}: expected a whole number of replicas, pods or parts")
    return max(int(value), 1)
