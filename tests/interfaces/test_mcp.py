"""The server of the Model Context Protocol, spoken to by the SDK's own client."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

import computeledger as cl
from computeledger.fields import read_value
from computeledger.interfaces.cli import main
from computeledger.interfaces.mcp import resources, schemas
from computeledger.interfaces.mcp.named import QUESTIONS, asked_fields, question_of, tool_of
from computeledger.interfaces.mcp.server import server
from computeledger.interfaces.mcp.tools import tools
from computeledger.progress import StoppedError, counted
from computeledger.questions.answers.guide import guide_entries
from computeledger.units import DIMENSIONLESS, DIMENSIONS, si_spelling
from tests.commands import call

MODEL = {"model": "llama-3.1-8b", "system": "h100-nvl8"}
SKIP = {"skip": "not asked"}
RUN = {"gpus": 8, "steps": 10, "prompts_per_step": 16, "group_size": 4, "rollout_tokens": "1K tokens",
       "prompt_tokens": "200 tokens"}  # fmt: skip
PLAN = {**MODEL, "price": "$2/h", "rl": RUN, "pretraining": SKIP, "inference": SKIP}
#: One call of each tool that needs no file, as small as it gets.
CALLS: dict[str, dict[str, Any]] = {
    "accuracy": {"workload": "rl"},
    "allocate": {"budget": "$50M", "samples": 64},
    "backtest": {"cutoff": "2023-12-31"},
    "bill": {"names": ["deepseek/deepseek-chat"], "input_tokens": "1K", "output_tokens": 100},
    "claims": {"ids": ["C030"]},
    "compare": {"offers": {"workload": {"model": "llama-3.1-8b", "input_tokens": 1024, "output_tokens": 256},
                           "offer": [{"system": "h100-nvl8", "gpus": 1, "price": 2}]}},
    "cost": {"accelerator": "h100-sxm5-80gb"},
    "flop_sheet": {"model": "deepseek-v3"},
    "forecast": {"flop": "1e28", "samples": 64},
    "growth": {},
    "guide": {"words": "cached prefix"},
    "invert": {"input": 3, "output": 15, "samples": 1000},
    "labs": {"samples": 64},
    "memory": {"model": "llama-3.1-8b", "system": ["h100-nvl8"]},
    "plan": {"plan": PLAN, "samples": 64},
    "pretrain": {**MODEL, "tokens": "1T", "gpus": 64, "samples": 64},
    "price_floor": MODEL,
    "price_history": {"name": "deepseek/deepseek-chat"},
    "price_quality": {},
    "rl": {**MODEL, "gpus": 8, "rollout_tokens": "1K", "samples": 64},
    "rl_returns": {"published": True},
    "route": {"task": {"model": [{"name": "small", "success": 0.4, "usd_per_attempt": 0.02}]}},
    "schedule": {"start": "2026-12-01"},
    "search_facts": {"words": "h100 nvlink"},
    "serve": {**MODEL, "layout": "tp1", "batch": 8, "samples": 64},
    "sheet": {"price": "3/15"},
    "simulate_rl": {"plan": PLAN, "steps": 2},
    "simulate_serve": {**MODEL, "layout": "tp1", "requests": 50, "arrivals": "poisson:1"},
    "sites": {},
    "spread": {"model": "llama-3.1-8b", "step": "10s"},
    "sweep": {"model": ["llama-3.1-8b"], "system": ["h100-nvl8"]},
    "systems": {"spec": "1 MW IT of h100-sxm5-80gb", "samples": 64},
    "think": {},
    "training_runs": {},
}  # fmt: skip
#: Tools whose answers begin with a user's file, or with minutes of measuring: what they say where neither is there.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "calibrate": ({"backend": "abacus"}, "abacus"),
    "fit": ({"what": "serving", "data": "/etc"}, "files cannot be named here"),
    "reconcile": ({"plan": PLAN, "actuals": ["/etc/passwd"]}, "files cannot be named here"),
    "validate": ({"data": "/etc/passwd"}, "files cannot be named here"),
}


def apart(run: Callable[[], Any]) -> Any:
    """Run in a thread of its own: a browser that an earlier test opened keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(anyio.run, run).result()


def asked(ask: Callable[[Client], Any], **options: Any) -> Any:
    """What a client in this process makes of the server."""

    async def run() -> Any:
        async with Client(server(**options)) as client:
            return await ask(client)

    return apart(run)


@functools.cache
def answers_schema(file: Path) -> jsonschema.Draft202012Validator:
    """What answers are held against; that it is a schema, which takes seconds, is seen once."""
    schema = json.loads(file.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def called(name: str, given: dict[str, Any], **options: Any) -> Any:
    return asked(lambda client: client.call_tool(name, given), **options)


def test_every_question_of_the_package_is_a_tool() -> None:
    declared = {}
    for name in cl.__all__:
        found = getattr(cl, name)
        if inspect.isfunction(found):
            first = next(iter(inspect.signature(found).parameters.values()), None)
            if first and (record := re.search(r"(\w+Question)\b", str(first.annotation))):
                declared[name] = record[1]
    assert declared == {name: question_of(name).__name__ for name in QUESTIONS}
    listed = asked(lambda client: client.list_tools()).tools
    assert [one.name for one in listed] == sorted({*CALLS, *REFUSED}) == sorted({*QUESTIONS, "guide", "search_facts"})
    assert all(one.description and one.annotations.read_only_hint for one in listed)


@pytest.mark.parametrize("name", QUESTIONS)
def test_schemas_and_fields_agree(name: str) -> None:
    """A schema is valid; a default or an example of a field passes it, and is read back as what it was."""
    schema = tools()[name].schema
    jsonschema.Draft202012Validator.check_schema(schema)
    fields = asked_fields(name)
    assert list(schema["properties"]) == [*fields, "working"]
    for key, one in fields.items():
        default = list(one.default) if isinstance(one.default, tuple) else one.default
        if default is not None and default != []:
            jsonschema.validate(json.loads(json.dumps(default)), schema["properties"][key])
            assert read_value(one, default, key) == read_value(one, None, key)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"no such field": 1}, schema)
    if name in CALLS:
        jsonschema.validate(CALLS[name], schema)


def test_the_list_of_tools_is_short_and_whole_schemas_are_resources() -> None:
    """A plan's tables are named once, and described where they are asked for."""
    listed = asked(lambda client: client.list_tools()).tools
    assert sum(len(one.model_dump_json(exclude_none=True)) for one in listed) < 100_000
    for name, given in (("plan", PLAN), ("offers", CALLS["compare"]["offers"]), ("task", CALLS["route"]["task"])):
        whole = json.loads(resources.read(f"computeledger://schemas/{name}"))
        jsonschema.Draft202012Validator.check_schema(whole)
        assert len(json.dumps(schemas.short(name))) < 6000 and f"schemas/{name}" in schemas.short(name)["description"]
        tables = [one.get("items", one) for one in whole["properties"].values()]
        assert all(
            key["description"] for one in tables for key in one.get("properties", {}).values() if "type" not in key
        )
        for schema in (whole, schemas.short(name)):
            assert set(given) <= set(schema["properties"])
    assert set(resources.kinds()["schemas"].ids()) == {"plan", "offers", "task"}
    with pytest.raises(cl.InputError, match="did you mean 'plan'"):
        resources.read("computeledger://schemas/plans")


def test_every_quantity_says_its_unit() -> None:
    """A bare number is SI: the schema of each argument with a unit says which."""
    for name in QUESTIONS:
        for key, one in asked_fields(name).items():
            said = json.dumps(tools()[name].schema["properties"][key])
            if one.dimension in DIMENSIONS.keys() - DIMENSIONLESS:
                assert f"A number is in {si_spelling(one.dimension)}" in said, (name, key)
    assert "in s, text has its unit: '20 ms'" in tools()["serve"].schema["properties"]["tpot"]["description"]
    assert read_value(asked_fields("serve")["tpot"], 0.03, "tpot") == read_value(
        asked_fields("serve")["tpot"], "30ms", "tpot"
    )


@pytest.mark.parametrize(("name", "key"), [("fit", "data"), ("backtest", "data"), ("growth", "data"),
                                           ("compare", "offers"), ("plan", "plan"), ("route", "task")])  # fmt: skip
def test_nobody_learns_which_files_are_there(name: str, key: str, tmp_path: Path) -> None:
    said = set()
    for path in (tmp_path, tmp_path / "missing"):
        given = {**({"what": "serving"} if name == "fit" else {}), key: str(path)}
        said.add(called(name, given).content[0].text.replace(str(path), "PATH"))
    assert len(said) == 1 and "files cannot be named here" in said.pop()


@pytest.mark.parametrize("name", CALLS)
def test_every_tool_answers_as_the_package_does(name: str, repository: Path) -> None:
    found = called(name, CALLS[name])
    assert not found.is_error, found.content
    answers_schema(repository / "docs/answers.schema.json").validate(found.structured_content)
    text = found.content[0].text
    assert text.strip() and "\x1b" not in text
    if name in ("serve", "pretrain", "cost", "memory"):
        said = getattr(cl, name)(**CALLS[name]).to_dict()
        assert found.structured_content == json.loads(json.dumps(said, default=float))


@pytest.mark.parametrize("name", REFUSED)
def test_files_and_slips_are_refused_in_one_line(name: str) -> None:
    given, words = REFUSED[name]
    found = called(name, given)
    assert found.is_error and words in found.content[0].text and "\n" not in found.content[0].text


def test_errors_are_those_of_the_commands() -> None:
    given = {**MODEL, "system": "h100-nvl"}
    with pytest.raises(cl.InputError) as refused:
        cl.serve(**given)
    assert called("serve", given).content[0].text == str(refused.value)
    assert "did you mean 'model'" in called("serve", {"modl": "llama-3.1-8b"}).content[0].text
    assert "did you mean 'serve'" in called("serv", {}).content[0].text


@pytest.mark.parametrize(
    ("ttft", "first"),
    [(30, "ttft 30: a unit is missing, read as 30s; give a unit: 30ms or 30s"), ("30s", None), ("30ms", None)],
)
def test_a_time_without_a_unit_says_how_it_was_read(ttft: Any, first: str | None) -> None:
    said = called("serve", {**MODEL, "ttft": ttft, "samples": 16}).content[0].text
    assert (said.splitlines()[0] == first) is (first is not None), said[:200]
    assert "a unit is missing" in said or first is None


@pytest.mark.parametrize(("name", "given", "said"), [
    ("serve", {**MODEL, "profile": "/etc/passwd"}, "profile '/etc/passwd': files cannot be named here"),
    ("serve", {**MODEL, "model": "./config"}, "a bundled id such as qwen3-14b, or a size"),
    ("serve", {**MODEL, "workign": True}, "did you mean 'working'"),
    ("serve", {"model": ["a", "b"], "system": "h100-nvl8"}, "model ['a', 'b']: expected a text"),
    ("serve", {"model": "llama-3.1-8b"}, "system: needed, such as 'h100-nvl8'"),
    ("plan", {}, "plan: needed, its tables as an object; computeledger://schemas/plan"),
    ("validate", {"by": "foo"}, "by 'foo': the data have no such column"),
    ("compare", {"offers": {}}, "offers: offer: at least one is needed: an offer with"),
    ("route", {"task": {"foo": 1}}, "task: foo: is unknown"),
    ("invert", {}, "give model provider/name, or input and output"),
    ("simulate_serve", MODEL, "give workload azure-conv-2023 "),
    ("bill", {"names": ["deepseek-chat"], "input_tokens": 9}, "provider/model; did you mean 'deepseek/deepseek-chat'"),
])  # fmt: skip
def test_errors_are_in_the_words_of_tools(name: str, given: dict[str, Any], said: str) -> None:
    """No option, command, file or bracket that a caller does not have."""
    text = called(name, given).content[0].text
    assert said in text and not re.search(r"--|\[\[|\.toml|FILE|computeledger [a-z]", text), text


def test_descriptions_are_in_the_words_of_tools() -> None:
    """Options of engines keep their dashes, and so does that of the server."""
    ours = {name.replace("_", "-") for one in QUESTIONS for name in asked_fields(one)}
    for one in tools().values():
        said = re.sub(r"\([^()]*vLLM[^()]*\)", "", json.dumps(one.schema))
        assert not ours & set(re.findall(r"--([a-z0-9-]+)", said)), one.name
    keys = tools()["compare"].schema["properties"]["offers"]["anyOf"][1]["properties"]["offer"]["description"]
    assert re.findall(r"\w+", keys).count("name") == 1


def test_dollars_are_prices() -> None:
    prices: tuple[dict[str, Any], ...] = (
        {"input": 1, "output": 4}, {"input": "$1", "output": "$4/Mtok"}, {"input": "1 USD/Mtok", "output": "4"}
    )  # fmt: skip
    found = [cl.invert(**one, samples=1000).to_dict() for one in prices]
    assert found[0] == found[1] == found[2]


def test_a_file_is_read_where_it_may_be(tmp_path: Path, repository: Path) -> None:
    given = {"plan": str(repository / "examples" / "deepseek-v3.toml"), "samples": 64}
    assert "files cannot be named here" in called("plan", given).content[0].text
    assert not called("plan", given, has_files=True).is_error


@pytest.mark.parametrize("words", ["will llama 70b fit on a 4090", "memory fit gpu"])
def test_the_guide_names_tools(words: str) -> None:
    found = called("guide", {"words": words})
    first = found.structured_content["questions"][0]
    assert first.pop("tool") == "memory" and first == cl.guide(words).to_dict()["questions"][0]
    assert "tool memory, as `computeledger memory " in found.content[0].text
    lines = [one.command for one in guide_entries() if one.command.startswith("computeledger ")]
    assert all(tool_of(line) in tools() for line in lines)


def test_a_busy_port_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = call(main, ["mcp", "--port", str(port)], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"computeledger: --port {port}: address already in use\n"


def test_working_comes_when_it_is_asked_for() -> None:
    given = CALLS["serve"]
    assert "working" not in called("serve", given).structured_content
    assert called("serve", {**given, "working": True}).structured_content["working"]


def test_facts_and_sources_are_resources() -> None:
    async def ask(client: Client) -> None:
        listed = (await client.list_resources()).resources
        assert {str(one.uri).split("/")[2] for one in listed} == set(resources.kinds())
        for kind in resources.kinds():
            uri = next(one.uri for one in listed if f"//{kind}/" in str(one.uri))
            read = await client.read_resource(str(uri))
            assert json.loads(read.contents[0].text)
        with pytest.raises(MCPError, match="unknown id"):
            await client.read_resource("computeledger://systems/../../etc/passwd")

    asked(ask)


def test_a_call_that_nobody_waits_for_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(words: str) -> None:
        try:
            for _ in counted(range(10_000), "steps"):
                begun.set()
                time.sleep(0.01)
        except StoppedError:
            ended.set()
            raise

    monkeypatch.setattr(cl, "guide", slow)

    async def ask(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "guide", {"words": "x"})
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(ended.wait, 20)

    asked(ask)


def test_over_standard_input_and_output() -> None:
    async def ask() -> None:
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "computeledger", "mcp"], env=dict(os.environ)
        )
        async with Client(started) as client:
            found = await client.call_tool("cost", CALLS["cost"])
            assert not found.is_error and "h100" in found.content[0].text

    apart(ask)


def test_over_http_on_this_machine() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "computeledger", "mcp", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    async def ask() -> None:
        with anyio.fail_after(60):
            while True:
                try:
                    stream = await anyio.connect_tcp("127.0.0.1", port)
                    break
                except OSError:
                    await anyio.sleep(0.1)
        await stream.aclose()
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            found = await client.call_tool("cost", CALLS["cost"])
            assert not found.is_error

    try:
        apart(ask)
    finally:
        process.terminate()
        process.wait(20)
