"""`trackbed doctor CAPTURE...`: what the nodes of several archives show together."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.capture import build_wanted
from trackbed.cli.main import cli
from trackbed.cli.sites import report_progress
from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.capture import capture

HOSTS = 8
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu[001-008]"}]
  rails: 2
  nodesPerUnit: 4
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15}
"""


@dataclass
class Server:
    """A host of the site, with what its kernel shows; faults change it before it is captured."""

    number: int
    addresses: list[str]
    name: str = ""
    machine_id: str = ""
    guids: list[str] = field(default_factory=list)
    macs: list[str] = field(default_factory=list)
    vf_macs: list[str] = field(default_factory=list)
    firmware: str = "28.39.1002"
    dark_rails: tuple[int, ...] = ()
    has_ip: bool = True

    def __post_init__(self) -> None:
        """Give the server what no other server has."""
        self.name = f"gpu{self.number:03}"
        self.machine_id = f"{self.number:032x}"
        self.guids = [f"0200:00ff:fe00:{self.number:02}{rail:02}" for rail in range(2)]
        self.macs = [f"02:00:00:00:{self.number:02}:{rail:02}" for rail in range(2)]
        self.vf_macs = [f"02:00:01:00:{self.number:02}:{rail:02}" for rail in range(2)]

    def has_program(self, program: str) -> bool:
        """Return whether it is iproute2, if the server has it."""
        return program == "ip" and self.has_ip

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Answer as iproute2 6.1 does; commands for other objects print nothing."""
        outputs = {"link": self._list_links(), "addr": self._list_addresses()}
        return ProgramResult(0, json.dumps(next((outputs[word] for word in argv if word in outputs), [])))

    def _list_links(self) -> list[dict[str, Any]]:
        return [
            {
                "ifindex": 10 + rail,
                "ifname": f"rail{rail}",
                "flags": ["BROADCAST", "UP", *([] if rail in self.dark_rails else ["LOWER_UP"])],
                "mtu": 9000,
                "operstate": "DOWN" if rail in self.dark_rails else "UP",
                "address": self.macs[rail],
                "vfinfo_list": [{"vf": 0, "address": self.vf_macs[rail]}],
            }
            for rail in range(2)
        ]

    def _list_addresses(self) -> list[dict[str, Any]]:
        infos = [{"family": "inet", "local": text, "prefixlen": 31, "scope": "global"} for text in self.addresses]
        return [{"ifindex": 10 + rail, "addr_info": [info]} for rail, info in enumerate(infos)]

    def write_files(self, root: Path) -> None:
        """Write its part of /proc, /etc and /sys."""
        files = {"proc/sys/kernel/hostname": self.name, "etc/machine-id": self.machine_id, "proc/cmdline": "quiet"}
        for rail in range(2):
            pci, device = f"0000:{18 + rail}:00.0", f"sys/devices/pci0000:00/0000:{18 + rail}:00.0"
            rdma = f"{device}/infiniband/rail{rail}"
            files |= {f"{device}/vendor": "0x15b3", f"{device}/device": "0x1021"}
            files |= {f"{rdma}/node_guid": self.guids[rail], f"{rdma}/fw_ver": self.firmware}
            files |= {f"{device}/net/rail{rail}/address": self.macs[rail]}
            links = {
                f"sys/bus/pci/devices/{pci}": f"../../../devices/pci0000:00/{pci}",
                f"sys/class/infiniband/rail{rail}": f"../../devices/pci0000:00/{pci}/infiniband/rail{rail}",
                f"sys/class/net/rail{rail}": f"../../devices/pci0000:00/{pci}/net/rail{rail}",
                f"{rdma}/device": "../..",
                f"{device}/net/rail{rail}/device": f"../../../{pci}",
            }
            for path, target in links.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).symlink_to(target)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"{text}\n")


def build_site(fabric: Path) -> dict[str, Server]:
    """Return sound servers with the addresses of the plan."""
    fabric.write_text(FABRIC)
    plan = json.loads(CliRunner().invoke(cli, ["plan", "-f", str(fabric), "-o", "json"]).stdout)
    addresses = {
        node["name"]: [port["ipv4"]["address"].partition("/")[0] for port in node["ports"]] for node in plan["nodes"]
    }
    servers = [Server(number, addresses[f"gpu{number:03}"]) for number in range(1, HOSTS + 1)]
    return {server.name: server for server in servers}


def write_captures(folder: Path, site: dict[str, Server], key: bytes | None = None) -> list[Path]:
    archives = []
    for name, server in site.items():
        content = capture_server(folder / "hosts" / name, server, key)
        archives.append(folder / f"{name}.tar.gz")
        archives[-1].write_bytes(content)
    return archives


def capture_server(root: Path, server: Server, key: bytes | None) -> bytes:
    """The archive of a server; one that has been captured before is not captured again."""
    identity = repr((server, key))
    if identity not in _captured:
        root.mkdir(parents=True)
        server.write_files(root)
        machine, stream = Machine(root, runner=server), io.BytesIO()
        capture(machine, build_wanted(machine), stream, key)
        _captured[identity] = stream.getvalue()
    return _captured[identity]


_captured: dict[str, bytes] = {}


def run_doctor(fabric: Path, archives: Sequence[Path], *options: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", "-f", str(fabric), *map(str, archives), *options])


def copy_address(site: dict[str, Server]) -> None:
    site["gpu005"].addresses[1] = site["gpu002"].addresses[1]


def copy_guid(site: dict[str, Server]) -> None:
    site["gpu005"].guids[1] = site["gpu002"].guids[1]


def copy_mac(site: dict[str, Server]) -> None:
    site["gpu005"].vf_macs[1] = site["gpu002"].macs[1]


def copy_name(site: dict[str, Server]) -> None:
    site["gpu005"].name = "gpu002"


def darken_leaf(site: dict[str, Server]) -> None:
    for name in ("gpu001", "gpu002", "gpu003", "gpu004"):
        site[name].dark_rails = (0,)


def keep_old_firmware(site: dict[str, Server]) -> None:
    site["gpu005"].firmware = "28.36.1010"


FAULTS = {
    "addr-duplicate-on-rail": (copy_address, ["gpu002", "gpu005"]),
    "vfs-guid-duplicate": (copy_guid, ["gpu002", "gpu005"]),
    "vfs-mac-duplicate": (copy_mac, ["gpu002", "gpu005"]),
    "kubelet-duplicate-node-name": (copy_name, ["gpu002", "gpu005"]),
    "switch-leaf-down": (darken_leaf, ["gpu001", "gpu002", "gpu003", "gpu004"]),
    "fw-version-mixed": (keep_old_firmware, ["gpu005", "gpu005", "gpu001"]),
}


@pytest.mark.parametrize(("fault", "change", "ends"), [(name, *value) for name, value in FAULTS.items()], ids=FAULTS)
def test_a_fault_between_captured_nodes_is_named_first_with_all_its_ends(
    tmp_path: Path, fault: str, change: Callable[[dict[str, Server]], None], ends: list[str]
) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    change(site)
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site), "-o", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["first"]["id"]) == (1, fault)
    assert document["findings"][0] == document["first"]
    assert [end["node"] for end in document["first"]["ends"]] == ends
    assert [finding["id"] for finding in document["findings"] if finding["verdict"] in {"fail", "warn"}] == [fault]


def test_what_captures_do_not_hold_is_unknown_and_is_counted(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site))
    assert result.exit_code == 3
    assert "unknown fabric-port-on-wrong-leaf  not read of gpu[001-008] (8 of 8 nodes)" in result.stdout
    assert result.stderr.splitlines() == [
        "checks between nodes: 7 of 9 were made of every node",
        "not made, or not of every node: driver-version-unexpected, fabric-port-on-wrong-leaf",
    ]


def test_a_host_without_ip_is_unknown_and_hides_nothing_of_the_others(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    site["gpu007"].has_ip = False
    copy_address(site)
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site), "-o", "json")
    verdicts = [
        (finding["verdict"], finding["evidence"])
        for finding in json.loads(result.stdout)["findings"]
        if finding["id"] == "addr-duplicate-on-rail"
    ]
    assert [verdict for verdict, _ in verdicts] == ["fail", "unknown"]
    assert verdicts[1][1] == "not read of gpu007 (1 of 8 nodes)"


def test_names_and_addresses_of_archives_that_were_made_to_be_sent_are_not_compared(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    keep_old_firmware(site)
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site, b"k" * 16), "-o", "json")
    findings = {finding["id"]: finding for finding in json.loads(result.stdout)["findings"]}
    identities = ("addr-duplicate-on-rail", "vfs-guid-duplicate", "vfs-mac-duplicate", "kubelet-duplicate-node-name")
    assert {(findings[name]["verdict"], findings[name]["because"]) for name in identities} == {
        ("unknown", "capture-pseudonymous")
    }
    assert json.loads(result.stdout)["first"]["id"] == "fw-version-mixed"


def test_archives_that_were_made_to_be_sent_say_what_was_not_compared_and_how_to_capture(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site, b"k" * 16))
    assert result.exit_code == 3
    assert result.stdout.splitlines()[1:5] == [
        "  unknown capture-pseudonymous  gpu001, gpu002, gpu003, gpu004 and 4 more",
        "          saw: gpu[001-008]: captured without --identified; names, addresses and GUIDs were not compared",
        "          why: Names, addresses and GUIDs in these captures are pseudonyms, different ones in each.",
        "          fix: Run `trackbed capture --identified` on these hosts, and keep those archives at your site.",
    ]


def copy_capture(archive: Path, name: str) -> Path:
    """Copy an archive, which is then the second one of its host."""
    copy = archive.parent / "again" / name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(archive.read_bytes())
    return copy


@pytest.mark.parametrize(
    ("key", "name", "ends"),
    [
        (None, "gpu003.tar.gz", ["gpu003"]),
        (None, "anything.tar.gz", ["gpu003"]),
        (None, "gpu004.tar.gz", ["gpu004", "gpu003"]),
        (b"k" * 16, "gpu003.tar.gz", ["gpu003"]),
    ],
    ids=["same name", "any name", "name of another node", "pseudonyms"],
)
def test_two_captures_of_one_host_are_told_as_such(
    tmp_path: Path, key: bytes | None, name: str, ends: list[str]
) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    archives = [path for path in write_captures(tmp_path, site, key) if path.name != name or len(ends) == 1]
    again = copy_capture(tmp_path / "gpu003.tar.gz", name)
    result = run_doctor(tmp_path / "fabric.yaml", [*archives, again], "-o", "json")
    document = json.loads(result.stdout)
    (repeated,) = (finding for finding in document["findings"] if finding["id"] == "capture-repeated")
    assert repeated["evidence"] == f"{tmp_path}/gpu003.tar.gz and {again} are captures of one host"
    assert [end["node"] for end in repeated["ends"]] == ends
    assert {finding["verdict"] for finding in document["findings"]} <= {"pass", "unknown"}
    assert (result.exit_code, document["first"]["id"]) == (3, "capture-repeated")


def test_two_hosts_with_cloned_names_are_no_two_captures_of_one(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    site["gpu005"].name, site["gpu005"].machine_id = "gpu002", site["gpu002"].machine_id
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site), "-o", "json")
    assert json.loads(result.stdout)["first"]["id"] == "kubelet-duplicate-node-name"
    assert "capture-repeated" not in result.stdout


def test_two_hosts_with_cloned_names_and_guids_are_no_two_captures_of_one(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    site["gpu005"].name, site["gpu005"].machine_id = "gpu002", site["gpu002"].machine_id
    site["gpu005"].guids = site["gpu002"].guids
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site), "-o", "json")
    assert json.loads(result.stdout)["first"]["id"] == "vfs-guid-duplicate"
    assert "capture-repeated" not in result.stdout


def test_an_archive_that_cannot_be_read_is_an_unknown_node(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    archives = write_captures(tmp_path, site)
    archives[2].write_bytes(archives[2].read_bytes()[:100])
    result = run_doctor(tmp_path / "fabric.yaml", archives, "-o", "json")
    first = json.loads(result.stdout)["first"]
    assert (result.exit_code, first["id"], first["ends"]) == (3, "node-unread", [{"node": "gpu003"}])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--node", "gpu001"), "captures name the machines, and --node names"),
        (("--root", "/"), "captures name the machines, and --root names"),
        (("--nodes", "all"), "captures name the machines, and --nodes names"),
    ],
    ids=["--node", "--root", "--nodes"],
)
def test_captures_and_an_option_of_one_machine_are_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    result = run_doctor(tmp_path / "fabric.yaml", write_captures(tmp_path, site), *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_archives_of_other_fabrics_are_all_named(tmp_path: Path) -> None:
    site = build_site(tmp_path / "fabric.yaml")
    site["gpu001"].name, site["gpu002"].name = "server-a", "server-b"
    archives = write_captures(tmp_path, {"other-1": site["gpu001"], "other-2": site["gpu002"]})
    result = run_doctor(tmp_path / "fabric.yaml", archives)
    assert result.exit_code == 2
    assert all(f"{archive}: its host name" in result.stderr for archive in archives)


def test_progress_is_shown_after_a_second_and_ever_more_rarely(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter([0.0, 0.2, 0.9, 1.1, 1.9, 2.5, 3.9, 4.0])
    assert list(report_progress("abcdefg", 512, lambda: next(seconds))) == list("abcdefg")
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()) == ("", [f"read {count} of 512 captures" for count in (3, 5, 7)])
