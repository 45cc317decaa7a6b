"""A sound host for the step rdma: two ConnectX ports, as sysfs and ibv_devinfo show them.

Formats: Documentation/ABI/stable/sysfs-class-infiniband; an unused GID is zeros in gids/ and EINVAL in gid_attrs/;
`ibv_devinfo` as rdma-core 50 prints it; modprobe.d(5).
"""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv6Address

from tests.doctor.sound import build_sound_view
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: rdma}
spec:
  nodes:
    - hosts: n[0-1]
      ports: ["0000:18:00.0", "0000:3b:00.0"]
  rails: 2
  nodesPerUnit: 1
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15, ipv6: "fd00::/32"}
  rdma: {namespaceMode: exclusive}
  vfs: {count: 1}
"""
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
NO_PODS = json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1})
MODE = "/sys/module/ib_core/parameters/netns_mode"
OPTION = "/etc/modprobe.d/ib_core.conf"
DEVINFO = """hca_id:	{name}
	transport:			InfiniBand (0)
	fw_ver:				28.39.1002
		port:	1
			state:			PORT_ACTIVE (4)
			max_mtu:		4096 (5)
			active_mtu:		4096 (5)
			link_layer:		Ethernet

"""
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"


def compute_rdma_plan() -> Plan:
    """Return a plan of two nodes, with two rails, IPv4 and IPv6, one VF per port, and exclusive RDMA devices."""
    return compute_plan(load_fabric(FABRIC, "rdma.yaml").fabric, {})


def get_device(node: NodePlan, rail: int) -> str:
    """Return the name of a rail's RDMA device."""
    return node.common.rails[rail].rdma


def locate_port(node: NodePlan, rail: int) -> str:
    """Return the folder of a rail's RDMA port."""
    return f"/sys/class/net/rail{rail}/device/infiniband/{get_device(node, rail)}/ports/1"


def format_gid(address: AddressPlan) -> str:
    """Format an address as sysfs writes a GID."""
    return IPv6Address(0xFFFF << 32 | address.address if address.version == 4 else address.address).exploded


def build_view(node: NodePlan) -> NodeView:
    """Return a view of a node whose RDMA devices are as planned."""
    view = build_sound_view(node)
    links = tuple(link._replace(kind="") if link.name.startswith("rail") else link for link in view.state.links)
    return replace(view, state=replace(view.state, links=links), host=build_host(node))


def build_host(node: NodePlan) -> Snapshot:
    """Return the snapshot of its sysfs, /dev and modprobe.d."""
    files = {MODE: "N\n", OPTION: "options ib_core netns_mode=0\n", "/proc/cmdline": "root=/dev/sda1 quiet\n"}
    files[CHECKPOINT] = NO_PODS
    nodes = tuple(f"{kind}{port.rail}" for kind in ("uverbs", "umad") for port in node.ports)
    folders: dict[str, tuple[str, ...]] = {
        "/sys/class": ("infiniband", "infiniband_mad", "infiniband_verbs", "net"),
        "/sys/module": ("ib_core", "ib_umad", "ib_uverbs", "mlx5_core", "mlx5_ib", "rdma_ucm"),
        "/dev/infiniband": ("rdma_cm", *nodes),
        "/run/netns": ("cni-1f2e3d4c",),
    }
    links: dict[str, str] = {}
    for port in node.ports:
        name, below = get_device(node, port.rail), f"/sys/class/net/{port.netdev}/device"
        links |= {
            f"{below}/driver": "../../../../bus/pci/drivers/mlx5_core",
            f"{below}/virtfn0": f"../{port.pci}"[:-1] + "2",
        }
        links |= {f"{below}/virtfn0/driver": "../../../../bus/pci/drivers/mlx5_core"}
        folders |= {f"{below}/infiniband": (name,), f"{below}/virtfn0/infiniband": (f"mlx5_{4 + port.rail}",)}
        folders |= {f"{below}/virtfn0/net": (f"rail{port.rail}v0",)}
        files[f"/sys/class/infiniband_verbs/uverbs{port.rail}/ibdev"] = f"{name}\n"
        files[f"/sys/class/infiniband_mad/umad{port.rail}/ibdev"] = f"{name}\n"
        files |= _build_port(node, port)
    devinfo = "".join(DEVINFO.format(name=get_device(node, port.rail)) for port in node.ports)
    content = {path: text.encode() for path, text in files.items()}
    return Snapshot(content, links, folders, {("ibv_devinfo",): ProgramResult(0, devinfo)})


def _build_port(node: NodePlan, port: PortPlan) -> dict[str, str]:
    here = locate_port(node, port.rail)
    files = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "Ethernet"}
    for number, address in enumerate(port.addresses):
        for kind, index in (("IB/RoCE v1", 2 * number), ("RoCE v2", 2 * number + 1)):
            files |= {
                f"gids/{index}": format_gid(address),
                f"gid_attrs/types/{index}": kind,
                f"gid_attrs/ndevs/{index}": port.netdev,
            }
    files["gids/9"] = ZERO
    return {f"{here}/{name}": f"{text}\n" for name, text in files.items()}
