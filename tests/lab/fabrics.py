"""Small Fabrics that labs are made from: two rails, two nodes of which each is a scalable unit of its own."""

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

P2P = "{scheme: point-to-point, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48'}"
NODE_SUBNET = "{scheme: node-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48'}"
SHARED = "{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48', gateway: last}"
FLAT = "{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48'}"
ONLY_V6 = "{scheme: node-subnet, ipv6: 'fd00:10::/48'}"
ISOLATED = "  routing: {crossRail: isolated}\n"


def fabric(addressing: str, spec: str = "", hosts: str = '"node-[0-1]"', per_unit: int = 1) -> bytes:
    """The document."""
    return f"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: small}}
spec:
  nodes: [{{hosts: {hosts}}}]
  rails: 2
  nodesPerUnit: {per_unit}
  addressing: {addressing}
{spec}""".encode()


def planned(addressing: str, spec: str = "", hosts: str = '"node-[0-1]"', per_unit: int = 1) -> Plan:
    """The plan of that document."""
    return compute_plan(load_fabric(fabric(addressing, spec, hosts, per_unit), "fabric.yaml").fabric, {})
