"""Every kind of gate that a stack has, stuck and open, on a real API server: what is missing, and what a person can do.

Upstream kinds stand here under a group of our own: a gate reads their status, whatever their schema is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import GROUP, NAMESPACE, crd, daemon_set, node, pod, put, template, waiting
from tests.cluster.stacks.sites import alike, planned
from tests.waiting import wait_until
from trackbed.cluster.rollout.gates import Gate, check_gate
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.install.steps import build_steps
from trackbed.cluster.stacks.stack import ROLLED_OUT, AnyWait, ResourceWait, Wait
from trackbed.fabric.plan.plan import Plan

KINDS = {
    "nicclusterpolicies": "NicClusterPolicy",
    "sriovnetworknodestates": "SriovNetworkNodeState",
    "spectrumxrailpoolconfigs": "SpectrumXRailPoolConfig",
    "tigerastatuses": "TigeraStatus",
    "ippools": "IPPool",
    "cidrpools": "CIDRPool",
    "nothings": "Nothing",
    "crowds": "Crowd",
}


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        blocking_client.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
        )
        crds.install_crds(blocking_client, [crd(plural, kind) for plural, kind in KINDS.items()])
        yield blocking_client


Doing = Callable[[BlockingClient], None]


@dataclass(frozen=True)
class Case:
    """A gate, what makes it stuck, what is told then, and what opens it."""

    wait: AnyWait
    stuck: Doing
    missing: tuple[str, ...]
    remedy: str
    opens: Doing


def status(kind: str, name: str, **fields: Any) -> Doing:
    """An operator writes a status."""
    return lambda client: put(client, kind, name, fields)


def state(name: str, drain: str = "Idle", **fields: Any) -> Doing:
    """What the SR-IOV operator says of a node."""
    metadata = {"annotations": {"sriovnetwork.openshift.io/current-state": drain}}
    return lambda client: put(client, "SriovNetworkNodeState", name, fields, metadata=metadata)


def together(*doings: Doing) -> Doing:
    """One after the other."""

    def do(client: BlockingClient) -> None:
        for each in doings:
            each(client)

    return do


def deployment(*conditions: dict[str, str]) -> Doing:
    """A Deployment whose controller says this of it."""
    labels = {"app": "operator"}
    spec = {"selector": {"matchLabels": labels}, "template": template(labels), "replicas": 0}
    return lambda client: put(client, "Deployment", "operator", {"conditions": list(conditions)}, spec=spec)


def agents(available: int, **pods: Any) -> Doing:
    """A DaemonSet of three pods, so many of which are available, with these pods."""

    def do(client: BlockingClient) -> None:
        for listed_pod in client.list("v1", "Pod", NAMESPACE, selector="app=agent"):
            client.delete(listed_pod)
        daemon_set(client, "agent", 3, 3, available)
        for number, flags in pods.items():
            pod(client, f"agent-{number}", flags, {"app": "agent"}, on=f"gpu-{number[1:]}" if flags != FULL else "")

    return do


def nodes(*of: tuple[str, bool, str]) -> Doing:
    """Nodes: name, whether it is Ready, how many of the rail it has."""

    def do(client: BlockingClient) -> None:
        for name, ready, count in of:
            node(
                client, name, ready=ready, labels={"fabric": "train"}, example_com_rail0=count, trackbed_dev_rail0=count
            )

    return do


def named(*plurals: str) -> Doing:
    """CRDs of one kind: the server accepts the names of the first, and refuses those of any other."""

    def do(client: BlockingClient) -> None:
        for plural in plurals:
            body = crd(plural, "Contested")
            body["spec"]["names"]["singular"] = plural.removesuffix("s")
            client.apply(body)

    return do


def freed(client: BlockingClient) -> None:
    """The CRD that has the names goes away."""
    client.delete(crd("firsts", "Contested"))


FULL = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3: full"}]}
SILENT = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
MINIMUM = {"type": "Available", "reason": "MinimumReplicasUnavailable", "message": "no minimum"}
ROLL = Wait("daemonset/agent", ROLLED_OUT, NAMESPACE)
IN = "--namespace gates"
DAEMON = f"`kubectl describe daemonset agent {IN}` has its events, `kubectl get pods {IN}` its pods"
POOL = (
    f"see that NV-IPAM's controller runs (`kubectl get pods {IN}`) and that nodes have the label that the pool selects"
)
SYNCED = Wait(f"sriovnetworknodestates.{GROUP} --all", "jsonpath={.status.syncStatus}=Succeeded", NAMESPACE)
STATES = (
    f"`kubectl logs {IN} --selector app=sriov-network-config-daemon --prefix --tail 20` says what each node does; "
    "a drain waits for disruption budgets: `kubectl get pdb -A`"
)
SOME = {"allocations": [{"nodeName": "gpu-0"}]}

CASES = {
    "a deployment": Case(
        Wait("deployment/operator", "condition=Available", NAMESPACE),
        deployment({**MINIMUM, "status": "False"}),
        ("Deployment operator: Available is False (MinimumReplicasUnavailable: no minimum)",),
        f"`kubectl describe deployment operator {IN}` has its events, `kubectl get pods {IN}` its pods",
        deployment({**MINIMUM, "status": "True"}),
    ),
    "a deployment of which nothing is said yet": Case(
        Wait("deployment/operator", "condition=Available", NAMESPACE),
        deployment(),
        ("Deployment operator: says nothing of Available yet",),
        f"`kubectl describe deployment operator {IN}` has its events, `kubectl get pods {IN}` its pods",
        deployment({**MINIMUM, "status": "True"}),
    ),
    "a daemonset with pods that cannot be scheduled": Case(
        ROLL,
        agents(1, n0=FULL, n1=FULL),
        (
            "DaemonSet agent: of 3 pods 3 are of this version, 1 available",
            (
                "DaemonSet agent: 2 pods, the first agent-n0: Unschedulable: 0/3: full; "
                "give it a node that fits, or take the taint away"
            ),
        ),
        DAEMON,
        agents(3),
    ),
    "a daemonset whose image cannot be pulled": Case(
        ROLL,
        agents(2, n2=waiting("ImagePullBackOff", 'Back-off pulling image "example.com/x:1"')),
        (
            "DaemonSet agent: of 3 pods 3 are of this version, 2 available",
            (
                'DaemonSet agent: pod agent-n2 on gpu-2: ImagePullBackOff: Back-off pulling image "example.com/x:1"; '
                "see that its nodes reach the registry, and that the pull secret is right"
            ),
        ),
        DAEMON,
        agents(3),
    ),
    "a daemonset that crashes": Case(
        ROLL,
        agents(
            1,
            n3=waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=main pod=agent-n3"),
            n4=waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=main pod=agent-n4"),
        ),
        (
            "DaemonSet agent: of 3 pods 3 are of this version, 1 available",
            (
                "DaemonSet agent: 2 pods, the first agent-n3 on gpu-3: CrashLoopBackOff: back-off 5m0s restarting "
                f"failed container=main pod=agent-n3; `kubectl logs --previous {IN} agent-n3` says why"
            ),
        ),
        DAEMON,
        agents(3),
    ),
    "a daemonset on a node that went away": Case(
        ROLL,
        agents(2, n5=SILENT),
        (
            "DaemonSet agent: of 3 pods 3 are of this version, 2 available",
            (
                "DaemonSet agent: pod agent-n5 on gpu-5: NotReady; "
                f"see that its node is Ready; `kubectl describe pod {IN} agent-n5`"
            ),
        ),
        DAEMON,
        agents(3),
    ),
    "a daemonset of the version before": Case(
        ROLL,
        lambda client: daemon_set(client, "agent", 3, 1, 3),
        ("DaemonSet agent: of 3 pods 1 are of this version, 3 available",),
        DAEMON,
        agents(3),
    ),
    "a crd whose names another one has": Case(
        Wait(f"customresourcedefinition/seconds.{GROUP}", "condition=Established"),
        named("firsts", "seconds"),
        (
            (
                f"CustomResourceDefinition seconds.{GROUP}: Established is False (NotAccepted: not all names are "
                'accepted; NamesAccepted is False: ListKindConflict: "ContestedList" is already in use)'
            ),
        ),
        (
            f"`kubectl describe crd seconds.{GROUP}` says why; where another CRD has its names delete that one, then "
            "install its operator again"
        ),
        freed,
    ),
    "an sr-iov state that failed, of a node that is not there": Case(
        SYNCED,
        state("gpu-90", syncStatus="Failed", lastSyncError="no firmware"),
        (
            "SriovNetworkNodeState gpu-90: syncStatus is Failed, not Succeeded (no firmware)",
            "SriovNetworkNodeState gpu-90: there is no such node",
        ),
        STATES,
        state("gpu-90", syncStatus="Succeeded"),
    ),
    "an sr-iov state of a node that reboots": Case(
        SYNCED,
        together(
            state("gpu-90", drain="Draining", syncStatus="InProgress"),
            lambda client: node(client, "gpu-90", ready=False),
        ),
        (
            "SriovNetworkNodeState gpu-90: syncStatus is InProgress, not Succeeded (its node is at Draining)",
            (
                "SriovNetworkNodeState gpu-90: its node is not Ready: NodeStatusUnknown: "
                "Kubelet stopped posting node status."
            ),
        ),
        STATES,
        state("gpu-90", syncStatus="Succeeded"),
    ),
    "a policy of the network operator": Case(
        Wait(f"nicclusterpolicies.{GROUP}/nic-cluster-policy", "jsonpath={.status.state}=ready"),
        status(
            "NicClusterPolicy",
            "nic-cluster-policy",
            state="notReady",
            appliedStates=[
                {"name": "state-multus-cni", "state": "ready"},
                {"name": "state-nv-ipam-cni", "state": "notReady", "message": "DaemonSet is not ready"},
                {"name": "state-OFED", "state": "ignore"},
            ],
        ),
        (
            (
                "NicClusterPolicy nic-cluster-policy: state is notReady, not ready "
                "(state-nv-ipam-cni: notReady: DaemonSet is not ready)"
            ),
        ),
        (
            "`kubectl describe nicclusterpolicy nic-cluster-policy` has its events, "
            "`kubectl get pods --namespace nvidia-network-operator` shows the part that fails"
        ),
        status("NicClusterPolicy", "nic-cluster-policy", state="ready"),
    ),
    "rails of spectrum-x": Case(
        Wait(f"spectrumxrailpoolconfigs.{GROUP}/train", "jsonpath={.status.syncStatus}=Succeeded", NAMESPACE),
        status(
            "SpectrumXRailPoolConfig",
            "train",
            syncStatus="InProgress",
            nodeStates=[{"name": f"gpu-{number}", "state": "Failed", "message": "no bridge"} for number in range(4)],
        ),
        (
            (
                "SpectrumXRailPoolConfig train: syncStatus is InProgress, not Succeeded (gpu-0: Failed: no bridge; "
                "gpu-1: Failed: no bridge; gpu-2: Failed: no bridge; and 1 more)"
            ),
        ),
        f"mend the nodes that it names; `kubectl describe spectrumxrailpoolconfig train {IN}` has its events",
        status("SpectrumXRailPoolConfig", "train", syncStatus="Succeeded"),
    ),
    "calico": Case(
        Wait(f"tigerastatus.{GROUP}/calico", "condition=Available"),
        status(
            "TigeraStatus",
            "calico",
            conditions=[
                {"type": "Available", "status": "False"},
                {"type": "Degraded", "status": "True", "reason": "ResourceReadError", "message": "no pod network"},
            ],
        ),
        (("TigeraStatus calico: Available is False (Degraded is True: ResourceReadError: no pod network)"),),
        (
            "`kubectl describe tigerastatus calico` has its events, "
            "`kubectl get tigerastatus` shows which part of Calico fails"
        ),
        status("TigeraStatus", "calico", conditions=[{"type": "Available", "status": "True"}]),
    ),
    "pools of a subnet": Case(
        Wait(f"ippools.{GROUP}/rail0", "jsonpath={.status.allocations}", NAMESPACE),
        status("IPPool", "rail0"),
        ("IPPool rail0: has no allocations yet",),
        POOL,
        status("IPPool", "rail0", **SOME),
    ),
    "pools of the nodes' subnets": Case(
        Wait(f"cidrpools.{GROUP}/rail0", "jsonpath={.status.allocations}", NAMESPACE),
        status("CIDRPool", "rail0", allocations=[]),
        ("CIDRPool rail0: has no allocations yet",),
        POOL,
        status("CIDRPool", "rail0", **SOME),
    ),
    "resources of the nodes with the label": Case(
        Wait("nodes --selector=fabric=train", r"jsonpath={.status.allocatable.example\.com/rail0}=8"),
        nodes(("gpu-0", True, "7"), ("gpu-1", True, "8")),
        ("Node gpu-0: example.com/rail0 is 7, not 8",),
        (
            "`kubectl describe node gpu-0` has its events, "
            "`kubectl get pods -A --field-selector spec.nodeName=gpu-0` shows its device plugin"
        ),
        nodes(("gpu-0", True, "8"), ("gpu-1", True, "8")),
    ),
    "rails of the nodes of the plan": Case(
        ResourceWait(tuple((f"gpu-{number}", ("trackbed.dev/rail0", "example.com/rail0")) for number in range(4))),
        nodes(("gpu-0", True, "8"), ("gpu-1", True, "0"), ("gpu-2", False, "8")),
        (
            "1 of 4 nodes are not in the cluster: gpu-3",
            "1 of 4 nodes are down: gpu-2 (not Ready: NodeStatusUnknown: Kubelet stopped posting node status.)",
            "1 of 4 nodes offer no trackbed.dev/rail0, example.com/rail0: gpu-1",
        ),
        (
            "join nodes that are not in the cluster under the plan's names, or take them out of the Fabric; "
            "`kubectl describe node NAME` says why a node is not Ready; bring it up, or delete it and take it out; "
            "`trackbed doctor` on a node says why it does not offer a rail"
        ),
        nodes(*((f"gpu-{number}", True, "1") for number in range(4))),
    ),
}
"""Each is stuck, then open, in an object of its own or after the case before has opened it."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_gate_that_is_stuck_says_why_and_what_to_do_and_opens(client: BlockingClient, case: Case) -> None:
    case.stuck(client)
    assert until(client, case, lambda gate: gate.missing == case.missing) == stuck(case.missing, case.remedy)
    case.opens(client)
    assert until(client, case, lambda gate: gate.holds) == Gate(holds=True)


def stuck(missing: tuple[str, ...], remedy: str) -> Gate:
    return Gate(holds=False, missing=missing, remedy=remedy)


def until(client: BlockingClient, case: Case, holds: Callable[[Gate], bool]) -> Gate:
    """How a gate stands, as soon as it stands so; the server's own controllers take a moment."""

    def check() -> Gate:
        return client.run(check_gate(client.dynamic, case.wait))

    wait_until(lambda: holds(check()), lambda: str(check()))
    return check()


def kind(wait: AnyWait) -> tuple[str, str]:
    """What a gate looks at, and in which words."""
    if isinstance(wait, ResourceWait):
        return "offered", ""
    word = re.split(r"[./ ]", wait.resource)[0].removesuffix("s").removesuffix("ie").removesuffix("y")
    return word, wait.condition.partition("=")[0] + ("=" if wait.condition.endswith("}") else "")


def test_every_gate_of_every_stack_has_a_case_in_which_it_is_stuck() -> None:
    plans = {name: planned(name, alike(2, 2), 2) for name in MODULES}
    wanted = {
        kind(wait)
        for name, plan in plans.items()
        for management in (None, "calico", "cilium")
        for step in build_steps(load_stack(name), managed(plan, management))
        for wait in step.waits
    }
    assert wanted == {kind(case.wait) for case in CASES.values()}


def managed(plan: Plan, management: str | None) -> Plan:
    kubernetes = plan.kubernetes._replace(management=management)
    return plan._replace(kubernetes=kubernetes)


PODS = f"`kubectl get pods {IN}` shows whether its operator runs"
ABSENT = {
    "an object": (
        Wait("deployment/none", "condition=Available", NAMESPACE),
        "there is no deployment/none in namespace gates yet",
        PODS,
    ),
    "all objects of a kind": (
        Wait(f"nothings.{GROUP} --all", "jsonpath={.status.sync}=Succeeded", NAMESPACE),
        "there is no Nothing in namespace gates yet",
        PODS,
    ),
    "a kind": (
        Wait("nonesuch/calico", "condition=Available"),
        "the server serves nothing called nonesuch; its CRD comes with its operator",
        "`helm list --all-namespaces` shows whether it is installed",
    ),
    "a label": (
        Wait("nodes --selector=fabric=none", "jsonpath={.status.allocatable.cpu}=8"),
        "no Node has label fabric=none",
        "`kubectl get pods -A` shows who sets it",
    ),
}


@pytest.mark.parametrize(("wait", "missing", "remedy"), ABSENT.values(), ids=ABSENT)
def test_what_is_not_there_is_told_with_where_to_look(
    client: BlockingClient, wait: Wait, missing: str, remedy: str
) -> None:
    assert client.run(check_gate(client.dynamic, wait)) == replace(stuck((missing,), remedy), absent=True)


def test_many_objects_are_told_by_the_first_few(client: BlockingClient) -> None:
    for number in range(8):
        put(client, "Crowd", f"one-{number}", {"sync": "Failed"})
    wait = Wait(f"crowds.{GROUP} --all", "jsonpath={.status.sync}=Succeeded", NAMESPACE)
    outcome = client.run(check_gate(client.dynamic, wait))
    assert (len(outcome.missing), outcome.missing[-1]) == (6, "and 3 more")
