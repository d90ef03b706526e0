"""lm-evaluation-harness asks a run: numbers by hand, and the harness itself on tasks of a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from computeledger.errors import InputError
from rntp.interfaces.answers.lm_eval import AskedModel, Generation, Settings
from rntp.interfaces.cli import main
from rntp.models import make_model, make_tokenizer
from rntp.recipe import ModelSpec, ThoughtSpec
from rntp.recipe_file import read_recipe
from rntp.run_folder import prepare
from rntp.sampling import sample_thoughts
from tests.commands import call
from tests.gates import ROOT
from tests.rntp import tiny

BUDGET = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, as far as the harness is told of it: its recipe and its last model."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("asked") / "run"
    recipe = read_recipe(ROOT / "recipes" / "tiny_text" / "config.toml", [f"thought.budget={BUDGET}"])
    prepare(folder, recipe, fresh=False)
    tiny.model().save_pretrained(folder / "final")
    tiny.TOKENIZER.save_pretrained(folder / "final")
    return folder


def by_hand(model: Any, before: Sequence[int], after: Sequence[int]) -> tuple[float, bool]:
    """Log-likelihood of tokens behind others, by one plain pass over both."""
    ids = torch.tensor([[*before, *after]])
    with torch.no_grad():
        predicted = torch.log_softmax(model(ids).logits[0, len(before) - 1 : -1].double(), dim=-1)
    said = predicted[torch.arange(len(after)), torch.tensor(after)]
    return float(said.sum()), bool((predicted.argmax(dim=-1) == torch.tensor(after)).all())


def asked_pairs(asked: AskedModel) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Two contexts of different lengths, the first of which has two continuations, one of them the likeliest token."""
    one, two = (tuple(asked.encode(text)) for text in ("w1 w2 w3", "w4 w5 w6 w7"))
    with torch.no_grad():
        likeliest = int(asked.model(torch.tensor([one])).logits[0, -1].argmax())
    words = [tuple(asked.encode(text, begins=False)) for text in ("w8 w9", "w10")]
    return [(one, words[0]), (two, words[1]), (one, (likeliest,))]


def test_without_a_thought_it_is_the_plain_model(run: Path) -> None:
    asked = AskedModel(run, Settings(thoughts=0), 2)
    pairs = asked_pairs(asked)
    for (value, greedy), pair in zip(asked.likelihoods(pairs), pairs, strict=True):
        expected, is_greedy = by_hand(asked.model, *pair)
        assert value == pytest.approx(expected, abs=1e-5) and greedy == is_greedy
    assert [greedy for _, greedy in asked.likelihoods(pairs)] == [False, False, True]


def test_with_thoughts_it_is_the_mean_over_the_same_thoughts_for_all_continuations(run: Path) -> None:
    asked = AskedModel(run, Settings(thoughts=3, seed=7), 64)
    pairs = asked_pairs(asked)
    longest_first = [pairs[1][0], pairs[0][0]]
    drawn = sample_thoughts(asked.model, longest_first, replace(asked._sampling, thoughts=3, seed=7)).rows
    assert all(len(row) <= BUDGET + 2 for row in drawn) and len(set(drawn)) > 3
    of = {longest_first[0]: drawn[:3], longest_first[1]: drawn[3:]}
    for (value, greedy), (context, after) in zip(asked.likelihoods(pairs), pairs, strict=True):
        said = [by_hand(asked.model, [*context, *row], after) for row in of[context]]
        assert value == pytest.approx(np.mean([one for one, _ in said]), abs=1e-5)
        assert greedy == (np.mean([one for _, one in said]) > 0.5)
    plain = AskedModel(run, Settings(thoughts=0), 64).likelihoods(pairs)
    assert max(abs(a - b) for (a, _), (b, _) in zip(asked.likelihoods(pairs), plain, strict=True)) > 1e-3


def test_answers_follow_a_thought_that_is_not_in_them_and_end_at_what_stops_them(run: Path) -> None:
    asked = AskedModel(run, Settings(thoughts=1, seed=3), 64)
    contexts = [tuple(asked.encode(text)) for text in ("w1 w2 w3", "w4 w5", "w9 w8 w7 w6", "w30", "w31 w2")]
    how = Generation(4, (), {"do_sample": False})
    drawn = sample_thoughts(asked.model, contexts, replace(asked._sampling, thoughts=1, seed=3)).rows
    texts = []
    for context, row in zip(contexts, drawn, strict=True):
        ids = [*context, *row]
        for _ in range(how.tokens):
            with torch.no_grad():
                ids.append(int(asked.model(torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == asked.tokenizer.eos_token_id:
                break
        texts.append(asked.tokenizer.decode(ids[len(context) + len(row) :], skip_special_tokens=True))
    assert asked.answers(contexts, how) == texts
    number, word = next((at, text.split()[1]) for at, text in enumerate(texts) if len(set(text.split())) > 1)
    stopped = asked.answers(contexts, replace(how, stops=(word,)))
    assert stopped[number] == texts[number].split(word, maxsplit=1)[0] != texts[number]


def test_a_long_question_keeps_its_end_and_the_thought_its_room(run: Path) -> None:
    asked = AskedModel(run, Settings(thoughts=1), 4)
    long = tuple(asked.encode("w1 " * 200))
    assert len(asked._cut(long, 10)) == asked.window - (BUDGET + 2) - 10
    assert asked.likelihoods([(long, (9,))])[0][0] < 0
    with pytest.raises(
        InputError, match=r"context of 128 tokens is too short: a thought \(7 tokens .*\) and 121 tokens"
    ):
        asked.answers([long], Generation(121, (), {}))


def test_a_model_without_markers_can_be_asked_without_thoughts_only(tmp_path: Path) -> None:
    words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec("<a>", "</a>"), ["w1 w2"])
    make_model(tiny.SHAPE, words).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    assert AskedModel(tmp_path, Settings(thoughts=0), 4).likelihoods([((6,), (7,))])[0][0] < 0
    with pytest.raises(InputError, match="marker '<think>' is not one token"):
        AskedModel(tmp_path, Settings(), 4)


def test_where_the_harness_is_missing_the_command_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    said = call(main, ["lm-eval", "--model", "rntp", "--tasks", "any"], tmp_path)
    assert said.returncode == 2 and said.stderr.count("\n") == 1
    assert "pip install 'computeledger[lm-eval,train]'" in said.stderr


DOCUMENTS = [
    {"question": f"w{n} w{n + 1} w3", "choices": [f"w{n + 5}", "w9 w4", "w2"], "answer": n % 3} for n in range(4)
]
CHOICE = """
task: tiny_choice
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}, cache_dir: CACHE}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list: [{metric: acc}]
"""
ANSWER = """
task: tiny_answer
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}, cache_dir: CACHE}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs: {until: ["w1"], max_gen_toks: 4, do_sample: false}
metric_list: [{metric: exact_match}]
"""
WHOLE = """
task: tiny_whole
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}, cache_dir: CACHE}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}}"
metric_list: [{metric: word_perplexity}]
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder of tasks, whose data lie beside them; skips where the harness is not installed."""
    pytest.importorskip(
        "lm_eval", reason="lm-evaluation-harness is not installed: pip install 'computeledger[lm-eval]' (330 MB)"
    )
    data = tmp_path / "documents.jsonl"
    data.write_text("".join(f"{json.dumps(one)}\n" for one in DOCUMENTS))
    begun = CHOICE.replace("{{question}}", "<doc> {{question}}").replace("tiny_choice", "tiny_begun")
    for name, text in (("choice", CHOICE), ("begun", begun), ("answer", ANSWER), ("whole", WHOLE)):
        made = text.replace("DATA", str(data)).replace("CACHE", str(tmp_path / "cache"))
        (tmp_path / f"{name}.yaml").write_text(made)
    return tmp_path


def harness(tasks: Path, task: str, model: str, arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the harness gives for a task: its results, and its samples in the order of the documents."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    from rntp.interfaces.lm_eval_model import register

    register()
    found = lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=[task], log_samples=True, batch_size=8, device="cpu",
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False), bootstrap_iters=0,
    )  # fmt: skip
    samples = sorted(found["samples"][task], key=lambda one: one["doc_id"])
    return found["results"][task], samples


@pytest.mark.filterwarnings("ignore")  # the harness's own and those of what it imports
def test_the_harness_scores_choices_as_this_project_does(run: Path, tasks: Path) -> None:
    asked = AskedModel(run, Settings(thoughts=2, seed=5), 8)
    results, samples = harness(tasks, "tiny_choice", "rntp", f"pretrained={run},thoughts=2,seed=5")
    pairs = []
    for one in DOCUMENTS:
        for choice in one["choices"]:  # type: ignore[attr-defined]
            context = tuple(asked.encode(str(one["question"])))
            pairs.append((context, tuple(asked.encode(f" {choice}", begins=False))))
    expected = np.array([value for value, _ in asked.likelihoods(pairs)]).reshape(len(DOCUMENTS), -1)
    given = np.array([[float(answer[0]) for answer in one["filtered_resps"]] for one in samples])
    assert np.abs(given - expected).max() < 1e-5
    right = expected.argmax(axis=1) == [one["answer"] for one in DOCUMENTS]
    assert results["acc,none"] == pytest.approx(right.mean())


@pytest.mark.filterwarnings("ignore")
def test_without_thoughts_it_is_what_the_harness_s_own_model_gives_for_final(run: Path, tasks: Path) -> None:
    """The task writes the token that begins texts in training: a tokenizer that a recipe makes does not add it."""
    for task in ("tiny_begun", "tiny_whole"):
        _, ours = harness(tasks, task, "rntp", f"pretrained={run},thoughts=0")
        _, theirs = harness(tasks, task, "hf", f"pretrained={run / 'final'},dtype=float32")
        values = [[np.ravel(np.array(one["filtered_resps"], dtype=object)) for one in some] for some in (ours, theirs)]
        firsts = [[float(one) for row in some for one in row if str(one) not in ("True", "False")] for some in values]
        assert firsts[0] == pytest.approx(firsts[1], abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_the_harness_gets_answers_and_whole_texts_are_refused_with_thoughts(run: Path, tasks: Path) -> None:
    asked = AskedModel(run, Settings(seed=5), 8)
    _, samples = harness(tasks, "tiny_answer", "rntp", f"pretrained={run},seed=5")
    contexts = [tuple(asked.encode(str(one["question"]))) for one in DOCUMENTS]
    answers = asked.answers(contexts, Generation(4, ("w1",), {"do_sample": False}))
    assert [one["resps"][0][0] for one in samples] == answers and any(answers)
    with pytest.raises(InputError, match="no place to think at: set thoughts=0"):
        harness(tasks, "tiny_whole", "rntp", f"pretrained={run}")


@pytest.mark.filterwarnings("ignore")
def test_the_command_runs_the_harness_and_its_mistakes_are_one_line(run: Path, tasks: Path) -> None:
    from rntp.interfaces.lm_eval_model import model_class

    said = call(
        main,
        ["lm-eval", "--model", "rntp", "--model_args", f"pretrained={run},thoughts=2", "--tasks", "tiny_choice",
         "--include_path", str(tasks), "--batch_size", "8"],
        tasks,
    )  # fmt: skip
    assert said.returncode == 0 and "tiny_choice" in said.stdout and "acc" in said.stdout, said
    for given, message in (
        ({"pretrained": str(run), "thougths": 2}, r"\[model_args\] unknown key 'thougths': did you mean 'thoughts'"),
        ({"thoughts": 2}, "pretrained=FOLDER is needed"),
        ({"pretrained": str(tasks)}, "neither a checkpoint"),
        ({"pretrained": str(run), "batch_size": "auto"}, "batch_size 'auto': a whole number from 1"),
    ):
        with pytest.raises(InputError, match=message):
            model_class().create_from_arg_obj(given)  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
def test_the_entry_point_is_one_that_the_registry_of_the_harness_can_load(tasks: Path) -> None:
    import tomllib
    from importlib.metadata import EntryPoint

    from lm_eval.api.registry import model_registry

    from rntp.interfaces.lm_eval_model import model_class

    group = "lm_eval.models"
    (declared,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][group].items()
    made = EntryPoint(name=declared[0], value=declared[1], group=group)
    model_registry.register("by-entry-point", target=made)
    assert model_registry.get("by-entry-point") is model_class()
