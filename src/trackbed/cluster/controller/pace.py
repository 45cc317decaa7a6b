"""Intervals between passes, and responses after which the next pass tries again."""

from collections.abc import Callable
from http import HTTPStatus

RETRY_SECONDS = 5.0
"""Shortest pause before a failed request is retried."""
IDLE_SECONDS = 60.0
"""Interval between passes while no object changes, since a deadline may have passed."""
STALE_STATUSES = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""HTTP statuses of a write to an object that was changed or deleted meanwhile; the next pass uses its new state."""

Log = Callable[[str], None]
"""Function that writes one line to the log."""
