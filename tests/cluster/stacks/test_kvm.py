"""libvirt's XML and the script that attaches it; checked by libvirt's own schemas where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stacks.fabrics import site
from tests.cluster.stacks.sites import NONE, VFS, alike, unlike
from trackbed.cluster.stacks.kvm import STACK


def files(nodes: list[dict[str, Any]], rails: int = 8, **fields: Any) -> dict[str, str]:
    planned = site(nodes, rails, **fields)
    assert list(STACK.refusals(planned)) == []
    return STACK.files(planned)


def test_ports_go_into_a_machine_by_pci_address() -> None:
    contents = files(alike(4, 2), 2)
    assert list(contents) == ["rail0.xml", "rail1.xml", "attach.sh"]
    assert contents["rail1.xml"] == (
        '<hostdev mode="subsystem" type="pci" managed="yes">\n'
        "  <source>\n"
        '    <address domain="0x0000" bus="0x20" slot="0x00" function="0x0" />\n'
        "  </source>\n"
        '  <alias name="ua-rail1" />\n'
        "</hostdev>\n"
    )


def test_vfs_come_out_of_a_pool_for_each_port() -> None:
    contents = files(alike(4, 2), 2, **VFS)
    assert list(contents) == ["network-rail0.xml", "rail0.xml", "network-rail1.xml", "rail1.xml", "attach.sh"]
    assert contents["network-rail0.xml"] == (
        "<network>\n"
        "  <name>rail0</name>\n"
        '  <forward mode="hostdev" managed="yes">\n'
        '    <pf dev="rail0" />\n'
        "  </forward>\n"
        "</network>\n"
    )
    assert '<source network="rail0" />' in contents["rail0.xml"]


def test_unlike_nodes_have_folders_of_their_own() -> None:
    contents = files(unlike())
    assert 'bus="0x18"' in contents["group-0/rail0.xml"]
    assert 'bus="0x20"' in contents["group-1/rail0.xml"]
    assert "on hypervisors big-[0-1]." in contents["group-1/attach.sh"]


def test_names_made_of_pci_addresses_tell_them() -> None:
    assert 'bus="0x7a"' in files([{"hosts": "a", "ports": ["enp122s0np0"]}], 1)["rail0.xml"]


NO_PCI = (
    "the PCI addresses of rail0, rail1 on gpu-[0-3] are unknown, and machines get ports by them; "
    "write ports as PCI addresses, or vfs.count 1 or more to hand out VFs by the ports' names"
)
IB_VFS = (
    "libvirt sets a MAC address on each VF of a pool, which InfiniBand VFs refuse; "
    "write vfs.count 0, and the ports themselves go into the machines"
)


@pytest.mark.parametrize(
    ("nodes", "fields", "code", "message"),
    [
        ([{"hosts": "gpu-[0-3]"}], {}, "stack-needs-pci", NO_PCI),
        (alike(2, 2), {"linkType": "infiniband", "addressing": NONE, **VFS}, "stack-link-type", IB_VFS),
    ],
    ids=["ports without pci addresses", "infiniband vfs"],
)
def test_what_cannot_be_had_is_refused(
    nodes: list[dict[str, Any]], fields: dict[str, Any], code: str, message: str
) -> None:
    (problem,) = STACK.refusals(site(nodes, 2, **fields))
    assert (problem.code, problem.message) == (code, message)


VIRSH = """\
#!/bin/sh
echo "$*" >> "$LOG"
case "$1" in
  net-info) exit 1 ;;
  dumpxml) echo "$DOMAIN" ;;
esac
"""


def attach(folder: Path, contents: dict[str, str], domain: str) -> list[str]:
    """Run attach.sh with a virsh that writes down its calls, for a machine whose XML is `domain`."""
    for name, text in contents.items():
        (folder / name).write_text(text)
    (folder / "virsh").write_text(VIRSH)
    (folder / "virsh").chmod(0o755)
    log = folder / "log"
    log.write_text("")
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(log), "DOMAIN": domain}
    subprocess.run(["sh", str(folder / "attach.sh"), "vm1"], env=env, check=True, capture_output=True, timeout=20)
    return [call for call in log.read_text().splitlines() if not call.startswith(("dumpxml", "net-info", "net-list"))]


@pytest.mark.needs("processes")
def test_the_script_makes_pools_and_attaches_a_vf_of_each_rail(tmp_path: Path) -> None:
    assert attach(tmp_path, files(alike(2, 2), 2, **VFS), "<domain/>") == [
        "net-define network-rail0.xml",
        "net-autostart rail0",
        "net-start rail0",
        "net-define network-rail1.xml",
        "net-autostart rail1",
        "net-start rail1",
        "attach-device vm1 rail0.xml --config",
        "attach-device vm1 rail1.xml --config",
    ]


@pytest.mark.needs("processes")
def test_a_rail_that_the_machine_has_is_not_attached_again(tmp_path: Path) -> None:
    contents = files(alike(2, 2), 2)
    assert attach(tmp_path, contents, "<alias name='ua-rail0'/>") == ["attach-device vm1 rail1.xml --config"]


DOMAIN = """\
<domain type='kvm'><name>vm</name><memory unit='GiB'>8</memory><vcpu>4</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os><devices>{devices}</devices></domain>
"""


@pytest.mark.may_skip("libvirt's schemas come with libvirt, xmllint with libxml2")
@pytest.mark.parametrize("fields", [{}, VFS], ids=["ports", "vfs"])
def test_libvirts_schemas_take_it(fields: dict[str, Any], tmp_path: Path) -> None:
    schemas = Path(os.environ.get("LIBVIRT_SCHEMAS", "/usr/share/libvirt/schemas"))
    xmllint = shutil.which("xmllint")
    if xmllint is None or not (schemas / "domain.rng").exists():
        pytest.skip("needs xmllint and libvirt's schemas (LIBVIRT_SCHEMAS)")
    contents = files(alike(2, 8), **fields)
    networks = {name: text for name, text in contents.items() if name.startswith("network-")}
    devices = "".join(text for name, text in contents.items() if name.startswith("rail"))
    assert devices
    documents = {"domain.xml": ("domain.rng", DOMAIN.format(devices=devices))}
    documents |= {name: ("network.rng", text) for name, text in networks.items()}
    for name, (schema, text) in documents.items():
        (tmp_path / name).write_text(text)
        command = [xmllint, "--noout", "--relaxng", str(schemas / schema), str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
