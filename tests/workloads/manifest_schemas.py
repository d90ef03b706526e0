"""Condenses published schemas of deployments to what manifests can reach: names, types, bounds, what is required.

``python -m tests.workloads.manifest_schemas DYNAMO.yaml KSERVE.yaml LLM-D.json`` writes ``manifest_schemas.json``. The
files are those of :data:`SOURCES`. A table takes no key that it does not name, as the API server checks it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("manifest_schemas.json")
SOURCES = {
    "dynamo": "ai-dynamo/dynamo 2a6da14, deploy/operator/config/crd/bases/nvidia.com_dynamographdeployments.yaml",
    "kserve": "kserve/kserve aaac4e2, config/crd/full/llmisvc/serving.kserve.io_llminferenceservices.yaml",
    "llm-d": (
        "llm-d-incubation/llm-d-modelservice 3051935 (0.4.12), charts/llm-d-modelservice/values.schema.json; "
        "containers as KServe's, with the commands of templates/_helpers.tpl:650"
    ),
}
#: Tables whose keys are kept; of all others only their type.
OPENED = frozenset(
    ("spec", "components", "podTemplate", "containers", "multinode", "model", "router", "route", "gateway", "scheduler",
     "template", "prefill", "decode", "resources", "limits", "requests", "env", "envFrom", "secretRef", "parallelism",
     "modelArtifacts", "accelerator")
)  # fmt: skip
_BOUNDS = (
    "type",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "required",
)


def condensed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without descriptions, defaults and tables that no manifest writes."""
    out: dict[str, Any] = {key: schema[key] for key in _BOUNDS if schema.get(key) not in (None, [])}
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    if "properties" in schema:
        out["properties"] = {
            name: condensed(one) if name in OPENED else _closed(one) for name, one in schema["properties"].items()
        }
        more = schema.get("additionalProperties", schema.get("x-kubernetes-preserve-unknown-fields", False))
        out["additionalProperties"] = bool(more)
    elif isinstance(schema.get("additionalProperties"), Mapping):
        out["additionalProperties"] = condensed(schema["additionalProperties"])
    if isinstance(schema.get("items"), Mapping):
        out["items"] = condensed(schema["items"])
    return out


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The type of a value, and of a scalar or a list of scalars its bounds."""
    out = condensed({key: value for key, value in schema.items() if key not in ("properties", "additionalProperties")})
    if schema.get("type") == "object":
        out.pop("required", None)
    if "items" in out and "properties" in schema["items"]:
        out["items"] = {"type": "object"}
    return out


def _version(file: str, name: str) -> dict[str, Any]:
    crd = yaml.safe_load(Path(file).read_text("utf-8"))
    found = next(one for one in crd["spec"]["versions"] if one["name"] == name and one["served"])
    root = dict(found["schema"]["openAPIV3Schema"])
    root["properties"] = {key: value for key, value in root["properties"].items() if key != "status"}
    of = {"apiVersion": f"{crd['spec']['group']}/{name}", "kind": crd["spec"]["names"]["kind"]}
    for key, value in of.items():
        root["properties"][key] = {"type": "string", "enum": [value]}
    return {**condensed(root), "required": ["apiVersion", "kind", "metadata", "spec"]}


def schemas(dynamo: str, kserve: str, llm_d: str) -> dict[str, Any]:
    """Schemas of all kinds by name, each with its source."""
    out = {"dynamo": _version(dynamo, "v1beta1"), "kserve": _version(kserve, "v1alpha2")}
    chart = condensed(json.loads(Path(llm_d).read_text("utf-8")))
    chart["additionalProperties"] = False
    container = out["kserve"]["properties"]["spec"]["properties"]["template"]["properties"]["containers"]["items"]
    own = {
        "modelCommand": {"enum": ["vllmServe", "imageDefault", "custom"]},
        "mountModelVolume": {"type": "boolean"},
    }
    for role in ("prefill", "decode"):
        items = {**container, "properties": {**container["properties"], **own}}
        chart["properties"][role]["properties"]["containers"]["items"] = items
        chart["properties"][role]["additionalProperties"] = False
    out["llm-d"] = chart
    return shared({kind: {"$comment": SOURCES[kind], **schema} for kind, schema in out.items()})


def shared(tree: dict[str, Any]) -> dict[str, Any]:
    """The schemas with every table that stands in several places written once, under ``$defs``."""
    places = Counter(json.dumps(one) for one in _tables(tree))
    repeated = [text for text, count in places.items() if count > 1 and len(text) > 200]
    names = {text: f"table{n}" for n, text in enumerate(repeated)}

    def written(node: Any, text: str = "") -> Any:
        own = json.dumps(node)
        if own in names and own != text:
            return {"$ref": f"#/$defs/{names[own]}"}
        if isinstance(node, dict):
            return {key: written(value) for key, value in node.items()}
        return node

    return {"$defs": {name: written(json.loads(text), text) for text, name in names.items()}, **written(tree)}


def _tables(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "properties" in node or "items" in node:
            yield node
        for one in node.values():
            yield from _tables(one)


if __name__ == "__main__":
    FILE.write_text(json.dumps(schemas(*sys.argv[1:]), indent=1) + "\n", "utf-8")
