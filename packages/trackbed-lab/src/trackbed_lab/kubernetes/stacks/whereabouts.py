"""Whereabouts 0.9.4 in the lab, for the stacks whose Fabric chooses it (`kubernetes.ipam: whereabouts`).

Its image starts by scripts; here these are the lab's, and addresses of pods that vanish are not looked for
(ip-control-loop).
"""

from collections.abc import Iterator
from dataclasses import replace

from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.stacks.releases import choose_release
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.stacks.image_parts import SLEEP, build_script_image
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts

CHARTS = {"oci://ghcr.io/k8snetworkplumbingwg/whereabouts-chart": "whereabouts-0.9.4"}
_INSTALL = """\
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


def iter_images(parts: ImageParts) -> Iterator[ImageSpec]:
    """Yield the image, if the Fabric chooses Whereabouts."""
    if parts.plan.kubernetes.ipam != "whereabouts":
        return
    name = choose_release(parts.plan, "whereabouts").images["whereabouts"]
    program = {"whereabouts": parts.programs.locate_program("whereabouts")}
    image = build_script_image(name, parts.tools, f"#!/bin/sh\n{SLEEP}", program)
    names = ("token-watcher.sh", "ip-control-loop", "ip-reconciler", "node-slice-controller")
    started = dict.fromkeys(names, "usr/bin/start")
    texts = {**image.texts, "install-cni.sh": _INSTALL}
    yield replace(image, texts=texts, links={**image.links, **started})


def count_held(client: BlockingClient) -> int:
    """Count the addresses in the pools of Whereabouts; none where it is not installed."""
    try:
        pools = client.list("whereabouts.cni.cncf.io/v1alpha1", "IPPool")
    except UnknownKindError:
        return 0
    return sum(len(pool["spec"].get("allocations", {})) for pool in pools)
