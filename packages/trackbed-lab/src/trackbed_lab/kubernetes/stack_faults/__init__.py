"""Faults of other stacks that their users reported: what a cluster with one shows, and what names it.

A file for each stack. `tests/cluster/causes` makes each fault's state on a real API server, or runs the program that
reports it; `inject` says how to make it in a running lab.
"""

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import yaml


class ReportedObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object whose status its operator writes."""

    kind: str
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}
    condition: str = ""
    """What the stack waits for, as `kubectl wait --for`."""
    status: dict[str, Any] = {}
    budget: bool = False
    """Whether a pod on the node of the object's name has a disruption budget that allows nothing."""
    finalizer: str = ""
    """Finalizer that keeps the object after it was deleted."""


class PluginRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a CNI plugin that fails with the fault's message."""

    plugin: str
    """Name of the executable; those below std/ are built from the standard plugins."""
    config: dict[str, Any] = {}
    networks: str = ""
    """Networks annotation of the pod, for Multus."""
    parent: str = ""
    """bridge: the interface `tbparent` is made for the call, as a port of a bridge."""


class StackFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault that users of a stack reported."""

    id: str
    title: str
    report: str
    """Address of the public report."""
    command: Literal["status", "gate", "lint", "doctor", "explain"]
    """What names the fault; gate: `trackbed status` and `apply cluster` by the state of a stack's object."""
    names: str
    """Id of the cause, rule or fault that is named first, or what the first line has."""
    inject: str
    """How to make it in a running lab, or why that is not possible there."""
    message: str = ""
    """Message of the program, as its source has it and as the report shows it."""
    reason: str = "FailedCreatePodSandBox"
    """Reason of the event with the message."""
    controller: str = ""
    """Kind of the controller that cannot create its pods, if the event is about one."""
    container: str = ""
    """Reason of the waiting container, if the message is in the pod's status."""
    refusal: str = ""
    """Reason of the pod that kubelet refused, if the message is in the pod's status."""
    unscheduled: str = ""
    """Message of the scheduler."""
    slice: str = ""
    """Driver that has announced a device."""
    manifest: str = ""
    object: ReportedObject | None = None
    run: PluginRun | None = None
    daemon: str = ""
    """The program that runs in the tests and gives the message there."""
    stack: str = ""


class UnnamedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reported fault that no command names, and why."""

    stack: str
    title: str
    report: str
    why: str


@cache
def load_unnamed_faults() -> tuple[UnnamedFault, ...]:
    """Return the reported faults that no command names."""
    text = files("trackbed_lab.kubernetes.stack_faults").joinpath("unnamed", "faults.yaml").read_bytes()
    return msgspec.convert(yaml.load(text, yaml.CSafeLoader), tuple[UnnamedFault, ...])


@cache
def load_stack_faults() -> tuple[StackFault, ...]:
    """Return the faults of all stacks, by the name of the stack."""
    entries = files("trackbed_lab.kubernetes.stack_faults").iterdir()
    paths = sorted((entry for entry in entries if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    return tuple(
        msgspec.structs.replace(fault, stack=path.name.removesuffix(".yaml"))
        for path in paths
        for fault in msgspec.convert(yaml.load(path.read_bytes(), yaml.CSafeLoader), list[StackFault])
    )
