"""Checks across the fields that say how pods get rails, and of the names in `kubernetes`."""

from collections.abc import Iterator

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.stack_names import COMPONENTS, suggest_choice


def check_pods(spec: FabricSpec) -> Iterator[Problem]:
    """Yield the problems of pods and kubernetes in a Fabric whose fields are each valid by themselves."""
    if spec.kubernetes.pkey is not None and spec.link_type != "infiniband":
        message = (
            "a partition key is InfiniBand's, and linkType is ethernet; leave it out, or write linkType infiniband"
        )
        yield Problem("pkey-on-ethernet", message, ("spec", "kubernetes", "pkey"))
    if spec.rdma.namespace_mode == "exclusive" and spec.shares_ports:
        message = "namespaceMode exclusive hides RDMA devices from macvlan pods; write shared, or pods.mode move"
        yield Problem("rdma-mode", message, ("spec", "rdma", "namespaceMode"))
    if spec.pods.mode == "sriov" and not spec.vfs.count:
        message = "pods.mode sriov gives VFs to pods, and vfs.count is 0; write how many a port has, or mode macvlan"
        yield Problem("sriov-without-vfs", message, ("spec", "pods", "mode"))
    yield from _check_components(spec)


def _check_components(spec: FabricSpec) -> Iterator[Problem]:
    for field, components in (("versions", spec.kubernetes.versions), ("values", spec.kubernetes.values)):
        for component in components:
            if component not in COMPONENTS:
                message = (
                    f"the release catalogue has no component {component!r}; {suggest_choice(component, COMPONENTS)}"
                )
                yield Problem("unknown-component", message, ("spec", "kubernetes", field, component))
