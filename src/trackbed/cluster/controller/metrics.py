"""Metrics of roll-outs, by Fabric and stage; labels with names of nodes would have 10,000 values.

Only the leader exports the gauges of Fabrics.
"""

import collections

from prometheus_client import Counter, Gauge, Histogram

from trackbed.cluster.api.metrics import WATCH_LAST_CONTACT
from trackbed.cluster.controller.decide import Decision
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import RolloutRules, Stage

LEADER = Gauge("trackbed_leader", "1 for the controller that leads, 0 for a candidate.")
NODES = Gauge("trackbed_nodes", "Nodes of a Fabric at each stage.", ("fabric", "stage"))
UNAVAILABLE = Gauge("trackbed_unavailable_nodes", "Nodes that accept no pods, for any reason.", ("fabric",))
MAX_UNAVAILABLE = Gauge(
    "trackbed_unavailable_nodes_allowed", "Limit of unavailable nodes (rollout.maxUnavailable).", ("fabric",)
)
GENERATION = Gauge("trackbed_fabric_generation", "Generation of a Fabric that is rolled out.", ("fabric",))
GOOD_GENERATION = Gauge(
    "trackbed_fabric_good_generation", "The last generation at which all nodes were sound.", ("fabric",)
)
ACCEPTED = Gauge("trackbed_fabric_accepted", "1 for a Fabric that can be planned, 0 for one that cannot.", ("fabric",))
HALTED = Gauge(
    "trackbed_fabric_halted", "1 if no node begins although some wait: paused, or too many failures.", ("fabric",)
)
FAILURES = Counter("trackbed_node_failures", "Times that a node failed.", ("fabric",))
REBOOTS = Counter("trackbed_reboots", "Reboots that agents were permitted.", ("fabric",))
EVICTIONS_REFUSED = Counter("trackbed_evictions_refused", "Evictions that a PodDisruptionBudget refused.")
DEFECTS = Counter("trackbed_fabric_defects", "Passes over a Fabric that ended with an unexpected error.", ("fabric",))
PASS_DURATION = Histogram(
    "trackbed_look_duration_seconds",
    "Duration of one pass over a Fabric: plan, decide, act, report.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
)

_FABRIC_GAUGES = (NODES, UNAVAILABLE, MAX_UNAVAILABLE, GENERATION, GOOD_GENERATION, ACCEPTED, HALTED)


def record_decision(fabric: FabricObject, decision: Decision, rules: RolloutRules) -> None:
    """Set the gauges of a Fabric to the state of its roll-out."""
    name, counts = rules.fabric, collections.Counter(node.stage for node in decision.nodes)
    for stage in Stage:
        NODES.labels(name, stage).set(counts[stage])
    UNAVAILABLE.labels(name).set(sum(node.snapshot.unavailable for node in decision.nodes))
    MAX_UNAVAILABLE.labels(name).set(rules.max_unavailable)
    GENERATION.labels(name).set(rules.generation)
    GOOD_GENERATION.labels(name).set(fabric.status.good_generation)
    ACCEPTED.labels(name).set(1)
    HALTED.labels(name).set(bool(decision.halt_reason))


def record_refusal(fabric: FabricObject) -> None:
    """Set gauge ACCEPTED of a Fabric that cannot be planned; its other gauges are kept."""
    ACCEPTED.labels(fabric.metadata.name).set(0)


def remove_fabric_gauges(fabric: str) -> None:
    """Remove the gauges of a deleted Fabric."""
    for gauge in _FABRIC_GAUGES:
        gauge.remove_by_labels({"fabric": fabric})


def clear_leader_metrics() -> None:
    """Clear the metrics that only the leader exports, once another controller may lead."""
    LEADER.set(0)
    WATCH_LAST_CONTACT.clear()
    for gauge in _FABRIC_GAUGES:
        gauge.clear()
