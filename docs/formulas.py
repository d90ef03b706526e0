"""Formulas of the pages, indented lines such as ``C = 6 N D``, as MathML: browsers draw it without a script."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_BLOCK = re.compile(r"(?<=\n\n)(?:    \S.* = .*\n)+(?=\n)")
_TOKEN = re.compile(r"\s*([A-Za-z]+\*?(?:_<?\w+)?|[\d.]+|<|[-+=/(),|])")
_GREEK = {"beta": "\u03b2"}
_UPRIGHT = ("max", "log", "sum")
_SIGNS = {"-": "\u2212"}


def formula(line: str) -> str:
    """A line of plain text as MathML: products by juxtaposition, fractions by a stroke, subscripts by an underscore."""
    return f'<math display="block">{"".join(_Reader(line).relation())}</math>'


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, line: str) -> None:
        self._line, self._place = line, 0
        self._tokens = [(one[1], one.start(1)) for one in _TOKEN.finditer(line)]

    def _next(self) -> str:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else ""

    def _take(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1][0]

    def relation(self) -> Iterator[str]:
        """Sums with signs between them, up to a closing bracket."""
        while self._next() and self._next() != ")":
            if self._next() in "=+-,|":
                sign = self._take()
                yield f"<mo>{_SIGNS.get(sign, sign)}</mo>"
            else:
                yield self._quotient()

    def _quotient(self) -> str:
        above = self._product()
        if self._next() != "/":
            return f"<mrow>{''.join(above)}</mrow>"
        self._take()
        below = [self._factor()]  # what follows it stands beside the fraction
        return f"<mfrac><mrow>{''.join(_bare(above))}</mrow><mrow>{''.join(_bare(below))}</mrow></mfrac>"

    def _product(self) -> list[str]:
        factors: list[str] = []
        while self._next() and self._next() not in "=+-,|/)":
            factors.append(self._factor())
        return factors

    def _factor(self) -> str:
        word = self._take()
        if word == "(":
            inner = "".join(self.relation())
            self._take()
            return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"
        name, _, below = word.partition("_")
        shown = _name(name)
        end = self._tokens[self._place - 1][1] + len(word)
        if below:
            shown = f"<msub>{shown}{_name(below)}</msub>"
        if self._next() == "(" and self._line[end : end + 1] == "(":
            return f"<mrow>{shown}{self._factor()}</mrow>"
        return shown


def _bare(parts: list[str]) -> list[str]:
    """Without the brackets that a fraction's stroke makes needless."""
    if len(parts) == 1 and parts[0].startswith("<mrow><mo>(</mo>"):
        return [parts[0].removeprefix("<mrow><mo>(</mo>").removesuffix("<mo>)</mo></mrow>")]
    return parts


def _name(text: str) -> str:
    if text[0].isdigit():
        return f"<mn>{text}</mn>"
    if text == "sum":
        return "<mo>\u2211</mo>"
    letter = html.escape(text.rstrip("*"))
    if letter in _UPRIGHT:
        return f'<mi>{letter}</mi><mspace width="0.2em"/>'
    shown = (
        f"<mi>{_GREEK.get(letter, letter)}</mi>"
        if len(letter) == 1 or letter in _GREEK or letter.startswith("&lt;")
        else f"<mtext>{letter}</mtext>"
    )
    return f"<msup>{shown}<mo>*</mo></msup>" if text.endswith("*") else shown


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the formulas of a page."""
    del page, config, files

    def drawn(block: re.Match[str]) -> str:
        lines = (f"<div>{formula(line.strip())}</div>" for line in block[0].splitlines())
        return f'<div class="formula">{"".join(lines)}</div>\n'

    return _BLOCK.sub(drawn, markdown)
