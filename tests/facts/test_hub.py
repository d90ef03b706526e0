"""Configurations of the hub: out of the local cache without network, fetched only where the user allows it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from computeledger.errors import ModelConfigError, UnknownIdError
from computeledger.facts.hub import online_allowed
from computeledger.facts.load import load_model
from computeledger.files import without_user_files
from computeledger.interfaces.cli import main
from computeledger.physics.transformer import n_params_total
from tests.commands import call

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "head_dim": 128,
    "num_key_value_heads": 8, "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": True,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub"


def stored(cache: Path, name: str, revision: str = COMMIT, ref: str | None = "main", **changed: object) -> None:
    """Put a configuration where huggingface_hub would."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "snapshots" / revision).mkdir(parents=True)
    (folder / "snapshots" / revision / "config.json").write_text(json.dumps(CONFIG | changed), "utf-8")
    if ref is not None:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(revision, "utf-8")


def test_an_id_in_the_local_cache_needs_no_network(cache: Path) -> None:
    stored(cache, "someone/Mine", "f" * 40, ref=None, num_hidden_layers=2)
    stored(cache, "someone/Mine")
    model = load_model("someone/mine")
    assert model.n_layers == 28
    assert f"revision {COMMIT}" in model.remarks[0]
    assert load_model(f"https://huggingface.co/someone/Mine/tree/{'f' * 40}").n_layers == 2
    with pytest.raises(UnknownIdError, match="--online"):
        load_model("https://huggingface.co/someone/Mine/tree/v2")


def test_a_bundled_model_is_not_looked_for_in_the_cache(cache: Path) -> None:
    stored(cache, "Qwen/Qwen3-8B")
    assert load_model("Qwen/Qwen3-8B").n_layers == 36


def test_the_cache_comes_before_the_shape_of_another_model(cache: Path) -> None:
    stored(cache, "unsloth/Qwen3-8B", num_hidden_layers=3)
    assert load_model("unsloth/Qwen3-8B").n_layers == 3


def test_a_strangers_question_reads_neither_cache_nor_hub(cache: Path) -> None:
    stored(cache, "someone/Mine")
    with without_user_files(), online_allowed(), pytest.raises(UnknownIdError) as raised:
        load_model("someone/Mine", online=True)
    assert "--online" not in str(raised.value)


def test_a_damaged_configuration_of_the_cache_is_named(cache: Path) -> None:
    stored(cache, "someone/Odd", model_type="nobody_knows")
    with pytest.raises(ModelConfigError, match=r"config\.json.*not a known model type"):
        load_model("someone/Odd")


class _Hub(http.server.BaseHTTPRequestHandler):
    """Two files of the hub's own interface: where a file lies and what it holds."""

    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        body = json.dumps(CONFIG).encode()
        is_known = self.path.startswith("/someone/New/resolve/") and self.path.endswith("/config.json")
        self.send_response(200 if is_known else 404)
        if is_known:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", '"abc"')
        else:
            self.send_header("X-Error-Code", "RepoNotFound")
            body = b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[list[str]]:
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield server.asked  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_model_is_fetched_only_where_it_is_allowed(hub: list[str]) -> None:
    with pytest.raises(UnknownIdError, match="--online"):
        load_model("someone/New")
    assert hub == []
    model = load_model("someone/New", online=True)
    assert n_params_total(model) == pytest.approx(0.6e9, rel=0.01)
    assert "fetched from huggingface.co" in model.remarks[0]
    assert COMMIT in model.remarks[0]
    n_asked = len(hub)
    assert load_model("someone/New").n_layers == 28  # from the cache
    assert len(hub) == n_asked > 0


def test_the_command_fetches_with_online(hub: list[str], tmp_path: Path) -> None:
    without = call(main, ["facts", "model", "someone/New"], tmp_path)
    assert (without.returncode, hub) == (2, [])
    done = call(main, ["facts", "model", "someone/New", "--online"], tmp_path)
    assert done.returncode == 0
    assert COMMIT in done.stdout
    assert (
        call(
            main, ["serve", "--model", "someone/New", "--system", "h100-nvl8", "--input-tokens", "512"], tmp_path
        ).returncode
        == 0
    )


def test_what_the_hub_does_not_have_gets_one_line(hub: list[str]) -> None:
    with pytest.raises(UnknownIdError, match="'someone/Nothing': not fetched") as raised:
        load_model("someone/Nothing", online=True)
    assert "\n" not in str(raised.value)


def test_a_variant_that_the_hub_does_not_have_is_answered_by_its_name(hub: list[str]) -> None:
    assert load_model("unsloth/Qwen3-8B-FP8", online=True).dense_precision == "fp8"
    assert hub
