"""The log of programs that run for months: one record a line, on standard error.

Names and messages of others are in it, of pods and nodes too. None of them begins a line of its own, and none fills it.
"""

import logging
import sys
import textwrap

from trackbed.cli.terminal import escape_line

_LONGEST_MESSAGE = 4096
"""Characters; a pod's name has 253, and what is no name yet may have a million."""
_LONGEST_TRACEBACK = 16_384


class _LineFormatter(logging.Formatter):
    """Formats a record as one line, and a traceback as indented ones."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        """Return the line of a record."""
        record.message = escape_line(_cut(record.message, _LONGEST_MESSAGE))
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name in logging
        """Return a traceback; the exception may have any text."""
        text = super().formatException(ei)  # type: ignore[arg-type] # logging's alias is not public
        return textwrap.indent(_cut(text, _LONGEST_TRACEBACK), "  ")


def start_log() -> None:
    """Log to standard error from level INFO on, without a line for each request to the API server."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx2").setLevel(logging.WARNING)


def _cut(text: str, longest: int) -> str:
    """Return a text without its middle if it is too long: the end of a traceback says what happened."""
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-(longest // 2) :]}"
