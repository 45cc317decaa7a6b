"""The community's SR-IOV operator 1.6.0 in the lab, with Whereabouts; Multus and Node Feature Discovery are the site's.

The chart in the project's repository names images without tags; the project's release script writes them into the
published one (hack/release/chart-update.sh), so the lab gives them as options of helm.
"""

from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.stacks import network_operator, soft_rdma, whereabouts
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts, LabStack

_COMPONENT = "sriov-network-operator"
_GROUP = "ghcr.io/k8snetworkplumbingwg"
_IMAGES = {
    "operator": ("sriov-network-operator", f"{_GROUP}/sriov-network-operator:v1.6.0"),
    "sriovConfigDaemon": (
        "sriov-network-operator-config-daemon",
        f"{_GROUP}/sriov-network-operator-config-daemon:v1.6.0",
    ),
    "sriovCni": ("sriov-cni", f"{_GROUP}/sriov-cni:v2.10.0"),
    "ibSriovCni": ("ib-sriov-cni", f"{_GROUP}/ib-sriov-cni:v1.3.0"),
    "ovsCni": ("ovs-cni", f"{_GROUP}/ovs-cni-plugin:v0.39.0"),
    "rdmaCni": ("rdma-cni", f"{_GROUP}/rdma-cni:v1.6.0"),
    "sriovDevicePlugin": ("sriov-device-plugin", f"{_GROUP}/sriov-network-device-plugin:v3.11.0"),
}
"""Value of the chart -> the lab's name of the image, and the image."""
_MULTUS = f"{_GROUP}/multus-cni:v4.3.0"
_PLUGINS = "lab.trackbed.dev/cni-plugins:1"
NFD_RELEASE = "node-feature-discovery"
NFD_CHART = "network-operator-26.4.1/deployment/network-operator/charts/node-feature-discovery"
NFD_OPTIONS = ("--set", "image.pullPolicy=IfNotPresent")
NFD = "gcr.io/k8s-staging-nfd/node-feature-discovery:master"


def _build_images(parts: ImageParts) -> list[ImageSpec]:
    names = dict(_IMAGES.values())
    return [
        *network_operator.iter_sriov_images(parts, names),
        network_operator.build_device_plugin_image(parts, names["sriov-device-plugin"]),
        network_operator.build_multus_image(parts, _MULTUS),
        network_operator.build_plugin_image(parts, _PLUGINS, ("tuning", "sbr"), ()),
        network_operator.build_nfd_image(parts, NFD),
        *whereabouts.iter_images(parts),
    ]


_OPERATOR = LabStack(
    name="sriov-operator",
    fabric="sriov_operator.yaml",
    charts={
        f"oci://{_GROUP}/sriov-network-operator-chart": "sriov-network-operator-1.6.0",
        **whereabouts.CHARTS,
    },
    options={
        f"oci://{_GROUP}/sriov-network-operator-chart": [
            word for key, (_, image) in _IMAGES.items() for word in ("--set", f"images.{key}={image}")
        ],
        NFD_RELEASE: NFD_OPTIONS,
    },
    images=_build_images,
    go_programs=network_operator.GO_PROGRAMS,
    node_files=soft_rdma.render_node_files(),
    after_chart=network_operator.SUPPORT_IGB.format(namespace=_COMPONENT),
    held_in_api=whereabouts.count_held,
    leaves=network_operator.RENAMED,
    skipped_charts=("gpu-operator",),
    site_charts={NFD_RELEASE: NFD_CHART},
    site_objects="multus.yaml",
)
STACKS = (_OPERATOR,)
