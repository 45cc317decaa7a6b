"""Execution of the operations of a change, except netlink messages."""

from __future__ import annotations

from trackbed.host import rdma_core
from trackbed.host.change import (
    AttributeWrite,
    AwaitVfs,
    Change,
    DcbSet,
    FileWrite,
    RdmaSet,
    Rebind,
    Run,
    SysctlWrite,
)
from trackbed.host.machine import Absent, Machine
from trackbed.host.pci_driver import rebind_function, wait_for_vf_interfaces
from trackbed.host.runner import CHANGE_SECONDS
from trackbed.host.transaction import files
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.dcb import apply_setting


class OperationError(Exception):
    """The kernel, the file system or a program rejected a change."""


def perform_operation(machine: Machine, change: Change, operation: object) -> None:
    """Execute one operation. Raises OperationError; its message has the rejected value and the reason."""
    if isinstance(operation, SysctlWrite):
        _write_sysctl(machine, change, operation)
    elif isinstance(operation, FileWrite):
        _write_file(machine, operation)
    elif isinstance(operation, AttributeWrite):
        _write_attribute(machine, change, operation)
    elif isinstance(operation, (Rebind, AwaitVfs)):
        _bind_driver(machine, change, operation)
    elif isinstance(operation, Run):
        run_program(machine, operation.argv)
    elif isinstance(operation, DcbSet):
        _set_dcb(machine, change, operation.messages)
    elif isinstance(operation, RdmaSet):
        if why := rdma_core.send_message(machine, operation.message):
            raise OperationError(f"{change.subject}: setting {change.want} was refused: {why}")
    else:
        raise TypeError(f"{type(operation).__name__} is no operation that has a case here")


def run_program(machine: Machine, argv: tuple[str, ...]) -> None:
    """Run a program. Raises OperationError with the last lines of its output if it fails."""
    done = machine.run(argv, CHANGE_SECONDS)
    if isinstance(done, Absent):
        raise OperationError(f"there is no {argv[0]} to run on this machine; run by hand: {' '.join(argv)}")
    if done.status:
        output = " / ".join(done.output.strip().splitlines()[-3:])
        command = " ".join("..." if "\n" in word else word for word in argv)  # a script is longer than its message
        raise OperationError(f"{command} failed with status {done.status}: {output}")


def _write_sysctl(machine: Machine, change: Change, write: SysctlWrite) -> None:
    try:
        machine.write_sysctl(write.key, write.value)
    except OSError as error:
        raise OperationError(f"{change.subject}: cannot write {write.value}: {error.strerror}") from error


def _write_file(machine: Machine, write: FileWrite) -> None:
    try:
        files.write_file(machine, write.path, None if write.content is None else write.content.encode(), write.mode)
    except OSError as error:
        raise OperationError(f"cannot write {write.path}: {error.strerror}") from error


def _write_attribute(machine: Machine, change: Change, write: AttributeWrite) -> None:
    value = write.intermediate_value
    try:
        if write.folder:
            machine.locate(write.folder).mkdir(exist_ok=True)
        if write.intermediate_value:
            machine.write_attribute(write.path, write.intermediate_value)
        value = write.value
        machine.write_attribute(write.path, value)
    except OSError as error:
        raise OperationError(f"{change.subject}: cannot write {value} to {write.path}: {error.strerror}") from error


def _bind_driver(machine: Machine, change: Change, operation: Rebind | AwaitVfs) -> None:
    if isinstance(operation, AwaitVfs):
        wait_for_vf_interfaces(machine, operation.folder)
    elif why := rebind_function(machine, operation.folder):
        raise OperationError(f"{change.subject}: {why}")


def _set_dcb(machine: Machine, change: Change, messages: tuple[Message, ...]) -> None:
    with machine.open_socket() as sock:
        for message in messages:
            try:
                apply_setting(sock, message)
            except NetlinkError as error:
                raise OperationError(f"{change.subject}: setting {change.want} was refused: {error}") from error
