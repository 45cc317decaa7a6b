"""On real PCIe trees the rail of each GPU has the nearest NIC, and the rails of clouds are those of the catalogue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from trackbed.fabric.model.servers import load_servers
from trackbed.host.discover.rails import Selection, choose_rails
from trackbed.host.discover.read import read_inventory
from trackbed.host.discover.wanted import DEVICES, NETDEVS
from trackbed.host.snapshot.snapshot import Snapshot

_TOKEN = re.compile(r"([0-9a-f:.]+)(?:=(\w)|(\())|(\))")


class Device(NamedTuple):
    """A GPU or a NIC; `path` begins with the host bridge."""

    path: tuple[str, ...]
    kind: str
    numa: str
    id: str
    gbps: str

    @property
    def pci(self) -> str:
        """Return the address."""
        return self.path[-1]


def read_machines() -> dict[str, list[Device]]:
    machines: dict[str, list[Device]] = {}
    kinds: dict[str, str] = {}
    name = numa = ""
    for line in Path(__file__).with_name("topologies.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, *words = line.split()
            kinds = dict(word.split("=") for word in words)
            machines[name] = []
            continue
        head, colon, tree = line.strip().partition(": ")
        numa, tree = (head, tree) if colon and head.isdigit() else (numa, line)
        machines[name] += parse_tree(tree, numa, kinds)
    return machines


def parse_tree(text: str, numa: str, kinds: dict[str, str]) -> Iterator[Device]:
    path: list[str] = []
    for bus, letter, opens, closes in _TOKEN.findall(text):
        if closes:
            path = path[:-1] if len(path) > 2 else []  # each outermost switch has a host bridge
            continue
        domain, number, function = re.fullmatch(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2})(?::(.*))?", bus).groups()  # type: ignore[union-attr] # the file has no others
        address = f"{domain or '0000'}:{number}:{function or '00.0'}"
        here = [*(path or [f"pci{address[:7]}"]), address]
        if opens:
            path = here
        elif letter:
            identity, _, gbps = kinds[letter].partition("@")
            yield Device(tuple(here), "gpu" if letter.isupper() else "nic", numa, identity, gbps)


def build_snapshot(devices: list[Device]) -> Snapshot:
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for device in devices:
        place, folder = f"{DEVICES}/{device.pci}", "/".join(device.path)
        vendor, _, model = device.id.partition(":")
        kind = "0x020000" if device.kind == "nic" else "0x120000" if vendor == "1002" else "0x030200"
        texts = {"class": kind, "vendor": f"0x{vendor}", "device": f"0x{model}", "numa_node": device.numa}
        files |= {f"{place}/{name}": text.encode() for name, text in texts.items()}
        links[place] = f"../../../devices/{folder}"
        if device.gbps:
            name = f"nic-{device.pci}"
            links[f"{NETDEVS}/{name}"] = f"../../devices/{folder}/net/{name}"
            files[f"{NETDEVS}/{name}/speed"] = str(int(device.gbps) * 1000).encode()
    return Snapshot(files=files, links=links)


MACHINES = read_machines()
FAR = {
    "topo_8p6l_3nic": {"0000:e3:00.0"},  # three NICs for eight GPUs: one of four GPUs beside one NIC uses another
    "topo_8p_rome_n2_1": {"0000:43:00.0"},  # the NIC beside it has 1 Gb/s and is no rail
}
"""Machine -> GPUs whose rail is not the nearest NIC."""


def rank_nearness(gpu: Device, nic: Device) -> tuple[int, bool]:
    """Return how much of the tree both share, and whether they are on one NUMA node: higher is nearer."""
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(gpu.path, nic.path, strict=False))
    return sum(1 for _ in shared), gpu.numa == nic.numa


def choose(name: str) -> tuple[Selection, dict[str, list[str]]]:
    """Return the rails of a machine, and the NICs of each GPU."""
    inventory = read_inventory(build_snapshot(MACHINES[name]))
    selection = choose_rails(inventory)
    nics: dict[str, list[str]] = {gpu.pci: [] for gpu in inventory.gpus}
    for rail in selection.rails:
        for index in rail.gpus:
            nics[inventory.gpus[index].pci].append(rail.nic.pci)
    return selection, nics


def list_far_gpus(name: str) -> set[str]:
    devices = {device.pci: device for device in MACHINES[name]}
    nics = [device for device in MACHINES[name] if device.kind == "nic"]
    _, chosen = choose(name)
    return {
        gpu
        for gpu, mine in chosen.items()
        if not mine
        or min(rank_nearness(devices[gpu], devices[nic]) for nic in mine)
        < max(rank_nearness(devices[gpu], nic) for nic in nics)
    }


@pytest.mark.parametrize("name", MACHINES)
def test_each_gpu_has_a_rail_with_the_nearest_nic(name: str) -> None:
    assert list_far_gpus(name) == FAR.get(name, set())


@pytest.mark.parametrize("name", MACHINES)
def test_gpus_are_shared_out_evenly(name: str) -> None:
    selection, _ = choose(name)
    assert len(Counter(len(rail.gpus) for rail in selection.rails)) == 1 or name in FAR


def test_the_trees_are_those_of_many_machines() -> None:
    kinds = Counter(device.kind for devices in MACHINES.values() for device in devices)
    assert (len(MACHINES), kinds["gpu"], kinds["nic"]) == (27, 236, 144)


CLOUDS = {
    "aws-p4d-24xl": "aws-p4d-24xlarge",
    "azure-ndv4": "azure-nd96asr-v4",
    "azure-ndv5": "azure-nd96isr-h100-v5",
}


@pytest.mark.parametrize(("name", "server"), CLOUDS.items(), ids=CLOUDS)
def test_the_catalogue_has_the_rails_of_clouds_in_the_order_of_their_gpus(name: str, server: str) -> None:
    selection, _ = choose(name)
    assert tuple(rail.nic.pci for rail in selection.rails) == load_servers()[server].ports
    assert [gpu for rail in selection.rails for gpu in rail.gpus] == list(range(load_servers()[server].gpus.count))
