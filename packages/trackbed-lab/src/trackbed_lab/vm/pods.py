"""Stand-ins for pods on an emulated server: a network namespace for each rail, with a VF and its planned address.

Everything is a shell script that runs inside the servers. Soft-RoCE listens only in the namespace that created its
device, so each namespace gets its own device. RDMA device names are global to the host, so they include the rail.
"""

from trackbed.fabric.model.ranges import BITS, V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, PortPlan

PORT = 18515
"""perftest's default port; rail r uses PORT + r."""

TRIES = 6
"""How often a server or a client starts again, a second apart: a client's server may not listen yet."""
_SECONDS = 30
"""Time limit of one try; it takes 5 s on a busy machine."""
_ITERATIONS = 20
_SIZE_BYTES = 65536
CARRIER_SECONDS = 30


def find_pod_address(port: PortPlan) -> AddressPlan:
    """Return the first pod address of a port's block (IPv4).

    Raises:
        ValueError: the Fabric gives pods no IPv4 addresses.
    """
    block = port.v4
    if block is None or not block.pods_count:
        raise ValueError(f"{port.netdev} has no IPv4 addresses for pods; the lab needs a Fabric that has them")
    return block.with_address(block.pods_first)


def format_pod_address(port: PortPlan) -> str:
    """Return the first pod address as text."""
    return format_address(V4, find_pod_address(port).address)


def name_rdma_device(port: PortPlan) -> str:
    """Return the name of the pod's RDMA device."""
    return f"pod{port.rail}"


def render_pods_script(node: NodePlan) -> str:
    """Return a script that creates all pods of a server and waits until each has carrier."""
    return "set -e\n" + "".join(_render_pod(node, port) for port in node.ports) + "".join(map(_render_wait, node.ports))


def _render_pod(node: NodePlan, port: PortPlan) -> str:
    block, name = port.v4, port.netdev
    if block is None:
        raise ValueError(f"{name} has no IPv4 address")
    route = f"ip -n {name} route add default via {format_address(V4, block.gateway)}\n" if block.gateway else ""
    return f"""ip netns add {name}
vf=$(ls /sys/class/net/{name}/device/virtfn0/net)
ip link set "$vf" mtu {node.common.mtu_bytes} netns {name} name vf0
ip -n {name} link set lo up
ip -n {name} link set vf0 up
ip -n {name} address add {format_pod_address(port)}/{block.prefix} dev vf0
{route}ip netns exec {name} rdma link add {name_rdma_device(port)} type rxe netdev vf0
"""


def _render_wait(port: PortPlan) -> str:
    return f"""for i in $(seq {CARRIER_SECONDS * 5}); do
    [ "$(ip netns exec {port.netdev} cat /sys/class/net/vf0/carrier)" = 1 ] && break
    sleep 0.2
done
[ "$i" != {CARRIER_SECONDS * 5} ] || {{ echo "the VF of {port.netdev} has no carrier"; exit 1; }}
"""


def _render_gid_index(port: PortPlan) -> str:
    """Return a shell expression for the index of the RoCE v2 GID of the pod's IPv4 address."""
    address = find_pod_address(port).address.to_bytes(BITS[V4] // 8, "big").hex()
    gid = f"0000:0000:0000:0000:0000:ffff:{address[:4]}:{address[4:]}"
    folder = f"/sys/class/infiniband/{name_rdma_device(port)}/ports/1/gids"
    return f"$(ip netns exec {port.netdev} grep -l {gid} {folder}/* 2>/dev/null | head -n 1 | sed 's,.*/,,')"


def render_bandwidth_server(port: PortPlan, number: int) -> str:
    """Return a script that serves bandwidth test `number` in the pod of a port, in the background."""
    return render_server(_render_bandwidth(port, number), name_log(number))


def name_log(number: int) -> str:
    """Return the file on a server with the output of the servers of test `number`."""
    return f"/run/test{number}.log"


def render_server(command: str, log: str) -> str:
    """Return a script that starts a server again and again, until STOP_SERVERS is run.

    Both tests end with their first client. On a slow machine that client may have failed where its server has not, and
    the next one needs a server too.
    """
    loop = f"for try in $(seq {TRIES}); do [ -e {SERVING}/$$ ] || break; {command}; sleep 1; done"
    return f"mkdir -p {SERVING}\ntouch {SERVING}/$$\n({loop}) </dev/null >{log} 2>&1 &\n"


SERVING = "/run/serving"
"""Folder with a file for each script whose servers are wanted, by its process id."""
STOP_SERVERS = f"rm -rf {SERVING}; pkill -x ib_write_bw; pkill -x rping; true"
"""Ends the servers of `render_server`."""


def render_bandwidth_client(port: PortPlan, peer: PortPlan, number: int) -> str:
    """Return the command that writes to another server's pod over RDMA; its last line of output has the figures."""
    return f"{_render_bandwidth(port, number)} {format_pod_address(peer)}"


def _render_bandwidth(port: PortPlan, number: int) -> str:
    options = f"-d {name_rdma_device(port)} -x {_render_gid_index(port)} -n {_ITERATIONS} -s {_SIZE_BYTES} -F"
    return f"ip netns exec {port.netdev} timeout {_SECONDS} ib_write_bw {options} -p {PORT + number}"


def render_cm_server(port: PortPlan, number: int) -> str:
    """Return a script that serves rping (connections by the RDMA CM) in the pod of a port, in the background."""
    rping = f"timeout {_SECONDS} rping -s -a {format_pod_address(port)} -C 3"
    return render_server(f"ip netns exec {port.netdev} {rping}", name_log(number))


def render_cm_client(port: PortPlan, peer: PortPlan) -> str:
    """Return the command that connects to another server's pod by the RDMA CM."""
    return f"ip netns exec {port.netdev} timeout {_SECONDS} rping -c -a {format_pod_address(peer)} -C 3"


def render_tries(client: str) -> str:
    """Return a script that starts a client again until it succeeds; the status is that of the last try."""
    return f"for try in $(seq {TRIES}); do sleep 1; {client} && break; done"
