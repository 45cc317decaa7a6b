"""Responses of an API server: an object with its warnings, or a refusal.

Between a client and its server there may be a proxy, a login page, or a server that is no Kubernetes. A response of
another shape raises KubeError, never another exception.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2 as httpx
import msgspec

from trackbed.cluster.api.errors import ApiRefusedError, KubeError

Object = dict[str, Any]

LONGEST_WAIT_SECONDS = 5.0
_SHOWN_CHARACTERS = 2000
_T = TypeVar("_T")
_QUOTED = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111, 5.5: code, agent, text, and perhaps a date


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A successful response: the object as stored, and the server's warnings."""

    status: int
    warnings: tuple[str, ...]
    body: Object


def parse_response(response: httpx.Response, subject: str) -> ApiResponse:
    """Return the response about `subject`. Raises ApiRefusedError; KubeError for a success without a JSON object."""
    check_response(response, subject)
    try:
        body = msgspec.json.decode(response.content, type=Object)
    except msgspec.DecodeError as error:
        raise KubeError(f"{subject}: the server's answer is no JSON object: {response.text[:200]}") from error
    return ApiResponse(response.status_code, _parse_warnings(response), body)


def check_response(response: httpx.Response, subject: str) -> None:
    """Raise ApiRefusedError unless the response is a success."""
    if response.is_success:
        return
    try:
        body = msgspec.json.decode(response.content, type=Object)
    except msgspec.DecodeError:
        body = {"message": response.text.strip()[:_SHOWN_CHARACTERS]}
    reason = str(body.get("reason") or response.reason_phrase)
    raise ApiRefusedError(response.status_code, reason, str(body.get("message") or "no reason given"), subject)


def decode(raw: bytes | msgspec.Raw, shape: type[_T], subject: str) -> _T:
    """Decode JSON into `shape`. Raises KubeError."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.MsgspecError as error:
        raise _to_kube_error(error, subject) from error


def convert(body: Object, shape: type[_T], subject: str) -> _T:
    """Convert a decoded object into `shape`. Raises KubeError."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        raise _to_kube_error(error, subject) from error


def read_retry_seconds(response: httpx.Response) -> float:
    """Return how long a busy server asks to wait: Retry-After in seconds; 1 where it is absent or a date."""
    header = response.headers.get("Retry-After", "")
    return min(float(header), LONGEST_WAIT_SECONDS) if header.isascii() and header.isdigit() else 1.0


def _to_kube_error(error: msgspec.MsgspecError, subject: str) -> KubeError:
    return KubeError(f"{subject}: the server's answer is not what Kubernetes answers: {error}")


def _parse_warnings(response: httpx.Response) -> tuple[str, ...]:
    """Return the texts of all `Warning` headers; one header may hold several."""
    values = response.headers.get_list("Warning")
    return tuple(re.sub(r"\\(.)", r"\1", text) for value in values for text in _QUOTED.findall(value) or [value])
