"""A sound host with VFs: two ConnectX ports of two VFs each, as sysfs and kubelet show them.

Files of sysfs as in Documentation/ABI/testing/sysfs-bus-pci; the checkpoint as kubelet 1.30 writes it
(pkg/kubelet/cm/devicemanager/checkpoint).
"""

from __future__ import annotations

import json
from dataclasses import replace

from tests.doctor.sound import build_sound_view
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.kernel.netlink.vfs import Vf, VfListing

FABRIC = """
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: vfs}
spec:
  nodes:
    - hosts: n[0-1]
      ports: ["0000:18:00.0", "0000:3b:00.0"]
  rails: 2
  nodesPerUnit: 1
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15}
  vfs: {count: 2}
"""
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
POD = "5c1f3a0e-2f8f-4c0b-9d0c-3c9a2f1f6a10"
NAMESPACE = "cni-0d3f3f9c-5f4f-7d0a-6f0c-1f2e3d4c5b6a"


def compute_vfs_plan(lines: str = "") -> Plan:
    """Return a plan of two nodes, with two rails and two VFs per port."""
    return compute_plan(load_fabric((FABRIC + lines).encode(), "vfs.yaml").fabric, {})


def get_vf_pci(rail: int, vf: int) -> str:
    """Return the PCI address of a VF; VF 1 of rail 1 is in a pod."""
    return ("0000:18:00", "0000:3b:00")[rail] + f".{vf + 1}"


def locate_vf(rail: int, vf: int) -> str:
    """Return the folder of a VF under its port."""
    return f"/sys/class/net/rail{rail}/device/virtfn{vf}"


def get_mac(rail: int, vf: int, node: int = 0) -> str:
    """Return the MAC address that the port assigned to its VF."""
    return f"02:01:00:{node:02x}:{rail:02x}:{vf:02x}"


def build_host(node: NodePlan) -> Snapshot:
    """Return the snapshot of a node on which all VFs are as planned and one is in a pod."""
    files: dict[str, str] = {"/etc/trackbed/boot.sh": '#!/bin/sh\necho "$2" >"$1/sriov_numvfs"\n'}
    links: dict[str, str] = {}
    folders: dict[str, tuple[str, ...]] = {
        "/var/lib/kubelet/pods": (POD,),
        "/var/lib/cni/sriov/pci": (get_vf_pci(1, 1),),
        "/run/netns": (NAMESPACE,),
    }
    entry = {"PodUID": POD, "ContainerName": "c", "ResourceName": "r", "DeviceIDs": {"0": [get_vf_pci(1, 1)]}}
    files[CHECKPOINT] = json.dumps({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1})
    files[f"/var/lib/cni/sriov/pci/{get_vf_pci(1, 1)}"] = f"/var/run/netns/{NAMESPACE}"
    outputs: dict[tuple[str, ...], ProgramResult] = {
        ("dmesg",): ProgramResult(0, "[    0.000000] Linux version 6.12.117\n")
    }
    for port in node.ports:
        device = f"/sys/class/net/{port.netdev}/device"
        links |= {device: f"../../../{port.pci}", f"{device}/driver": "../../../../bus/pci/drivers/mlx5_core"}
        for name, value in (("numvfs", "2"), ("totalvfs", "16"), ("drivers_autoprobe", "1")):
            files[f"{device}/sriov_{name}"] = f"{value}\n"
        files[f"{device}/net/{port.netdev}/phys_port_name"] = "p0\n"
        folders[f"{device}/net"] = (port.netdev,)
        for vf in range(2):
            _add_vf(node, port.rail, vf, (files, links, folders))
        files[f"/sys/class/infiniband/mlx5_{port.rail}/node_guid"] = f"b8ce:f603:00{node.slot:02x}:00{port.rail:02x}\n"
        links[f"/sys/class/infiniband/mlx5_{port.rail}/device"] = f"../../../{port.pci}"
    return Snapshot({path: text.encode() for path, text in files.items()}, links, folders, outputs)


def _add_vf(
    node: NodePlan, rail: int, vf: int, into: tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]]]
) -> None:
    files, links, folders = into
    here = locate_vf(rail, vf)
    links |= {here: f"../{get_vf_pci(rail, vf)}", f"{here}/driver": "../../../../bus/pci/drivers/mlx5_core"}
    if (rail, vf) == (1, 1):
        folders |= {f"{here}/net": (), f"{here}/infiniband": ("mlx5_9",)}
        return
    folders |= {f"{here}/net": (f"rail{rail}v{vf}",), f"{here}/infiniband": (f"mlx5_{2 + 2 * rail + vf}",)}
    interface = f"{here}/net/rail{rail}v{vf}"
    files |= {f"{interface}/mtu": "9000\n", f"{interface}/address": f"{get_mac(rail, vf, node.slot)}\n"}
    files[f"{here}/infiniband/mlx5_{2 + 2 * rail + vf}/node_guid"] = f"0201:00ff:fe{node.slot:02x}:{rail:02x}{vf:02x}\n"


def build_view(node: NodePlan) -> NodeView:
    """Return a view of a node that is as planned, with its VFs."""
    listings = {
        port.netdev: VfListing(
            2, tuple(Vf(n, get_mac(port.rail, n, node.slot), spoof_check=True, trust=False) for n in range(2))
        )
        for port in node.ports
    }
    view = build_sound_view(node)
    links = tuple(
        link._replace(mac=f"02:00:00:00:{node.slot:02x}:{link.index:02x}") if link.name.startswith("rail") else link
        for link in view.state.links
    )
    return replace(view, state=replace(view.state, links=links), host=build_host(node), vfs=listings)
