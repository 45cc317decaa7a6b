"""Times in the format of the API (RFC 3339, UTC, whole seconds)."""

from datetime import UTC, datetime


def format_now() -> str:
    """Return the current time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
