"""The families by name."""

from __future__ import annotations

from computeledger.errors import InputError, nearest, shown
from rntp.must_think import dance, program, ships_log
from rntp.must_think.family import Family

FAMILIES = {one.name: one for one in (ships_log.FAMILY, dance.FAMILY, program.FAMILY)}


def family_of(document: str) -> Family:
    """Find the family of a document.

    Examples
    --------
    >>> family_of("ship's log 0-17").name
    "ship's log"
    """
    name = document.rpartition(" ")[0]
    if name not in FAMILIES:
        raise InputError(
            f"document {shown(document)}: of no family that must be thought about: {nearest(name, FAMILIES)}"
        )
    return FAMILIES[name]
