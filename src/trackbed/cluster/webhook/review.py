"""AdmissionReview (admission.k8s.io/v1): requests of the API server, and responses.

A warning reaches the user in an HTTP header. The API server drops a warning with control characters, and truncates all
warnings together at 4 KiB (k8s.io/apiserver, endpoints/filters/warning.go). It recommends 120 characters each. We allow
250, enough for a path and a remedy, and at most eight warnings.
"""

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
    """A body that is no AdmissionReview, or one that contains no object."""


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a request that are used."""

    uid: str
    operation: str = ""
    namespace: str = ""
    name: str = ""
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT


class _AdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: ReviewRequest


class Verdict(msgspec.Struct, frozen=True):
    """The result of a review: admitted, changed by a patch, or refused with the reason."""

    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()
    """Audit annotations: key (of at most 63 letters, digits and -), value."""
    refusal: str | None = None


def parse_review(body: bytes) -> ReviewRequest:
    """Return the request in a body. Raises ReviewError."""
    try:
        return msgspec.json.decode(body, type=_AdmissionReview).request
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"this is no AdmissionReview of {VERSION}: {error}") from error


def decode_object(raw: msgspec.Raw) -> dict[str, Any]:
    """Return a new copy of an object of the request; an empty one where it is absent. Raises ReviewError."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any] | None) or {}
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"the review's object is none: {error}") from error


def render_response(request: ReviewRequest, verdict: Verdict) -> bytes:
    """Return the AdmissionReview with the verdict."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.refusal is None}
    if verdict.refusal is not None:
        response["status"] = {"code": HTTPStatus.UNPROCESSABLE_ENTITY, "reason": "Invalid", "message": verdict.refusal}
    elif verdict.patch:
        patch = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if verdict.warnings:
        response["warnings"] = _truncate_warnings(verdict.warnings)
    if verdict.audit:
        response["auditAnnotations"] = {key: value[:AUDIT_CHARACTERS] for key, value in verdict.audit}
    return msgspec.json.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})


def _truncate_warnings(warnings: tuple[str, ...]) -> list[str]:
    plain = [_UNPRINTABLE.sub("?", warning) for warning in warnings]
    short = [
        f"{warning[: WARNING_CHARACTERS - 3]}..." if len(warning) > WARNING_CHARACTERS else warning for warning in plain
    ]
    surplus = len(short) - WARNINGS
    return short if surplus <= 0 else [*short[:WARNINGS], f"{surplus} more: see the audit annotation of this request"]
