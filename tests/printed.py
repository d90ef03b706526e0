"""What stands on paper: pages and words of a PDF that Chromium wrote, without a package for it."""

from __future__ import annotations

import re
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL)
_STREAM = re.compile(rb"stream\r?\n(.*?)\nendstream", re.DOTALL)
_SHOWN = re.compile(rb"/F(\d+) [\d.]+ Tf|<([0-9A-F]+)> Tj")


def sheets(pdf: bytes) -> int:
    """How many sheets there are; refuses what is no whole PDF."""
    assert pdf.startswith(b"%PDF-1.") and pdf.rstrip().endswith(b"%%EOF")
    return len(re.findall(rb"/Type /Page\b", pdf))


def words_of(pdf: bytes) -> str:
    """Everything that is written, without spaces and ligatures: glyphs through the table of their font."""
    objects = {int(number): body for number, body in _OBJECT.findall(pdf)}
    tables: dict[int, dict[int, str]] = {}
    out, font = [], 0
    for body in objects.values():
        for name, glyphs in _SHOWN.findall(_stream(body)):
            if name:
                font = int(name)
                continue
            if font not in tables:
                table = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
                assert table is not None, "a font that says no letters"
                tables[font] = _letters(_stream(objects[int(table[1])]).decode())
            out += [tables[font].get(int(glyphs[place : place + 4], 16), "?") for place in range(0, len(glyphs), 4)]
    letters: dict[str, str | int | None] = {"\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi"}
    return "".join("".join(out).split()).translate(str.maketrans(letters))


def _stream(body: bytes) -> bytes:
    found = _STREAM.search(body)
    if found is None or b"/Subtype /Image" in body or b"/Length1" in body:
        return b""
    return zlib.decompress(found[1]) if b"/FlateDecode" in body else found[1]


def _letters(table: str) -> dict[int, str]:
    """A table of a font: single glyphs, and runs of them."""
    found: dict[int, str] = {}
    for part in re.findall(r"beginbfchar\n(.*?)endbfchar", table, re.DOTALL):
        for glyph, text in re.findall(r"<(\w+)> <(\w+)>", part):
            found[int(glyph, 16)] = bytes.fromhex(text).decode("utf-16-be")
    for part in re.findall(r"beginbfrange\n(.*?)endbfrange", table, re.DOTALL):
        for first, last, text in re.findall(r"<(\w+)> <(\w+)> <(\w+)>", part):
            for place, glyph in enumerate(range(int(first, 16), int(last, 16) + 1)):
                found[glyph] = chr(int(text, 16) + place)
    return found
