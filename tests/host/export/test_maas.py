import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.host.export.fabrics import BY_PCI, EVERYTHING, PCI, planned
from tests.pythons import find_python, on_every_interpreter
from trackbed.host.export.commission import NAME, build_hardware_document
from trackbed.host.export.maas import MAX_KINDS, build_tags, render

MACS = ("b8:3f:d2:00:00:0a", "b8:3f:d2:00:00:0b")
BY_MAC = f", ports: {list(MACS)}".replace("'", '"')
REMEDY = "switch SR-IOV on in the BIOS, and raise NUM_OF_VFS in the NIC's firmware"
READY = {"ports": "as planned", "iommu": "as planned", "memory": "as planned"}
HAS_BOTH = (
    '(//node[@class="network"][businfo="pci@0000:18:00.0"] and //node[@class="network"][businfo="pci@0000:2a:00.0"])'
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine that has all that the plan counts on."""
    for pci, mac, name in zip(PCI, MACS, ("ens1", "ens2"), strict=True):
        place = tmp_path / "sys/bus/pci/devices" / pci
        place.mkdir(parents=True)
        for file, value in (("vendor", "0x15b3"), ("device", "0x1021"), ("sriov_totalvfs", "16")):
            (place / file).write_text(f"{value}\n")
        interface = tmp_path / "sys/class/net" / name
        interface.mkdir(parents=True)
        (interface / "address").write_text(f"{mac}\n")
        (interface / "device").symlink_to(place)
    write(tmp_path, "sys/firmware/acpi/tables/DMAR", "")
    write(tmp_path, "proc/meminfo", "MemTotal:       1056000000 kB\n")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def look(
    root: Path, spec: str = EVERYTHING, ports: str = BY_PCI, python: str = sys.executable
) -> tuple[int, dict[str, Any]]:
    """What the script of a plan says of a machine."""
    script = root / NAME
    script.write_text(render(planned(spec, nodes=1, ports=ports).nodes)[NAME])
    env = {**os.environ, "RESULT_PATH": str(root / "result.yaml")}
    command = [python, str(script), str(root)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert done.stderr == ""
    assert (root / "result.yaml").read_text() == done.stdout
    return done.returncode, yaml.safe_load(done.stdout)


@pytest.mark.needs("processes")
@pytest.mark.parametrize("ports", [BY_PCI, BY_MAC, ""], ids=["by PCI address", "by MAC", "by name"])
def test_a_machine_that_has_it_all_passes(root: Path, ports: str) -> None:
    assert look(root, ports=ports) == (0, {"status": "passed", "results": READY, "tags": ["trackbed-ready"]})


@pytest.mark.needs("processes")
@on_every_interpreter
def test_a_machine_is_judged_alike_on_every_interpreter(root: Path, version: str) -> None:
    """MAAS runs the script on the machine, with the Python of the image that it starts there."""
    assert look(root, python=str(find_python(version)))[1]["results"] == READY
    gone("sys/firmware/acpi/tables/DMAR")(root)
    assert look(root, python=str(find_python(version))) == look(root)


def gone(path: str) -> Any:
    return lambda root: (root / path).rename(root / "gone")


def says(path: str, text: str) -> Any:
    return lambda root: write(root, path, text)


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    ("break_it", "ports", "check", "message"),
    [
        (gone(f"sys/bus/pci/devices/{PCI[1]}"), BY_PCI, "ports", f"rail 1: no NIC has {PCI[1]}"),
        (says("sys/class/net/ens2/address", "b8:3f:d2:00:00:0c"), BY_MAC, "ports", f"rail 1: no NIC has {MACS[1]}"),
        (gone(f"sys/bus/pci/devices/{PCI[1]}"), "", "ports", "1 NICs 15b3:1021, the plan has 2 ports"),
        (
            says(f"sys/bus/pci/devices/{PCI[0]}/device", "0x101b"),
            BY_PCI,
            "ports",
            f"rail 0: {PCI[0]} is 15b3:101b, the plan has 15b3:1021",
        ),
        (
            says(f"sys/bus/pci/devices/{PCI[0]}/sriov_totalvfs", "4"),
            BY_MAC,
            "ports",
            f"rail 0: {PCI[0]} offers 4 VFs, the plan takes 8: {REMEDY}",
        ),
        (
            gone("sys/firmware/acpi/tables/DMAR"),
            BY_PCI,
            "iommu",
            "the firmware describes no IOMMU: switch VT-d, AMD-Vi or the SMMU on in the BIOS",
        ),
        (
            says("proc/meminfo", "MemTotal: 16000000 kB"),
            BY_PCI,
            "memory",
            "16000000 KiB of memory, the plan's huge pages alone take 16777216 KiB",
        ),
    ],
    ids=["no NIC", "another MAC", "too few", "another NIC", "VFs", "IOMMU", "memory"],
)
def test_what_lacks_is_told_and_fails(root: Path, break_it: Any, ports: str, check: str, message: str) -> None:
    break_it(root)
    status, result = look(root, ports=ports)
    assert (status, result["status"], result["tags"]) == (1, "failed", [])
    assert result["results"] == READY | {check: message}


@pytest.mark.needs("processes")
def test_a_plan_without_vfs_and_pages_asks_for_neither(root: Path) -> None:
    gone("sys/firmware/acpi/tables/DMAR")(root)
    says(f"sys/bus/pci/devices/{PCI[0]}/sriov_totalvfs", "0")(root)
    assert look(root, spec="")[0] == 0


def test_the_script_begins_with_what_maas_reads() -> None:
    lines = render(planned().nodes)[NAME].splitlines()
    first, last = (lines.index(f"# --- {word} MAAS 1.0 script metadata ---") for word in ("Start", "End"))
    metadata = yaml.safe_load("\n".join(line.removeprefix("# ") for line in lines[first + 1 : last]))
    assert (lines[0], first) == ("#!/usr/bin/env python3", 1)
    assert (metadata["name"], metadata["script_type"], metadata["hardware_type"]) == (NAME, "commissioning", "node")


def test_machines_alike_are_described_once() -> None:
    hardware = build_hardware_document(planned(nodes=50).nodes)
    assert (len(hardware["hosts"]), set(hardware["hosts"].values()), len(hardware["machines"])) == (50, {0}, 1)


def test_one_kind_of_machine_has_one_tag() -> None:
    assert [(tag.name, tag.definition) for tag in build_tags(planned().nodes)] == [("trackbed-train", HAS_BOTH)]


def test_several_kinds_have_a_tag_each() -> None:
    mixed = f"""}}, {{hosts: "cpu-0"{BY_MAC}"""
    tags = list(build_tags(planned(ports=f"{BY_PCI}{mixed}").nodes))
    assert [tag.name for tag in tags] == ["trackbed-train", "trackbed-train-0", "trackbed-train-1"]
    assert tags[0].definition == " or ".join(f"({tag.definition})" for tag in tags[1:])


def test_where_hardware_is_not_named_there_are_no_tags_and_it_is_said() -> None:
    text = render(planned(ports="").nodes)["tags.yaml"]
    assert yaml.safe_load(text) == []
    assert f"more than {MAX_KINDS} hosts" in text


@pytest.mark.needs("processes")
def test_tags_are_made_or_renewed_with_the_maas_command(tmp_path: Path) -> None:
    for name, text in render(planned().nodes).items():
        (tmp_path / name).write_text(text)
    fake = tmp_path / "bin/maas"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/calls\n[ "$3" != read ]\n')
    fake.chmod(0o755)
    path = f"{fake.parent}:/usr/bin:/bin"
    subprocess.run(["/bin/sh", str(tmp_path / "tags.sh"), "admin"], env={"PATH": path}, check=True, timeout=10)
    [tag] = yaml.safe_load((tmp_path / "tags.yaml").read_text())
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        "admin tag read trackbed-train",
        f"admin tags create name=trackbed-train comment={tag['comment']} definition={tag['definition']}",
        f"admin node-script read {NAME}",
        f"admin node-scripts create name={NAME} script@={NAME}",
    ]
    assert json.dumps(tag["definition"]) == json.dumps(HAS_BOTH)
