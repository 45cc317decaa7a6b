"""Times in the format of the API (RFC 3339, UTC, whole seconds)."""

from datetime import UTC, datetime


def format_now() -> str:
    """Return the current time as text, such as 2026-01-31T12:00:00Z."""
    return format_time(datetime.now(UTC))


def format_time(time: datetime) -> str:
    """Return a time in UTC as text; texts sort as their times."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
