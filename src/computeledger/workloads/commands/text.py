"""Launch commands in a text of shell: words alone, nothing of it is run, opened or expanded from outside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from computeledger.errors import InputError, shown
from computeledger.workloads.engines.flags import Flags, flags_of, readable_engines

#: Characters of a text that is read, and words of it: far beyond any launch.
MOST_OF_A_TEXT, MOST_OF_ITS_WORDS = 100_000, 10_000
_DEEPEST = 3
_HERE = re.compile(
    r"cat\s*(?:>\s*(?P<name>\S+)\s*<<-?|<<-?)\s*['\"]?(?P<end>\w+)['\"]?(?:\s*>\s*(?P<then>\S+))?[ \t]*\n"
    r"(?P<body>.*?)\n[ \t]*(?P=end)[ \t]*(?=\n|$)",
    re.DOTALL,
)
_REDIRECTED = re.compile(r"(?<=\s)[012&]?>>?\s*(?:&[012-]|[^\s;&|<>]+)")
_CONTINUED = re.compile(r"\\[ \t]*\n\s*|\n\s*(?=--?[A-Za-z])")
_PROMPT = re.compile(r"^\s*\$\s+")  # of a page that shows a session
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")
#: What a command puts out, within a word; its signs stand apart from those that end a command.
_SUBSTITUTED = re.compile(r"\$\([^()\n]*\)")
_HIDDEN = str.maketrans("() ;&|<>", "\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007")
_SHOWN = {place: sign for sign, place in _HIDDEN.items()}
_RUNTIMES, _SHELLS = ("docker", "podman", "nerdctl"), ("bash", "sh", "zsh")
#: Programs whose engine is modelled, though their options are not read.
_LLAMA_CPP = re.compile(r"(?<![\w.-])(llama-(?:server|cli|bench|run)|ollama)(?![\w.-])")
#: Programs of an engine that start no worker: what joins two pools, a benchmark, an encoder of images.
_NO_WORKERS = ("disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "bench")


@dataclass(frozen=True, slots=True)
class LaunchText:
    """One launch of an engine as it is written."""

    engine: str
    arguments: tuple[str, ...]
    release: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def flags(self) -> Flags:
        """The table of its engine."""
        return flags_of(self.engine)


def launches_in(text: str) -> tuple[LaunchText, ...]:
    r"""Find the launches in a text of shell; files that it writes come with them.

    Examples
    --------
    >>> found, = launches_in("CUDA_VISIBLE_DEVICES=0,1 vllm serve m \\\n  --tensor-parallel-size 2 > log 2>&1 &")
    >>> found.engine, found.arguments
    ('vllm', ('m', '--tensor-parallel-size', '2'))
    >>> launches_in("docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model m")[0].release
    '0.11.0'
    """
    if len(text) > MOST_OF_A_TEXT:
        raise InputError(f"--from-command: {len(text):,} characters; at most {MOST_OF_A_TEXT:,} are read")
    files: dict[str, str] = {}

    def keep(found: re.Match[str]) -> str:
        """A file that the text writes."""
        files[found["name"] or found["then"] or ""] = found["body"]
        return "\n"

    plain = _HERE.sub(keep, text.replace("\r\n", "\n") + "\n")
    found = tuple(_launches(plain, {}, 0))
    if not found and (other := _LLAMA_CPP.search(plain)):
        raise InputError(
            f"--from-command {shown(text.strip())}: commands of {other[1]} are not read; give --model and "
            "--backend llama.cpp (--host-weights is the share of the layers that -ngl leaves to the host)"
        )
    if not found:
        programs = "vllm serve, python -m sglang.launch_server and trtllm-serve"
        raise InputError(f"--from-command {shown(text.strip())}: no launch of an engine; read are {programs}")
    return tuple(replace(one, files=files) for one in found)


def _launches(text: str, variables: Mapping[str, str], depth: int) -> Iterator[LaunchText]:
    variables = dict(variables)
    for words in _simple_commands(text):
        own, rest = _assigned(words, variables)
        if not rest:
            variables |= own  # for the lines that follow
            continue
        yield from _launch(rest, {**variables, **own}, depth)


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Words of each command of a text, in order."""
    lines = [_PROMPT.sub("", line) for line in text.split("\n") if not line.lstrip().startswith("#")]
    plain = _SUBSTITUTED.sub(lambda found: found[0].translate(_HIDDEN), "\n".join(lines))
    plain = _REDIRECTED.sub(" ", _CONTINUED.sub(" ", plain))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    try:
        for n_words, word in enumerate(lexer):
            if n_words > MOST_OF_ITS_WORDS:
                raise InputError(f"--from-command: more than {MOST_OF_ITS_WORDS:,} words")
            if set(word) <= set(";&|()<>\n") and word:
                yield words
                words = []
            else:
                words.append(word.translate(_SHOWN))
    except ValueError:
        raise InputError(f"--from-command {shown(text.strip())}: a quotation mark is not closed") from None
    yield words


def _assigned(words: Sequence[str], variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Variables that a command sets, and the words of the command itself, comments left out, variables filled in."""
    end = next((place for place, word in enumerate(words) if word.startswith("#")), len(words))
    words = words[:end]
    own: dict[str, str] = {}
    place = 1 if words[:1] in (["export"], ["env"], ["sudo"]) else 0
    while place < len(words) and (found := _ASSIGNED.fullmatch(words[place])):
        own[found[1]] = _filled(found[2], {**variables, **own})
        place += 1
    return own, [_filled(word, {**variables, **own}) for word in words[place:]]


def _filled(word: str, variables: Mapping[str, str]) -> str:
    """A word with the variables that the text itself sets; others stay as they are written."""
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[3], found[2] or found[0]), word)


def _launch(words: list[str], variables: Mapping[str, str], depth: int) -> Iterator[LaunchText]:
    image, release, own = _image(words)
    variables = {**variables, **own}
    inner = words[image + 1 :] if image is not None else words
    for place, word in enumerate(inner[:-1]):
        if word.rpartition("/")[2] in _SHELLS and re.fullmatch(r"-\w*c", inner[place + 1]) and depth < _DEEPEST:
            script = " ".join(inner[place + 2 : place + 3])
            yield from (replace(one, release=one.release or release) for one in _launches(script, variables, depth + 1))
            return
    for engine in readable_engines():
        for program in flags_of(engine).programs:
            start = _place_of(program, inner)
            if start is not None:
                arguments = tuple(inner[start + len(program) :])
                if arguments[:1] and arguments[0] in _NO_WORKERS:
                    return
                yield LaunchText(engine, arguments, release, variables)
                return
    if image is not None and (engine := _engine_of(words[image])) == "vllm" and inner:
        yield LaunchText(engine, tuple(inner), release, variables)  # the image starts its server


def _place_of(program: Sequence[str], words: Sequence[str]) -> int | None:
    """Where a program stands among words, with or without its folder."""
    n = len(program)
    for start in range(len(words) - n + 1):
        first = words[start] if program[0].startswith("-") else words[start].rpartition("/")[2]
        if (first, *words[start + 1 : start + n]) == tuple(program):
            return start
    return None


def _image(words: Sequence[str]) -> tuple[int | None, str, dict[str, str]]:
    """Where the image of an engine stands in a container's command, its release, and the variables set for it."""
    if not any(word in _RUNTIMES for word in words) or "run" not in words:
        return None, "", {}
    pairs = [
        word.partition("=")[2] if word.startswith("--env=") else words[place + 1]
        for place, word in enumerate(words[:-1])
        if word in ("-e", "--env") or word.startswith("--env=")
    ]
    own = {found[1]: found[2] for one in pairs if (found := _ASSIGNED.fullmatch(one))}
    place = next((place for place, word in enumerate(words) if _engine_of(word)), None)
    return place, "" if place is None else release_of(words[place]), own


def _engine_of(image: str) -> str:
    """The engine that an image holds; empty for any other word.

    Examples
    --------
    >>> [_engine_of(one) for one in ("vllm/vllm-openai:v0.11.0", "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "vllm")]
    ['vllm', 'trtllm', '']
    """
    name = re.sub(r"(:[\w.-]+)?(@sha256:\w+)?$", "", image)
    known = ((engine, one) for engine in readable_engines() for one in flags_of(engine).images)
    return next((engine for engine, one in known if name == one or name.endswith(f"/{one}")), "")


def release_of(image: str) -> str:
    """The release that an image's tag names; empty where it names none.

    Examples
    --------
    >>> [release_of(f"lmsysorg/sglang:{tag}") for tag in ("v0.5.3.post1-cu129", "latest")]
    ['0.5.3.post1', '']
    """
    found = re.search(r":v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc)\d+)?)(?![\w.])", image.replace("-", " ", 99))
    return found[1] if found else ""
