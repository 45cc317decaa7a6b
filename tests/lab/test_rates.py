"""`trackbed lab rates`: slow ports are chosen, capped in the kernel, and named by a proof."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.lab import LabError
from trackbed_lab.rates import SLOW_SHARES, choose_slow_ports, compare
from trackbed_lab.tbf import build_set_rate

from tests.namespaces import fresh_netns
from tests.prove.hosts import Hosts, build_plan
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, get_link
from trackbed.kernel.netlink.sockets import Socket
from trackbed.prove.report import build_report

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: rates}
spec:
  nodes: [{hosts: "node-[0-5]"}]
  rails: 2
  nodesPerUnit: 3
  rate: 0.004
  addressing: {scheme: point-to-point, ipv4: 10.64.0.0/15}
"""


def test_slow_ports_are_of_different_nodes_and_the_same_for_the_same_seed() -> None:
    plan = build_plan(8)
    slow = choose_slow_ports(plan, 6, seed=3)
    assert len({node for node, _ in slow}) == 6
    assert set(slow.values()) == set(SLOW_SHARES)
    assert choose_slow_ports(plan, 6, seed=3) == slow != choose_slow_ports(plan, 6, seed=4)


def test_more_slow_ports_than_nodes_are_refused() -> None:
    with pytest.raises(LabError, match="9 slow ports of different nodes need as many nodes"):
        choose_slow_ports(build_plan(8), 9, seed=1)


def test_a_slow_port_that_is_not_named_is_missed_and_a_sound_one_is_blamed_falsely() -> None:
    report = build_report(Hosts(build_plan(12), gbps={("n3", 1): 200}).prove())
    assert compare(report, {("n3", 1): 0.5}) == ((("n3", 1),), (), ())
    assert compare(report, {("n4", 1): 0.5}) == ((), (("n4", 1),), ("rail 1 of n3",))


@pytest.mark.needs("root", "tc")
def test_the_kernel_keeps_the_rate_of_an_interface() -> None:
    with fresh_netns() as netns, Socket(netns=netns) as sock:
        sock.send([build_create_veth(VethEnd("a"), VethEnd("b"))])
        index = get_link(sock, "a").index
        for rate in (100_000, 250_000):
            sock.send([build_set_rate(index, rate)])
        [qdisc] = [entry for entry in list_qdiscs(netns) if entry["kind"] == "tbf"]
    assert (qdisc["dev"], qdisc["options"]["rate"], qdisc["root"]) == ("a", 250_000, True)
    assert qdisc["options"]["burst"] == pytest.approx(20_000, rel=0.01)


def list_qdiscs(netns: int) -> list[dict[str, Any]]:
    argv = ["nsenter", f"--net=/proc/self/fd/{netns}", "tc", "-json", "qdisc", "show"]
    return list(json.loads(subprocess.run(argv, pass_fds=[netns], check=True, capture_output=True).stdout))


@pytest.mark.nightly("rounds by rates take a minute and a half")
@pytest.mark.needs("processes", "nsenter")
def test_slow_ports_of_a_lab_are_named_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    argv = [sys.executable, "-m", "trackbed", "lab", "rates", "-f", "fabric.yaml", "--slow", "2"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 slow ports named" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("  rate: 0.004\n", "", "the Fabric states no rate (spec.rate)", id="no rate"),
        pytest.param("node-[0-5]", "node-0", "no rate was measured: ", id="one node"),
    ],
)
@pytest.mark.needs("processes", "nsenter")
def test_a_fabric_without_a_rate_to_measure_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "fabric.yaml").write_text(FABRIC.replace(old, new))
    argv = [sys.executable, "-m", "trackbed", "lab", "rates", "-f", "fabric.yaml", "--slow", "0"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, message in done.stderr) == (3, True), done.stderr
