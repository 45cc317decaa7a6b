"""The filter between commands and the terminal.

Hosts, nodes, switches, BMCs and files of others have texts that commands print. Control characters in them could move
the cursor, rewrite what stands above, or set the terminal's title. `guard_streams` replaces standard output and error
by streams that show such characters instead of sending them, for every command, log line and traceback.

A text that must stay in its line, such as a table's cell, goes through `escape_line`, which shows line ends too. Only
`print_styled` sends escape sequences: those of its own. Documents for programs go through `emit_document`.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, TextIO, cast

import click

from trackbed.cli.folding import fold_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that control a terminal, reverse the order of a line, or end one."""


def escape(text: str) -> str:
    """Return a text whose control characters are shown as escapes; line feeds and tabs are kept."""
    return text if text.isascii() and text.isprintable() else "".join(map(_escape_character, text))


def escape_line(text: str) -> str:
    """Return a text in one line: control characters, line feeds and tabs are shown as escapes."""
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


@lru_cache(maxsize=4096)
def _escape_character(char: str) -> str:
    if char in "\n\t" or unicodedata.category(char) not in _HIDDEN_CATEGORIES:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - as Python writes them


_STDOUT, _STDERR = 1, 2


class OutputError(Exception):
    """Standard output or error cannot be written. It is no OSError, so that no command takes it for one of its files.

    `descriptor` is that of the stream.
    """

    def __init__(self, descriptor: int, reason: str) -> None:
        name = "standard error" if descriptor == _STDERR else "standard output"
        super().__init__(f"cannot write to {name}: {reason}")
        self.descriptor = descriptor


class ReaderGoneError(OutputError):
    """The reader of the pipe has closed it."""


class _OutputFile(io.FileIO):
    """Standard output or error, whose errors are no OSError."""

    def write(self, content: ReadableBuffer) -> int:
        """Write bytes; return how many were written."""
        try:
            return super().write(content)
        except OSError as error:
            kind = ReaderGoneError if isinstance(error, BrokenPipeError) else OutputError
            raise kind(self.fileno(), error.strerror or str(error)) from error


class GuardedStream(io.TextIOWrapper):
    """A text stream that shows control characters instead of sending them; `raw_stream` sends everything."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding = "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding
        raw_stream = _guard_errors(stream)
        super().__init__(raw_stream.buffer, encoding, "backslashreplace", line_buffering=stream.line_buffering)
        self.raw_stream = raw_stream

    def write(self, text: str) -> int:
        """Write a text."""
        super().write(escape(text))
        return len(text)

    def close(self) -> None:
        """Leave the stream open, since the interpreter closes it."""
        if not self.buffer.closed:
            self.flush()


def _guard_errors(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a stream of the same file that raises OutputError; a stream without a file is returned as it is."""
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        return stream
    output = io.BufferedWriter(_OutputFile(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(output, stream.encoding, stream.errors, line_buffering=stream.line_buffering)


def guard_streams() -> None:
    """Replace standard output and error by guarded streams; those that are closed refuse what is written to them."""
    for name, descriptor in (("stdout", _STDOUT), ("stderr", _STDERR)):
        if getattr(sys, name) is None:  # a file that is opened later would get the descriptor, and the output
            os.dup2(os.open(os.devnull, os.O_RDONLY), descriptor)
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - of a descriptor, until the end
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, GuardedStream):
            stream.flush()
            setattr(sys, name, GuardedStream(stream))


def get_raw_stream(*, err: bool = False) -> TextIO:
    """Return standard output or error without the filter, for texts that are escaped already."""
    stream = sys.stderr if err else sys.stdout
    return cast("TextIO", stream.raw_stream if isinstance(stream, GuardedStream) else stream)


def print_line(text: str, *, err: bool = False) -> None:
    """Print a text as one line."""
    click.echo(escape_line(text), err=err)


def print_styled(text: str, *, hanging: int | None = None, err: bool = False) -> None:
    """Print a text with escape sequences of click.style. All parts that others wrote must be escaped by the caller.

    With `hanging`, lines that are too wide for the terminal are broken as print_prose does.
    """
    (sys.stderr if err else sys.stdout).flush()
    stream = get_raw_stream(err=err)
    click.echo(text if hanging is None else _fold(text, hanging), file=stream, color=_has_colour(stream))
    stream.flush()


def print_prose(text: str, hanging: int = 2) -> None:
    """Print lines; on a terminal, those that are too wide are broken between words.

    What follows a break stands `hanging` columns further to the right than its line begins.
    """
    click.echo(_fold(escape(text), hanging))


def _fold(text: str, hanging: int) -> str:
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = text.split("\n")
    return "\n".join(fold_line(line, width, len(line) - len(line.lstrip()) + hanging) for line in lines)


def _has_colour(stream: TextIO) -> bool:
    """Return whether to send styles: to terminals that are not dumb, unless NO_COLOR or FORCE_COLOR says otherwise."""
    if os.environ.get("NO_COLOR"):  # no-color.org: whatever its value is, unless it is empty
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def emit_document(text: str) -> None:
    """Print a document for programs: unchanged into a file or pipe, escaped on a terminal."""
    sys.stdout.flush()
    click.echo(text if sys.stdout.isatty() else text.encode(), nl=False)
