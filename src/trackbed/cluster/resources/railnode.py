"""RailNode: the planned and the actual state of a node of a Fabric in a cluster.

    spec      written by the controller: the node's slice of the plan, and whether the node may be changed now
    status    written by the node's agent: differences from the plan, findings, and the rails of pods

A drained node is changed only while `mayChange` is true, and rebooted only while `mayReboot` names its current boot. So
a permission never causes a second reboot, even if a program crashes. `mayRepair` permits to repair drift in place:
settings that differ from a plan that the node had reached, and that can be changed under running pods.
"""

from typing import Any

import msgspec

from trackbed.cluster.resources.conditions import Condition

API_VERSION = "trackbed.dev/v1alpha1"
KIND = "RailNode"
PATH = "/apis/trackbed.dev/v1alpha1/railnodes"

PREPARED = "Prepared"
"""Condition set by the node's agent: whether the host is as in the plan in `spec`."""
FAILED = "Failed"
"""Reason of condition Prepared once the agent has given up and an operator must act."""
DRIFTED = "Drifted"
"""Reason of condition Prepared: only settings differ that are repaired in place, and that is not permitted now."""
NOT_REPAIRED = "NotRepaired"
"""Reason of condition Prepared: a repair in place failed; it is tried again at the next comparison."""
BY_HAND = "ByHand"
"""Reason of condition Prepared: what differs cannot be changed by the agent, so the node is not drained for it."""
CONTESTED = "Contested"
"""Condition set by the node's agent while another program keeps changing a setting back. Also the reason of condition
Prepared if only contested settings differ."""
HELD_REASONS = frozenset({DRIFTED, NOT_REPAIRED, BY_HAND, CONTESTED})
"""Reasons of condition Prepared for which a node is not drained."""
HEALTHY = "Healthy"
"""Condition set by the node's agent: whether doctor finds no failure on the node."""
ROLLED = "Rolled"
"""Condition set by the controller: the node's progress in the roll-out."""
PROVED = "Proved"
"""Condition set by `trackbed prove --to-cluster`: whether the traffic of each of the node's rails passed."""
OFFERED = "RailsOffered"
"""Condition set by the controller: whether the node offers a resource for each of its rails to pods."""
COMPARED = "Compared"
"""Condition set by the controller while it cannot decode the report of the node's agent: always False."""

FABRIC_LABEL = "trackbed.dev/fabric"
TAINT = "trackbed.dev/preparing"
"""Taint of a Node (effect NoSchedule) from its first preparation step until all steps are sound."""
UNPROVED_TAINT = "trackbed.dev/unproved"
"""Taint of a Node (effect NoSchedule) that a proof blames, until a proof passes on it."""
PAUSED = "trackbed.dev/paused"
"""Annotation that pauses a Node, a RailNode or a Fabric: no change of it is started."""
RETRY = "trackbed.dev/retry"
"""Annotation that makes the controller retry a failed RailNode once. The controller removes it."""
ALLOW_REMOVAL = "trackbed.dev/allow-removal"
"""Annotation on a Fabric: the generation whose plan may be applied to nodes that it does not fit."""
MISFIT = "DoesNotFit"
"""Reason of condition Prepared if the plan would remove too much of what works on the host."""


class RailNodeSlice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The planned state of a node, without the plan itself: all that a controller keeps in memory for each node."""

    fabric: str
    """Name of the Fabric."""
    slot: int
    """Number of the node in the fabric; all its addresses derive from it. It is unique within the Fabric."""
    generation: int = 0
    """Generation of the Fabric from which `plan` was computed."""
    plan_hash: str = ""
    """Digest of `plan`."""
    may_change: bool = False
    """Whether the node is drained and its agent may apply `plan`."""
    allow_removal: bool = False
    """Whether the agent may apply `plan` although it does not fit the host."""
    may_repair: bool = False
    """Whether the agent may repair drift in place, under running pods."""
    repairs_after: str = ""
    """Time before which repairs do not count as contested (RFC 3339): an operator has ended the contest."""
    may_reboot: str = ""
    """ID of the boot (as in status.boot) that the agent may end with a reboot."""
    firmware: bool = False
    """Whether the current or last change of the node belongs to the firmware wave."""
    changing_since: str = ""
    """Time at which `mayChange` became true, or of the last permitted reboot (RFC 3339)."""
    changed_generation: int = 0
    """Generation of the Fabric at the node's last change."""
    reboots: int = 0
    """Reboots permitted since `mayChange` became true."""
    left_at: str = ""
    """Time at which the node left the Fabric (RFC 3339); its slot is kept for rollout.keepSlotsHours."""


class RailNodeSpec(RailNodeSlice, frozen=True):
    """The planned state of a node, with its plan."""

    plan: dict[str, Any] = msgspec.field(default_factory=dict)
    """The node's slice of the plan, as in /etc/trackbed/node.json."""


class Difference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A difference between the node and the plan."""

    step: str
    """Preparation step, such as vfs, addresses or qos."""
    description: str = msgspec.field(name="what")
    """Description of the difference."""


class Repair(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The repairs of one setting within the last hour, and whether another program contests it."""

    step: str
    """Preparation step of the setting."""
    subject: str
    """The setting, such as `PFC of rail0`."""
    times: tuple[str, ...]
    """Times of its repairs (RFC 3339), newest last."""
    differed: str = ""
    """Time of the last comparison in which it differed (RFC 3339)."""
    contested: bool = False
    """Whether it is no longer repaired, because it did not stay as repaired."""


class Allocation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod on this node, and its rails."""

    namespace: str
    """Namespace of the pod."""
    pod: str
    """Name of the pod."""
    rails: tuple[int, ...]
    """Numbers of the pod's rails."""
    addresses: tuple[str, ...] = ()
    """Addresses of the pod, in rail order."""


class RailNodeFinding(msgspec.Struct, frozen=True, rename="camel"):
    """A fault that doctor found on the node."""

    code: str
    """Code of the fault; `trackbed explain CODE` describes it."""
    subject: str
    """The affected part, such as `rail 3` or `host`."""
    message: str
    """The observed value, and the remedy."""


class RailNodeStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The actual state of a node."""

    observed_hash: str = ""
    """Digest of the plan that this status describes."""
    boot: str = ""
    """ID of the current boot (/proc/sys/kernel/random/boot_id)."""
    needs_reboot: bool = False
    """Whether the remaining differences need a reboot."""
    firmware: bool = False
    """Whether the firmware of any NIC differs from the plan, so that the node waits for the firmware wave."""
    conditions: tuple[Condition, ...] = ()
    """Prepared, Contested and Healthy, set by the agent; Rolled, RailsOffered and Compared, set by the controller;
    Proved, set by a proof."""
    differences: tuple[Difference, ...] = ()
    """The first few differences from the plan."""
    allocations: tuple[Allocation, ...] = ()
    """Pods on the node that have rails."""
    findings: tuple[RailNodeFinding, ...] = ()
    """The first few faults that doctor found."""
    reached_hash: str = ""
    """Digest of the plan that the host had reached last. Settings that differ from it have drifted."""
    repairs: tuple[Repair, ...] = ()
    """Settings that were repaired in place within the last hour."""
    report: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The agent's report for comparisons with other nodes; `node_report` has its fields."""
