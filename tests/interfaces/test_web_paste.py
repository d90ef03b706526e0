"""A launch that is pasted on the page Serve: what its flags say in the boxes, and nothing of it opened or run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from computeledger.interfaces.cli import main
from computeledger.interfaces.web.app import MOST_PASTED_BYTES, create_app
from tests.commands import call
from tests.workloads.test_deployments import DEPLOYMENT, GRAPH

COMMANDS = (
    "vllm serve Qwen/Qwen3-8B -tp 2 --max-num-seqs 64 --quantization awq --kv-cache-dtype fp8 --enforce-eager --port 8",
    "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --mem-fraction-static 0.8 --disable-radix-cache",
    "trtllm-serve Qwen/Qwen3-8B --tp_size 2 --max_batch_size 32",
    DEPLOYMENT,
)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


def pasted(client: TestClient, text: str, system: str = "h200-nvl8") -> Any:
    return client.post("/read/serve", params={"system": system}, content=text.encode())


@pytest.mark.parametrize("text", COMMANDS, ids=["vllm", "sglang", "trtllm", "deployment"])
def test_the_boxes_ask_what_the_command_does(text: str, client: TestClient, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text, "utf-8")
    launch = ["--from-file", str(file)] if "kind:" in text else ["--from-command", text]
    said = call(main, ["serve", "--system", "h200-nvl8", "--batch", "8", *launch, "--json"], tmp_path)
    assert said.returncode == 0, said.stderr
    read = pasted(client, text).json()
    answer = client.get("/api/serve", params={**read["values"], "batch": "8"})
    assert answer.status_code == 200, answer.text
    document, command = answer.json(), json.loads(said.stdout)
    of_command = command.pop("from_command")
    assert [one for one in of_command["options"] if one["flag"] not in str(read["said"])] == []
    assert {**document, "remarks": None} == {**command, "remarks": None}


def test_what_a_launch_does_not_say_goes_back_and_what_it_does_not_decide_stays(client: TestClient) -> None:
    values = pasted(client, "vllm serve Qwen/Qwen3-8B").json()["values"]
    assert (values["layout"], values["precision"], values["eager"], values["system"]) == ("tp1", "", "", "h200-nvl8")
    assert not {"batch", "input-tokens", "requests-per-s", "price", "ttft"} & values.keys()
    two = pasted(client, GRAPH).json()["values"]
    assert (two["mode"], two["layout"], two["prefill-layout"], two["gpus"]) == ("disaggregated", "tp2", "tp1", "6")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is empty"),
        ("ls -la", "no launch of an engine; read are vllm serve"),
        ("kind: [", "not valid YAML"),
        ("kind: Service", "no launch of an engine; read are compose files"),
        ("services: {a: &a {image: vllm/vllm-openai, command: --model qwen3-8b}, b: *a}", "paste one of them alone"),
        ("vllm serve Qwen/Qwen3-8B --tensor-paralel-size 2", "did you mean"),
        ("vllm serve Qwen/Qwen3-8B " + "x" * 100_000, "at most 100,000 are read"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_a_line(text: str, said: str, client: TestClient) -> None:
    answer = pasted(client, text)
    message = answer.json()["message"]
    assert answer.status_code == 422
    assert said in message and "--from-" not in message and "\n" not in message


@pytest.mark.parametrize(
    "text",
    ["vllm serve {}", "vllm serve Qwen/Qwen3-8B --config {}", "services: {{a: {{env_file: {}}}}}", "$(cat {})",
     "trtllm-serve Qwen/Qwen3-8B --extra_llm_api_options {}"],
)  # fmt: skip
def test_a_pasted_path_is_neither_opened_nor_looked_for(
    text: str, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # names short enough that no message cuts them
    Path("a.yaml").write_text("model: secret\ntensor_parallel_size: 8\n", "utf-8")
    first, second = (pasted(client, text.format(one)) for one in ("a.yaml", "b.yaml"))
    assert first.status_code == second.status_code
    assert first.text.replace("a.yaml", "b.yaml") == second.text


def test_a_body_has_an_end_and_only_serve_reads(client: TestClient) -> None:
    assert pasted(client, "x" * (MOST_PASTED_BYTES + 1)).status_code == 413
    assert client.post("/read/life", content=b"x").status_code == 404
    assert client.get("/read/serve").status_code == 405
    assert client.post("/read/serve", content=b"x", headers={"Origin": "http://example.org"}).status_code == 403
