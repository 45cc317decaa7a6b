"""What stands for pods on an emulated server: a network namespace for each rail with a VF in it, addressed as planned.

Shell scripts, as values: they run inside the servers. Soft-RoCE listens in the namespace where its device was made, so
each namespace gets a device of its own; RDMA devices have one name space for the whole host, so they carry the rail.
"""

from __future__ import annotations

from trackbed.fabric.model.ranges import BITS, V4, text
from trackbed.fabric.plan.plan import Addressed, NodePlan, PortPlan

PORT = 18515
"""perftest's own port; rail r uses PORT + r."""

_ITERATIONS = 20
_SIZE_BYTES = 65536
CARRIER_SECONDS = 30


def find_pod_address(port: PortPlan) -> Addressed:
    """The first pod address of a port's block (IPv4)."""
    own = port.v4
    if own is None or not own.pods_count:
        raise ValueError(f"{port.netdev} has no IPv4 addresses for pods; the lab needs a Fabric that has them")
    return own.with_address(own.pods_first)


def format_pod_address(port: PortPlan) -> str:
    """That address in text."""
    return text(V4, find_pod_address(port).address)


def name_rdma_device(port: PortPlan) -> str:
    """The pod's RDMA device."""
    return f"pod{port.rail}"


def render_pods_script(node: NodePlan) -> str:
    """A script that makes all pods of a server, and waits until each has carrier."""
    return "set -e\n" + "".join(_pod(node, port) for port in node.ports) + "".join(map(_wait, node.ports))


def _pod(node: NodePlan, port: PortPlan) -> str:
    own, name = port.v4, port.netdev
    if own is None:
        raise ValueError(f"{name} has no IPv4 address")
    route = f"ip -n {name} route add default via {text(V4, own.gateway)}\n" if own.gateway else ""
    return f"""ip netns add {name}
vf=$(ls /sys/class/net/{name}/device/virtfn0/net)
ip link set "$vf" mtu {node.common.mtu_bytes} netns {name} name vf0
ip -n {name} link set lo up
ip -n {name} link set vf0 up
ip -n {name} address add {text(V4, find_pod_address(port).address)}/{own.prefix} dev vf0
{route}ip netns exec {name} rdma link add {name_rdma_device(port)} type rxe netdev vf0
"""


def _wait(port: PortPlan) -> str:
    return f"""for i in $(seq {CARRIER_SECONDS * 5}); do
    [ "$(ip netns exec {port.netdev} cat /sys/class/net/vf0/carrier)" = 1 ] && break
    sleep 0.2
done
[ "$i" != {CARRIER_SECONDS * 5} ] || {{ echo "the VF of {port.netdev} has no carrier"; exit 1; }}
"""


def _gid(port: PortPlan) -> str:
    """Words that find the index of the RoCE v2 GID of the pod's IPv4 address."""
    raw = find_pod_address(port).address.to_bytes(BITS[V4] // 8, "big").hex()
    wanted = f"0000:0000:0000:0000:0000:ffff:{raw[:4]}:{raw[4:]}"
    folder = f"/sys/class/infiniband/{name_rdma_device(port)}/ports/1/gids"
    return f"$(ip netns exec {port.netdev} grep -l {wanted} {folder}/* 2>/dev/null | head -n 1 | sed 's,.*/,,')"


def render_bandwidth_server(port: PortPlan, number: int) -> str:
    """Start the listening end of a bandwidth test in the pod of a port."""
    return f"{_bandwidth(port, number)} >/run/bw{number}.log 2>&1 &\n"


def render_bandwidth_client(port: PortPlan, to: PortPlan, number: int) -> str:
    """Write to another server's pod over RDMA; the last line that perftest prints has the figures."""
    return f"{_bandwidth(port, number)} {format_pod_address(to)}\n"


def _bandwidth(port: PortPlan, number: int) -> str:
    program = f"timeout 60 ib_write_bw -d {name_rdma_device(port)} -x {_gid(port)} -n {_ITERATIONS} -s {_SIZE_BYTES} -F"
    return f"ip netns exec {port.netdev} {program} -p {PORT + number}"


def render_cm_server(port: PortPlan) -> str:
    """Start the listening end of rping (connections by the RDMA CM) in the pod of a port."""
    return f"ip netns exec {port.netdev} timeout 60 rping -s -a {format_pod_address(port)} -C 3 >/run/rping{port.rail}.log 2>&1 &\n"


def render_cm_client(port: PortPlan, to: PortPlan) -> str:
    """Connect to another server's pod by the RDMA CM."""
    return f"ip netns exec {port.netdev} timeout 60 rping -c -a {format_pod_address(to)} -C 3\n"
