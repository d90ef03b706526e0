"""A double of vLLM's HTTP server for TRL's client, which is the real one, as is what TRL does with its answers.

Real: ``trl.generation.vllm_client.VLLMClient`` and ``VLLMGeneration`` in server mode, the HTTP between them and the
server, the log-probabilities (a model samples), the weights that arrive. A double: the server itself, and the group of
vLLM and NCCL that carries the weights: here a queue, with the same rendezvous. vLLM is not installed and there is no
CUDA device, so the client is told of both.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlparse

import pytest
import torch
from trl.generation import vllm_client, vllm_generation

#: What TRL's client says of sampling, and what else a request for completions has.
_SAMPLING = {
    "n", "repetition_penalty", "temperature", "top_p", "top_k", "min_p", "max_tokens", "logprobs", "stop_token_ids",
}  # fmt: skip
_COMPLETIONS = {"model", "prompt", "return_token_ids", "return_tokens_as_token_ids", *_SAMPLING}
_WAIT_S = 20


class Group:
    """What the trainer and the server's worker join to hand over weights."""

    def __init__(self) -> None:
        self.group = SimpleNamespace(store="there", socket="there")  # the client lets go of them at the end
        self.tensors: queue.Queue[torch.Tensor] = queue.Queue()
        self.rendezvous = threading.Barrier(2, timeout=_WAIT_S)


@dataclass
class Engine:
    """A model that is served, and all that was asked of it."""

    model: Any
    group: Group = field(default_factory=Group)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    #: Weights with which each request for completions was answered.
    weights: list[torch.Tensor] = field(default_factory=list)
    is_deaf: bool = False  # takes weights and goes on with those that it has
    shift: float = 0.0  # of the log-probabilities that it says
    config: dict[str, Any] = field(default_factory=lambda: {"backend": "nccl"})
    #: By path: status and body in place of an answer.
    instead: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: Called before completions are said.
    before: Callable[[], object] = field(default=lambda: None)

    def get(self, path: str) -> Any:
        """Answer what has no body."""
        models = {"model_config": {"logprobs_mode": "processed_logprobs"}, "weight_transfer_config": self.config}
        return {
            "/health": "", "/v1/models": {"object": "list", "data": [{"id": "tiny", "object": "model"}]},
            "/server_info": {"vllm_config": models}, "/get_world_size": {"world_size": 1},
        }[path]  # fmt: skip

    def post(self, path: str, body: Any) -> Any:
        """Answer what has a body."""
        if path == "/v1/completions":
            return self._complete(body)
        if path == "/init_weight_transfer_engine":
            assert body["init_info"].keys() == {"master_address", "master_port", "rank_offset", "world_size", "packed"}
            assert body["init_info"]["world_size"] == 2
            self.group.rendezvous.wait()
        elif path == "/update_weights":
            told = body["update_info"]
            self._receive(list(zip(told["names"], told["dtype_names"], told["shapes"], strict=True)))
        else:
            assert path in ("/start_weight_update", "/finish_weight_update", "/reset_prefix_cache"), path
        return {"success": True} if path == "/reset_prefix_cache" else {}

    @torch.no_grad()
    def _receive(self, announced: list[tuple[str, str, list[int]]]) -> None:
        weights = dict(self.model.named_parameters())
        assert [name for name, _, _ in announced] == list(weights)
        for name, dtype, shape in announced:
            found = self.group.tensors.get(timeout=_WAIT_S)
            assert (str(found.dtype).removeprefix("torch."), list(found.shape)) == (dtype, shape)
            if not self.is_deaf:
                weights[name].copy_(found)

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body.keys() == _COMPLETIONS, body.keys() ^ _COMPLETIONS
        plain = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "logprobs": 0, "model": "tiny"}
        assert {name: body[name] for name in plain} == plain
        self.weights.append(flat(self.model))
        rows = [prompt for prompt in body["prompt"] for _ in range(body["n"])]
        ids, log_probs = self._sample(rows, body)
        self.answers += ids
        self.before()
        return {"object": "text_completion", "model": "tiny", "choices": [
            {
                "index": number, "text": "", "finish_reason": "stop", "prompt_token_ids": row, "token_ids": said,
                "logprobs": {
                    "tokens": [f"token_id:{token}" for token in said], "token_logprobs": probs, "text_offset": [],
                    "top_logprobs": [{f"token_id:{t}": p} for t, p in zip(said, probs, strict=True)],
                },
            }
            for number, (row, said, probs) in enumerate(zip(rows, ids, log_probs, strict=True))
        ]}  # fmt: skip

    @torch.no_grad()
    def _sample(self, prompts: list[list[int]], asked: dict[str, Any]) -> tuple[list[list[int]], list[list[float]]]:
        """Token by token, each row to its end."""
        chance = torch.Generator().manual_seed(len(self.asked))
        said: list[list[int]] = [[] for _ in prompts]
        probs: list[list[float]] = [[] for _ in prompts]
        for row, prompt in enumerate(prompts):
            while len(said[row]) < asked["max_tokens"] and said[row][-1:] not in [[t] for t in asked["stop_token_ids"]]:
                logits = self.model(input_ids=torch.tensor([[*prompt, *said[row]]])).logits[0, -1]
                log_p = torch.log_softmax(logits.float() / asked["temperature"], dim=-1)
                token = int(torch.multinomial(log_p.exp(), 1, generator=chance))
                said[row].append(token)
                probs[row].append(float(log_p[token]) + self.shift)
        return said, probs


def flat(model: Any) -> torch.Tensor:
    """All weights in a row."""
    return torch.cat([one.detach().flatten().clone() for one in model.parameters()])


def _handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self, make: Callable[[str], Any]) -> None:
            path = urlparse(self.path).path
            status, text = engine.instead.get(path, (200, ""))
            if path not in engine.instead:
                try:
                    found = make(path)
                    text = found if isinstance(found, str) else json.dumps(found)
                except (AssertionError, KeyError) as error:  # as vLLM refuses what it does not know
                    status, text = 400, json.dumps({"error": {"message": repr(error)}})
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            engine.asked.append((urlparse(self.path).path, None))
            self._answer(engine.get)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "null")
            engine.asked.append((self.path, body))
            self._answer(lambda path: engine.post(path, body))

        def log_message(self, *_said: Any) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """Serve on a port of this machine; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(engine))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def stand_in(patch: pytest.MonkeyPatch, engine: Engine) -> None:
    """Let TRL take what is here for vLLM 0.28 or later and a CUDA device, and hand weights over by the queue."""

    def join(_info: dict[str, Any]) -> Group:
        engine.group.rendezvous.wait()
        return engine.group

    def send(iterator: Iterable[Any], group: Group, src: int, post_iter_func: Callable[[Any], torch.Tensor]) -> None:
        assert src == 0
        for item in iterator:
            group.tensors.put(post_iter_func(item).detach().clone())

    for module in (vllm_client, vllm_generation):
        patch.setattr(module, "is_vllm_available", lambda **_said: True)
    for name, value in {
        "_HAS_STATEFUL_TRAINER_ENGINE": True, "_HAS_RESET_PREFIX_CACHE_SUCCESS": True, "get_ip": lambda: "127.0.0.1",
        "open_trainer_endpoint": join, "packed_nccl_broadcast_producer": send,
        "torch": SimpleNamespace(device=lambda *_said: SimpleNamespace(type="cuda", index=None)),
    }.items():  # fmt: skip
        patch.setattr(vllm_client, name, value, raising=False)
