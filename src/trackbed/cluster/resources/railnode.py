"""RailNode: one node of a Fabric in a cluster, what it shall be and what it is.

    spec      the controller writes it: the node's slice of the plan, and whether the node may be changed now
    status    the node's own agent writes it: what it has seen, done and given to pods

A node is changed only while `mayChange` is true, and rebooted only while `mayReboot` names the boot it is in: a second
reboot for the same word is impossible, whoever is killed when.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackbed.cluster.resources.conditions import Condition

API_VERSION = "trackbed.dev/v1alpha1"
KIND = "RailNode"
PATH = "/apis/trackbed.dev/v1alpha1/railnodes"

PREPARED = "Prepared"
"""The condition that a node's agent keeps: whether the host is as the plan in `spec` has it."""
FAILED = "Failed"
"""Reason of Prepared where the agent has tried and given up: a person must look."""
HEALTHY = "Healthy"
"""The condition that a node's agent keeps: whether doctor finds nothing that fails on it."""
ROLLED = "Rolled"
"""The condition that the controller keeps: how far the node is in the roll-out."""
OFFERED = "RailsOffered"
"""The condition that the controller keeps: whether the node offers pods the resource of each of its rails."""

FABRIC_LABEL = "trackbed.dev/fabric"
TAINT = "trackbed.dev/preparing"
"""On the Node from its first step until every step is sound; effect NoSchedule."""
PAUSED = "trackbed.dev/paused"
"""Annotation on a Node, a RailNode or a Fabric: no change begins there."""
RETRY = "trackbed.dev/retry"
"""Annotation on a RailNode that failed: try once more. The controller takes it away."""


class RailNodeSlice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the node shall be, without the plan itself: all that a controller of 10,000 nodes holds of each."""

    fabric: str
    """Name of the Fabric it belongs to."""
    slot: int
    """Its number in the fabric, from which all its addresses follow; never given to another node."""
    generation: int = 0
    """Generation of the Fabric that `plan` comes from."""
    plan_hash: str = ""
    """A digest of `plan`."""
    may_change: bool = False
    """The node is drained, and its agent may make it what `plan` says."""
    may_reboot: str = ""
    """The boot (as in status.boot) that the agent may end with a reboot."""
    firmware: bool = False
    """It is, or was last, changed in the firmware wave."""
    changing_since: str = ""
    """Since when `mayChange` is true, or since the last reboot that was allowed (RFC 3339)."""
    changed_generation: int = 0
    """Generation of the Fabric with which the node was changed last."""
    reboots: int = 0
    """Reboots allowed since `mayChange` is true."""
    left_at: str = ""
    """Since when the Fabric names this node no longer (RFC 3339); its slot is kept for a while."""


class RailNodeSpec(RailNodeSlice, frozen=True):
    """What the node shall be."""

    plan: dict[str, Any] = msgspec.field(default_factory=dict)
    """The node's slice of the plan, as in /etc/trackbed/node.json."""


class Difference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing on the node that is not as planned."""

    step: str
    """Step of the chain: vfs, addresses, qos."""
    what: str
    """What differs, in words."""


class Allocation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod on this node that has rails."""

    namespace: str
    """Namespace of the pod."""
    pod: str
    """Name of the pod."""
    rails: tuple[int, ...]
    """Rails it has."""
    addresses: tuple[str, ...] = ()
    """Its addresses, in rail order."""


class RailNodeFinding(msgspec.Struct, frozen=True, rename="camel"):
    """Something that doctor found broken on the node."""

    code: str
    """The fault: `trackbed explain CODE` tells more."""
    subject: str
    """What it is about: rail 3, host."""
    message: str
    """What was read there, and what to do."""


class RailNodeStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the node is."""

    observed_hash: str = ""
    """Digest of the plan that all of this is about."""
    boot: str = ""
    """Which boot this is (/proc/sys/kernel/random/boot_id)."""
    needs_reboot: bool = False
    """Whether only a reboot makes the rest so."""
    firmware: bool = False
    """Whether the NICs' firmware is among what is not as planned: the node waits for the firmware wave."""
    conditions: tuple[Condition, ...] = ()
    """Prepared and Healthy, by the agent; Rolled and RailsOffered, by the controller."""
    differences: tuple[Difference, ...] = ()
    """What is not as planned; the first few."""
    allocations: tuple[Allocation, ...] = ()
    """Pods with rails."""
    findings: tuple[RailNodeFinding, ...] = ()
    """What doctor found broken; the first few."""
