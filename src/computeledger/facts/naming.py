"""What a model's name means: addresses, publishers that mirror others, and endings that say a format."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from computeledger.errors import UnknownIdError, shown
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import model_ids, model_index, normal_id, shipped_file
from computeledger.facts.formats import format_name
from computeledger.facts.gguf_mixes import mix_named
from computeledger.facts.reading import read_file

_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(huggingface\.co|hf\.co|modelscope\.cn/models|modelscope\.ai/models)/(.*)"
)
_REVISION = re.compile(r"/(?:tree|blob|resolve)/([^/?#]+).*")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_GGUF_TYPE = re.compile(
    r"(?i)[-_.:](UD[-_.])?((?:I?Q[1-8]_(?:K(?:_(?:S|M|L|XL))?|[01]|XXS|XS|S|M|NL)|MXFP4|BF16|F16))$"
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
    >>> read_address("GLM-5").id
    'GLM-5'
    """
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
    if not is_hub_id(name):
        raise UnknownIdError(f"model {shown(given)}: the address names no ORG/NAME")
    return Address(name, revision[1] if revision else None, found[1])


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
        else:
            formats = (self.precision,) * 3
            how = f", weights in {self.precision} as its name says"
            how += "; --precision gguf-... counts the tensors that are wider" if "gguf" in self.endings else ""
        attention, dense, experts = formats
        return replace(
            model, id=self.id, weight_precision=attention, dense_precision=dense, expert_precision=experts,
            notes=(*model.notes, said + how), remarks=(said + how,), aliases=(),
        )  # fmt: skip


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
    name, taken, precision = _without_endings(name, endings)
    for base in (name, name.partition("_")[2]):  # bartowski writes ORG_NAME
        found = model_index().get(normal_id(base), ()) if base else ()
        if len(found) > 1:
            raise UnknownIdError(f"model {given!r} could mean {' or '.join(sorted(found))}: give the full id")
        if found:
            return Variant(given.strip(), found[0], taken, precision)
    return None


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
    taken: list[str] = []
    precision: str | None = None
    while True:
        if normal_id(name) in model_index():
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
        if said and precision is None:
            precision = _known(name, said)
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
        told = f"model {name!r}: its name says {said}, a format that is not known; --precision takes others"
        raise UnknownIdError(told) from None
