"""A sound host for the step names: two ConnectX ports with names and RDMA devices as planned.

The .link file as systemd.link(5) has it, the udev rule as NVIDIA's NIC operator writes it, netplan's file as cloud-init
24.1 writes it, `nmcli -t` as NetworkManager 1.46 prints it.
"""

from __future__ import annotations

from dataclasses import replace

from tests.doctor.sound import build_sound_view
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.snapshot.snapshot import Snapshot

FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: names}
spec:
  nodes:
    - hosts: n[0-2]
      nic: "15b3:1021"
      ports: ["0000:18:00.0", "0000:3b:00.0"]
  rails: 2
  nodesPerUnit: 1
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15}
"""
MACS = ("b8:ce:f6:00:00:00", "b8:ce:f6:00:00:01")
LINK = "/etc/systemd/network/10-rail1.link"
LINK_FILE = "[Match]\nPath=pci-0000:3b:00.0\n\n[Link]\nName=rail1\n"
RULE = "/etc/udev/rules.d/10-nic-net-interface-naming.rules"
RULE_FILE = '# rails\nACTION=="add", SUBSYSTEM=="net", KERNELS=="0000:3b:00.0", NAME="rail1"\n'
CLOUD_INIT = "/etc/netplan/50-cloud-init.yaml"
CLOUD_INIT_FILE = """# This file is generated from information provided by the datasource.
network:
    ethernets:
        eno1:
            dhcp4: true
            match:
                macaddress: 02:ff:00:00:00:01
            set-name: eno1
    version: 2
"""
NMCLI = ("nmcli", "-t", "-f", "DEVICE,STATE", "device")


def compute_names_plan() -> Plan:
    """Return a plan of three nodes of one kind, with two rails."""
    return compute_plan(load_fabric(FABRIC, "names.yaml").fabric, {})


def build_view(node: NodePlan) -> NodeView:
    """Return a view of a node whose ports and RDMA devices have their planned names."""
    view = build_sound_view(node)
    pci = {port.netdev: port.pci for port in node.ports}
    links = tuple(
        link._replace(kind="", parent_device=pci[link.name], parent_bus="pci", mac=MACS[link.index - 10][:-2] + mark)
        if link.name in pci
        else link
        for link in view.state.links
        for mark in (f"{node.slot}{link.index - 10}",)
    )
    links = tuple(link._replace(permanent_mac=link.mac) if link.name in pci else link for link in links)
    return replace(view, state=replace(view.state, links=links), host=build_host(node))


def build_host(node: NodePlan) -> Snapshot:
    """Return the snapshot of its sysfs, and of the files that name ports."""
    places = {port.netdev: f"/sys/class/net/{port.netdev}/device" for port in node.ports}
    return Snapshot(
        files={LINK: LINK_FILE.encode(), CLOUD_INIT: CLOUD_INIT_FILE.encode()},
        links={places[port.netdev]: f"../../../{port.pci}" for port in node.ports},
        folders={f"{places[port.netdev]}/infiniband": (get_rdma_name(node, port.rail),) for port in node.ports},
    )


def get_rdma_name(node: NodePlan, rail: int) -> str:
    """Return the planned name of a rail's RDMA device."""
    return node.common.rails[rail].rdma
