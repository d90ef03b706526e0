"""Where numbers come from: one record per publication, cited by key.

``facts/data/sources.toml`` holds every record; a fact names a key, a date and a locator (page, table, line).
"""

from __future__ import annotations

import datetime
import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from computeledger.errors import FactError, check_kind, unknown_id


@dataclass(frozen=True, slots=True)
class Source:
    """A publication."""

    key: str
    title: str
    publisher: str
    url: str
    date: str
    license: str = ""
    verified: bool = True

    def bibtex(self) -> str:
        """Render the record for a bibliography.

        Returns
        -------
        str
            One ``@misc`` entry.

        Examples
        --------
        >>> print(Source("x-2024", "X", "Y Lab", "https://example.org", "2024-05").bibtex())
        @misc{x-2024,
          title = {X},
          author = {{Y Lab}},
          year = {2024},
          howpublished = {https://example.org},
        }
        """
        fields = {
            "title": self.title,
            "author": "{" + self.publisher + "}",
            "year": self.date[:4],
            "howpublished": self.url,
        }
        body = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items() if text)
        return f"@misc{{{self.key},\n{body}}}"


def check_date(text: str, where: str) -> str:
    """Refuse a date that is not ISO or lies in the future.

    Examples
    --------
    >>> check_date("2024-12", "deepseek-v3")
    '2024-12'
    """
    padded = text + "-01-01"[: 10 - len(text)] if len(text) in (4, 7) else text
    try:
        day = datetime.date.fromisoformat(padded[:10])
    except ValueError:
        raise FactError(f"{where}: date {text!r} is not YYYY, YYYY-MM or YYYY-MM-DD") from None
    if day > datetime.date.today():
        raise FactError(f"{where}: date {text} lies in the future")
    return text


def read_sources(tables: Mapping[str, Any], where: str) -> dict[str, Source]:
    """Read records from parsed TOML.

    Examples
    --------
    >>> table = {"title": "X", "publisher": "Y", "url": "https://example.org", "date": "2024"}
    >>> read_sources({"x": table}, "here")["x"].publisher
    'Y'
    """
    out = {}
    for key, table in tables.items():
        try:
            source = Source(key=key, **table)
        except TypeError as error:
            raise FactError(f"{where}: source {key!r}: {str(error).removeprefix('Source.__init__() ')}") from None
        if not (source.title and source.publisher and source.url):
            raise FactError(f"{where}: source {key!r} lacks a title, publisher or url")
        check_date(source.date, f"{where}: source {key!r}")
        out[key] = source
    return out


@functools.cache
def load_sources() -> Mapping[str, Source]:
    """Load the shipped records.

    Examples
    --------
    >>> "deepseek-v3-report" in load_sources()
    True
    """
    text = resources.files("computeledger.facts").joinpath("data", "sources.toml").read_text("utf-8")
    return read_sources(tomllib.loads(text), "sources.toml")


def bibtex(keys: Iterable[str]) -> str:
    """Render the records that a result used.

    Parameters
    ----------
    keys : iterable of str
        Source keys; ``assumption`` and ``user`` name no publication and are passed over.

    Returns
    -------
    str
        BibTeX entries in alphabetical order.

    Raises
    ------
    UnknownIdError
        A key without a record.

    Examples
    --------
    >>> bibtex(["deepseek-v3-report", "assumption"]).splitlines()[0]
    '@misc{deepseek-v3-report,'
    """
    check_kind(keys, Iterable, "keys of sources")
    records = load_sources()
    entries = []
    for key in sorted(set(keys) - {"assumption", "user"}):
        if key not in records:
            raise unknown_id("source", key, records)
        entries.append(records[key].bibtex())
    return "\n\n".join(entries)
