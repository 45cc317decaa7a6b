"""`native`: Trackbed's own agent offers each rail to the kubelet as a resource and attaches it to pods.

This stack needs no operator, no Multus and no address pool. The agent is the device plugin, the CNI plugin that runs
after the primary network's, and the IPAM for the node's address block. Pods request resources such as
trackbed.dev/rail0, or have an annotation such as `trackbed.dev/rails: all`.
"""

from collections.abc import Iterator

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.native.annotation import RESOURCE_PREFIX, build_policies
from trackbed.cluster.stacks.native.daemon import (
    NAME,
    NAMESPACE,
    build_daemon_set,
    build_namespace,
    build_service_account,
)
from trackbed.cluster.stacks.rails import DEFAULT_PREFIX, build_resources, get_resource_name
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.stack import ROLLED_OUT, AnyWait, ResourceWait, Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, Writes, count_pods
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

COMPONENT = "trackbed"
READY_SECONDS = 1800
"""Timeout for a new version of the agent on all nodes, which get it in ten rounds; each pulls an image."""


def _build_stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("namespace", (build_namespace(), build_service_account()))
    yield Stage("agent", (build_daemon_set(_choose_image(plan)),))
    yield Stage("annotation", build_policies(plan), _build_waits(plan))


def _choose_image(plan: Plan) -> str:
    return plan.kubernetes.agent_image or choose_release(plan, COMPONENT).images["agent"]


def _find_warnings(plan: Plan) -> Iterator[Problem]:
    if plan.kubernetes.agent_image is None:
        yield Problem(
            "agent-image",
            f"no registry has the agent's image {_choose_image(plan)}, so it must be on each node already: build it by "
            "`scripts/image --name REGISTRY/agent:TAG` in a clone, push it, and write kubernetes.images.agent",
            ("spec", "kubernetes", "images", "agent"),
            severity="warning",
        )


def _build_waits(plan: Plan) -> tuple[AnyWait, ...]:
    """Return waits for all agents and rails. They belong to the last stage, so a down node delays no other stage."""
    rails = {rail.rail: get_resource_name(rail, DEFAULT_PREFIX) for rail in plan.common.rails}
    nodes = tuple((node.name, tuple(rails[port.rail] for port in node.ports)) for node in plan.nodes)
    return Wait(f"daemonset/{NAME}", ROLLED_OUT, NAMESPACE, READY_SECONDS), ResourceWait(nodes, READY_SECONDS)


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    yield from _check_resource_names(plan)
    if plan.common.pod_mode == "macvlan" and plan.common.link_type != "ethernet":
        yield Problem(
            "stack-pod-mode",
            "InfiniBand ports carry no macvlan: write vfs.count, or pods.mode move for the ports themselves",
            ("spec", "pods", "mode"),
        )
    if plan.common.pod_mode == "sriov" and not plan.common.vfs:
        yield Problem(
            "stack-no-vfs", "pods.mode sriov without VFs gives pods nothing: write vfs.count", ("spec", "vfs", "count")
        )
    if plan.common.pod_mode != "move":
        yield from _check_addresses(plan)


def _check_resource_names(plan: Plan) -> Iterator[Problem]:
    """Yield a problem if the Fabric sets a resource name other than the agent's, which is fixed."""
    for rail in plan.common.rails:
        if get_resource_name(rail, DEFAULT_PREFIX) != f"{RESOURCE_PREFIX}{rail.rail}":
            yield Problem(
                "stack-resource-name",
                f"the agent offers rail {rail.rail} as {RESOURCE_PREFIX}{rail.rail}, not as {rail.resource}: "
                "leave names.resource out",
                ("spec", "names", "resource"),
            )
            return


def _check_addresses(plan: Plan) -> Iterator[Problem]:
    """Yield a problem if the plan has no addresses for pods; with scheme none VFs need no addresses."""
    if not plan.common.has_addresses and plan.common.pod_mode == "macvlan":
        yield Problem(
            "stack-scheme",
            "scheme none has no addresses, and pods are told apart by theirs: write vfs.count, or pods.mode move",
            ("spec", "addressing", "scheme"),
        )
    elif plan.common.scheme == "point-to-point":
        yield Problem(
            "stack-pod-mode",
            "the one address of a /31 is the port's, and a VF cannot have it too: write pods.mode move",
            ("spec", "pods", "mode"),
        )
    elif any(not block.pods_count for node in plan.nodes for port in node.ports for block in port.addresses):
        yield Problem(
            "stack-no-pod-addresses",
            "no address is left for pods; write addressing.podAddresses, how many pods a node may have on a rail",
            ("spec", "addressing", "podAddresses"),
        )


MAX_SHARED_PODS = 256
"""Largest number of pods that the agent lets share a port."""
_SHARES = {"move": Share.PORT, "sriov": Share.VF, "macvlan": Share.SHARED}


def _count_pods(plan: Plan) -> int | None:
    """Return the pods of a node; the agent deals the node's own addresses whatever `kubernetes.ipam` says."""
    kubernetes = plan.kubernetes._replace(ipam="nv-ipam")
    return count_pods(plan._replace(kubernetes=kubernetes), _SHARES[plan.common.pod_mode], max_shared=MAX_SHARED_PODS)


STACK = Stack(
    name="native",
    title="Trackbed's own agent offers rails to the kubelet and attaches them to pods; it needs no operator for NICs",
    traits=Traits(
        lambda plan: _SHARES[plan.common.pod_mode],
        "new",
        "Trackbed's first release",
        lambda _: Writes(0, "measured by the API server itself: a starting pod asks it nothing"),
        _count_pods,
        kubernetes="1.29",
        ran="2026-11-29, on emulated servers: API server, scheduler and kubelet of Kubernetes 1.36.3, containerd "
        "2.2.2; RDMA (mode shared) on 8 of 8 rails between pods, nothing left after them",
    ),
    needs=(
        "the agent's image in kubernetes.images.agent, built by `scripts/image`: it is published nowhere yet",
        "Kubernetes 1.29; 1.36 for the annotation trackbed.dev/rails (leave its objects out before)",
        "containerd 2.0, or 1.7 with CDI switched on (unless pods.mode is macvlan), or CRI-O, as in RKE2 and kubeadm",
        "a primary network that is configured by a .conflist in /etc/cni/net.d, executables in /opt/cni/bin",
        "of k3s, --flannel-backend=none and a primary network at these paths; OpenShift has them elsewhere",
        "hosts set up by `trackbed apply`, which leaves the node's plan in /etc/trackbed/node.json",
    ),
    cannot=(
        "two fabrics with different rails in one cluster",
        "a rail twice in one pod: all its containers share one interface on it",
        "pods in the host's network",
        "by annotation, a single rail other than rail 0: ask for its resource",
        "by annotation, rails for jobs that wait in Kueue: it counts what templates say, see `trackbed job patch`",
        "mode move: more than one pod a node on a rail",
    ),
    stages=_build_stages,
    # The agent adds device files and the device variables of NCCL and UCX to containers through CDI.
    access=lambda plan: Access(resources=build_resources(plan, DEFAULT_PREFIX)),
    refusals=_find_refusals,
    warnings=_find_warnings,
    needs_labels=False,
)
