"""Fetching a server's metrics: bounded in size and time, from the address that was named and no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from computeledger.errors import EndpointError, InputError, shown
from computeledger.units import MEGA

#: Bytes of an answer that are read at most: vLLM's scrape of one rank takes 40 kB (assumption) [byte].
MOST_ANSWER_BYTES = 8_000_000
#: Time that an answer may take from the first byte sent to the last received (assumption) [s].
LONGEST_S = 4.0
#: Redirects on one server that are followed: vLLM sends /metrics to /metrics/.
MOST_REDIRECTS = 2
_SCHEMES = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where metrics are fetched, and how it is written: without a password."""

    url: str
    shown: str


def address_of(text: str) -> Address:
    """Read an address as it was given; what names no path means ``/metrics``.

    Examples
    --------
    >>> address_of("http://10.0.0.7:8000").url, address_of("http://me:pw@gpu-1:8000/metrics").shown
    ('http://10.0.0.7:8000/metrics', 'http://gpu-1:8000/metrics')
    """
    example = "write for example http://HOST:8000/metrics"
    if any(not one.isprintable() or one.isspace() for one in text):
        raise InputError(f"{shown(text)}: no address; {example}")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InputError(f"{shown(text)}: no address; {example}") from None
    if parts.scheme not in _SCHEMES or not host:
        raise InputError(f"{shown(text)}: an address of http or https is needed; {example}")
    path = parts.path if parts.path not in ("", "/") else "/metrics"
    bare = parts.netloc.rpartition("@")[2]
    whole = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return Address(whole, urlunsplit((parts.scheme, bare, path, parts.query, "")))


def new_client() -> Any:
    """A client for many fetches; it takes no proxy, password or certificate from the environment."""
    # an extra, loaded for this only
    httpx = import_module("httpx")
    return httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=LONGEST_S,
                             headers={"Accept": "text/plain", "Accept-Encoding": "identity"})  # fmt: skip


async def fetch(client: Any, address: Address, longest_s: float = LONGEST_S) -> str:
    """Fetch the text of one scrape.

    Raises
    ------
    EndpointError
        For every reason why there is none; it names the address and no word of the server's.
    """
    httpx = import_module("httpx")
    try:
        async with asyncio.timeout(longest_s):
            return await _answer(client, address)
    except TimeoutError:
        raise EndpointError(f"{address.shown}: no whole answer within {longest_s:g} s") from None
    except httpx.TimeoutException:
        raise EndpointError(f"{address.shown}: no answer within {longest_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        if isinstance(error, EndpointError):
            raise
        raise EndpointError(f"{address.shown}: {_why(error)}") from None


async def _answer(client: Any, address: Address) -> str:
    url = address.url
    for _ in range(MOST_REDIRECTS + 1):
        async with client.stream("GET", url) as response:
            if not response.is_redirect:
                return await _body(response, address)
            target = urljoin(url, response.headers.get("location", ""))
            if _origin(target) != _origin(url):
                raise EndpointError(f"{address.shown}: sends to another address, which is not followed")
            url = target
    raise EndpointError(f"{address.shown}: redirects more than {MOST_REDIRECTS} times")


async def _body(response: Any, address: Address) -> str:
    if response.status_code != 200:
        raise EndpointError(f"{address.shown}: answers with status {response.status_code}")
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise EndpointError(f"{address.shown}: answers in an encoding that was not asked for")
    parts, size = list[bytes](), 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MOST_ANSWER_BYTES:
            raise EndpointError(f"{address.shown}: answers with more than {MOST_ANSWER_BYTES / MEGA:g} MB")
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _SCHEMES.get(parts.scheme)


def _why(error: Exception) -> str:
    """The kind of an error: its words may be the server's."""
    httpx = import_module("httpx")
    if isinstance(error, httpx.ConnectError):
        return "no connection"
    if isinstance(error, httpx.ProtocolError):
        return "answers with no valid HTTP"
    return "the connection broke"
