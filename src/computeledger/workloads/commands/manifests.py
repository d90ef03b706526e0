"""Manifests of Kubernetes for a planned fleet: Dynamo's graph, KServe's LLMInferenceService, values of llm-d's chart.

In the versions that the projects store: ``v1beta1`` of Dynamo (served since 1.2; ``disagg.yaml`` of its vLLM examples
at 2a6da14, where ``--disaggregation-mode`` names the pool and prefill asks for ``--kv-transfer-config``), ``v1alpha2``
of KServe (its default templates at aaac4e2 read ``VLLM_ADDITIONAL_ARGS`` as shell does), and the chart of
llm-d-modelservice 0.4.12. The tests hold what is written against the schemas that the projects publish.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from computeledger.errors import InputError
from computeledger.physics.parallelism import Layout
from computeledger.workloads.engines.engine import LARGEST_HOST

Tree = Mapping[str, "Tree | Sequence[Tree] | Sequence[str] | str | int | bool"]
#: Engines that each manifest has a worker for.
ENGINES_OF: Mapping[str, tuple[str, ...]] = {"dynamo": ("vllm", "sglang"), "kserve": ("vllm",), "llm-d": ("vllm",)}
_GPU = "nvidia.com/gpu"
#: Texts that YAML 1.1 reads as something else.
_WORDS_OF_YAML = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
#: What a release is written as where a question names none.
_TAG = "${TAG}"


@dataclass(frozen=True, slots=True)
class Worker:
    """Workers of one kind: all of them, or those of one of two pools."""

    role: str
    replicas: int
    layout: Layout
    arguments: tuple[str, ...]

    @property
    def n_gpus(self) -> int:
        """GPUs of one worker [-]."""
        return int(self.layout.n_gpus)

    @property
    def n_nodes(self) -> int:
        """Hosts that one worker takes [-]."""
        return -(-self.n_gpus // LARGEST_HOST)

    @property
    def n_gpus_per_node(self) -> int:
        """GPUs of each of its hosts [-]."""
        return -(-self.n_gpus // self.n_nodes)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a manifest deploys."""

    model: str
    engine: str
    workers: tuple[Worker, ...]
    release: str = ""

    @property
    def name(self) -> str:
        """Of the resource: lower-case letters, digits and dashes.

        Examples
        --------
        >>> Plan("Qwen/Qwen3-8B", "vllm", ()).name
        'qwen3-8b'
        """
        return re.sub(r"[^a-z0-9]+", "-", self.model.rpartition("/")[2].lower()).strip("-")


def manifest(kind: str, plan: Plan) -> list[str]:
    """Lines of the manifest of a plan.

    Examples
    --------
    >>> plan = Plan("Qwen/Qwen3-8B", "vllm", (Worker("", 2, Layout(tp=2), ("--max-num-seqs", "8")),))
    >>> [line for line in manifest("kserve", plan) if "replicas" in line or "gpu" in line]
    ['  replicas: 2', '          nvidia.com/gpu: "2"']
    """
    if plan.engine not in ENGINES_OF[kind]:
        allowed = " or ".join(ENGINES_OF[kind])
        raise InputError(f"--emit {kind}: workers of {plan.engine} are not written there; give --backend {allowed}")
    wide = next((one for one in plan.workers if one.n_nodes > 1), None)
    if wide is not None and kind != "dynamo":
        raise InputError(
            f"--emit {kind}: a worker of {wide.n_gpus} GPUs takes {wide.n_nodes} hosts, written for dynamo only"
        )
    return list(_yaml({"dynamo": _dynamo, "kserve": _kserve, "llm-d": _llm_d}[kind](plan)))


def _dynamo(plan: Plan) -> Tree:
    image = f"nvcr.io/nvidia/ai-dynamo/{plan.engine}-runtime:{_TAG}"  # a release of Dynamo's own
    components: list[Tree] = [_component("Frontend", "frontend", 1, {"name": "main", "image": image})]
    for one in plan.workers:
        flag = ["--disaggregation-mode", one.role] if one.role and plan.engine == "vllm" else []
        model = ["--model", plan.model] if plan.engine == "vllm" else []
        container: Tree = {
            "name": "main",
            "image": image,
            "command": ["python3", "-m", f"dynamo.{plan.engine}"],
            "args": [*model, *one.arguments, *flag],
            "envFrom": [{"secretRef": {"name": "hf-token-secret"}}],
            "resources": {"limits": {_GPU: str(one.n_gpus_per_node)}},
        }
        nodes: Tree = {"multinode": {"nodeCount": one.n_nodes}} if one.n_nodes > 1 else {}
        role = one.role or "worker"
        components.append({**_component(f"{one.role.capitalize()}Worker", role, one.replicas, container), **nodes})
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": plan.name},
        "spec": {"backendFramework": plan.engine, "components": components},
    }


def _component(name: str, role: str, replicas: int, container: Tree) -> dict[str, Tree | Sequence[Tree] | str | int]:
    return {
        "name": name,
        "type": role,
        "replicas": replicas,
        "podTemplate": {"spec": {"containers": [container]}},
    }


def _kserve(plan: Plan) -> Tree:
    pools = {one.role: _workload(one, plan) for one in plan.workers}
    own = pools.get("decode") or pools[""]
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": plan.name},
        "spec": {
            "model": {"uri": f"hf://{plan.model}", "name": plan.model},
            **own,
            **({"prefill": pools["prefill"]} if "prefill" in pools else {}),
            "router": {"route": {}, "gateway": {}, "scheduler": {}},
        },
    }


def _workload(one: Worker, plan: Plan) -> dict[str, Tree | int]:
    """Replicas and the pod of a workload; what its engine is told goes beside the arguments of the default template."""
    container: dict[str, Tree | Sequence[Tree] | str] = {"name": "main"}
    if plan.release:
        container["image"] = f"vllm/vllm-openai:v{plan.release}"
    container["env"] = [{"name": "VLLM_ADDITIONAL_ARGS", "value": shlex.join(one.arguments)}]
    container["resources"] = {"limits": {_GPU: str(one.n_gpus)}}
    return {"replicas": one.replicas, "template": {"containers": [container]}}


def _llm_d(plan: Plan) -> Tree:
    image = f"vllm/vllm-openai:{'v' + plan.release if plan.release else _TAG}"
    pools: dict[str, Tree] = {
        one.role or "decode": {
            "create": True,
            "replicas": one.replicas,
            "parallelism": {"tensor": int(one.layout.tp), "data": int(one.layout.dp), "dataLocal": int(one.layout.dp)},
            "containers": [
                {
                    "name": "vllm",
                    "image": image,
                    "modelCommand": "custom",
                    "command": ["vllm", "serve", plan.model],
                    "args": list(one.arguments),
                    "resources": {"limits": {_GPU: str(one.n_gpus)}},
                }
            ],
        }
        for one in plan.workers
    }
    return {
        "modelArtifacts": {"name": plan.model, "uri": f"hf://{plan.model}"},
        "multinode": False,
        "accelerator": {"type": "nvidia"},
        "decode": pools["decode"],
        "prefill": pools.get("prefill", {"create": False, "replicas": 0}),
    }


def _yaml(tree: Tree, indent: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _yaml(value, indent + "  ")
        elif isinstance(value, Sequence) and value and not isinstance(value, str):
            yield f"{indent}{key}:"
            yield from _items(value, indent)
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _items(items: Sequence[Tree] | Sequence[str], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, Mapping):
            first, *rest = _yaml(item, indent + "  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{indent}- {_scalar(item)}"


def _scalar(value: object) -> str:
    """A value as YAML has it: texts that could be something else in quotation marks, as JSON writes them."""
    if isinstance(value, Mapping):
        return "{}"
    if (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z/](?:[\w./:-]*[\w./-])?", value)
        and value.lower() not in _WORDS_OF_YAML
    ):
        return value
    return json.dumps(value)
