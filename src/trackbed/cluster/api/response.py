"""Parsing of an API server's responses: an object with warnings, or an error.

The response may come from a proxy, a login page, or a server other than Kubernetes. Every malformed response raises
KubeError, never another exception.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2 as httpx
import msgspec

from trackbed.cluster.api.errors import ApiRefusedError, KubeError

Object = dict[str, Any]
"""An API object as decoded JSON."""

MAX_RETRY_SECONDS = 5.0
"""Longest pause before a retry, whatever the server requests."""
_SHOWN_CHARACTERS = 2000
_MAX_DEPTH = 200
"""Levels that are kept of JSON that is nested too deeply to be decoded; no model reads so many."""
_JSON_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{}]')
_T = TypeVar("_T")
_WARNING_TEXT = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111, 5.5: code, agent, text, and perhaps a date


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A successful response: the stored object, and the server's warnings."""

    status: int
    warnings: tuple[str, ...]
    body: Object


def parse_response(response: httpx.Response, target: str) -> ApiResponse:
    """Return the parsed response to a request for `target`.

    Raises ApiRefusedError, and KubeError for a success without a JSON object.
    """
    check_response(response, target)
    try:
        body = _decode(response.content, Object)
    except msgspec.DecodeError as error:
        raise KubeError(f"{target}: the server's answer is not a JSON object: {response.text[:200]}") from error
    return ApiResponse(response.status_code, _parse_warnings(response), body)


def check_response(response: httpx.Response, target: str) -> None:
    """Raise ApiRefusedError unless the response's status is 2xx; the error names `target`."""
    if response.is_success:
        return
    try:
        body = _decode(response.content, Object)
    except msgspec.DecodeError:
        body = {"message": response.text.strip()[:_SHOWN_CHARACTERS]}
    reason = str(body.get("reason") or response.reason_phrase)
    raise ApiRefusedError(response.status_code, reason, str(body.get("message") or "no reason given"), target)


def decode_json(raw: bytes | msgspec.Raw, model: type[_T], target: str) -> _T:
    """Decode JSON from the server as `model`. Raises KubeError, which names `target`."""
    try:
        return _decode(raw, model)
    except msgspec.MsgspecError as error:
        raise _to_kube_error(error, target) from error


def convert_object(body: Object, model: type[_T], target: str) -> _T:
    """Convert a decoded object from the server to `model`. Raises KubeError, which names `target`."""
    try:
        return msgspec.convert(body, model)
    except msgspec.ValidationError as error:
        raise _to_kube_error(error, target) from error


def read_retry_seconds(response: httpx.Response) -> float:
    """Return the pause that a busy server requests: Retry-After, at most MAX_RETRY_SECONDS; 1 if absent or a date."""
    header = response.headers.get("Retry-After", "")
    return min(float(header), MAX_RETRY_SECONDS) if header.isascii() and header.isdigit() else 1.0


def _decode(raw: bytes | msgspec.Raw, model: type[_T]) -> _T:
    """Decode JSON of any depth. Raises msgspec.MsgspecError.

    Whoever may write an object may nest its managedFields, up to 10,000 levels (encoding/json, maxNestingDepth of
    scanner.go), and a list contains the objects of all.
    """
    try:
        return msgspec.json.decode(raw, type=model)
    except RecursionError:
        return msgspec.json.decode(_prune_json(bytes(raw)), type=model)


def _prune_json(text: bytes) -> bytes:
    """Empty the arrays and objects of JSON below _MAX_DEPTH."""
    parts: list[bytes] = []
    depth = start = 0
    for token in _JSON_TOKEN.finditer(text):
        if token[0] in {b"{", b"["}:
            depth += 1
            if depth == _MAX_DEPTH:
                parts.append(text[start : token.end()])
        elif token[0] in {b"}", b"]"}:
            if depth == _MAX_DEPTH:
                start = token.start()
            depth -= 1
    return b"".join((*parts, text[start:])) if depth == 0 else text[:0]


def _to_kube_error(error: msgspec.MsgspecError, target: str) -> KubeError:
    return KubeError(f"{target}: the server's answer is not what Kubernetes answers: {error}")


def _parse_warnings(response: httpx.Response) -> tuple[str, ...]:
    """Return the texts of all `Warning` headers; one header may hold several."""
    values = response.headers.get_list("Warning")
    return tuple(re.sub(r"\\(.)", r"\1", text) for value in values for text in _WARNING_TEXT.findall(value) or [value])
