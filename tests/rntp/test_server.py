"""Thoughts from a vLLM server, through TRL's own client: what is asked, what is made of it, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from requests.adapters import HTTPAdapter
from trl.generation import vllm_client

from computeledger.errors import InputError
from rntp.errors import TrainingError
from rntp.mixture import mixed_rows
from rntp.recipe import Recipe, ThoughtSpec, VllmSpec
from rntp.trainer import RntpTrainer
from tests.rntp import tiny
from tests.rntp.http_engine import Engine, flat, serving, stand_in

BEGUN = ["/health", "/v1/models", "/server_info", "/get_world_size", "/init_weight_transfer_engine", "/server_info"]
SYNCED = ["/start_weight_update", "/update_weights", "/finish_weight_update", "/reset_prefix_cache"]


class Watched(RntpTrainer):
    """Keeps what each update is made of, and the weights before it."""

    made: list[dict[str, Any]]
    before: list[torch.Tensor]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        made = super()._generate_and_score_completions(inputs)
        self.__dict__.setdefault("made", []).append(made)
        self.__dict__.setdefault("before", []).append(flat(self.model))
        return made


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Serves other weights than those trained, until it is given those."""
    made = Engine(tiny.model(seed=2))
    stand_in(monkeypatch, made)
    return made


@pytest.fixture
def address(engine: Engine) -> Iterator[str]:
    """Where it is served."""
    with serving(engine) as found:
        yield found


def recipe(folder: Path, address: str, **given: Any) -> Recipe:
    """Two updates of four thoughts."""
    plain = {"steps": 2, "prompts_per_step": 2, "group_size": 2, "thought": ThoughtSpec(budget=6, truncation="keep")}
    return replace(tiny.recipe(folder, engine="vllm-server", **(plain | given)), vllm=VllmSpec(address=address))


def trainer_of(made: Recipe) -> Watched:
    """On text."""
    rows = mixed_rows(tiny.places(12), {}, {"text": 1.0}, made.rl.steps * made.rl.prompts_per_step)
    return Watched(tiny.model(), tiny.TOKENIZER, rows, made)


def ratios(made: dict[str, Any]) -> torch.Tensor:
    """Between policy and engine, at every token that was sampled."""
    return made["importance_sampling_ratio"][made["tool_mask"].bool()]  # type: ignore[no-any-return]


def thoughts(made: dict[str, Any]) -> list[list[int]]:
    """Tokens that were sampled."""
    pairs = zip(made["completion_ids"], made["tool_mask"].bool(), strict=True)
    return [ids[mask].tolist() for ids, mask in pairs]


def test_thoughts_and_log_probabilities_come_over_http(engine: Engine, address: str, tmp_path: Path) -> None:
    trainer = trainer_of(recipe(tmp_path, address))
    trainer.train()
    assert [path for path, _ in engine.asked] == BEGUN + 2 * [*SYNCED, "/v1/completions"]
    first, second = (body for path, body in engine.asked if path == "/v1/completions")
    assert first["prompt"] == [[*row["context_ids"].tolist(), trainer._start] for row in trainer.rows[:2]]
    assert (first["n"], first["max_tokens"], trainer._end in first["stop_token_ids"]) == (2, 6, True)
    assert first["prompt"] != second["prompt"]
    assert [ids for made in trainer.made for ids in thoughts(made)] == engine.answers
    assert all(torch.equal(one, other) for one, other in zip(engine.weights, trainer.before, strict=True))
    assert (engine.weights[1] - engine.weights[0]).abs().max() > 1e-3
    for made in trainer.made:  # the weights are the same, and so are the probabilities
        assert (ratios(made) - 1).abs().max() < 1e-4
    assert [row["importance/mean"] for row in trainer.state.log_history[:2]] == pytest.approx([1.0, 1.0], abs=1e-4)


def test_the_ratio_is_to_the_weights_that_sampled(engine: Engine, address: str, tmp_path: Path) -> None:
    engine.is_deaf, engine.shift = True, -0.2
    engine.model.load_state_dict(tiny.model().state_dict())
    trainer = trainer_of(recipe(tmp_path, address))
    trainer.train()
    first, second = map(ratios, trainer.made)
    assert first.tolist() == pytest.approx([torch.tensor(0.2).exp().item()] * len(first), abs=1e-4)
    assert (second.log() - 0.2).abs().max() > 1e-2
    assert second.max() <= trainer.vllm_importance_sampling_clip_max == 3.0
    log_probs = trainer.made[1]["old_per_token_logps"][trainer.made[1]["tool_mask"].bool()]
    with torch.no_grad():  # by hand, from the weights that the engine kept
        rows = zip(trainer.made[1]["prompt_ids"], trainer.made[1]["prompt_mask"].bool(), strict=True)
        prompts = [ids[mask].tolist() for ids, mask in rows]
        there = []
        for prompt, said in zip(prompts, thoughts(trainer.made[1]), strict=True):
            found = engine.model(input_ids=torch.tensor([[*prompt, *said]])).logits[0, len(prompt) - 1 : -1]
            there += torch.log_softmax(found, dim=-1)[range(len(said)), said].tolist()
    wanted = (log_probs - torch.tensor(there) + 0.2).exp().clamp(max=3.0)
    assert second.tolist() == pytest.approx(wanted.tolist(), rel=1e-4)


def completions(**given: Any) -> str:
    """What one completion of one token looks like, or something like it."""
    import json

    choice = {"prompt_token_ids": [7, 8], "token_ids": [9], "logprobs": {
        "tokens": ["token_id:9"], "token_logprobs": [-1.0], "top_logprobs": [{"token_id:9": -1.0}]}}  # fmt: skip
    return json.dumps({"choices": [choice | given]})


@pytest.mark.parametrize(
    ("path", "status", "body", "message"),
    [
        ("/v1/completions", 400, '{"error": "no\\nroom"}', 'Request failed: 400, {"error": "no\\nroom"}'),
        ("/v1/completions", 200, "<html>proxy</html>", "its answer is no JSON"),
        ("/v1/completions", 200, "{}", "its answer cannot be read (KeyError: 'choices')"),
        ("/v1/completions", 200, '{"choices": []}', "its answer cannot be read (IndexError"),
        ("/v1/completions", 200, completions(logprobs=None), "gives no log-probabilities"),
        ("/v1/completions", 200, completions(token_ids=[9, 9]), "other numbers of tokens and of log-probabilities"),
        ("/v1/completions", 200, completions(token_ids=[10**6]), "it serves another model"),
        ("/v1/completions", 200, completions(prompt_token_ids=[7]), "or to others than it was asked"),
        ("/update_weights", 404, "no such tensor", "Request failed: 404, no such tensor"),
    ],
)  # fmt: skip
def test_a_server_that_answers_something_else_stops_the_run_in_one_line(
    one_trainer: tuple[Engine, Watched], path: str, status: int, body: str, message: str
) -> None:
    engine, trainer = one_trainer
    trainer._last_loaded_step = -1
    engine.instead = {path: (status, body)}
    with pytest.raises(TrainingError) as stopped:
        trainer._sample([[7, 8]], 1)
    said = str(stopped.value)
    assert said.startswith("step 1: vLLM server http://127.0.0.1:") and message in said and "\n" not in said
    assert said.endswith("there is no checkpoint yet")
    engine.instead = {}
    while not engine.group.tensors.empty():
        engine.group.tensors.get()


@pytest.fixture(scope="module")
def one_trainer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Watched]]:
    """One for all faults."""
    made = Engine(tiny.model())
    with pytest.MonkeyPatch.context() as patch, serving(made) as found:
        stand_in(patch, made)
        yield made, trainer_of(recipe(tmp_path_factory.mktemp("run"), found))


def test_a_server_that_dies_stops_the_run_in_one_line(engine: Engine, tmp_path: Path) -> None:
    with serving(engine) as address:
        trainer = trainer_of(recipe(tmp_path, address, save_steps=1))
        client = trainer.vllm_generation.vllm_client
        client.session.mount("http://", HTTPAdapter(max_retries=0))  # TRL tries again for a minute
        asked = client.generate

        def dies(**given: Any) -> Any:
            """At the second request."""
            if trainer.state.global_step:
                client.base_url = "http://127.0.0.1:9"  # nobody listens there
            return asked(**given)

        client.generate = dies
        with pytest.raises(TrainingError, match=r"step 2: vLLM server .* it cannot be reached; .* is .*checkpoint-1"):
            trainer.train()


def test_a_server_that_cannot_be_used_is_refused_at_the_start(
    engine: Engine, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.config = None  # type: ignore[assignment]  # what a server without the option says
    with pytest.raises(InputError, match=f"vLLM server {address}: .* has no weight-transfer engine"):
        trainer_of(recipe(tmp_path, address))
    engine.config = {"backend": "nccl"}
    with monkeypatch.context() as patch:
        patch.setattr(vllm_client, "torch", torch)
        with pytest.raises(InputError, match="needs a CUDA device, got 'cpu'"):
            trainer_of(recipe(tmp_path, address))
    clock = iter(range(0, 10**6, 1000))
    monkeypatch.setattr(vllm_client, "time", SimpleNamespace(time=lambda: next(clock), sleep=lambda _s: None))
    with pytest.raises(InputError, match=r"vLLM server http://127.0.0.1:9: it cannot be reached$"):
        trainer_of(recipe(tmp_path, "http://127.0.0.1:9"))
