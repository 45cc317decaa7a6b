"""Ways of giving NICs to pods: a module for each stack that turns a Plan into objects. Adding one is a line here."""

from __future__ import annotations

from importlib import import_module

from trackbed.cluster.stacks.stack import Stack

MODULES = {
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
"""Name of a stack -> its module, whose attribute STACK it is."""


def stack(name: str) -> Stack:
    """The stack of that name; KeyError if there is none."""
    found: Stack = import_module(f"trackbed.cluster.stacks.{MODULES[name]}").STACK
    return found
