"""Finds the answer in a completion: a fenced program, a boxed or tagged answer, a last line."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_OPEN = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*\n", re.MULTILINE)
_LANGUAGES = {
    "python": {"python", "py", "python3", "py3", "python2"},
    "cpp": {"cpp", "c++", "cxx", "cc", "c++17", "c++20", "cplusplus", "c"},
}
_SAID = re.compile(r"(?:final\s+answer|answer|result)\s*(?:is|are|=|:)+\s*[:*_]*\s*([^\n]+)", re.IGNORECASE)
_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.DOTALL)


def program_of(text: str, language: str) -> str | None:
    r"""Find the program in a completion: its last fence in that language, else its last fence, else all of it.

    Parameters
    ----------
    text : str
        The completion.
    language : str
        ``python`` or ``cpp``.

    Returns
    -------
    str or None
        Source text; None where there is none.

    Examples
    --------
    >>> program_of("Sure:\n```python\nprint(1)\n```\nDone.", "python")
    'print(1)\n'
    >>> program_of("print(1)", "python")
    'print(1)'
    """
    body = _THOUGHT.sub("", text)
    fences = [(match[2].lower(), match[3]) for match in _FENCE.finditer(body)]
    named = [source for name, source in fences if name in _LANGUAGES[language]]
    plain = [source for name, source in fences if name in ("", "text", "plaintext")]
    if named or plain:
        return (named or plain)[-1]
    if fences:
        return None
    if opened := list(_OPEN.finditer(body)):  # cut off before the fence closed
        return body[opened[-1].end() :]
    return body if body.strip() else None


def last_boxed(text: str) -> str | None:
    r"""Find what stands in the last ``\boxed{...}``, braces matched.

    Parameters
    ----------
    text : str
        The completion.

    Returns
    -------
    str or None
        None where nothing is boxed, or the box is not closed.

    Examples
    --------
    >>> last_boxed(r"so \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    r
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

    Parameters
    ----------
    text : str
        The completion.

    Returns
    -------
    str or None
        None where there is no text.

    Examples
    --------
    >>> answer_of("Adding up,\nthe answer is 12 m/s.")
    '12 m/s'
    """
    body = _THOUGHT.sub("", text)
    if (boxed := last_boxed(body)) is not None:
        return _bare(boxed)
    if tagged := re.findall(r"<answer>(.*?)</answer>", body, re.DOTALL | re.IGNORECASE):
        return _bare(tagged[-1])
    if said := _SAID.findall(body):
        return _bare(said[-1])
    lines = [line for line in body.splitlines() if line.strip()]
    return _bare(lines[-1]) if lines else None


def _bare(text: str) -> str:
    """Without emphasis, mathematics signs and a closing full stop."""
    text = text.strip().strip("*_` ").removeprefix("$").removesuffix(".").removesuffix("$")
    inner = re.fullmatch(r"\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}", text.strip())
    return (inner[1] if inner else text).strip().removesuffix(".").strip()
