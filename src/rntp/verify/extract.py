"""Finds the answer in a completion: a fenced program, a boxed or tagged answer, a last line."""

from __future__ import annotations

import re

# Completions are hostile: every search here takes time in proportion to the text, whatever it holds.
_FENCE = re.compile(r"[ \t]{0,8}(`{3,8}|~{3,8})[ \t]*([\w+#.-]{0,20})")
_LANGUAGES = {
    "python": {"python", "py", "python3", "py3", "python2"},
    "cpp": {"cpp", "c++", "cxx", "cc", "c++17", "c++20", "cplusplus", "c"},
}
_SAID = re.compile(
    r"(?:answer|result)\s{0,3}(?:is|are|=|:)(?:[ \t]{0,3}(?:is|are|=|:)){0,2}[ \t:*_]{0,9}([^\n]+)", re.IGNORECASE
)


def after_thoughts(text: str) -> str:
    """Leave out thoughts: what stands before their end, and those that never end.

    Examples
    --------
    >>> after_thoughts("<think>2 + 2?</think> 4"), after_thoughts("4"), after_thoughts("<think>2 + 2? 4")
    (' 4', '4', '')
    """
    ends = [text.rfind(mark) + len(mark) for mark in ("</think>", "</thinking>") if mark in text]
    visible = text[max(ends, default=0) :]
    begins = [visible.find(mark) for mark in ("<think>", "<thinking>") if mark in visible]
    return visible[: min(begins)] if begins else visible


def tagged(text: str) -> str | None:
    """Find what stands in the last ``<answer>`` tag.

    Examples
    --------
    >>> tagged("<answer>3</answer> or <answer> 4 </answer>")
    ' 4 '
    """
    lower = text.lower()
    end = lower.rfind("</answer>")
    start = lower.rfind("<answer>", 0, max(end, 0))
    return None if end < 0 or start < 0 else text[start + len("<answer>") : end]


def _fences(text: str) -> list[tuple[str, str, bool]]:
    """Language and content of every fenced block, and whether it is closed."""
    out: list[tuple[str, str, bool]] = []
    mark, language, lines = "", "", list[str]()
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if not mark:
            if found:
                mark, language, lines = found[1], found[2].lower(), []
        elif found and line.strip() == mark:
            out.append((language, "".join(lines), True))
            mark = ""
        else:
            lines.append(line)
    return [*out, (language, "".join(lines), False)] if mark else out


def program_of(text: str, language: str) -> str | None:
    r"""Find the program in a completion: its last fence in that language, else its last fence, else all of it.

    Examples
    --------
    >>> program_of("Sure:\n```python\nprint(1)\n```\nDone.", "python")
    'print(1)\n'
    >>> program_of("print(1)", "python")
    'print(1)'
    """
    body = after_thoughts(text)
    fences = _fences(body)
    if not fences:
        return body if body.strip() else None
    named = [source for name, source, _ in fences if name in _LANGUAGES[language]]
    plain = [source for name, source, closed in fences if name in ("", "text", "plaintext") or not closed]
    found = named or plain
    return found[-1] if found else None


def last_boxed(text: str) -> str | None:
    r"""Find what stands in the last ``\boxed{...}``, braces matched.

    Examples
    --------
    >>> last_boxed(r"so \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    begin = depth = text.index("{", start) + 1
    level = 1
    for depth in range(begin, len(text)):
        level += {"{": 1, "}": -1}.get(text[depth], 0)
        if level == 0:
            return text[begin:depth].strip()
    return None


def answer_of(text: str) -> str | None:
    r"""Find the short answer of a completion: boxed, tagged, announced, or its last line.

    Examples
    --------
    >>> answer_of("Adding up,\nthe answer is 12 m/s.")
    '12 m/s'
    """
    body = after_thoughts(text)
    if (boxed := last_boxed(body)) is not None:
        return _bare(boxed)
    if (marked := tagged(body)) is not None:
        return _bare(marked)
    if said := _SAID.findall(body):
        return _bare(said[-1])
    last = body.rstrip().rpartition("\n")[2]
    return _bare(last) if last.strip() else None


def _bare(text: str) -> str:
    """Without emphasis, mathematics signs and a closing full stop."""
    text = text.strip().strip("*_` ").removeprefix("$").removesuffix(".").removesuffix("$")
    inner = re.fullmatch(r"\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}", text.strip())
    return (inner[1] if inner else text).strip().removesuffix(".").strip()
