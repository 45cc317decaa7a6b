"""`openshift`: the SR-IOV operator of OpenShift gives each pod a VF of each rail; NV-IPAM by NVIDIA's operator there.

OLM installs the operators, Multus and Whereabouts are the platform's. Two things stop pods that work elsewhere: without
a security context constraint no container may lock memory, and ibv_reg_mr fails; without the entries in Multus' list of
sysctls the tuning plugin refuses to set them, and no pod with rails starts. The network resources injector adds the
rails' resources to pods by itself.
Follows the OpenShift documentation ("Hardware networks", "Setting interface-level network sysctls") and NVIDIA's
"Network Operator on OpenShift".
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam, sriov
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.network_operator import policy as nvidia
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.cluster.stacks.rails import prefix
from trackbed.cluster.stacks.sriov_operator import olm
from trackbed.cluster.stacks.sriov_operator.flavours import PREFIX, operator_config, refused_pkey
from trackbed.cluster.stacks.stack import Stack, Stage, Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

NAMESPACE = olm.SRIOV.namespace
ALLOWED_SYSCTLS = (
    *(f"ipv4.conf.IFNAME.{name}" for name in ("accept_redirects", "accept_source_route", "arp_accept", "arp_notify")),
    *(f"ipv4.conf.IFNAME.{name}" for name in ("disable_policy", "secure_redirects", "send_redirects")),
    *(f"ipv6.conf.IFNAME.{name}" for name in ("accept_ra", "accept_redirects", "accept_source_route", "arp_accept")),
    *(f"ipv6.conf.IFNAME.{name}" for name in ("arp_notify", "disable_ipv6", "disable_policy")),
    *(f"ipv6.neigh.IFNAME.{name}" for name in ("base_reachable_time_ms", "retrans_time_ms")),
)
"""What the cluster network operator's own list allows; the ConfigMap replaces that list as a whole."""

VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
"""What anyuid allows."""


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("subscriptions", _subscriptions(plan), tuple(_installed(plan)))
    yield Stage("memory locking", (_constraint(plan),))
    yield Stage("sysctls", (_allowed_sysctls(),))
    yield Stage("operator", (operator_config(plan, NAMESPACE, webhooks=True),))
    if _nvidia(plan):
        yield Stage("network operator", (_nic_cluster_policy(plan),), (nvidia.READY,))
    yield from sriov.stages(plan, NAMESPACE, nvidia.NAMESPACE, PREFIX)


def _nvidia(plan: Plan) -> bool:
    """Whether NVIDIA's operator has anything to do: NV-IPAM or the driver container."""
    return pod_ipam.nv_ipam_chosen(plan) or plan.kubernetes.driver == "container"


def _subscriptions(plan: Plan) -> Iterator[Manifest]:
    for package in (olm.NFD, olm.SRIOV, *((olm.NVIDIA,) if _nvidia(plan) else ())):
        yield from olm.subscribed(package)


def _installed(plan: Plan) -> Iterator[Wait]:
    """The operators' kinds exist some time after their subscriptions."""
    kinds = ["sriovnetworknodepolicies.sriovnetwork.openshift.io"]
    kinds += ["nicclusterpolicies.mellanox.com"] if _nvidia(plan) else []
    for kind in kinds:
        yield Wait(f"customresourcedefinition/{kind}", "condition=Established")
    yield Wait("deployment/sriov-network-operator", "condition=Available", NAMESPACE)


def _constraint(plan: Plan) -> Manifest:
    """What anyuid allows, and IPC_LOCK, which a process has only as root: for the pods' namespace alone."""
    return manifest(
        "security.openshift.io/v1",
        "SecurityContextConstraints",
        f"trackbed-{plan.common.fabric}",
        allowHostDirVolumePlugin=False,
        allowHostIPC=False,
        allowHostNetwork=False,
        allowHostPID=False,
        allowHostPorts=False,
        allowPrivilegeEscalation=True,
        allowPrivilegedContainer=False,
        allowedCapabilities=["IPC_LOCK"],
        defaultAddCapabilities=[],
        fsGroup={"type": "RunAsAny"},
        groups=[f"system:serviceaccounts:{plan.kubernetes.namespace}"],
        priority=0,
        readOnlyRootFilesystem=False,
        requiredDropCapabilities=["MKNOD"],
        runAsUser={"type": "RunAsAny"},
        seLinuxContext={"type": "MustRunAs"},
        supplementalGroups={"type": "RunAsAny"},
        users=[],
        volumes=[*VOLUMES],
    )


def _allowed_sysctls() -> Manifest:
    """Multus' list of sysctls that networks may set: the platform's own, and those of the rails."""
    names = sorted({*ALLOWED_SYSCTLS, *(f"ipv4.conf.IFNAME.{name}" for name in sriov.SYSCTLS)})
    listed = "".join(f"^net.{name}$\n" for name in names)
    return manifest("v1", "ConfigMap", "cni-sysctl-allowlist", "openshift-multus", data={"allowlist.conf": listed})


def _nic_cluster_policy(plan: Plan) -> Manifest:
    """NV-IPAM and the driver, and nothing that the platform has of its own."""
    pools = {"nvIpam": nvidia.image(plan, "nv-ipam") | {"enableWebhook": False}}
    return nvidia.nic_cluster_policy(plan, **(pools if pod_ipam.nv_ipam_chosen(plan) else {}))


def _access(plan: Plan) -> Access:
    return sriov.access(plan, PREFIX)


def _refusals(plan: Plan) -> Iterator[Problem]:
    if (written := prefix(plan, PREFIX)) != PREFIX:
        message = (
            f"OpenShift's SR-IOV operator calls every resource {PREFIX}/..., and names.resource begins with "
            f"{written}/: write {PREFIX}/ there, or leave the prefix out"
        )
        yield Problem("stack-prefix", message, ("spec", "names", "resource"))
    yield from sriov.refusals(plan, nvidia.NAMESPACE)
    yield from refused_pkey(plan)


STACK = Stack(
    name="openshift",
    title="OpenShift's SR-IOV operator gives each pod a VF of each rail; NVIDIA's operator there brings NV-IPAM",
    needs=(
        "OpenShift 4.16 or later, its catalogues redhat-operators and certified-operators",
        "a NodeFeatureDiscovery object (nfd.openshift.io/v1), for the label of the fabric's nodes",
        "vfs.count of 1 to 128 (InfiniBand: 16), SR-IOV enabled in firmware and BIOS",
        "nodes that may be drained and rebooted, a tenth of them at once",
        "the right to replace ConfigMap cni-sysctl-allowlist: keep entries of your own by adding them again",
        "with kubernetes.ipam whereabouts: the platform's own, its reconciler switched on in the cluster's Network",
    ),
    cannot=(
        f"another resource prefix than {PREFIX}",
        "scheme point-to-point: a /31 has no address for a VF",
        "PKeys (take network-operator-ib-sriov)",
        "names of RDMA devices that are known before the pod starts",
    ),
    stages=_stages,
    access=_access,
    refusals=_refusals,
    platform_operators=True,
)
