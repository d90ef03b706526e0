"""Recipes read from TOML: every key and value checked before anything runs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, close_choices, nearest, shown
from computeledger.files import parse_toml, read_toml
from rntp.plugins import choices_like, is_known, resolve, source_hash
from rntp.recipe import (
    MEASURED,
    MOST_PROMPTS,
    REWARDS,
    RULES,
    TOKEN_REWARDS,
    EnvironmentSpec,
    JudgeSpec,
    PositionSpec,
    Recipe,
    VllmSpec,
    decay_steps,
)

#: Tables that change nothing of what is learnt: where an engine runs, and what is measured afterwards.
_BESIDE = ("vllm", "controls", "report")

#: Tables that a text may stand for, and the setting that it then is.
_SHORT = {one.name: one.metadata["short"] for one in dataclasses.fields(Recipe) if "short" in one.metadata}


def read_recipe(path: Path, settings: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Examples
    --------
    >>> read_recipe(Path("nowhere.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.toml: no such file
    """
    if not path.exists() and (like := _path_like(path)):
        raise InputError(f"{path}: no such file; did you mean {shown(str(like))}?")
    given = read_toml(path)
    _spell_out(given)
    for setting in settings:
        given = _changed(given, setting)
    given.setdefault("name", path.resolve().parent.name if path.stem == "config" else path.stem)
    try:
        return parse_recipe(given, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _path_like(path: Path) -> Path | None:
    """A file whose name, or whose folder's name, is like one that does not exist."""
    files = {one.name: one for one in path.parent.glob("*.toml")}
    folders = {one.parent.name: one for one in path.parent.parent.glob(f"*/{path.name}")}
    near = [files[name] for name in close_choices(path.name, files)]
    near += [folders[name] for name in close_choices(path.parent.name, folders)]
    return next(iter(near), None)


def parse_recipe(given: Mapping[str, Any], folder: Path = Path()) -> Recipe:
    """Make a recipe of a document.

    Examples
    --------
    >>> parse_recipe({"name": "a", "rl": {"group_sise": 4}})
    Traceback (most recent call last):
    computeledger.errors.InputError: [rl] unknown key 'group_sise': did you mean 'group_size'?
    """
    given = dict(given)
    _spell_out(given)
    if given.get("preset"):
        method, sizes = preset(given["preset"])
        given = _merged(_merged(sizes, method), given)
    recipe: Recipe = record(Recipe, given, "")
    output = recipe.output or f"runs/{recipe.name}"
    positions = dataclasses.replace(recipe.positions, folder=folder)
    recipe = dataclasses.replace(recipe, output=output, positions=positions, folder=folder)
    for problem in _contradictions(recipe):
        raise InputError(problem)
    return recipe


def presets() -> dict[str, Path]:
    """Name the presets that ship, with their files.

    Examples
    --------
    >>> sorted(presets())
    ['rlp', 'rpt']
    """
    return {path.stem: path for path in Path(__file__).with_name("presets").glob("*.toml")}


def preset(name: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a preset: its method, and the sizes that the paper used.

    Examples
    --------
    >>> method, sizes = preset("rlp")
    >>> method["reward"]["baseline"], sizes["rl"]
    ('ema', {'prompts_per_step': 512})
    >>> preset("rl")
    Traceback (most recent call last):
    computeledger.errors.InputError: unknown preset 'rl': did you mean 'rlp'?
    """
    found = presets()
    if not isinstance(name, str) or name not in found:
        raise InputError(f"unknown preset {shown(name)}: {nearest(str(name), found)}")
    sizes: dict[str, Any] = {}
    method = read_toml(found[name])
    for place in method.pop("sizes"):
        table, _, key = place.partition(".")
        sizes.setdefault(table, {})[key] = method[table].pop(key)
    return method, sizes


def _with_preset(given: Mapping[str, Any], name: Any) -> dict[str, Any]:
    """A document with the method of a preset in place of its own, at its own sizes where it says them."""
    method, sizes = preset(name)
    return {**_merged(sizes, _merged(given, method)), "preset": name}


def _merged(beneath: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A document with what another says where it says nothing, table by table."""
    out = {**beneath, **given}
    for key in set(beneath) & set(given):
        if isinstance(beneath[key], Mapping) and isinstance(given[key], Mapping):
            out[key] = _merged(beneath[key], given[key])
    return out


def document(recipe: Recipe) -> dict[str, Any]:
    """Write a recipe as the document that it would be read from, every default named.

    Examples
    --------
    >>> given = {"name": "a", "seed": 3, "model": {"path": "m"}, "corpus": {"source": ["a.txt"]}}
    >>> document(parse_recipe(given))["seed"]
    3
    """
    out: dict[str, Any] = dataclasses.asdict(recipe)
    del out["folder"], out["output"], out["positions"]["folder"]
    return {key: _written(value) for key, value in out.items() if value is not None}


def fingerprint(recipe: Recipe) -> str:
    """Name a recipe by what is trained; what is measured and reported afterwards may change.

    Settings at their defaults are left out, so that a setting of a later version leaves earlier runs their names. Of a
    function of somebody's own the text counts too: :func:`own_code`.

    Examples
    --------
    >>> given = {"name": "a", "model": {"path": "m"}, "corpus": {"source": ["a.txt"]}}
    >>> fingerprint(parse_recipe(given)) == fingerprint(parse_recipe({**given, "output": "elsewhere"}))
    True
    >>> fingerprint(parse_recipe(given)) == fingerprint(parse_recipe({**given, "report": {"places": 0}}))
    True
    """
    trained = {name: table for name, table in _apart(recipe).items() if name not in (*_BESIDE, "output")}
    if own := own_code(recipe):
        trained["code"] = own
    text = json.dumps(_written(trained), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def own_code(recipe: Recipe) -> dict[str, str]:
    """Hash the text of the functions of somebody's own that a recipe names; data are known by their names only.

    Examples
    --------
    >>> import tempfile
    >>> from rntp.recipe import RewardSpec
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "mine.py").write_text("def zero(scores, options): return scores.mask.sum(axis=1) * 0.0")
    ...     list(own_code(Recipe(reward=RewardSpec("mine.py:zero"), folder=Path(name))))
    ['reward.name']
    """
    tables: dict[str, Any] = {"positions": recipe.positions, "reward": recipe.reward}
    tables |= {f"environments.{one.name}": one for one in recipe.environments}
    named = ((label, spec, field) for label, spec in tables.items() for field in dataclasses.fields(spec))
    out = {}
    for label, spec, field in named:
        name, group = getattr(spec, field.name), field.metadata.get("group")
        if group is None or not field.compare or not isinstance(name, str) or not name:
            continue
        if name not in field.metadata["choices"]:
            found: Callable[..., Any] = resolve(group, name, recipe.folder, {})
            out[f"{label}.{field.name}"] = source_hash(found, name)
    return out


def _apart(one: Any) -> Any:
    """The settings of a record that differ from their defaults, tables within it included."""
    if isinstance(one, tuple):
        return [_apart(part) for part in one]
    if not dataclasses.is_dataclass(one):
        return one
    given = {field.name: (getattr(one, field.name), field) for field in dataclasses.fields(one) if field.compare}
    return {name: _apart(value) for name, (value, field) in given.items() if value != _default(field)}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _written(value: Any) -> Any:
    """A value as JSON and TOML can both write it; a bound or a value that is none is left out."""
    if isinstance(value, Mapping):
        return {key: _written(one) for key, one in value.items() if one not in (None, -math.inf, math.inf)}
    return [_written(one) for one in value] if isinstance(value, list | tuple) else value


def _spell_out(given: dict[str, Any]) -> None:
    """Write a text where a table belongs as the table's setting that it stands for: ``reward = "probability"``."""
    for key, inner in _SHORT.items():
        if isinstance(given.get(key), str):
            given[key] = {inner: given[key]}


def _changed(given: dict[str, Any], setting: str) -> dict[str, Any]:
    """A document with one ``table.key=value`` put into it."""
    name, equals, text = setting.partition("=")
    *tables, key = name.strip().split(".")
    if not equals or not key:
        raise InputError(f"--set {shown(setting)}: table.key=value is needed")
    try:
        value = parse_toml(f"value = {text}", "--set")["value"]
    except InputError:
        value = text.strip()
    if not tables and key == "preset" and value:
        return _with_preset(given, value)
    if not tables and key in _SHORT and isinstance(value, str):
        tables, key = [key], _SHORT[key]
    inner = given
    for table in tables:
        inner = inner.setdefault(table, {})
        if not isinstance(inner, dict):
            raise InputError(f"--set {shown(setting)}: {table} is no table with keys")
    inner[key] = value
    return given


def record(kind: type[Any], given: Any, where: str) -> Any:
    """Fill a record from a table, its tables and lists of tables included.

    Examples
    --------
    >>> from rntp.recipe import ReportSpec
    >>> record(ReportSpec, {"places": 3}, "report").places
    3
    """
    label = f"[{where}] " if where else ""
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: a table is needed, not {shown(given)}")
    fields = {one.name: one for one in dataclasses.fields(kind) if one.name != "folder"}
    hints = typing.get_type_hints(kind)
    out = {}
    for key, value in given.items():
        if key not in fields:
            what = "table" if isinstance(value, dict) and not where else "key"
            raise InputError(f"{label}unknown {what} {shown(key)}: {nearest(key, fields)}")
        out[key] = _value(hints[key], value, fields[key].metadata, (where, key))
    return kind(**out)


def _value(hint: Any, given: Any, bounds: Mapping[str, Any], place: tuple[str, str]) -> Any:
    """Check one value against its type and bounds."""
    where, key = place
    label = f"[{where}] {key}" if where else key
    if isinstance(hint, types.UnionType):
        kinds = [one for one in typing.get_args(hint) if one is not types.NoneType]
        hint = next((one for one in kinds if dataclasses.is_dataclass(one) == isinstance(given, Mapping)), kinds[0])
    if dataclasses.is_dataclass(hint):
        return record(typing.cast("type[Any]", hint), given, key)
    origin = typing.get_origin(hint)
    if origin is tuple:
        inner = typing.get_args(hint)[0]
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list):
            raise InputError(f"{label} {shown(given)}: a list is needed")
        if dataclasses.is_dataclass(inner):
            return tuple(record(typing.cast("type[Any]", inner), one, key) for one in listed)
        return tuple(_value(inner, one, bounds, place) for one in listed)
    if origin is not None:
        if not isinstance(given, Mapping):
            raise InputError(f"{label} {shown(given)}: a table is needed")
        return dict(given)
    return _plain(hint, given, bounds, label)


def _plain(hint: Any, given: Any, bounds: Mapping[str, Any], label: str) -> Any:
    """Check a text, a truth value or a number."""
    words = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
    fits = isinstance(given, int | float) if hint is float else isinstance(given, hint)
    if not fits or (isinstance(given, bool) and hint is not bool):
        raise InputError(f"{label} {shown(given)}: {words[hint]} is needed")
    choices, group = bounds.get("choices"), bounds.get("group")
    if choices and given not in choices and not (group and is_known(group, given, choices)):
        allowed = choices_like(group, given, choices) if group else nearest(given, choices)
        raise InputError(f"unknown {label} {shown(given)}: {allowed}")
    low, high = bounds.get("low"), bounds.get("high")
    if isinstance(given, float) and not math.isfinite(given) and given != low:  # a bound of minus infinity may be said
        raise InputError(f"{label} {shown(given)}: a finite number is needed")
    if low is not None and high is not None and not low <= given <= high:
        allowed = f"from {_end(low)} to {_end(high)}" if low > -math.inf else f"up to {_end(high)}"
        raise InputError(f"{label} {shown(given)}: {words[hint]} {allowed} is needed")
    return float(given) if hint is float else given


def _end(bound: float) -> str:
    """A bound as it is read: 65,536, not 65536 or 6.5536e+04."""
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"


def _contradictions(recipe: Recipe) -> Iterator[str]:
    """What does not go together, most telling first."""
    model, corpus, thought = recipe.model, recipe.corpus, recipe.thought
    if corpus is None and not recipe.environments:
        yield "nothing to train on: [corpus] or [[environments]] is needed"
    if corpus is not None and not corpus.source:
        yield "[corpus] source is empty: paths, globs, an id or a generator are needed"
    if corpus is not None and not corpus.weight and not recipe.environments:
        yield "[corpus] weight 0 leaves nothing to train on: a weight above 0, or [[environments]], is needed"
    if not model.path:
        yield from _from_scratch(recipe)
    needs = (
        (corpus is None, recipe.pretrain is not None, "[pretrain]"),
        (corpus is None, recipe.rl.ntp_weight > 0, "rl.ntp_weight"),
    )
    yield from (f"{name} needs a [corpus]" for missing, wanted, name in needs if missing and wanted)
    yield from _positions(recipe.positions)
    if recipe.reward.nll_weight > 0 and recipe.rl.temperature != 1.0:
        yield (
            f"[reward] nll_weight with [rl] temperature {recipe.rl.temperature:g}: 1 is needed, as gold and thought "
            "share a pass"
        )
    if recipe.reward.credit == "token" and recipe.reward.name in set(REWARDS) - set(TOKEN_REWARDS):
        yield (
            f"[reward] credit 'token' with name {shown(recipe.reward.name)}: is one number for a whole thought; by "
            f"token: {', '.join(TOKEN_REWARDS)}"
        )
    if not thought.start or not thought.end or thought.start == thought.end:
        yield "[thought] start and end: two different markers are needed"
    if "independent-scorer" in recipe.controls.names and not recipe.controls.judge:
        yield "[controls] 'independent-scorer' needs judge, the folder of a model"
    yield from _budget(recipe)
    yield from _vllm(recipe)
    yield from _environments(recipe.environments)
    if recipe.rl.ahead and (several := [one.name for one in recipe.environments if one.source]):
        yield f"[rl] ahead {recipe.rl.ahead}: 0 is needed, as environment {shown(several[0])} answers turn by turn"


def _positions(positions: PositionSpec) -> Iterator[str]:
    """A rule that lacks what it needs, or is given what is not for it, and continuations that are too short."""
    if positions.low > positions.high:
        yield f"[positions] low {positions.low:g} is above high {positions.high:g}"
    if positions.measure and positions.rule in RULES:
        yield f"[positions] measure: is for a rule of your own; {shown(positions.rule)} measures what it needs"
    if positions.measured == MEASURED["proxy"] and not positions.proxy:
        yield f"[positions] rule {shown(positions.rule)} needs proxy, the folder of a model"
    least, most = positions.skip_first_gold + 1, positions.gold_tokens
    if most < least:
        yield f"[positions] gold_tokens {most}: at least {least} are needed, as skip_first_gold leaves out the first"
    if positions.min_gold_tokens < least:
        yield (
            f"[positions] min_gold_tokens {positions.min_gold_tokens}: at least {least} are needed, more than "
            f"skip_first_gold {positions.skip_first_gold}, or a continuation has no token that is scored"
        )


def _budget(recipe: Recipe) -> Iterator[str]:
    """A schedule that would need to know the last step, or is given what it does not take."""
    rl = recipe.rl
    prompts = math.ceil(rl.steps / rl.updates_per_batch) * rl.prompts_per_step
    if prompts > MOST_PROMPTS:
        yield (
            f"[rl] steps {rl.steps:,} x prompts_per_step {rl.prompts_per_step:,}: at most {MOST_PROMPTS:,} prompts are "
            "possible in a run"
        )
    if rl.final_fraction and rl.schedule in ("constant", "inverse_sqrt"):
        yield f"[rl] final_fraction {rl.final_fraction:g}: schedule {shown(rl.schedule)} falls to no fraction"
    if rl.decay_steps and rl.schedule != "warmup_stable_decay":
        yield f"[rl] decay_steps {rl.decay_steps}: is of schedule 'warmup_stable_decay', not of {shown(rl.schedule)}"
    if rl.schedule == "warmup_stable_decay" and rl.warmup_steps + decay_steps(rl) > rl.steps:
        yield (
            f"[rl] warmup_steps {rl.warmup_steps} and decay_steps {decay_steps(rl)}: together at most the "
            f"{rl.steps} steps are possible"
        )
    if recipe.rl.device_s and recipe.rl.schedule != "constant":
        yield (
            f"[rl] device_s with schedule {shown(recipe.rl.schedule)}: 'constant' is needed, as no step is "
            "known to be the last"
        )


def _vllm(recipe: Recipe) -> Iterator[str]:
    """Settings of an engine that the recipe does not use, or that a server sets for itself."""
    engine, given, plain = recipe.rl.engine, recipe.vllm, VllmSpec()
    if given.address and engine != "vllm-server":
        yield f"[vllm] address {shown(given.address)}: is for [rl] engine 'vllm-server', not {shown(engine)}"
    for name in ("memory_fraction", "tensor_parallel", "context_tokens"):
        if getattr(given, name) != getattr(plain, name) and engine != "vllm-colocate":
            yield f"[vllm] {name}: is for [rl] engine 'vllm-colocate'; a server is started with its own"


def _from_scratch(recipe: Recipe) -> Iterator[str]:
    """What a model made from scratch cannot be."""
    model, positions = recipe.model, recipe.positions
    if recipe.pretrain is None:
        yield "a model from scratch needs [pretrain]; else give [model] path, the folder of one"
    if model.hidden_size % (2 * model.heads):
        yield f"[model] hidden_size {model.hidden_size}: a multiple of {2 * model.heads}, twice the heads, is needed"
    if model.heads % model.kv_heads:
        yield f"[model] heads {model.heads}: a multiple of kv_heads {model.kv_heads} is needed"
    parts = (positions.context_tokens, recipe.thought.budget, positions.gold_tokens)
    if recipe.corpus is not None and recipe.corpus.weight and sum(parts) + 1 > model.context_tokens:
        yield (
            f"[model] context_tokens {model.context_tokens} is too short: context {parts[0]} + thought {parts[1]} + "
            f"gold {parts[2]} + 1 tokens are needed"
        )
    longest = recipe.pretrain.sequence_tokens if recipe.pretrain is not None else 0
    if longest > model.context_tokens:
        yield f"[pretrain] sequence_tokens {longest}: the model's context_tokens {model.context_tokens} at most"


def _environments(environments: Sequence[EnvironmentSpec]) -> Iterator[str]:
    """What environments lack."""
    names = [one.name for one in environments]
    for one in environments:
        if not one.name or names.count(one.name) > 1 or one.name == "text":
            yield f"[environments] name {shown(one.name)}: a name of its own is needed for each, and 'text' is text's"
        if bool(one.tasks) + bool(one.puzzle) + bool(one.source) != 1:
            yield f"[environments] {shown(one.name)}: one of tasks, puzzle and source is needed"
        for key in ("judge", "audit"):
            if getattr(one, key) and not one.tasks:
                yield f"[environments] {shown(one.name)}: {key} is for tasks; the others are scored by their own rules"
        if isinstance(one.judge, JudgeSpec):
            yield from (f"[environments] {shown(one.name)}: judge: {said}" for said in _judge(one.judge))
        plain = EnvironmentSpec()
        for name in ("turns", "episode_tokens", "stop", "timeout_s"):
            if not one.source and getattr(one, name) != getattr(plain, name):
                yield f"[environments] {shown(one.name)}: {name} is for an environment with source"
        if not one.weight:
            yield f"[environments] {shown(one.name)}: a weight above 0 is needed"


def _judge(judge: JudgeSpec) -> Iterator[str]:
    """What a judge that is a language model lacks, or is given and not for it."""
    scheme, _, rest = judge.model.partition("://")
    if not judge.model:
        yield "model is needed: the folder of a model, or the address of an endpoint, http://HOST:PORT/v1"
    elif judge.is_served:
        if scheme not in ("http", "https") or not rest:
            yield f"model {shown(judge.model)}: http://HOST:PORT/v1 or https://HOST/v1 is needed"
        if "@" in rest.partition("/")[0]:
            yield "model holds a name or a secret: key_variable names the environment variable that has it"
        if not judge.name:
            yield f"name is needed: what {shown(judge.model)} calls the model"
        if judge.read == "probability":
            yield "read 'probability' is for a folder; of an endpoint the 'reply' is read"
    else:
        plain = JudgeSpec()
        for key in ("name", "key_variable", "api", "timeout_s", "retries"):
            if getattr(judge, key) != getattr(plain, key):
                yield f"{key} is for an endpoint, and model {shown(judge.model)} is a folder"
    words = [one.casefold() for one in judge.scale]
    if len(words) < 2 or len(set(words)) < len(words) or not all(one and one.split() == [one] for one in words):
        yield f"scale {shown(list(judge.scale))}: two different words or more are needed, from worst to best"
    if judge.prompt and "{answer}" not in judge.prompt:
        yield f"prompt {shown(judge.prompt)}: {{answer}} is needed in it, and {{task}} where the judge must know it"
