"""AdmissionReview (admission.k8s.io/v1): requests of the API server, and responses.

Warnings reach the user in HTTP headers. The API server drops warnings with control characters, and truncates all
warnings of a response at 4 KiB (k8s.io/apiserver, endpoints/filters/warning.go). It recommends 120 characters each. We
allow 250, enough for a path and a remedy, and eight warnings.
"""

import base64
import re
from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec

VERSION = "admission.k8s.io/v1"
MAX_WARNING_CHARACTERS, MAX_WARNINGS = 250, 8
MAX_AUDIT_CHARACTERS = 1000

_ABSENT = msgspec.Raw(b"null")
_NAMESPACE_NAME = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\Z"
"""A DNS label (RFC 1123), or nothing for an object in no namespace."""
_UNPRINTABLE = re.compile(r"[^ -~]+")


class ReviewError(ValueError):
    """The request body is not an AdmissionReview, or an object in it is malformed."""


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The request in an AdmissionReview; only the fields that reviews use are decoded."""

    uid: str
    operation: str = ""
    namespace: Annotated[str, msgspec.Meta(pattern=_NAMESPACE_NAME)] = ""
    name: str = ""
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT


class _AdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionReview with a request."""

    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: ReviewRequest


class Verdict(msgspec.Struct, frozen=True):
    """The result of a review: if `refusal` is set, the object is refused, else it is admitted with the patch."""

    patch: tuple[dict[str, Any], ...] = ()
    """Operations of a JSON Patch (RFC 6902)."""
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()
    """Audit annotations: keys (at most 63 letters, digits and -) and values."""
    refusal: str | None = None
    """Message to the user."""


def parse_review(body: bytes) -> ReviewRequest:
    """Return the request in an AdmissionReview (JSON). Raises ReviewError."""
    try:
        return msgspec.json.decode(body, type=_AdmissionReview).request
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"this is no AdmissionReview of {VERSION}: {error}") from error


def decode_object(raw: msgspec.Raw) -> dict[str, Any]:
    """Return a new copy of an object in a request; empty if the object is absent. Raises ReviewError."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any] | None) or {}
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"the review's object is none: {error}") from error


def render_response(request: ReviewRequest, verdict: Verdict) -> bytes:
    """Return the AdmissionReview (JSON) that responds to a request with a verdict."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.refusal is None}
    if verdict.refusal is not None:
        response["status"] = {"code": HTTPStatus.UNPROCESSABLE_ENTITY, "reason": "Invalid", "message": verdict.refusal}
    elif verdict.patch:
        patch = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    if verdict.warnings:
        response["warnings"] = _truncate_warnings(verdict.warnings)
    if verdict.audit:
        response["auditAnnotations"] = {key: value[:MAX_AUDIT_CHARACTERS] for key, value in verdict.audit}
    return msgspec.json.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})


def _truncate_warnings(warnings: tuple[str, ...]) -> list[str]:
    """Return the warnings in printable ASCII, within the limits of length and number."""
    plain = [_UNPRINTABLE.sub("?", warning) for warning in warnings]
    short = [
        f"{warning[: MAX_WARNING_CHARACTERS - 3]}..." if len(warning) > MAX_WARNING_CHARACTERS else warning
        for warning in plain
    ]
    surplus = len(short) - MAX_WARNINGS
    return (
        short if surplus <= 0 else [*short[:MAX_WARNINGS], f"{surplus} more: see the audit annotation of this request"]
    )
