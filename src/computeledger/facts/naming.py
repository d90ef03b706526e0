"""What a model's name means: addresses, publishers that mirror others, and endings that say a format."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from computeledger.errors import UnknownIdError, nearest, only_one, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import model_ids, model_index, normal_id, shipped_file
from computeledger.facts.formats import beside_experts, format_name
from computeledger.facts.gguf_mixes import mix_named, unknown_precision
from computeledger.facts.reading import read_file
from computeledger.files import of_files

_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(huggingface\.co|hf\.co|modelscope\.cn/models|modelscope\.ai/models)/(.*)"
)
_OLLAMA_ADDRESS = re.compile(r"(?:https?://)?(?:www\.)?ollama\.com/(?:library/)?([\w.-]+(?::[\w.-]+)?)")
_REVISION = re.compile(r"/(?:tree|blob|resolve|raw)/([^/?#]+)(.*)")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_TAG = re.compile(r":[\w.-]+$")
_GGUF_TYPE = re.compile(
    r"(?i)[-_.:](UD[-_.])?((?:[IT]?Q[1-8]_(?:K(?:_(?:S|M|L|XL))?|[01]|XXS|XS|S|M|NL)|MXFP4|BF16|F16))$"
)
#: Formats of 4-bit floats, which publishers give to the experts of a model that has any.
_EXPERTS_ONLY = ("fp4", "fp4-a8", "fp4-a16", "mxfp4", "nvfp4")


@dataclass(frozen=True, slots=True)
class Address:
    """An id as a hub has it, and the revision that its address names."""

    id: str
    revision: str | None = None
    site: str | None = None


def read_address(given: str) -> Address:
    """Take an id out of an address of huggingface.co or modelscope.cn; any other text is an id already.

    Examples
    --------
    >>> read_address("https://huggingface.co/zai-org/GLM-5/blob/main/config.json")
    Address(id='zai-org/GLM-5', revision='main', site='huggingface.co')
    >>> read_address("huggingface.co/unsloth/Qwen3-8B-GGUF/blob/main/Qwen3-8B-Q4_K_M.gguf").id
    'unsloth/Qwen3-8B-GGUF:Q4_K_M'
    """
    ollama = _OLLAMA_ADDRESS.fullmatch(given.strip())
    if ollama is not None:
        return Address(ollama[1])
    found = _ADDRESS.fullmatch(given.strip())
    if found is None:
        if re.match(r"https?://", given.strip()):
            raise UnknownIdError(
                f"model {shown(given)}: an address of huggingface.co or modelscope.cn is expected, such as "
                "https://huggingface.co/zai-org/GLM-5"
            )
        return Address(given)
    rest = re.sub(r"[?#].*", "", found[2])
    revision = _REVISION.search(rest)
    name = _REVISION.sub("", rest).rstrip("/")
    if not is_hub_id(_TAG.sub("", name)):
        raise UnknownIdError(
            f"model {shown(given)}: the address names no ORG/NAME, as in huggingface.co/zai-org/GLM-5 or "
            "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M"
        )
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", revision[2]) if revision else ""
    kind = _GGUF_TYPE.search(stem) if revision and stem != revision[2] else None
    return Address(f"{name}:{kind[2]}" if kind else name, revision[1] if revision else None, found[1])


def is_hub_id(text: str) -> bool:
    """Whether a text has the form ``ORG/NAME`` of a hub.

    Examples
    --------
    >>> is_hub_id("Qwen/Qwen3-8B"), is_hub_id("../config.json"), is_hub_id("qwen3-8b")
    (True, False, False)
    """
    return _ID.fullmatch(text) is not None and ".." not in text


@dataclass(frozen=True, slots=True)
class Variant:
    """A name that is a bundled model's but for its publisher and its endings."""

    id: str
    of: str
    endings: tuple[str, ...]
    precision: str | None
    mix: str = ""

    def of_model(self, model: Model) -> Model:
        """The bundled model under this name, in the format that the name states."""
        said = f"{self.id}: its own configuration was not read; answered with the shape of {model.id}"
        kept = (model.weight_precision, model.dense_precision, model.expert_precision)
        if self.precision is None:
            formats = kept
            how = ", and with its precision"
            how += "; a GGUF repository holds several formats: --precision states one" if "gguf" in self.endings else ""
        elif model.is_moe and self.precision in _EXPERTS_ONLY:
            formats = (*kept[:2], self.precision)
            how = f", experts in {self.precision} as its name says; the rest as in {model.id} (assumption)"
        elif "gguf" in self.endings and self.precision == "bf16" and model.expert_precision == "mxfp4":
            formats = kept
            how = ", experts in mxfp4: llama.cpp's converter keeps them"
        else:
            rest = beside_experts(self.precision) if model.is_moe else self.precision
            formats = (rest, rest, self.precision)
            how = f", weights in {f'gguf-{self.mix}' if self.mix else self.precision} as its name says"
        attention, dense, experts = formats
        named = replace(
            model, id=self.id, weight_precision=attention, dense_precision=dense, expert_precision=experts,
            gguf_mix=self.mix, notes=(*model.notes, said + how), remarks=(said + how,), aliases=(),
        )  # fmt: skip
        if not experts.startswith("mlx-"):
            return named
        return replace(named, head_precision=dense, embedding_precision=dense)  # MLX quantises both


@functools.cache
def _mirrors() -> tuple[frozenset[str], Mapping[re.Pattern[str], str]]:
    """Publishers of mirrors, and what endings say."""
    table = read_file(shipped_file("mirrors.toml"), shipped=True).table
    endings = {re.compile(rf"(?i)[-_.]({text})$"): precision for text, precision in table["formats"].items()}
    return frozenset(one.lower() for one in table["publishers"]), endings


@functools.cache
def _publishers() -> frozenset[str]:
    """Publishers of bundled models."""
    return frozenset(model_id.partition("/")[0].lower() for model_id in model_ids())


def variant_of(given: str) -> Variant | None:
    """Find the bundled model that a name means without its publisher and endings; None where it means none.

    Examples
    --------
    >>> found = variant_of("RedHatAI/Qwen3-8B-quantized.w4a16")
    >>> found.of, found.precision
    ('Qwen/Qwen3-8B', 'int4')
    >>> variant_of("someone/Qwen3-8B-AWQ") is None
    True
    """
    publisher, slash, name = given.strip().rpartition("/")
    publishers, endings = _mirrors()
    if slash and publisher.lower() not in publishers | _publishers():
        return None
    name, taken, said = _without_endings(name, endings)
    if publisher.lower() in _MLX and (bits := re.fullmatch("([3-8])bit.*", taken[0] if taken else "")):
        said = f"mlx-{bits[1]}bit"
    for base in (name, name.partition("_")[2]):  # bartowski writes ORG_NAME
        found = _meant(base) if base else ()
        if len(found) > 1:
            raise UnknownIdError(f"model {given!r} could mean {' or '.join(sorted(found))}: give the full id")
        if found:
            is_gguf = said and said.startswith("gguf-") and ("gguf" in taken or said != "gguf-mxfp4")
            mix = mix_named(said) if said and is_gguf else None
            return Variant(
                given.strip(), found[0], taken, _known(name, said) if said else None, mix.name if mix else ""
            )
    return None


def named_alone(given: str) -> str:
    """Say that a name without its unknown publisher is answered, where it is."""
    name = given.rpartition("/")[2]
    return f"; {name!r} alone is answered with a bundled shape" if variant_of(name) else ""


#: Publishers whose checkpoints are in MLX's own formats.
_MLX = ("mlx-community",)
#: What stands before a name of Ollama's own library.
_OLLAMA = ("library", "ollama")


def spelling(text: str) -> str:
    """A name by its words and numbers, whatever stands between them.

    Examples
    --------
    >>> spelling("llama3.1:70b") == spelling("Llama 3.1 70B"), spelling("qwen2.5-7b") == spelling("qwen2-57b")
    (True, False)
    """
    parts = re.findall(r"[a-z]+|\d+", re.sub(r"[-_.]hf$", "", text.lower()))
    return re.sub(r"(?<=[a-z]) (?=[a-z])", "", " ".join(parts))


@functools.cache
def _spellings() -> Mapping[str, frozenset[str]]:
    """What names without a publisher mean, by their spelling."""
    out: dict[str, set[str]] = {}
    for name, ids in model_index().items():
        if "/" not in name:
            out.setdefault(spelling(name), set()).update(ids)
    return {name: frozenset(ids) for name, ids in out.items()}


def _meant(name: str) -> tuple[str, ...]:
    """Bundled models that a name without a publisher means, however it is spelt."""
    return model_index().get(normal_id(name)) or tuple(sorted(_spellings().get(spelling(name), ())))


def respelt(given: str) -> str | None:
    """The name of a bundled model that a text is, or spells in another way: ``qwen3:14b``, ``llama3.1 70b``.

    Examples
    --------
    >>> respelt("qwen3:14b"), respelt("gptoss-120b"), respelt("qwen3:15b")
    ('qwen3-14b', 'gpt-oss-120b', None)
    """
    if normal_id(given) in model_index():
        return normal_id(given)
    publisher, slash, name = given.strip().rpartition("/")
    if slash and publisher.lower() not in _OLLAMA:
        return None
    name = name.removesuffix(":latest")
    if len(_spellings().get(spelling(name), ())) != 1:
        return None
    return min((one for one in model_index() if "/" not in one and spelling(one) == spelling(name)), key=len)


def without_mirror(given: str) -> str:
    """A name without the publisher of a mirror, which stands in no bundled id.

    Examples
    --------
    >>> without_mirror("unsloth/Qwen3"), without_mirror("someone/Qwen3")
    ('Qwen3', 'someone/Qwen3')
    """
    publisher, _, name = given.strip().rpartition("/")
    return name if publisher.lower() in _mirrors()[0] else given


def _without_endings(name: str, endings: Mapping[re.Pattern[str], str]) -> tuple[str, tuple[str, ...], str | None]:
    """The name that is left, the endings that were taken off, and the format that the last of them says."""
    taken: list[str] = []
    precision: str | None = None
    while True:
        if _meant(name):
            return name, tuple(taken), precision
        gguf = _GGUF_TYPE.search(name)
        if gguf is not None:
            found, said = gguf, f"gguf-{gguf[2].lower()}"
        else:
            matches = ((pattern.search(name), text) for pattern, text in endings.items())
            at_end, said = next(((one, text) for one, text in matches if one), (None, ""))
            if at_end is None:
                return name, tuple(taken), precision
            found = at_end
        precision = precision or said or None
        taken.append(found[0].strip("-_.:").lower())
        name = name[: found.start()]


def _known(name: str, said: str) -> str:
    """A format by the name that formats have here; of a GGUF file that mixes several, the one of most tensors."""
    mix = mix_named(said) if said.startswith("gguf-") else None
    if mix is not None:
        return mix.rest
    try:
        return format_name(said)
    except UnknownIdError:
        near = str(unknown_precision(said)).partition(": ")[2]
        told = f"model {name!r}: its name says {said}, a format that is not known: {near} A .gguf file itself is read"
        raise UnknownIdError(told) from None


#: Words that may stand beside the numbers of a size.
_SIZE_WORDS = {
    *("million", "billion", "trillion", "param", "params", "parameter", "parameters"),
    *("active", "total", "with", "gb", "tb"),
}
_FORMS = "ORG/NAME of a hub, the path of a config.json, checkpoint or folder, "


def is_size(given: str) -> bool:
    """Whether a text is a size rather than a name, in whatever form.

    Examples
    --------
    >>> is_size("671B/37B"), is_size("70 billion"), is_size("01-ai/Yi-34B"), is_size("1bitLLM/bitnet")
    (True, True, False, False)
    """
    return re.match(r"\s*\d", given) is not None and {*re.findall("[a-z]{2,}", given.lower())} <= _SIZE_WORDS


def unknown_model(given: str, names: Iterable[str]) -> UnknownIdError:
    """Say which forms a model can be given in, and the nearest names of this one.

    Examples
    --------
    >>> str(unknown_model("70Q", [])).partition("; ")[2]
    "did you mean '70B'?"
    >>> str(unknown_model("gpt-oss-20b,gpt-oss-120b", []))
    "model 'gpt-oss-20b,gpt-oss-120b': 2 of them, where one is asked for; `sweep --model A,B` takes several"
    """
    if several := only_one("model", given):
        return several
    words = spelling(given).split()
    close = nearest(given, names)
    if is_size(given):
        form = "a size is a number with M, B or T, the active parameters behind -A, as in 1T-A32B"
        return UnknownIdError(f"model {shown(given)}: {form}{_nearest_size(given, words, names)}")
    members = [one for one in names if f"{spelling(one)} ".startswith(f"{' '.join(words)} ")] if words else []
    if members:
        return UnknownIdError(f"model {shown(given)} could mean {', '.join(members[:12])}: give the exact id")
    if close.startswith("did you mean"):
        return UnknownIdError(f"unknown model {shown(given)}: {close}")
    forms = f"a bundled id such as qwen3-14b, {of_files(_FORMS)}or a size, such as 70B or 1T-A32B"
    return UnknownIdError(f"unknown model {shown(given)}: expected {forms}")


def _nearest_size(given: str, words: list[str], names: Iterable[str]) -> str:
    """Models whose name holds what was given, else the size that was probably meant."""
    holding = sorted(
        {one for one in names if "/" not in one and f" {' '.join(words)} " in f" {spelling(one)} "}, key=len
    )
    if "x" in words:
        return f"; did you mean {' or '.join(map(repr, holding[:2]))}?" if holding else "; of N experts, too"
    sizes = re.findall(r"(\d+(?:\.\d+)?)\s*([mbt]?)", given.lower())
    total, *active = [f"{number}{(unit or 'b').upper()}" for number, unit in sizes]
    return f"; did you mean {'-A'.join([total, *active[:1]])!r}?"
