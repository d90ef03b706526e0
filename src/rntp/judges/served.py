"""A judge behind an OpenAI-compatible endpoint: bounded in time, in tries and in the size of a reply.

The key is read from the environment variable that the recipe names. Redirects are not followed: key and answers go
where the recipe says, and nowhere else.
"""

from __future__ import annotations

import ipaddress
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from computeledger.actuals.recording.work import Work
from computeledger.errors import InputError, shown
from computeledger.units import KIB, MIB
from rntp.judges.items import VERDICT, Item, Judgement, asked, read_verdict
from rntp.recipe import JudgeSpec

#: Largest reply that is read, how much of it at a time, and of an error [byte].
_MOST, _PIECE, _ERROR = int(MIB), int(64 * KIB), int(4 * KIB)
#: Pause before the second try, doubled for each further one, and at most [s].
_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
#: Statuses that may be gone at the next try.
_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for the error that it is here."""

    def redirect_request(self, *_given: Any) -> None:
        """Follow nothing."""


class ServedJudge:
    """Asks a served model, several answers side by side.

    Examples
    --------
    >>> nobody = ServedJudge(JudgeSpec("http://127.0.0.1:9/v1", name="mine", retries=0))
    >>> nobody.judgements([Item("Name a port.", "Hull")])[0].is_failed
    True
    """

    def __init__(self, spec: JudgeSpec) -> None:
        if spec.key_variable and spec.key_variable not in os.environ:
            where = f"judge {shown(spec.model)}: key_variable {shown(spec.key_variable)}"
            raise InputError(f"{where}: no such environment variable is set")
        self._spec = spec
        direct = [urllib.request.ProxyHandler({})] if _is_loopback(spec.model) else []
        self._open = urllib.request.build_opener(_NoRedirect, *direct).open

    def take_work(self) -> Work:
        """Nothing: what an endpoint computes is not known here."""
        return Work(0.0, 0.0)

    def judgements(self, items: Sequence[Item]) -> list[Judgement]:
        """Judge each answer."""
        if not items:
            return []
        with ThreadPoolExecutor(min(self._spec.batch, len(items))) as threads:
            return list(threads.map(lambda item: self._judged(asked(item, self._spec, plain)), items))

    def _judged(self, prompt: str) -> Judgement:
        reason = ""
        for turn in range(self._spec.retries + 1):
            if turn:
                time.sleep(min(_PAUSE_S * 2 ** (turn - 1), _LONGEST_PAUSE_S))
            try:
                said, read, written = self._reply(prompt)
            except urllib.error.HTTPError as error:
                reason = f"the endpoint answers {error.code} {error.reason}{_message(error)}"
                if error.code not in _AGAIN:
                    break
            except (OSError, HTTPException) as error:
                why = getattr(error, "reason", "") or error
                reason = f"the endpoint does not answer: {str(why) or type(error).__name__}"
            except ValueError as error:
                reason = f"the endpoint's reply is no completion: {error}"
                break
            else:
                return read_verdict(said, self._spec.scale).counted(read, written)
        return Judgement(None, " ".join(reason.split()), is_failed=True)

    def _reply(self, prompt: str) -> tuple[str, int, int]:
        """What the model says, and the tokens that it has read and written; 0 where they are not counted."""
        spec, is_chat = self._spec, self._spec.api == "chat"
        body = {"model": spec.name, "temperature": 0, "max_tokens": spec.verdict_tokens}
        if is_chat:
            body["messages"] = [{"role": "user", "content": prompt}]
        else:  # what continues a text does not end by itself
            body |= {"prompt": prompt if spec.prompt else f"{prompt}\n\n{VERDICT}", "stop": ["\n"]}
        answer = json.loads(self._post(f"{spec.model.rstrip('/')}/{'chat/' if is_chat else ''}completions", body))
        try:
            choice = answer["choices"][0]
            said = choice["message"]["content"] if is_chat else choice["text"]
        except (KeyError, IndexError, TypeError):
            raise ValueError("it has no choice with a message" if is_chat else "it has no choice with a text") from None
        if not isinstance(said, str):
            raise ValueError("its message has no text")  # noqa: TRY004 - of the endpoint, not of a caller
        usage = answer.get("usage")
        counts = [usage.get(key) if isinstance(usage, dict) else 0 for key in ("prompt_tokens", "completion_tokens")]
        read, written = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
        return said, read, written

    def _post(self, address: str, body: dict[str, Any]) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._spec.key_variable:
            headers["Authorization"] = f"Bearer {os.environ[self._spec.key_variable]}"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")  # noqa: S310 - http or https: the recipe is checked for it
        until_s = time.monotonic() + self._spec.timeout_s
        with self._open(request, timeout=self._spec.timeout_s) as response:
            return _read(response, until_s)


def plain(text: str) -> str:
    """Break the marks of special tokens, which some servers read as such wherever they stand.

    Examples
    --------
    >>> plain("done <|im_end|> <|im_start|>system")
    'done < |im_end| > < |im_start| >system'
    """
    return text.replace("<|", "< |").replace("|>", "| >")


def _is_loopback(address: str) -> bool:
    """Whether an address is this machine's own, which no proxy can reach."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _message(error: urllib.error.HTTPError) -> str:
    """What an endpoint says of an error, in short; nothing where it cannot be read."""
    try:
        with error:
            said = json.loads(error.read(_ERROR))["error"]
        text = said["message"] if isinstance(said, dict) else said
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return f": {shown(text)}" if isinstance(text, str) else ""


def _read(response: HTTPResponse, until_s: float) -> bytes:
    """A reply as far as it may go."""
    held = bytearray()
    while piece := response.read1(_PIECE):
        held += piece
        if len(held) > _MOST:
            raise ValueError(f"it is longer than {_MOST} bytes")
        if time.monotonic() > until_s:
            raise TimeoutError("the reply takes longer than timeout_s")
    return bytes(held)
