"""Fabrics that the tests hand over, and what reads the results."""

from typing import Any

import yaml

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

PCI = ("0000:18:00.0", "0000:2a:00.0")
KERNEL = "  kernel: {hugepages: [{size: 1G, count: 16}], isolatedCpus: 4-63}\n"
EVERYTHING = f"""\
  vfs: {{count: 8}}
  bios: {{acs: disabled}}
  kernel: {{iommu: passthrough, {KERNEL.partition("{")[2]}\
  kubelet: {{topologyManager: single-numa-node, reservedCpus: 0-3}}
"""

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu-[0-{last}]", nic: "15b3:1021"{ports}}}]
  rails: 2
  addressing: {{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48', gateway: last}}
{spec}"""

BY_PCI = f", ports: {list(PCI)}".replace("'", '"')


def text(spec: str = EVERYTHING, nodes: int = 3, ports: str = BY_PCI) -> str:
    """A Fabric of some nodes with two rails."""
    return FABRIC.format(last=nodes - 1, ports=ports, spec=spec)


def planned(spec: str = EVERYTHING, nodes: int = 3, ports: str = BY_PCI) -> Plan:
    """The same, planned."""
    return compute_plan(load_fabric(text(spec, nodes, ports).encode(), "fabric.yaml").fabric, {})


class _Loader(yaml.SafeLoader):
    """Reads Ansible's variables: `!unsafe` is a text."""


def _text(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


yaml.add_constructor("!unsafe", _text, _Loader)


def variables(content: str) -> Any:
    """A file of Ansible's variables."""
    return yaml.load(content, Loader=_Loader)  # noqa: S506 - a safe loader that also reads one tag as a text
