"""Execution of a change's operations, except netlink messages."""

from __future__ import annotations

from trackbed.host import talk
from trackbed.host.change import AttributeWrite, Change, DcbSet, FileWrite, RdmaSet, Run, SysctlWrite
from trackbed.host.machine import Absent, Machine
from trackbed.host.transaction import files
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.dcb import apply_setting


class OperationError(Exception):
    """The kernel, the file system or a program rejected a change."""


def perform(machine: Machine, change: Change, operation: object) -> None:
    """Execute one operation. Raises OperationError with the rejected value and the reason."""
    match operation:
        case SysctlWrite(key, value):
            try:
                machine.write_sysctl(key, value)
            except OSError as error:
                raise OperationError(f"{change.subject}: cannot write {value}: {error.strerror}") from error
        case FileWrite(path, content, mode):
            try:
                files.write(machine, path, None if content is None else content.encode(), mode)
            except OSError as error:
                raise OperationError(f"cannot write {path}: {error.strerror}") from error
        case AttributeWrite() as write:
            _write_attribute(machine, change, write)
        case Run(argv):
            run(machine, argv)
        case DcbSet(messages):
            _set_dcb(machine, change, messages)
        case RdmaSet(message):
            if why := talk.send_message(machine, message):
                raise OperationError(f"{change.subject}: setting {change.want} was refused: {why}")
        case _:
            raise TypeError(f"{type(operation).__name__} is no operation that has a case here")


def run(machine: Machine, argv: tuple[str, ...]) -> None:
    """Run a program; raise OperationError with the last lines of its output if it fails."""
    done = machine.run(argv)
    if isinstance(done, Absent):
        raise OperationError(f"there is no {argv[0]} to run on this machine; run by hand: {' '.join(argv)}")
    if done.status:
        output = " / ".join(done.output.strip().splitlines()[-3:])
        raise OperationError(f"{' '.join(argv)} failed with status {done.status}: {output}")


def _write_attribute(machine: Machine, change: Change, write: AttributeWrite) -> None:
    value = write.first
    try:
        if write.folder:
            machine.locate(write.folder).mkdir(exist_ok=True)
        if write.first:
            machine.write_attribute(write.path, write.first)
        value = write.value
        machine.write_attribute(write.path, value)
    except OSError as error:
        raise OperationError(f"{change.subject}: cannot write {value} to {write.path}: {error.strerror}") from error


def _set_dcb(machine: Machine, change: Change, messages: tuple[Message, ...]) -> None:
    with machine.open_socket() as sock:
        for message in messages:
            try:
                apply_setting(sock, message)
            except NetlinkError as error:
                raise OperationError(f"{change.subject}: setting {change.want} was refused: {error}") from error
