"""`native`: Trackbed's own agent offers each rail to the kubelet as a resource and attaches what a pod was given.

No operator, no Multus, no address pool: the agent is the device plugin, the CNI plugin that is chained behind the
primary network, and the dealer of the node's own block of addresses. A pod asks for trackbed.dev/rail0 and so on, or
says trackbed.dev/rails: all.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.native.annotation import RESOURCE, policies
from trackbed.cluster.stacks.native.daemon import NAME, NAMESPACE, daemon_set, namespace, service_account
from trackbed.cluster.stacks.rails import OWN_PREFIX, resource, resources
from trackbed.cluster.stacks.releases import release
from trackbed.cluster.stacks.stack import ROLLED_OUT, Offered, Stack, Stage, Until, Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

COMPONENT = "trackbed"
READY_SECONDS = 1800
"""A new version comes to all nodes in ten rounds, each of which pulls an image."""


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("namespace", (namespace(), service_account()))
    yield Stage("agent", (daemon_set(release(plan, COMPONENT).images["agent"]),))
    yield Stage("annotation", policies(plan), _until(plan))


def _until(plan: Plan) -> tuple[Until, ...]:
    """Every agent serves, every rail is offered. Asked last: a node that is down shall keep no stage from the rest."""
    rails = {rail.rail: resource(rail, OWN_PREFIX) for rail in plan.common.rails}
    nodes = tuple((node.name, tuple(rails[port.rail] for port in node.ports)) for node in plan.nodes)
    return Wait(f"daemonset/{NAME}", ROLLED_OUT, NAMESPACE, READY_SECONDS), Offered(nodes, READY_SECONDS)


def _access(plan: Plan) -> Access:
    """Device files and NCCL's and UCX's lists of devices come with the resources, by CDI."""
    return Access(resources=resources(plan, OWN_PREFIX))


def _refusals(plan: Plan) -> Iterator[Problem]:
    yield from _names(plan)
    if plan.common.pod_mode == "macvlan" and plan.common.link_type != "ethernet":
        message = "InfiniBand ports carry no macvlan: write vfs.count, or pods.mode move for the ports themselves"
        yield Problem("stack-pod-mode", message, ("spec", "pods", "mode"))
    elif plan.common.pod_mode == "sriov" and not plan.common.vfs:
        message = "pods.mode sriov without VFs gives pods nothing: write vfs.count"
        yield Problem("stack-no-vfs", message, ("spec", "vfs", "count"))
    elif plan.common.pod_mode != "move":
        yield from _addresses(plan)


def _names(plan: Plan) -> Iterator[Problem]:
    """The agent knows no other names: it is told of rails by the kubelet, in these words."""
    for rail in plan.common.rails:
        if resource(rail, OWN_PREFIX) != f"{RESOURCE}{rail.rail}":
            message = (
                f"the agent offers rail {rail.rail} as {RESOURCE}{rail.rail}, not as {rail.resource}: "
                "leave names.resource out"
            )
            yield Problem("stack-resource-name", message, ("spec", "names", "resource"))
            return


def _addresses(plan: Plan) -> Iterator[Problem]:
    """A macvlan needs an address, a VF the one that its rail's block has for it, if the fabric has addresses at all."""
    if plan.common.scheme == "none" and plan.common.pod_mode == "macvlan":
        message = "scheme none has no addresses, and pods are told apart by theirs: write vfs.count, or pods.mode move"
        yield Problem("stack-scheme", message, ("spec", "addressing", "scheme"))
    elif plan.common.scheme == "point-to-point":
        message = "the one address of a /31 is the port's, and a VF cannot have it too: write pods.mode move"
        yield Problem("stack-pod-mode", message, ("spec", "pods", "mode"))
    elif any(not own.pods_count for node in plan.nodes for port in node.ports for own in port.addresses):
        message = "no address is left for pods; write addressing.podAddresses, how many pods a node may have on a rail"
        yield Problem("stack-no-pod-addresses", message, ("spec", "addressing", "podAddresses"))


STACK = Stack(
    name="native",
    title="Trackbed's own agent offers rails to the kubelet and attaches them to pods; it needs nothing but Kubernetes",
    needs=(
        "Kubernetes 1.29; 1.36 for the annotation trackbed.dev/rails (leave its objects out before)",
        "containerd 2.0, or 1.7 with CDI switched on",
        "a primary network that is configured by a .conflist in /etc/cni/net.d, executables in /opt/cni/bin",
        "hosts set up by `trackbed apply`, which leaves the node's plan in /etc/trackbed/node.json",
        "Python 3.9 at /usr/bin/python3 on the hosts, for the CNI executable",
    ),
    cannot=(
        "two fabrics with different rails in one cluster",
        "a rail twice in one pod: all its containers share one interface on it",
        "pods in the host's network",
        "by annotation, a single rail other than rail 0: ask for its resource",
        "by annotation, rails for jobs that wait in Kueue: it counts what templates say, see `trackbed job patch`",
        "mode move: more than one pod a node on a rail",
    ),
    stages=_stages,
    access=_access,
    refusals=_refusals,
    needs_labels=False,
)
