"""The CNI plugin that the SR-IOV DRA driver runs for a VF: its configuration and image.

sriov       moves the VF and sets trust and spoof check
ib-sriov    moves an InfiniBand VF, in RDMA namespace mode exclusive together with its RDMA device

The driver runs one plugin and no list: it parses the network by NetworkPluginConfFromBytes of libcni, which wants
`type` at the top and knows no `plugins` (pkg/cni/cni.go), and adds the VF's address there (AddDeviceIDToNetConf). So no
`rdma`, `tuning` or `sbr` can follow. The plugin keeps the VF's MTU, which the host's settings give it.
"""

from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.sriov import to_on_off
from trackbed.fabric.plan.plan import Plan, RailPlan


def build_cni_config(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the CNI configuration of a rail's network; the driver adds the VF's PCI address."""
    plugin = _build_ib_sriov_plugin(plan) if plan.common.link_type == "infiniband" else _build_sriov_plugin(plan)
    ipam = pod_ipam.build_ipam(plan, rail)
    return {"cniVersion": "1.0.0", "name": rail.network, **plugin} | ({"ipam": ipam} if ipam else {})


def _build_ib_sriov_plugin(plan: Plan) -> dict[str, Any]:
    return {"type": "ib-sriov", "link_state": "enable", "rdmaIsolation": plan.common.rdma_mode == "exclusive"}


def _build_sriov_plugin(plan: Plan) -> dict[str, Any]:
    common = plan.common
    return {
        "type": "sriov",
        "spoofchk": to_on_off(enabled=common.vf_spoof_check),
        "trust": to_on_off(enabled=common.vf_trust),
    }


def get_image_name(plan: Plan) -> str:
    """Return the release catalogue's name of the plugin's image."""
    return "ib-sriov-cni" if plan.common.link_type == "infiniband" else "sriov-cni"
