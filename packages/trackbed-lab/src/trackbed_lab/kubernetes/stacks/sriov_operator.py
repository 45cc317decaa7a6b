"""The community's SR-IOV operator 1.6.0 in the lab, with Whereabouts; Multus and Node Feature Discovery are the site's.

The chart in the project's repository names images without tags; the project's release script writes them into the
published one (hack/release/chart-update.sh), so the lab gives them as options of helm. Whereabouts' image starts by
scripts; here these are the lab's, and addresses of pods that vanish are not looked for (ip-control-loop).
"""

from collections.abc import Iterator
from dataclasses import replace

from trackbed.cluster.stacks.releases import choose_release
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.stacks import network_operator, soft_rdma
from trackbed_lab.kubernetes.stacks.image_parts import SLEEP, build_script_image
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
_INSTALL_WHEREABOUTS = """\
# Writes the plugin's configuration with the pod's own account, and copies it; sourced by the chart's command.
account=/var/run/secrets/kubernetes.io/serviceaccount
folder=/host/etc/cni/net.d/whereabouts.d
mkdir -p $folder
cp $account/ca.crt $folder/ca.crt
server="https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
cat >$folder/whereabouts.kubeconfig <<EOF
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "$server", certificate-authority: /etc/cni/net.d/whereabouts.d/ca.crt}}]
users: [{name: whereabouts, user: {token: "$(cat $account/token)"}}]
contexts: [{name: whereabouts, context: {cluster: local, user: whereabouts, namespace: $WHEREABOUTS_NAMESPACE}}]
current-context: whereabouts
EOF
cat >$folder/whereabouts.conf <<EOF
{"datastore": "kubernetes", "kubernetes": {"kubeconfig": "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"}}
EOF
cp -f /whereabouts /host/opt/cni/bin/
"""


def _build_images(parts: ImageParts) -> list[ImageSpec]:
    names = dict(_IMAGES.values())
    return [
        *network_operator.iter_sriov_images(parts, names),
        network_operator.build_device_plugin_image(parts, names["sriov-device-plugin"]),
        network_operator.build_multus_image(parts, _MULTUS),
        network_operator.build_plugin_image(parts, _PLUGINS, ("tuning", "sbr"), ()),
        network_operator.build_nfd_image(parts, NFD),
        *_iter_whereabouts_images(parts),
    ]


def _iter_whereabouts_images(parts: ImageParts) -> Iterator[ImageSpec]:
    name = choose_release(parts.plan, "whereabouts").images["whereabouts"]
    program = {"whereabouts": parts.programs.locate_program("whereabouts")}
    image = build_script_image(name, parts.tools, f"#!/bin/sh\n{SLEEP}", program)
    names = ("token-watcher.sh", "ip-control-loop", "ip-reconciler", "node-slice-controller")
    started = dict.fromkeys(names, "usr/bin/start")
    texts = {**image.texts, "install-cni.sh": _INSTALL_WHEREABOUTS}
    yield replace(image, texts=texts, links={**image.links, **started})


def _count_reserved(client: BlockingClient) -> int:
    """Count the addresses in the pools of Whereabouts."""
    pools = client.list("whereabouts.cni.cncf.io/v1alpha1", "IPPool")
    return sum(len(pool["spec"].get("allocations", {})) for pool in pools)


_OPERATOR = LabStack(
    name="sriov-operator",
    fabric="sriov_operator.yaml",
    charts={
        f"oci://{_GROUP}/sriov-network-operator-chart": "sriov-network-operator-1.6.0",
        f"oci://{_GROUP}/whereabouts-chart": "whereabouts-0.9.4",
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
    held_in_api=_count_reserved,
    leaves=network_operator.RENAMED,
    skipped_charts=("gpu-operator",),
    site_charts={NFD_RELEASE: NFD_CHART},
    site_objects="multus.yaml",
)
STACKS = (_OPERATOR,)
