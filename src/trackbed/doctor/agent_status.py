"""The status of a node's agent: the attachments of its pods, those that it refused, and ports that pods gave back.

Where an agent should be, its silence is a reason. The plan does not say where: a Fabric is the same with and without
Kubernetes, and its stack need not have an agent. The node shows it: an agent installs its CNI executable when it
starts, and its uninstallation removes it, so a node without executable and without socket has no agent.
"""

import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from trackbed.fabric.model.ranges import parse_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.host.machine import Machine

EXECUTABLE: Final = "/opt/cni/bin/trackbed"
"""The CNI executable of stack native (`trackbed.node.rails.install`)."""
_ADVICE: Final = "see its pod: kubectl get pods -A -o wide -l app.kubernetes.io/name=trackbed-agent"


class AttachedAddress(msgspec.Struct, frozen=True):
    """An address of a pod with its prefix length, and its gateway ("" if it has none), as text."""

    text: str
    gateway: str = ""


class AttachedHostPort(msgspec.Struct, frozen=True):
    """What the interface was on the host: a VF has the name of its port, `pf`, and a number."""

    vf: int = -1
    pf: str = ""


class AttachedPort(msgspec.Struct, frozen=True):
    """A pod's interface on one rail. `host` is None if it was not moved from the host."""

    rail: int
    name: str
    addresses: tuple[AttachedAddress, ...] = ()
    host: AttachedHostPort | None = None

    def parse_addresses(self) -> tuple[AddressPlan, ...]:
        """Return the addresses. Raises ValueError if one is malformed."""
        return tuple(parse_agent_address(address.text, address.gateway) for address in self.addresses)


class PodAttachment(msgspec.Struct, frozen=True):
    """The rails of one pod; `netns` is the path of its network namespace."""

    container: str
    netns: str
    mode: str
    ports: tuple[AttachedPort, ...]


class RefusedPod(msgspec.Struct, frozen=True):
    """An attachment that the agent refused."""

    pod: str
    code: str | int
    message: str


class AgentStatus(msgspec.Struct, frozen=True):
    """The fields of an agent's status that doctor uses."""

    attachments: tuple[PodAttachment, ...] = ()
    refused: tuple[RefusedPod, ...] = ()
    moved: frozenset[str] = frozenset()
    """Ports that were in a pod since the agent started."""
    node: str = ""
    """Name of the node, which every agent tells; empty if none has answered."""


def read_agent_status(machine: Machine, read: Callable[[], dict[str, Any]] | None) -> tuple[AgentStatus, str]:
    """Return the status of a machine's agent, and why it is not known; empty if it is, or if there is no agent.

    `read` raises OSError if no agent answers; None if the machine has no agent.
    """
    if read is None:
        return AgentStatus(), ""
    try:
        return _parse_status(read()), ""
    except (FileNotFoundError, NotADirectoryError):
        reason = f"it has no socket, and {EXECUTABLE} is installed; {_ADVICE}" if _is_installed(machine) else ""
        return AgentStatus(), reason
    except OSError as error:
        return AgentStatus(), f"it does not answer ({error.strerror or error}); {_ADVICE}"
    except ValueError as error:
        return AgentStatus(), f"its status cannot be read ({error}); use the version of trackbed that the agent has"


def _parse_status(document: dict[str, Any]) -> AgentStatus:
    """Return the status that a document describes. Raises ValueError if it is none."""
    status = msgspec.convert(document, AgentStatus)
    for attachment in status.attachments:
        for port in attachment.ports:
            port.parse_addresses()
    return status


def _is_installed(machine: Machine) -> bool:
    try:
        return os.path.lexists(machine.locate(EXECUTABLE))
    except (OSError, ValueError):
        return False


def parse_agent_address(text: str, gateway: str = "") -> AddressPlan:
    """Parse an address as the agent's status encodes it. Raises ValueError if it is malformed."""
    host_part, _, prefix = text.partition("/")
    version, number = parse_address(host_part)
    return AddressPlan(version, number, int(prefix), parse_address(gateway)[1] if gateway else 0, 0, 0)
