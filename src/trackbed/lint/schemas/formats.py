"""Formats of text that an API server parses: patterns for schemas, and what they stand for in messages."""

QUANTITY = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?\s*$"
"""apimachinery pkg/api/resource/quantity.go, ParseQuantity."""
_DIGIT = r"[A-Za-z0-9+/][\r\n]*"
_BASE64 = rf"^[\r\n]*(?:(?:{_DIGIT}){{4}})*(?:(?:{_DIGIT}){{2}}=[\r\n]*=|(?:{_DIGIT}){{3}}=)?[\r\n]*$"
"""Go's encoding/base64, which skips ends of lines wherever they are: Kustomize writes lines of 70 characters."""
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$"

PATTERNS = {"byte": _BASE64, "date-time": _TIME}
"""Pattern by `format` of a schema."""
BOUNDS = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
"""Least and largest number by `format` of a schema."""

_MEANINGS = {
    QUANTITY: "a quantity, such as 2, 500m or 64Gi",
    _BASE64: "base64",
    _TIME: "a time, such as 2026-01-02T15:04:05Z",
}


def describe_pattern(pattern: str) -> str | None:
    """Return what a text of this pattern is; None for patterns of others."""
    return _MEANINGS.get(pattern)
