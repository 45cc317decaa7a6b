"""AdmissionReview (admission.k8s.io/v1): what the API server asks, and what is answered.

A warning reaches the user in an HTTP header: the API server drops one with control characters, and cuts all of them at
4 KiB together (k8s.io/apiserver, endpoints/filters/warning.go). 120 characters each is its advice; we take 250, since
a path and a remedy must fit, and leave out what goes beyond eight of them.
"""

from __future__ import annotations

import base64
import re
from http import HTTPStatus
from typing import Any, Literal

import msgspec

VERSION = "admission.k8s.io/v1"
WARNING_CHARACTERS, WARNINGS = 250, 8
AUDIT_CHARACTERS = 1000

_ABSENT = msgspec.Raw(b"null")
_UNPRINTABLE = re.compile(r"[^ -~]+")


class ReviewError(ValueError):
    """A body that is no AdmissionReview, or one whose object is none."""


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What is asked; only what is used."""

    uid: str
    operation: str = ""
    namespace: str = ""
    name: str = ""
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: ReviewRequest


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of an object: let in, changed perhaps, or refused with the reason."""

    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()
    """Audit annotations: key (of at most 63 letters, digits and -), value."""
    refusal: str | None = None


def read(body: bytes) -> ReviewRequest:
    """The request in a body. Raises ReviewError."""
    try:
        return msgspec.json.decode(body, type=_Asked).request
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"this is no AdmissionReview of {VERSION}: {error}") from error


def mapping(raw: msgspec.Raw) -> dict[str, Any]:
    """An object of the request, made anew at each call; an empty one where it is absent. Raises ReviewError."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any] | None) or {}
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"the review's object is none: {error}") from error


def answer(request: ReviewRequest, verdict: Verdict) -> bytes:
    """The AdmissionReview that says a verdict."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.refusal is None}
    if verdict.refusal is not None:
        response["status"] = {"code": HTTPStatus.UNPROCESSABLE_ENTITY, "reason": "Invalid", "message": verdict.refusal}
    elif verdict.patch:
        patch = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if verdict.warnings:
        response["warnings"] = _warnings(verdict.warnings)
    if verdict.audit:
        response["auditAnnotations"] = {key: value[:AUDIT_CHARACTERS] for key, value in verdict.audit}
    return msgspec.json.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})


def _warnings(warnings: tuple[str, ...]) -> list[str]:
    plain = [_UNPRINTABLE.sub("?", one) for one in warnings]
    short = [f"{one[: WARNING_CHARACTERS - 3]}..." if len(one) > WARNING_CHARACTERS else one for one in plain]
    left = len(short) - WARNINGS
    return short if left <= 0 else [*short[:WARNINGS], f"{left} more: see the audit annotation of this request"]
