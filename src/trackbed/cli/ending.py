"""How a command ends: its exit status, also when it is interrupted or its output cannot be written.

SIGINT, SIGTERM and SIGHUP raise a KeyboardInterrupt, so that whatever a command has begun is cleaned up. The status is
128 plus the signal's number, as a shell reports a killed program. It is that of SIGPIPE (141) when the reader of a pipe
has gone, as `head` does: what it did not want to read is no error, but the command's verdict is not known either.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.terminal import OutputError, ReaderGoneError

if TYPE_CHECKING:
    from collections.abc import Callable

_KILLED = 128
"""Added to a signal's number by shells."""


class StopRequest(KeyboardInterrupt):
    """SIGTERM or SIGHUP; for SIGINT a plain KeyboardInterrupt is raised."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def catch_stop_requests() -> None:
    """Let SIGTERM and SIGHUP raise StopRequest, unless they are ignored, as under nohup(1)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise_stop_request)


def _raise_stop_request(number: int, _: object) -> NoReturn:
    raise StopRequest(number)


def get_status_of_interrupt(interrupt: BaseException | None) -> int:
    """Return the exit status after an interrupt."""
    return _KILLED + (interrupt.number if isinstance(interrupt, StopRequest) else signal.SIGINT)


def run_to_end(work: Callable[[], object]) -> int:
    """Run a command, flush its output and return its exit status; expected errors are printed without a traceback."""
    try:
        status = _run(work)
        sys.stdout.flush()
        sys.stderr.flush()
    except ReaderGoneError as error:
        _drop_output(error.descriptor)
        return _KILLED + signal.SIGPIPE
    except OutputError as error:
        _drop_output(error.descriptor)
        return _report_output_error(error)
    return status


def _run(work: Callable[[], object]) -> int:
    try:
        result = work()
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        return end.code or 0
    except click.exceptions.Abort as error:
        return _report_abort(error)
    except KeyboardInterrupt as interrupt:
        return _report_interrupt(interrupt)
    except click.ClickException as error:
        _show_error(_name_file_option(error))
        return error.exit_code
    return result if isinstance(result, int) else 0


def _name_file_option(error: click.ClickException) -> click.ClickException:
    """Return the error; where a file stands without the option of a Fabric, it names the option."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    options = {option for parameter in context.command.params for option in parameter.opts} if context else set()
    if "--fabric" in options and error.message.startswith("Got unexpected extra argument"):
        return click.UsageError(f"{error.message}; the Fabric is named with -f FILE", context)
    return error


def _show_error(error: click.ClickException) -> None:
    """Print wrong use: for people, or as JSON where the command line asks for JSON."""
    if asks_for_json(sys.argv[1:]):
        from trackbed.cli.options import print_json_error

        print_json_error(error.format_message(), error.exit_code)
    else:
        error.show()


def asks_for_json(words: list[str]) -> bool:
    """Return whether a command line that click could not read asks for JSON output."""
    return any(word in {"-ojson", "--output=json"} for word in words) or any(
        option in {"-o", "--output"} and value == "json" for option, value in pairwise(words)
    )


def _report_abort(error: click.exceptions.Abort) -> int:
    """Report why click gave up: a signal, or the end of the input where an answer was expected."""
    reason = error.__cause__ or error.__context__
    if isinstance(reason, KeyboardInterrupt):
        return _report_interrupt(reason)
    click.echo("aborted", err=True)
    return 2


def _report_interrupt(interrupt: KeyboardInterrupt) -> int:
    click.echo(f"interrupted by {interrupt}" if isinstance(interrupt, StopRequest) else "interrupted", err=True)
    return get_status_of_interrupt(interrupt)


def _report_output_error(error: OutputError) -> int:
    try:
        click.echo(f"trackbed: {error}", err=True)
        sys.stderr.flush()
    except (OutputError, ReaderGoneError) as second:
        _drop_output(second.descriptor)
    return 2


def _drop_output(descriptor: int) -> None:
    """Let what is still in buffers go nowhere, so that the interpreter can end without another error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
