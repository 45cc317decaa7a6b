"""Names that a Fabric may write in `kubernetes`: the stacks and the components of the release catalogue.

They are here, below the stacks themselves, so that a Fabric with another name is refused where it is read.
"""

from collections.abc import Iterable
from difflib import get_close_matches

STACK_MODULES = {
    "native": "native.attach",
    "network-operator-sriov": "network_operator.sriov",
    "network-operator-hostdevice": "network_operator.hostdevice",
    "network-operator-macvlan": "network_operator.macvlan",
    "network-operator-ipoib": "network_operator.ipoib",
    "network-operator-ib-sriov": "network_operator.ib_sriov",
    "spectrum-x": "spectrum_x",
    "nic-configuration": "nic_configuration",
    "spiderpool": "spiderpool.attach",
    "sriov-operator": "sriov_operator.upstream",
    "openshift": "sriov_operator.openshift",
    "dranet": "dra.dranet",
    "dra-sriov": "dra.sriov",
    "bare-metal": "bare_metal",
    "kvm": "kvm",
    "aws-efa": "clouds.aws_efa",
    "azure": "clouds.azure",
    "gke": "clouds.gke",
    "oci": "clouds.oci",
}
"""Name of a stack -> module below `trackbed.cluster.stacks` that defines STACK."""

COMPONENTS = (
    "trackbed",
    "nvidia-network-operator",
    "nvidia-gpu-operator",
    "spiderpool",
    "multus",
    "whereabouts",
    "sriov-network-operator",
    "sriov-network-device-plugin",
    "sriov-cni",
    "rdma-cni",
    "nv-ipam",
    "nic-configuration-operator",
    "maintenance-operator",
    "spectrum-x-operator",
    "ib-kubernetes",
    "rdma-shared-device-plugin",
    "doca-driver",
    "dra-driver-sriov",
    "dranet",
    "kueue",
    "jobset",
    "lws",
    "volcano",
    "kubeflow-trainer",
    "training-operator",
    "mpi-operator",
)
"""Components of the release catalogue, in its order."""


def suggest_choice(name: str, choices: Iterable[str]) -> str:
    """Return the choice that is most like a name as a question, or else all choices."""
    names = list(choices)
    matches = get_close_matches(name.lower().replace("_", "-"), names, n=1)
    return f"did you mean {matches[0]!r}?" if matches else f"there are {', '.join(names)}"
