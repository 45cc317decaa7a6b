"""Metrics of roll-outs. Labels are a Fabric's name and a stage; node names would be 10,000 label values.

Only the leader exports the gauges of Fabrics.
"""

import collections

from prometheus_client import Counter, Gauge, Histogram

from trackbed.cluster.api.metrics import WATCH_HEARD
from trackbed.cluster.controller.decide import Decision
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import Rules, Stage

LEADER = Gauge("trackbed_leader", "1 for the controller that leads, 0 for one that waits for its turn.")
NODES = Gauge("trackbed_nodes", "Nodes of a Fabric at each stage.", ("fabric", "stage"))
UNAVAILABLE = Gauge("trackbed_unavailable_nodes", "Nodes that take no pods, for whatever reason.", ("fabric",))
BUDGET = Gauge(
    "trackbed_unavailable_nodes_allowed", "How many of them there may be (rollout.maxUnavailable).", ("fabric",)
)
GENERATION = Gauge("trackbed_fabric_generation", "Generation of a Fabric that is carried out.", ("fabric",))
GOOD = Gauge("trackbed_fabric_good_generation", "The last generation with which all nodes were sound.", ("fabric",))
ACCEPTED = Gauge("trackbed_fabric_accepted", "1 for a Fabric that can be planned, 0 for one that cannot.", ("fabric",))
HALTED = Gauge(
    "trackbed_fabric_halted", "1 where no node begins although some should: paused, or too many failures.", ("fabric",)
)
FAILURES = Counter("trackbed_node_failures", "Times that a node failed.", ("fabric",))
REBOOTS = Counter("trackbed_reboots", "Reboots that agents were asked for.", ("fabric",))
EVICTIONS_REFUSED = Counter("trackbed_evictions_refused", "Evictions that a PodDisruptionBudget refused.")
LOOK = Histogram(
    "trackbed_look_duration_seconds",
    "Time of one look at a Fabric: plan, decide, do, report.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
)

_FABRIC_GAUGES = (NODES, UNAVAILABLE, BUDGET, GENERATION, GOOD, ACCEPTED, HALTED)


def record_decision(fabric: FabricObject, decision: Decision, rules: Rules) -> None:
    """Set the gauges of a Fabric that is rolled out."""
    name, counts = rules.fabric, collections.Counter(node.stage for node in decision.nodes)
    for stage in Stage:
        NODES.labels(name, stage).set(counts[stage])
    UNAVAILABLE.labels(name).set(sum(node.standing.unavailable for node in decision.nodes))
    BUDGET.labels(name).set(rules.max_unavailable)
    GENERATION.labels(name).set(rules.generation)
    GOOD.labels(name).set(fabric.status.good_generation)
    ACCEPTED.labels(name).set(1)
    HALTED.labels(name).set(bool(decision.halt_reason))


def record_refusal(fabric: FabricObject) -> None:
    """Set the gauge of a Fabric that cannot be planned; its nodes stay as they were."""
    ACCEPTED.labels(fabric.metadata.name).set(0)


def forget_fabric(fabric: str) -> None:
    """Remove the gauges of a deleted Fabric."""
    for gauge in _FABRIC_GAUGES:
        gauge.remove_by_labels({"fabric": fabric})


def clear_fabrics() -> None:
    """Remove the gauges of all Fabrics when another controller leads."""
    LEADER.set(0)
    WATCH_HEARD.clear()
    for gauge in _FABRIC_GAUGES:
        gauge.clear()
