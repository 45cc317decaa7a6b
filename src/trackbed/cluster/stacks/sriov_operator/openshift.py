"""`openshift`: OpenShift's SR-IOV operator gives each pod a VF of each rail; NVIDIA's operator installs NV-IPAM.

OLM installs the operators; Multus and Whereabouts belong to the platform. Compared with other clusters, pods need two
more objects. Without SecurityContextConstraints no container may lock memory, and ibv_reg_mr fails. Without entries in
Multus' sysctl allowlist the tuning plugin refuses to set sysctls, and no pod with rails starts. The network resources
injector adds the rails' resources to pods. Follows the OpenShift documentation ("Hardware networks", "Setting
interface-level network sysctls") and NVIDIA's "Network Operator on OpenShift".
"""

from collections.abc import Iterator

from trackbed.cluster.stacks import pod_ipam, sriov, sriov_nics
from trackbed.cluster.stacks.network_operator import policy as nvidia
from trackbed.cluster.stacks.nv_ipam import DEALT_BLOCKS
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.rails import choose_resource_prefix
from trackbed.cluster.stacks.sriov_operator import olm
from trackbed.cluster.stacks.sriov_operator.flavours import PREFIX, build_operator_config, check_pkey
from trackbed.cluster.stacks.stack import Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

NAMESPACE = olm.SRIOV.namespace
ALLOWED_SYSCTLS = (
    *(f"ipv4.conf.IFNAME.{name}" for name in ("accept_redirects", "accept_source_route", "arp_accept", "arp_notify")),
    *(f"ipv4.conf.IFNAME.{name}" for name in ("disable_policy", "rp_filter", "secure_redirects", "send_redirects")),
    *(f"ipv6.conf.IFNAME.{name}" for name in ("accept_ra", "accept_redirects", "accept_source_route", "arp_accept")),
    *(f"ipv6.conf.IFNAME.{name}" for name in ("arp_notify", "disable_ipv6", "disable_policy")),
    *(f"ipv6.neigh.IFNAME.{name}" for name in ("base_reachable_time_ms", "retrans_time_ms")),
)
"""The sysctls in the cluster network operator's default allowlist, which the ConfigMap replaces as a whole.

Source: bindata/network/multus/004-sysctl-configmap.yaml of openshift/cluster-network-operator, the 14 entries of 4.16
to 4.22, and 3 that its commit a3243a3e adds: rp_filter, disable_ipv6, and disable_policy of IPv6.
"""

ALLOWED_VOLUME_TYPES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
"""Volume types that the SecurityContextConstraints anyuid allow."""


def _build_stages(plan: Plan) -> Iterator[Stage]:
    yield from _build_subscription_stages(plan)
    yield Stage("memory locking", (_build_security_context_constraints(plan),))
    yield Stage("sysctls", (_build_sysctl_allowlist(),), force=True)
    objects = (sriov.build_pool_config(plan, NAMESPACE), build_operator_config(plan, NAMESPACE, webhooks=True))
    yield Stage("operator", objects)
    if _needs_nvidia_operator(plan):
        yield Stage("network operator", (_build_nic_cluster_policy(plan),), (nvidia.POLICY_READY,))
    yield from sriov.build_stages(plan, NAMESPACE, nvidia.NAMESPACE, PREFIX)


def _needs_nvidia_operator(plan: Plan) -> bool:
    """Return whether the plan uses NV-IPAM or the driver container; NVIDIA's operator deploys both."""
    return pod_ipam.uses_nv_ipam(plan) or plan.kubernetes.driver == "container"


def _build_subscription_stages(plan: Plan) -> Iterator[Stage]:
    """Yield a stage for each operator, as any may be installed already. OLM installs them beside each other."""
    packages = (olm.NFD, olm.SRIOV, *((olm.NVIDIA,) if _needs_nvidia_operator(plan) else ()))
    waits = tuple(_build_operator_waits(plan))
    for package in packages:
        yield Stage(
            f"subscription {package.name}",
            olm.build_subscription(package),
            waits if package is packages[-1] else (),
            before_labels=True,
            yields_to=olm.describe_foreign_objects(package),
        )


def _build_operator_waits(plan: Plan) -> Iterator[Wait]:
    """Yield waits for the operators' CRDs and the SR-IOV operator, which OLM installs after the subscriptions."""
    kinds = ["nodefeaturerules.nfd.openshift.io", "sriovnetworknodepolicies.sriovnetwork.openshift.io"]
    kinds += ["nicclusterpolicies.mellanox.com"] if _needs_nvidia_operator(plan) else []
    for kind in kinds:
        yield Wait(f"customresourcedefinition/{kind}", "condition=Established")
    yield Wait("deployment/sriov-network-operator", "condition=Available", NAMESPACE)


def _build_security_context_constraints(plan: Plan) -> Manifest:
    """Return SecurityContextConstraints that allow the pods' namespace the same as anyuid, and IPC_LOCK.

    IPC_LOCK only has an effect for root, hence anyuid.
    """
    return build_manifest(
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
        volumes=[*ALLOWED_VOLUME_TYPES],
    )


def _build_sysctl_allowlist() -> Manifest:
    """Return Multus' allowlist of the sysctls that networks may set: the platform's defaults and those of rails.

    The cluster network operator creates it with its defaults, owns the field, and never updates it. It creates it again
    when it is deleted (pkg/controller/allowlist/allowlist_controller.go).
    """
    names = sorted({*ALLOWED_SYSCTLS, *(f"ipv4.conf.IFNAME.{name}" for name in sriov.POD_SYSCTLS)})
    lines = "".join(f"^net.{name}$\n" for name in names)
    return build_manifest("v1", "ConfigMap", "cni-sysctl-allowlist", "openshift-multus", data={"allowlist.conf": lines})


def _build_nic_cluster_policy(plan: Plan) -> Manifest:
    """Return the NicClusterPolicy with NV-IPAM and the driver, as far as the plan uses them, and without Multus."""
    pools = {"nvIpam": nvidia.build_nv_ipam_section(plan)}
    return nvidia.build_nic_cluster_policy(plan, **(pools if pod_ipam.uses_nv_ipam(plan) else {}))


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    if (chosen_prefix := choose_resource_prefix(plan, PREFIX)) != PREFIX:
        yield Problem(
            "stack-prefix",
            f"OpenShift's SR-IOV operator calls every resource {PREFIX}/..., and names.resource begins with "
            f"{chosen_prefix}/: write {PREFIX}/ there, or leave the prefix out",
            ("spec", "names", "resource"),
        )
    yield from sriov.find_refusals(plan, nvidia.NAMESPACE)
    yield from check_pkey(plan)


STACK = Stack(
    name="openshift",
    title="OpenShift's SR-IOV operator gives each pod a VF of each rail; NVIDIA's operator there brings NV-IPAM",
    traits=Traits(
        share_always(Share.VF),
        "released",
        "Red Hat's product",
        count_multus_writes,
        kubernetes="1.31",
        operators=("OpenShift 4.18 with OLM",),
        only_for="OpenShift",
    ),
    needs=(
        "OpenShift 4.18 or later (the first with rdmaMode), its catalogues redhat-operators and certified-operators",
        "a NodeFeatureDiscovery object (nfd.openshift.io/v1), for the label of the fabric's nodes",
        "vfs.count of 1 to 128 (InfiniBand: 16), SR-IOV enabled in firmware and BIOS",
        "nodes that may be drained and rebooted, a tenth of them at once",
        "ConfigMap cni-sysctl-allowlist, which is replaced also where it was edited: add entries of your own again",
        "with kubernetes.ipam whereabouts: the platform's own, its reconciler switched on in the cluster's Network",
    ),
    cannot=(
        f"another resource prefix than {PREFIX}",
        "scheme point-to-point: a /31 has no address for a VF",
        "PKeys (take network-operator-ib-sriov)",
        "names of RDMA devices that are known before the pod starts",
        DEALT_BLOCKS,
    ),
    stages=_build_stages,
    access=lambda plan: sriov.build_access(plan, PREFIX),
    refusals=_find_refusals,
    warnings=sriov_nics.find_openshift_warnings,
    platform_operators=True,
    deploys_driver=True,
)
