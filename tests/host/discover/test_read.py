from __future__ import annotations

import tarfile
from dataclasses import replace

import pytest

from tests.host.discover import machines
from tests.host.lspci import CAPTURES
from trackbed.host.discover import matrix
from trackbed.host.discover.read import load_models, read_inventory
from trackbed.host.discover.wanted import DEVICES, NETDEVS, RDMA

PORT = "0000:03:00.0"
SYSFS = "h100-sys-class-infiniband.tar.xz"


def port_with(files: dict[str, str], links: dict[str, str] | None = None) -> dict[str, object]:
    snapshot = machines.with_files(machines.machine(machines.MI355X), files)
    snapshot = replace(snapshot, links={**snapshot.links, **(links or {})})
    nic = next(nic for nic in read_inventory(snapshot).nics if nic.pci == PORT)
    return {name: getattr(nic, name) for name in nic.__struct_fields__}


TOLD = {
    "speed": ({f"{NETDEVS}/eth_bnxt_re0/speed": "400000"}, "speed", 400_000),
    "no speed while down": ({f"{NETDEVS}/eth_bnxt_re0/speed": "-1"}, "speed", None),
    "permanent address": (
        {f"{NETDEVS}/eth_bnxt_re0/address": "28:30:3e:06:04:d6", f"{NETDEVS}/eth_bnxt_re0/addr_assign_type": "0"},
        "mac",
        "28:30:3e:06:04:d6",
    ),
    "address set by hand": (
        {f"{NETDEVS}/eth_bnxt_re0/address": "02:00:00:00:00:01", f"{NETDEVS}/eth_bnxt_re0/addr_assign_type": "3"},
        "mac",
        None,
    ),
    "VFs": ({f"{DEVICES}/{PORT}/sriov_totalvfs": "128"}, "vfs", 128),
    "InfiniBand": ({f"{RDMA}/bnxt_re0/ports/1/link_layer": "InfiniBand"}, "link", "infiniband"),
    "InfiniBand whose interface is down": (
        {
            f"{NETDEVS}/eth_bnxt_re0/speed": "-1",
            f"{RDMA}/bnxt_re0/ports/1/link_layer": "InfiniBand",
            f"{RDMA}/bnxt_re0/ports/1/state": "4: ACTIVE",
            f"{RDMA}/bnxt_re0/ports/1/rate": "400 Gb/sec (4X NDR)",
        },
        "speed",
        400_000,
    ),
    "InfiniBand that is down": (
        {
            f"{RDMA}/bnxt_re0/ports/1/link_layer": "InfiniBand",
            f"{RDMA}/bnxt_re0/ports/1/state": "1: DOWN",
            f"{RDMA}/bnxt_re0/ports/1/rate": "10 Gb/sec (4X SDR)",
        },
        "speed",
        None,
    ),
    "Ethernet that is down": (
        {
            f"{NETDEVS}/eth_bnxt_re0/speed": "-1",
            f"{RDMA}/bnxt_re0/ports/1/link_layer": "Ethernet",
            f"{RDMA}/bnxt_re0/ports/1/rate": "40 Gb/sec (4X QDR)",
        },
        "speed",
        None,
    ),
    "firmware": ({f"{RDMA}/bnxt_re0/fw_ver": "231.2.63.0"}, "firmware", "231.2.63.0"),
    "PCIe link": (
        {f"{DEVICES}/{PORT}/current_link_speed": "32.0 GT/s PCIe", f"{DEVICES}/{PORT}/current_link_width": "16"},
        "pcie",
        "32.0 GT/s x16",
    ),
    "onboard": ({f"{DEVICES}/{PORT}/label": "Onboard LAN"}, "label", "Onboard LAN"),
    "NUMA node": ({}, "numa", 0),
    "no NUMA node": ({f"{DEVICES}/{PORT}/numa_node": "-1"}, "numa", None),
    "model": ({}, "model", load_models()["14e4:1760"].model),
    "path": ({}, "path", ("pci0000:00", "0000:01:00.0", PORT)),
}


@pytest.mark.parametrize(("files", "field", "value"), TOLD.values(), ids=TOLD)
def test_a_port_is_as_the_kernel_tells(files: dict[str, str], field: str, value: object) -> None:
    assert port_with(files)[field] == value


@pytest.mark.skipif(not (CAPTURES / SYSFS).exists(), reason="the captures are not here")
@pytest.mark.may_skip("the captures are other people's and not part of the project (TRACKBED_SHARED)")
def test_the_rdma_devices_of_a_real_host_are_read() -> None:
    """Eight ConnectX-7 with InfiniBand; the capture has no links, so each gets the place of a rail."""
    files: dict[str, bytes] = {}
    with tarfile.open(CAPTURES / SYSFS) as archive:
        for member in archive:
            if member.isfile() and (stream := archive.extractfile(member)):
                files[f"{RDMA}/{member.name.partition('/')[2]}"] = stream.read()
    names = sorted({path.split("/")[4] for path in files} - {"mlx5_bond_0"})
    assert len(names) == 8
    text = "\n".join(f"nic {at + 1:x}0/{at + 1:x}1 15b3:1021 0 {name}" for at, name in enumerate(names))
    snapshot = machines.machine(text)
    nics = read_inventory(replace(snapshot, files={**snapshot.files, **files})).nics
    assert [(nic.rdma, nic.link, nic.speed, nic.firmware) for nic in nics] == [
        (name, "infiniband", 400_000, "28.41.1000") for name in names
    ]


def test_a_bond_below_the_default_route_counts_for_its_ports() -> None:
    route = "Iface\tDestination\nbond0.7\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    links = {
        f"{NETDEVS}/bond0.7/lower_bond0": "../bond0",
        f"{NETDEVS}/eth_bnxt_re0/master": "../../../net/bond0",
    }
    assert port_with({"/proc/net/route": route}, links)["default_route"] is True
    assert port_with({}, links)["default_route"] is False


def test_a_vf_knows_its_function() -> None:
    nics = read_inventory(machines.machine(machines.ONE_CARD)).nics
    assert [nic.pf for nic in nics] == [None, None, "0000:9a:00.0", "0000:9a:00.0"]


OLD_TABLE = """
\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity
GPU0\t X \tNV6\tPIX\tPXB\t0-23,48-71
GPU1\tNV6\t X \tPXB\tPIX\t0-23,48-71
"""


def test_older_versions_of_nvidia_smi_name_the_devices_in_the_heading() -> None:
    assert matrix.parse_matrix(OLD_TABLE) == {
        0: {"mlx5_0": "PIX", "mlx5_1": "PXB"},
        1: {"mlx5_0": "PXB", "mlx5_1": "PIX"},
    }


NO_TABLE = {
    "nothing": "",
    "an error": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "no NIC": "\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n",
}


@pytest.mark.parametrize("text", NO_TABLE.values(), ids=NO_TABLE)
def test_text_without_nics_tells_nothing(text: str) -> None:
    assert not any(matrix.parse_matrix(text).values())


def test_what_nvidia_smi_says_reaches_the_nics_by_their_devices() -> None:
    matrix = read_inventory(machines.virtual(machines.BACKWARDS_ROWS)).matrix
    assert matrix["0000:80:00.0"]["0000:48:00.0"] == "PIX"
    assert matrix["0000:87:00.0"]["0000:41:00.0"] == "PIX"
