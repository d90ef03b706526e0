"""Deployments written and read: manifests are as published schemas say, and come back as the question they are of."""

from __future__ import annotations

import json
import random
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.catalog import model_ids
from computeledger.interfaces.cli import main
from computeledger.interfaces.deployment_files import with_deployment
from computeledger.physics.parallelism import Layout
from computeledger.workloads.commands.load_tests import BENCHMARKS, LoadTest, benchmark
from computeledger.workloads.commands.manifests import ENGINES_OF, Plan, Worker, manifest
from tests.commands import call
from tests.workloads.manifest_schemas import FILE

SCHEMAS = json.loads(FILE.read_text("utf-8"))
KEYS = tomllib.loads(Path(__file__).with_name("deployment_keys.toml").read_text("utf-8"))
ASKED: dict[str, Any] = {"model": "llama-3.1-70b", "system": "h100-nvl8", "samples": 16}


def faults(kind: str, text: str) -> list[str]:
    """Where a manifest is not as its published schema says."""
    validator = jsonschema.Draft202012Validator({"$ref": f"#/{kind}", **SCHEMAS})
    return sorted(f"{one.json_path}: {one.message}" for one in validator.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize("is_two_pools", [False, True])
def test_manifests_of_answers_are_as_their_schemas_say(is_two_pools: bool) -> None:
    pools: dict[str, Any] = {"mode": "disaggregated", "gpus": 16} if is_two_pools else {"layout": "tp4", "gpus": 8}
    of = {kind: cl.serve(**ASKED, **pools, emit=kind).to_dict()["launch"]["text"] for kind in ENGINES_OF}
    assert [faults(kind, text) for kind, text in of.items()] == [[], [], []]
    roles = {one["type"] for one in yaml.safe_load(of["dynamo"])["spec"]["components"]}
    assert roles == {"frontend", *(("prefill", "decode") if is_two_pools else ("worker",))}
    assert ("prefill" in yaml.safe_load(of["kserve"])["spec"]) == is_two_pools
    assert yaml.safe_load(of["llm-d"])["prefill"]["create"] == is_two_pools
    assert all(text.count("NixlConnector") == 2 * is_two_pools for text in of.values())  # no engine sets it by itself


def drawn_plan(kind: str, seed: int) -> Plan:
    """A plan with any model of the catalog, one pool or two, and arguments that YAML might read as something else."""
    draw = random.Random(seed)  # noqa: S311
    words = ("--a", "-tp", "8", "0.92", "null", "true", "1e3", "", " ", "a: b", "#x", '{"k": [1, "é"]}', "it's", "- y",
             "*z", "Off", "yes", "a:", "no:x", "~")  # fmt: skip
    roles = ("prefill", "decode") if draw.random() < 0.5 else ("",)
    largest = 16 if kind == "dynamo" else 8
    workers = tuple(
        Worker(role, draw.randrange(1, 300), Layout(tp=draw.choice((1, 2, 4, 8)), pp=draw.choice((1, largest // 8))),
               tuple(draw.choices(words, k=draw.randrange(9))))
        for role in roles
    )  # fmt: skip
    return Plan(draw.choice(model_ids()), draw.choice(ENGINES_OF[kind]), workers, draw.choice(("", "0.11.0")))


@pytest.mark.parametrize("kind", ENGINES_OF)
def test_drawn_manifests_are_as_their_schemas_say(kind: str) -> None:
    """Every argument comes back as it was given, and names are what Kubernetes takes (RFC 1123, a label)."""
    for seed in range(25):
        plan = drawn_plan(kind, seed)
        text = "\n".join(manifest(kind, plan))
        assert faults(kind, text) == [], (seed, text)
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", plan.name), plan.name
        read = json.dumps(yaml.safe_load(text))
        for one in plan.workers:
            written = shlex.join(one.arguments) if kind == "kserve" else list(one.arguments)
            assert json.dumps(written)[1:-1] in read, (seed, text)


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [("dynamo", "nvidia.com/v1beta1", "nvidia.com/v1alpha1", "apiVersion"),
     ("dynamo", "components", "services", "spec"), ("dynamo", "type: worker", "type: main", "components[1].type"),
     ("dynamo", "name: Worker", "name: -a", "not match"), ("dynamo", '"2"', "2.5", "limits"),
     ("dynamo", "replicas: 2", "replicas: -1", "less than the minimum"),
     ("kserve", "uri:", "path:", "'uri' is a required property"), ("kserve", "template:", "pod:", "spec"),
     ("kserve", "replicas: 2", "replicas: two", "replicas"), ("llm-d", "tensor:", "tp:", "decode.parallelism"),
     ("llm-d", "modelCommand: custom", "modelCommand: sh", "modelCommand")],
)  # fmt: skip
def test_the_schemas_refuse_what_their_projects_would(kind: str, old: str, new: str, said: str) -> None:
    plan = Plan("m/x", "vllm", (Worker("", 2, Layout(tp=2), ("--max-num-seqs", "8")),))
    text = "\n".join(manifest(kind, plan))
    assert old in text and any(said in one for one in faults(kind, text.replace(old, new)))


@pytest.mark.parametrize("kind", ENGINES_OF)
@pytest.mark.parametrize("is_two_pools", [False, True])
def test_a_manifest_is_read_as_the_question_that_it_is_of(kind: str, is_two_pools: bool, tmp_path: Path) -> None:
    pools: dict[str, Any] = {"mode": "disaggregated", "gpus": 16} if is_two_pools else {"requests_per_s": 8}
    lengths: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 200}
    answer = cl.serve(**ASKED, **pools, **lengths, kv_precision="fp8", emit=kind)
    file = tmp_path / "fleet.yaml"
    document = answer.to_dict()
    file.write_text(document["launch"]["text"], "utf-8")
    again = cl.serve(**with_deployment(str(file), {"system": "h100-nvl8", "samples": 16, **lengths})).to_dict()
    assert again["from_command"]["not_modelled"] == []
    assert again["precision"]["kv"] == "fp8" and again["checkpoint"] == document["checkpoint"]
    if is_two_pools:
        read, planned = (one["pools"] for one in (again, document))
        assert {role: read[role]["layout"] for role in read} == {role: planned[role]["layout"] for role in planned}
    else:
        assert (again["layout"], again["n_replicas"]) == (document["layout"], document["fleet"]["n_replicas"])


def test_replicas_over_several_hosts_are_written_where_they_can_be() -> None:
    plan = Plan("m/x", "vllm", (Worker("", 1, Layout(tp=8, pp=2), ("--max-num-seqs", "8")),))
    worker = yaml.safe_load("\n".join(manifest("dynamo", plan)))["spec"]["components"][1]
    (container,) = worker["podTemplate"]["spec"]["containers"]
    assert worker["multinode"] == {"nodeCount": 2} and container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    for kind in ("kserve", "llm-d"):
        with pytest.raises(InputError, match="2 hosts"):
            manifest(kind, plan)
    with pytest.raises(InputError, match="--backend vllm"):
        manifest("kserve", Plan("m/x", "sglang", plan.workers))


@pytest.mark.parametrize("tool", BENCHMARKS)
def test_benchmarks_are_told_only_what_they_know(tool: str) -> None:
    limits = {"ttft_s": (0.95, 2.0), "tpot_s": (0.95, 0.04), "e2e_s": (0.99, 30.0)}
    for rate, spread in ((12.5, 1.0), (None, 1.0), (12.5, 2.0), (12.5, 0.0)):
        test = LoadTest("m/x", 1024, 512, 256, rate, spread, 32, limits)
        if (tool, spread) in (("guidellm", 2.0), ("vllm-bench", 0.0)):
            with pytest.raises(InputError, match="--arrival-spread"):
                benchmark(tool, test)
            continue
        text = "\n".join(line for line in benchmark(tool, test) if not line.startswith("#"))
        words = shlex.split(text.replace("\\\n", " "))
        assert {word for word in words if word.startswith("--")} <= set(KEYS[tool]["options"].split())
        assert any("12.5" in word for word in words) == (rate is not None)
        assert any("2000" in word for word in words) and any("30000" in word for word in words)


def test_burstiness_is_the_shape_of_gamma() -> None:
    """Gaps of shape k have a standard deviation of 1 / sqrt(k) means: a spread of 2 is a shape of a quarter."""
    assert LoadTest("m", 1, 0, 1, 1.0, 2.0).burstiness == pytest.approx(0.25)
    assert LoadTest("m", 1, 0, 1, 100.0).n_requests == 30_000


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 3
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
      containers:
      - name: sidecar
        image: nginx
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        command: ["/bin/sh", "-c"]
        args: ["vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --port 8000"]
        resources: {limits: {nvidia.com/gpu: "2"}}
"""
PREDICTOR = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: a}
spec:
  predictor:
    minReplicas: 2
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=qwen, --model_id=Qwen/Qwen3-8B, --tensor-parallel-size=2]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
GROUP = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
        - name: leader
          image: vllm/vllm-openai:v0.11.0
          command: [vllm, serve, Qwen/Qwen3-32B, -tp, "8", -pp, "2"]
          resources: {limits: {nvidia.com/gpu: "8"}}
"""
GRAPH = """
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: a}
spec:
  components:
  - {name: frontend, type: frontend, replicas: 1}
  - name: decode
    type: decode
    replicas: 1
    podTemplate: {spec: {containers: [{name: main, command: [python3, -m, dynamo.vllm], args: [--model, Qwen/Qwen3-8B,
      --disaggregation-mode, decode, -tp, "2"], resources: {limits: {nvidia.com/gpu: "2"}}}]}}
  - name: prefill
    type: prefill
    replicas: 4
    podTemplate: {spec: {containers: [{name: main, command: [python3, -m, dynamo.vllm], args: [--model, Qwen/Qwen3-8B,
      --disaggregation-mode, prefill], resources: {limits: {nvidia.com/gpu: "1"}}}]}}
"""


@pytest.mark.parametrize(
    ("text", "system", "gpus", "said"),
    [(DEPLOYMENT, "h200-nvl8", 6, {"layout": "tp2", "backend_version": "0.11.0"}),
     (PREDICTOR, None, 4, {"layout": "tp2", "model": "Qwen/Qwen3-8B"}),
     (GROUP, None, 16, {"layout": "tp8-pp2"}),
     (GRAPH, None, 6, {"layout": "tp2", "prefill_layout": "tp1", "mode": "disaggregated"})],
)  # fmt: skip
def test_files_that_people_deploy_are_read(
    text: str, system: str | None, gpus: int, said: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text, "utf-8")
    given = with_deployment(str(file), {"samples": 16})
    assert (given.get("system"), given["gpus"]) == (system, gpus)
    question = cl.serve(**{"system": "h200-nvl8", **given}).question
    assert {name: getattr(question, name) for name in said} == said


@pytest.mark.parametrize(
    ("text", "said"),
    [("services: {a: {image: vllm/vllm-openai, deploy: {replicas: 1.5}}}", "1.5: expected a whole number"),
     (DEPLOYMENT.replace('gpu: "2"', 'gpu: "-2"'), "'-2': expected"),
     ("a: [", "not valid YAML"), ("kind: Service", "no launch of an engine"), ("", "no launch of an engine"),
     ("a: &a [1]\nb: [" + ", ".join(["*a"] * 30) + "]", "references"), ("[" * 20_000, "nested more than 100 deep"),
     ("a0: &a0 [1" + ",1" * 9999 + "]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 10)),
      "values, references written out"), ("a: &a [*a]", "within what it names")],
)  # fmt: skip
def test_what_is_no_deployment_is_refused_in_a_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text, "utf-8")
    done = call(main, ["serve", "--system", "h100-nvl8", "--from-file", str(file)], tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_a_file_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="the name is empty"):
        with_deployment("", {})


def deployed(tmp_path: Path, text: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, answer and error of a deployment file."""
    file = tmp_path / "f.yaml"
    file.write_text(text, "utf-8")
    asked = ["serve", "--system", "h200-nvl8", "--samples", "16", "--json"]
    done = call(main, [*asked, "--from-file", f"{file}{options[0] if options else ''}", *options[1:]], tmp_path)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_gpus_beyond_an_engine_stay_idle(tmp_path: Path) -> None:
    rc, answer, _ = deployed(tmp_path, DEPLOYMENT.replace('gpu: "2"', 'gpu: "4"'))
    assert (rc, answer["n_replicas"], answer["layout"]) == (0, 3, "tp2")
    assert any("6 of 12 GPUs stay idle" in one for one in answer["remarks"])


@pytest.mark.parametrize("n_pods", [1, 2, 3])
def test_pods_smaller_than_their_engine_are_refused(n_pods: int, tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("size 2", "size 8").replace('gpu: "2"', 'gpu: "4"')
    rc, _, error = deployed(tmp_path, text.replace("replicas: 3", f"replicas: {n_pods}"))
    assert rc == 2 and "a pod of a has 4 GPUs and its engine takes 8 (tp8): it cannot start" in error


def test_variables_of_a_container_are_filled_in(tmp_path: Path) -> None:
    command = """        command: [vllm, serve, $(MODEL), -tp, $(TP)]
        env: [{name: TP, value: "2"}, {name: MODEL, value: Qwen/Qwen3-8B}]
"""
    old = DEPLOYMENT[DEPLOYMENT.index("        command") : DEPLOYMENT.index("        resources")]
    rc, answer, _ = deployed(tmp_path, DEPLOYMENT.replace(old, command))
    assert (rc, answer["layout"], answer["model"], answer["n_replicas"]) == (0, "tp2", "Qwen/Qwen3-8B", 3)
    for text in (
        DEPLOYMENT.replace(old, command.replace("$(TP)", "$(OTHER)")),
        DEPLOYMENT.replace("size 2", "size $(OTHER)"),
    ):
        rc, _, error = deployed(tmp_path, text)
        assert rc == 2 and "'$(OTHER)': the text sets no such variable" in error


def test_a_flag_that_is_given_twice_is_told(tmp_path: Path) -> None:
    rc, answer, _ = deployed(tmp_path, DEPLOYMENT.replace("--port", "-tp 1 --port"))
    assert (rc, answer["layout"]) == (0, "tp1")
    said = "--tensor-parallel-size 2 of the command is given again with another value: the last is taken"
    assert said in answer["remarks"]
    done = call(main, ["serve", "--system", "h200-nvl8", "--from-command", ""], tmp_path)
    assert done.returncode == 2 and "the text is empty" in done.stderr


def test_one_service_of_several_is_chosen_by_name(tmp_path: Path) -> None:
    text = """
services:
  small: {image: vllm/vllm-openai:v0.11.0, command: --model Qwen/Qwen3-8B}
  large: {image: vllm/vllm-openai:v0.11.0, command: --model Qwen/Qwen3-32B -tp 2}
"""
    rc, _, error = deployed(tmp_path, text)
    assert rc == 2 and "small, large are several services" in error and "f.yaml#large" in error
    rc, answer, _ = deployed(tmp_path, text, "#large")
    assert (rc, answer["model"], answer["layout"]) == (0, "Qwen/Qwen3-32B", "tp2")
    rc, _, error = deployed(tmp_path, text, "#other")
    assert rc == 2 and "small, large do" in error
