"""Small Fabrics that the tests of the chain and the hosts plan."""

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan

P2P = "{scheme: point-to-point, layout: spectrum-x-2tier, ipv6: 'fd00:10::/48'}"
NODE_SUBNET = "{scheme: node-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48'}"
SHARED = "{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48', gateway: last}"
FLAT = "{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48'}"
NONE = "{scheme: none}"
SCHEMES = {"point-to-point": P2P, "node-subnet": NODE_SUBNET, "shared-subnet": SHARED, "flat": FLAT}


def node_plan(addressing: str, ports: str = "", nodes: int = 4, spec: str = "") -> NodePlan:
    """The second node of a Fabric with two rails."""
    return fabric_plan(addressing, ports, nodes, spec).nodes[1]


def fabric_plan(addressing: str, ports: str = "", nodes: int = 4, spec: str = "") -> Plan:
    """A Fabric with two rails."""
    group = f'hosts: "gpu-[0-{nodes - 1}]"' + (f", hostPorts: {{gpu-1: {ports}}}" if ports else "")
    text = f"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{{group}}}]
  rails: 2
  addressing: {addressing}
{spec}"""
    return compute_plan(load_fabric(text.encode(), "fabric.yaml").fabric, {})
