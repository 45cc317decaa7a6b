"""`trackbed prove` on hosts with real networks: nine network namespaces behind a real sshd, joined by a real bridge."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from tests.cli.json_page import check_document
from tests.fleet.ground import mac
from tests.fleet.site import Site, site
from tests.namespaces import fresh_netns
from tests.waiting import wait_until
from trackbed.kernel.netlink.links import build_create_bridge, build_set_link, list_links
from trackbed.kernel.netlink.sockets import Socket

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

HOSTS, REFUSED = 10, 10
KILLED, WITHOUT_GID = 7, 2
"""In round 2 of a screen, gpu007 meets gpu004 on both rails, and waits for replies that a leaf has dropped."""
FIRST_ROUND = set(range(8))
"""Numbers of the tests of a screen's first round, of eight hosts with two rails."""
LEAF_HOSTS = range(4, 7)
"""The hosts of the leaf whose MTU is 1500, on rail 0."""
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu[001-010]", hostPorts: {ports}}}]
  rails: 2
  nodesPerUnit: 3
  addressing: {{scheme: shared-subnet, ipv4: 10.64.0.0/15}}
"""


@dataclass
class Proof:
    """What a run of the command printed, and its exit status."""

    document: dict[str, Any]
    status: int
    events: list[str]


@dataclass(frozen=True)
class Network:
    """The hosts, and the namespace of the leaves."""

    site: Site
    leaves: int

    @contextmanager
    def shrink_leaf(self) -> Iterator[None]:
        """Give the leaf of the second unit on rail 0 the MTU 1500."""
        self._set_mtu(1500)
        yield
        self._set_mtu(9216)

    def _set_mtu(self, mtu_bytes: int) -> None:
        with Socket(netns=self.leaves) as switch:
            links = {link.name: link.index for link in list_links(switch)}
            switch.send([build_set_link(links[f"h{number}r0"], mtu=mtu_bytes) for number in LEAF_HOSTS])

    def find_workers(self, number: int) -> list[int]:
        """Return the processes of workers in a host's network namespace."""
        inode = self.site.netns(number).stat().st_ino
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if is_worker(path, inode)]

    def prove(
        self, nodes: str, *words: str, react: Callable[[str], None] = lambda _: None, killed_after: str | None = None
    ) -> Proof:
        """Run the command, over SSH unless words say else; `react` gets each line of its standard error as it comes.

        `killed_after`: the line of its standard error after which the command itself is killed.
        """
        login = [] if "--launch" in words else ["--ssh-config", "ssh_config"]
        argv = [sys.executable, "-m", "trackbed", "prove", "-f", "fabric.yaml", "--nodes", nodes, "-o", "json", *words]
        output = self.site.folder / "proof.json"
        with (
            output.open("wb") as stdout,
            subprocess.Popen(
                [*argv, *login],
                cwd=self.site.folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            events = []
            for line in process.stderr or ():
                events.append(line.rstrip())
                react(events[-1])
                if events[-1] == killed_after:
                    process.kill()
        wait_until(lambda: not any(map(self.find_workers, range(1, HOSTS))), "no worker is left on a host")
        return Proof(json.loads(output.read_text() or "{}"), process.returncode, events)


def is_worker(process: Path, inode: int) -> bool:
    """Return whether a process is a worker in the network namespace of that inode; False for one that has ended."""
    try:
        argv = (process / "cmdline").read_bytes().split(b"\0")
        return (process / "ns/net").stat().st_ino == inode and b"-IS" in argv
    except OSError:
        return False


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    with site(folder, HOSTS, {REFUSED: "refused"}) as built, fresh_netns() as fabric:
        ports = {f"gpu{number:03}": [mac(number, rail) for rail in range(2)] for number in range(1, HOSTS + 1)}
        (folder / "fabric.yaml").write_text(FABRIC.format(ports=json.dumps(ports)))
        done = built.trackbed("apply", "--nodes", "gpu[001-009]", "--yes", "--batch", "100%")
        assert done.returncode == 0, done.stdout + done.stderr
        plan = json.loads(built.run("plan", "-o", "json").stdout)
        for number in range(1, HOSTS):
            write_rdma_files(built.root(number), plan["nodes"][number - 1])
        connect_leaves(built, fabric)
        yield Network(built, fabric)


def write_rdma_files(root: Path, node: dict[str, Any]) -> None:
    """Write an RDMA device of each rail, with the GID of its planned address."""
    for port in node["ports"]:
        folder = root / f"sys/class/infiniband/rail{port['rail']}/ports/1"
        address = port["ipv4"]["address"].partition("/")[0]
        gid = ip_address(f"::ffff:{address}").exploded
        for path, text in (("gids/3", gid), ("gid_attrs/types/3", "RoCE v2"), ("rate", "400 Gb/sec (4X NDR)")):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f"{text}\n")


def connect_leaves(built: Site, fabric: int) -> None:
    """Join the leaves' ends of all cables by one bridge for each rail, in a namespace of their own."""
    with Socket(netns=fabric) as switch:
        switch.send([build_create_bridge(f"rail{rail}", mtu=9216) for rail in range(2)])
        for number in range(1, HOSTS):
            with Socket(netns=built.netns(number)) as host:
                indexes = {link.name: link.index for link in list_links(host)}
                for rail in range(2):
                    name = f"h{number}r{rail}"
                    host.send([build_set_link(indexes[f"leaf{rail}"], mtu=9216, name=name, netns_fd=fabric)])
        links = {link.name: link.index for link in list_links(switch)}
        switch.send([build_set_link(links[f"rail{rail}"], up=True) for rail in range(2)])
        for number in range(1, HOSTS):
            for rail in range(2):
                switch.send([build_set_link(links[f"h{number}r{rail}"], up=True, master=links[f"rail{rail}"])])


def test_faults_that_come_together_are_each_named_and_nobody_else_is_blamed(network: Network) -> None:
    """A leaf with MTU 1500, a GID that is missing, a host that is not reached, a worker that is killed in round 2."""

    def kill_in_round_2(line: str) -> None:
        if line.endswith("ping: round 2 of 3"):
            for pid in network.find_workers(KILLED):
                os.kill(pid, signal.SIGKILL)

    with network.shrink_leaf(), remove_gid(network.site.root(WITHOUT_GID)):
        proof = network.prove("all", react=kill_in_round_2)
    document = proof.document
    check_document("prove --nodes gpu-[0-1]", document)
    assert (proof.status, document["summary"]) == (
        1,
        "broken: 140 tests planned: 35 pass, 0 warn, 7 fail, 0 unknown, 98 not-tested",
    )
    assert [(culprit["rung"], culprit["where"]) for culprit in document["culprits"]] == [
        ("ping", "leaf leaf-u1-r0"),
        ("gid", "rail 1 of gpu002"),
    ]
    assert document["unexplained"] == []
    assert [entry["nodes"] for entry in document["untested"] if "ssh" in entry["reason"]] == [["gpu010"]]
    ping = next(rung for rung in document["rungs"] if rung["rung"] == "ping")
    assert (ping["planned"], ping["verdicts"]["not-tested"]) == (30, 6)  # those of gpu010 alone
    assert [event for event in proof.events if "repeat" in event or "lost" in event] == [
        "gpu007 was lost: it died half-way (exit status 137: Killed); its worker is started again",
        "ping: round 2 is repeated for the 2 tests that were lost",
    ]


LAUNCHER = """\
#!/bin/sh
# Use: enter NODE COMMAND...   (as srun would: it starts the command on the node, if the allocation has the node)
[ "$1" != gpu010 ] || {{ echo "enter: error: $1 is not in the allocation" >&2; exit 1; }}
place={folder}/hosts/127.77.0.$(expr "$1" : 'gpu0*\\(.*\\)')
shift
TRACKBED_ROOT=$place/root exec nsenter --net=/proc/{pid}/root$place/net "$@"
"""


def test_a_launcher_starts_the_workers_and_what_it_does_not_start_is_not_tested(network: Network) -> None:
    """A worker that is killed in round 2 costs that round here, too."""
    launcher = network.site.folder / "enter"
    launcher.write_text(LAUNCHER.format(folder=network.site.folder, pid=network.site.pid))
    launcher.chmod(0o755)
    killed: list[int] = []

    def kill_in_round_2(line: str) -> None:
        if line == "ping: round 2 of 3" and not killed:
            killed.extend(network.find_workers(KILLED))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with network.shrink_leaf():
        words = ("--rungs", "ping,gid", "--launch", f"{launcher} %h")
        proof = network.prove("all", *words, react=kill_in_round_2)
    assert killed
    assert [culprit["where"] for culprit in proof.document["culprits"]] == ["leaf leaf-u1-r0"]
    assert proof.events.count("ping: round 2 is repeated for the 2 tests that were lost") == 1
    refusal = f"{launcher} did not start it (exit status 1: enter: error: the node is not in the allocation)"
    assert [entry["nodes"] for entry in proof.document["untested"] if entry["reason"] == refusal] == [["gpu010"]]


def test_a_proof_that_was_killed_in_round_2_goes_on_from_there(network: Network) -> None:
    """Its workers end with it; round 1 is not run again."""
    file = network.site.folder / "answers.jsonl"
    words = ("--rungs", "ping,gid", "--answers", str(file))
    first = network.prove("gpu[001-008]", *words, killed_after="ping: round 2 of 3")
    assert (first.status, first.document) == (-signal.SIGKILL, {})
    sides = Counter(answer["number"] for answer in map(json.loads, file.read_text().splitlines()[1:]))
    answered = {number for number, count in sides.items() if count == 2}
    second = network.prove("gpu[001-008]", *words)
    assert second.status == 3  # by IP alone
    assert second.document["summary"].startswith("unknown: 40 tests planned: 40 pass, 0 warn, 0 fail, ")
    assert second.events[0].endswith(f", with {len(answered)} tests that were answered")
    assert answered
    assert ("ping: round 1 of 3" in second.events) == bool(FIRST_ROUND - answered)
    assert "ping: round 3 of 3" in second.events
    assert not file.exists()


@contextmanager
def remove_gid(root: Path) -> Iterator[None]:
    """Remove the GID of rail 1."""
    gid = root / "sys/class/infiniband/rail1/ports/1/gids/3"
    text = gid.read_text()
    gid.write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    yield
    gid.write_text(text)
