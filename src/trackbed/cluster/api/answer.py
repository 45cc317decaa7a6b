"""What an API server's HTTP answer says: an object with its warnings, or a refusal.

Between a client and its server there may be a proxy, a login page, or something that is no Kubernetes at all: an answer
that has not the shape it should have is a KubeError too, never a crash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2 as httpx
import msgspec

from trackbed.cluster.api.errors import KubeError, RefusedError

Object = dict[str, Any]

LONGEST_WAIT_SECONDS = 5.0
_SHOWN = 2000  # characters of an answer that is not the API's own
_T = TypeVar("_T")
_QUOTED = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111, 5.5: code, agent, text, and a date perhaps


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said yes with: the object as stored, and its warnings."""

    status: int
    warnings: tuple[str, ...]
    body: Object


def read(told: httpx.Response, what: str) -> Answer:
    """The answer about `what`. Raises RefusedError if it is no; KubeError if it is yes, but no object."""
    try:
        body = msgspec.json.decode(told.content, type=Object)
    except msgspec.DecodeError as error:
        if told.is_success:
            raise KubeError(f"{what}: the server's answer is no JSON object: {told.text[:200]}") from error
        body = {"message": told.text.strip()[:_SHOWN]}
    if told.is_success:
        return Answer(told.status_code, _warnings(told), body)
    reason = str(body.get("reason") or told.reason_phrase)
    raise RefusedError(told.status_code, reason, str(body.get("message") or "no reason given"), what)


def shaped(body: Object, shape: type[_T], what: str) -> _T:
    """An answer's body as what it must be. Raises KubeError."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        raise KubeError(f"{what}: the server's answer is not what Kubernetes answers: {error}") from error


def busy_seconds(told: httpx.Response) -> float:
    """How long a busy server wants to be left alone: Retry-After in seconds; 1 where it names none, or a date."""
    asked = told.headers.get("Retry-After", "")
    return min(float(asked), LONGEST_WAIT_SECONDS) if asked.isascii() and asked.isdigit() else 1.0


def _warnings(told: httpx.Response) -> tuple[str, ...]:
    """The texts of all `Warning` headers; one header may hold several."""
    values = told.headers.get_list("Warning")
    return tuple(re.sub(r"\\(.)", r"\1", text) for value in values for text in _QUOTED.findall(value) or [value])
