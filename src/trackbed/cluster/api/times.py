"""Moments as the API has them (RFC 3339, UTC, whole seconds)."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """This moment."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
