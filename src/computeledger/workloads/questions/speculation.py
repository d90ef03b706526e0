"""How a question writes what drafts tokens: a method, or the small model that does it."""

from __future__ import annotations

from computeledger.errors import InputError, close_choices, shown

#: Methods that a question may name, and what drafts in each.
METHODS = {
    "none": "no drafts",
    "mtp": "the model's own modules for next tokens",
    "eagle": "an EAGLE head of one layer",
    "eagle3": "an EAGLE-3 head of one layer",
    "ngram": "what followed the last tokens elsewhere in the text",
    "auto": "the model's own modules, else an EAGLE-3 head",
}
_DRAFT = "draft:"


def method_of(text: str | None) -> tuple[str, str | None]:
    """A method, and the model that drafts where it is one; no method where none is named.

    Examples
    --------
    >>> method_of("draft:qwen3-0.6b"), method_of("eagle3"), method_of(None)
    (('draft', 'qwen3-0.6b'), ('eagle3', None), ('none', None))
    """
    if text is None:
        return "none", None
    if text.startswith(_DRAFT) and text != _DRAFT:
        return "draft", text.removeprefix(_DRAFT)
    if text in METHODS:
        return text, None
    known = (*METHODS, "draft:MODEL")
    close = close_choices(text, known)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise InputError(f"--speculation {shown(text)}: one of {', '.join(known)}{hint}")
