"""What a run cost beside what the planner predicts for the same shapes, phase by phase.

FLOP are the planner's closed form: ``2 N`` a token that is generated, read or scored, ``6 N`` one that is trained on,
attention left out; ``4 N + 6 a`` where an adapter of ``a`` parameters is trained. Times are its operation model on a
machine that ``computeledger calibrate`` measured, or a shipped one.
Shapes (lengths, thoughts a step) are the run's means, out of its ledger; nothing else of the run enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from computeledger.actuals.calibrated import calibrated_machine
from computeledger.actuals.run_ledger import Entry, read_ledger
from computeledger.actuals.run_summary import BESIDE_RL, summary, superseded
from computeledger.errors import InputError, shown
from computeledger.facts.architecture import Lora, Model
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_system
from computeledger.files import read_json
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.calibration.rl import IDEAL_RL, rl_factors
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.rl.estimate import estimate_rl
from computeledger.workloads.rl.lengths import exact_lengths, lengths_of_mean
from computeledger.workloads.rl.scenario import Algorithm, RLMachines, RLScenario, Split, TextReward
from computeledger.workloads.rl.search import rl_machine
from computeledger.workloads.rl.training import Passes, Trainer, train
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario
from rntp.recipe import SMEAR, LoraSpec, Recipe
from rntp.recipe_file import parse_recipe
from rntp.run_folder import BASE, FINAL, LEDGER, RECIPE, read_written_recipe

#: What the comparison needs of a recipe: the rest may be of another version.
_WANTED = ("name", "seed", "model", "pretrain", "corpus", "environments", "thought", "reward", "rl", "lora")
_LENGTHS = ("context_tokens", "gold_tokens", "skip_first_gold")
#: Share of the budget above which thoughts are taken to be of one length: cut by it.
_CUT_FRACTION = 0.99
#: Layers that make up attention, as transformers calls them.
_ATTENTION = {"q_proj", "k_proj", "v_proj", "o_proj"}
#: The ledger's coefficient of next-token training.
_NEXT_TOKEN = 6.0


@dataclass(frozen=True, slots=True)
class Shapes:
    """What a run worked on, on average."""

    prompt_tokens: float
    thought_tokens: float
    longest_tokens: float
    gold_tokens: float
    plain_tokens: float


def read_run(folder: Path) -> tuple[Recipe, Model, tuple[Entry, ...]]:
    """Read what the comparison needs of a run's folder.

    Examples
    --------
    >>> read_run(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: 'nowhere': no recipe.json; the folder of a run of rntp train is needed
    """
    for name in (RECIPE, LEDGER):
        if not (folder / name).is_file():
            raise InputError(f"{shown(str(folder))}: no {name}; the folder of a run of rntp train is needed")
    written, where = read_written_recipe(folder)
    wanted = {name: written[name] for name in _WANTED if name in written}
    positions = written.get("positions")
    if not isinstance(positions, dict) or not set(_LENGTHS) <= set(positions):
        raise InputError(f"{folder / RECIPE}: [positions] {', '.join(_LENGTHS)} are needed")
    wanted["positions"] = {name: positions[name] for name in _LENGTHS}
    recipe = parse_recipe(wanted, where or Path())
    places = (folder / FINAL, folder / BASE, recipe.folder / recipe.model.path)
    config = next((place / "config.json" for place in places if (place / "config.json").is_file()), None)
    if config is None:
        raise InputError(f"{shown(str(folder))}: no model with a config.json is left of the run")
    shape = read_json(config)
    if not isinstance(shape, dict):
        raise InputError(f"{config}: expected an object of named fields")
    if shape.get("model_type") == SMEAR:
        shape["model_type"] = "qwen3"  # what a smear adds is nothing to a planner
    return recipe, parse_config(shape, recipe.name), read_ledger(folder / LEDGER).entries


def shapes_of(recipe: Recipe, entries: Sequence[Entry]) -> Shapes:
    """Take a run's mean shapes from its ledger.

    Examples
    --------
    >>> from rntp.recipe import RlSpec
    >>> counted = {"generation": {"sampled": 40.0, "input": 160.0}, "update": {"trained": 200.0},
    ...            "thought scoring": {"gold": 24.0}}
    >>> entries = [Entry("a", "rl", name, 1.0, step=0, tokens_by_kind=kinds) for name, kinds in counted.items()]
    >>> shapes_of(Recipe(rl=RlSpec(steps=1, prompts_per_step=2, group_size=4)), entries)
    Shapes(prompt_tokens=20.0, thought_tokens=5.0, longest_tokens=64.0, gold_tokens=3.0, plain_tokens=0.0)
    """
    rl = recipe.rl
    kept = _kept(entries)
    tokens: dict[str, float] = {}
    for entry in kept:
        for kind, count in entry.tokens_by_kind.items():
            tokens[kind] = tokens.get(kind, 0.0) + count
    steps = _steps(kept)
    thoughts = steps / rl.updates_per_batch * rl.prompts_per_step * rl.group_size
    if not thoughts or not tokens.get("sampled"):
        raise InputError(f"{recipe.name}: no finished step of RL is in the ledger")
    prompt, thought, gold = (tokens.get(kind, 0.0) / thoughts for kind in ("input", "sampled", "gold"))
    whole = prompt + thought + (gold if recipe.reward.nll_weight > 0 else 0.0)
    plain = 0.0
    if rl.ntp_weight > 0:
        plain = max(tokens.get("trained", 0.0) / steps - whole * rl.prompts_per_step * rl.group_size, 0.0)
    return Shapes(prompt, thought, float(max(recipe.thought.budget, thought)), gold, plain)


def _kept(entries: Sequence[Entry]) -> list[Entry]:
    """Entries of RL itself, work that was done again left out."""
    pairs = zip(entries, superseded(entries), strict=True)
    return [one for one, again in pairs if one.workload == "rl" and one.phase not in BESIDE_RL and not again]


def _steps(kept: Sequence[Entry]) -> int:
    return len({entry.step for entry in kept if entry.phase == "update"})


def scenario_of(recipe: Recipe, model: Model, shapes: Shapes, devices: int = 1) -> RLScenario:
    """State a run as the planner does.

    Examples
    --------
    >>> model = parse_config({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
    ...     "num_hidden_layers": 2, "num_attention_heads": 4}, "tiny")
    >>> run = scenario_of(Recipe(), model, Shapes(20.0, 5.0, 8.0, 3.0, 0.0))
    >>> [round(float(flop / run.flop_by_phase["generation"]), 2) for flop in run.flop_by_phase.values()]
    [1.0, 0.42, 0.02, 0.0, 3.0]
    """
    rl = recipe.rl
    shared = rl.engine != "transformers"
    rows = rl.prompts_per_step * rl.group_size / devices
    lora = None if recipe.lora is None else Lora(recipe.lora.rank, _targets(recipe.lora))
    in_one = shapes.thought_tokens >= _CUT_FRACTION * shapes.longest_tokens
    lengths = (
        exact_lengths(shapes.thought_tokens)
        if in_one
        else lengths_of_mean(shapes.thought_tokens, shapes.longest_tokens)
    )
    again = {"policy": shared or rl.updates_per_batch > 1 or rl.ahead > 0, "frozen": recipe.thought.kl_weight > 0}
    passes = sum(needed for name, needed in again.items() if name != recipe.reward.scorer)
    passes += rl.ahead > 0 and not shared  # by the weights that sampled, where the engine does not say
    trains_gold = recipe.reward.nll_weight > 0
    text = TextReward(shapes.gold_tokens, trains_gold, shapes.plain_tokens) if shapes.gold_tokens else None
    whole = shapes.prompt_tokens + shapes.thought_tokens + (shapes.gold_tokens if trains_gold else 0.0)
    return RLScenario(
        engine=ServingScenario(
            replace(model, adapters=lora), Layout(), Precision(), shapes.prompt_tokens, shapes.thought_tokens,
            batch=float(rows),
        ),
        sampling=Sampling(lengths, shapes.prompt_tokens, float(rl.group_size), shared),
        algorithm=Algorithm(
            float(rl.prompts_per_step), float(rl.group_size), logprob_passes=float(passes),
            updates_per_batch=float(rl.updates_per_batch),
        ),
        trainer=Trainer(
            Layout(dp=devices), pack_tokens=(rl.micro_batch or rows) * whole,
            recompute="full" if rl.gradient_checkpointing else "none", lora=lora,
        ),
        split=Split(float(devices), float(devices)),
        text=text,
    )  # fmt: skip


def _targets(lora: LoraSpec) -> str:
    """What the planner calls the layers that have an adapter."""
    return "attention" if lora.target_modules and set(lora.target_modules) <= _ATTENTION else "all"


def not_covered(recipe: Recipe) -> str:
    """Say why a run's prediction is no check of it, empty where it is: the formula is of one kind of row, in one turn.

    Examples
    --------
    >>> from rntp.recipe import CorpusSpec, EnvironmentSpec
    >>> mixed = Recipe(corpus=CorpusSpec(), environments=(EnvironmentSpec("a", source="b:c"),))
    >>> not_covered(mixed)
    'rows of text and of 1 environment are mixed, and episodes of several turns: the prediction takes their means ...'
    >>> not_covered(Recipe(corpus=CorpusSpec()))
    ''
    """
    several = [one for one in recipe.environments if one.source]
    text = recipe.corpus is not None and recipe.corpus.weight > 0
    count = len(recipe.environments)
    mixed = "" if not text or not count else f"rows of text and of {count} environment{'s' * (count > 1)} are mixed"
    turns = "episodes of several turns" if several else ""
    if not (said := ", and ".join(one for one in (mixed, turns) if one)):
        return ""
    return f"{said}: the prediction takes their means for one kind of row in one turn, and is no check of this run"


def machines_of(place: str) -> RLMachines:
    """Find where times are predicted for.

    Examples
    --------
    >>> machines_of("h100-nvl8").training.system.id
    'h100-nvl8'
    """
    if Path(place).is_dir():
        here = calibrated_machine(Path(place))
        return RLMachines(here, here, IDEAL_RL)
    there = rl_machine(Machine(load_system(place), efficiency(), training_efficiency()))
    return RLMachines(there, there, rl_factors())


def cost(folder: Path, machines: RLMachines | None) -> dict[str, Any]:
    """Set what a run cost beside the planner's prediction.

    Examples
    --------
    >>> cost(Path("nowhere"), None)
    Traceback (most recent call last):
    computeledger.errors.InputError: 'nowhere': no recipe.json; the folder of a run of rntp train is needed
    """
    recipe, model, entries = read_run(folder)
    kept = _kept(entries)
    if not _steps(kept):
        raise InputError(f"{shown(str(folder))}: no finished step of RL is in the ledger yet")
    shapes = shapes_of(recipe, entries)
    devices = max(entry.devices for entry in kept)
    run = scenario_of(recipe, model, shapes, devices)
    batches = _steps(kept) / recipe.rl.updates_per_batch
    took = summary(entries, "rl")
    sampled = float(run.sampled_tokens)
    per_token = n_params_active(model) * sampled
    flop = {name: float(value) for name, value in run.flop_by_phase.items() if float(value)}
    seconds, reference_s = (None, None) if machines is None else _times(run, machines)
    phases = {}
    for name in dict.fromkeys([*(entry.phase for entry in kept), *flop]):
        mine = [entry for entry in kept if entry.phase == name]
        counted = sum(entry.flop or 0.0 for entry in mine) / batches
        executed = sum(entry.executed_flop or 0.0 for entry in mine) / batches
        measured_s = sum(entry.device_s for entry in mine) / batches
        predicted_s = None if seconds is None else seconds.get(name)
        phases[name] = {
            "fraction": took["phases"].get(name, {}).get("fraction", 0.0),
            "beta_flop": _pair(counted / per_token or None, flop[name] / per_token if name in flop else None),
            "executed_over_counted_flop": executed / counted if counted else None,
            "s_per_step": _pair(measured_s, predicted_s),
        }
    beta_s = None if seconds is None or not reference_s else _NEXT_TOKEN * sum(seconds.values()) / sampled / reference_s
    reference = took["reference"]
    return {
        "run": str(folder), "name": recipe.name, "seed": recipe.seed, "steps": _steps(kept), "devices": devices,
        "n_params_active": n_params_active(model), "scorer": recipe.reward.scorer, "not_covered": not_covered(recipe),
        "shapes": {
            "prompt_tokens": shapes.prompt_tokens, "thought_tokens": shapes.thought_tokens,
            "gold_tokens": shapes.gold_tokens, "next_token_tokens_per_step": shapes.plain_tokens,
            "prompts_per_step": recipe.rl.prompts_per_step, "group_size": recipe.rl.group_size,
        },
        "beta_flop": _pair(took["beta_flop"], sum(flop.values()) / per_token),
        "beta_gpu_time": _pair(took["beta_gpu_time"], beta_s),
        "reference": None if reference is None else {
            "measured_in": reference["measured_in"], "measurements": reference["measurements"],
            "standard_error_fraction": reference["standard_error_fraction"],
            "s_per_token": _pair(reference["device_s_per_token"], reference_s),
        },
        "phases": phases,
    }  # fmt: skip


def _pair(measured: float | None, predicted: float | None) -> dict[str, float | None]:
    ratio = predicted / measured if measured and predicted is not None else None
    return {"measured": measured, "predicted": predicted, "predicted_over_measured": ratio}


def _times(run: RLScenario, machines: RLMachines) -> tuple[dict[str, float], float]:
    """Device-time of a step by phase of the ledger, and of a token of next-token training in batches as large."""
    parts = {name: float(value) for name, value in estimate_rl(run, machines).phases_gpu_s.items()}
    found = {"generation": parts.pop("generation") + parts.pop("waiting for the longest rollouts", 0.0)}
    found["idle"] = parts.pop("waiting for verifiers", 0.0) + parts.pop("once per step", 0.0)
    found |= parts
    rows, whole = float(run.algorithm.rollouts), float(run.trained_tokens)
    alone = train(run.engine.model, run.trainer, Passes(whole, 0.0, rows, 1.0), (machines.training, machines.factors))
    reference_s = float(alone.update_s) * float(run.split.n_gpus) / (rows * whole)
    return {name: value for name, value in found.items() if value}, reference_s


def costs(folders: Sequence[Path], place: str | None) -> dict[str, Any]:
    """Compare several runs with their predictions.

    Examples
    --------
    >>> costs([], None)
    {'machine': None, 'runs': []}
    """
    machines = None if place is None else machines_of(place)
    document: Mapping[str, Any] | None = None
    if machines is not None:
        chip = machines.training.system.accelerator
        document = {"id": machines.training.system.id, "name": chip.name, "peak_flop_per_s": chip.peak("bf16")}
    return {"machine": document, "runs": [cost(folder, machines) for folder in folders]}
