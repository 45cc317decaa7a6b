import fcntl
import json
import socket
from collections.abc import Iterator
from errno import EACCES
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.json_page import check_document
from tests.host.places import MACS, Host, everything, host, install_netplan
from trackbed.cli.main import cli
from trackbed.host.machine import Machine
from trackbed.host.transaction.files import read_owned
from trackbed.kernel.netlink.links import build_create_macvlan, build_set_link
from trackbed.kernel.netlink.routes import Route, build_add_route

FABRIC = f"""apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu-[0-1]", hostPorts: {{gpu-1: ["{MACS[0]}", "{MACS[1]}"]}}}}]
  rails: 2
  addressing: {{scheme: point-to-point}}
"""


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.replace("{scheme: point-to-point}", "{scheme: point-to-point, ipv4: 172.20.0.0/16}"))
    return str(path)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def on(place: Host, command: str, fabric: str, *arguments: object) -> Result:
    assert isinstance(place.machine.netns, Path)
    where = ("--root", place.machine.root, "--netns", place.machine.netns)
    return run(command, "-f", fabric, "--node", "gpu-1", *where, *arguments)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as made:
        yield made


def test_a_host_needs_no_fabric_but_its_plan(place: Host, fabric: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(run("plan", "-f", fabric, "-o", "json").stdout)
    by_fabric, by_plan = (on(place, "diff", source, "-o", "json") for source in (fabric, str(plan)))
    assert (by_plan.exit_code, by_plan.stdout) == (by_fabric.exit_code, by_fabric.stdout) == (1, by_fabric.stdout)
    plan.write_text(run("plan", "-f", fabric, "--rail", 0, "-o", "json").stdout)
    refused = on(place, "diff", str(plan))
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"{plan}:1:1: error: this plan has rail 0 alone")


def test_what_was_skipped_has_a_line_each_below_its_reason(place: Host, fabric: str) -> None:
    lines = on(place, "diff", fabric).stderr.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("skipped, ")]
    assert heads
    assert all(lines[number].endswith(":") and lines[number + 1].startswith("  ") for number in heads)
    assert max(map(len, lines)) <= 120


def test_diff_exits_with_one_until_the_host_is_as_planned(place: Host, fabric: str) -> None:
    before = on(place, "diff", fabric, "-o", "json")
    assert before.exit_code == 1
    first = json.loads(before.stdout)["changes"][0]
    assert first == {
        "step": "names",
        "rail": 0,
        "what": f"name of {MACS[0]}",
        "have": "eth0",
        "want": "rail0",
        "action": "change",
        "drain": True,
    }
    done = on(place, "apply", fabric, "--yes", "--persist", "none")
    assert (done.exit_code, done.stderr.count("write ")) == (0, 0)
    left = json.loads(on(place, "diff", fabric, "-o", "json").stdout)["changes"]
    assert [change["what"] for change in left] == ["file /etc/trackbed/node.json"]
    done = on(place, "apply", fabric, "--yes", "-o", "json")
    assert done.exit_code == 0
    check_document("apply --node gpu-0 --root .", json.loads(done.stdout))
    after = on(place, "diff", fabric)
    assert (after.exit_code, after.stdout) == (0, "gpu-1 is as planned\n")


def test_apply_asks_and_where_nobody_can_answer_wants_yes(place: Host, fabric: str) -> None:
    done = on(place, "apply", fabric)
    assert done.exit_code == 2
    assert "standard input is no terminal to confirm on; add --yes to apply, or --dry-run to look only" in done.stderr
    assert on(place, "diff", fabric).exit_code == 1


def test_a_dry_run_shows_all_and_does_nothing(place: Host, fabric: str) -> None:
    done = on(place, "apply", fabric, "--dry-run")
    assert done.exit_code == 1
    assert "MTU of rail0" in done.stdout
    assert "write /etc/sysctl.d/90-trackbed.conf" in done.stderr
    assert read_owned(place.machine) == {}
    assert not place.records.exists()


def test_apply_persists_in_the_format_of_the_machine_and_undo_removes_it(place: Host, fabric: str) -> None:
    install_netplan(place.machine.root)
    assert on(place, "apply", fabric, "--yes").exit_code == 0
    assert "/etc/netplan/90-trackbed.yaml" in read_owned(place.machine)
    done = on(place, "apply", fabric, "--undo")
    assert (done.exit_code, done.stdout) == (0, "the state before the last apply is restored\n")
    assert read_owned(place.machine) == {}
    again = on(place, "apply", fabric, "--undo")
    assert (again.exit_code, "there is nothing to undo" in again.stderr) == (2, True)


def test_an_incomplete_undo_says_that_it_can_be_tried_again(
    place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_write(*_: object) -> None:
        raise OSError(EACCES, "Permission denied")

    assert on(place, "apply", fabric, "--yes").exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "write_sysctl", refuse_write)
        done = on(place, "apply", fabric, "--undo")
    assert (done.exit_code, done.stdout) == (1, "everything else is restored\n")
    assert "not restored: net/ipv4/conf/eth0/arp_ignore: Permission denied" in done.stderr
    assert "remove the cause, then `trackbed apply --undo` restores the rest\n" in done.stderr
    done = on(place, "apply", fabric, "--undo")
    assert (done.exit_code, done.stdout) == (0, "the state before the last apply is restored\n")


def test_diff_names_the_files_that_the_next_boot_would_miss(place: Host, fabric: str) -> None:
    install_netplan(place.machine.root)
    assert on(place, "apply", fabric, "--yes").exit_code == 0
    assert on(place, "diff", fabric).exit_code == 0
    path = "/etc/netplan/90-trackbed.yaml"
    place.machine.locate(path).unlink()
    for command in (("diff",), ("apply", "--dry-run")):
        done = on(place, command[0], fabric, *command[1:])
        assert (done.exit_code, done.stdout) == (1, "gpu-1 is as planned until the next boot: 1 file differs\n")
        assert f"write {path}\n" in done.stderr
    assert json.loads(on(place, "diff", fabric, "-o", "json").stdout)["files"] == [path]
    assert on(place, "diff", fabric, "--persist", "none").exit_code == 0


def test_diff_says_why_no_files_suit_the_host(place: Host, fabric: str) -> None:
    assert on(place, "apply", fabric, "--yes").exit_code == 0
    place.send(build_set_link(place.index("rail0"), up=True), build_create_macvlan("upper", place.index("rail0")))
    place.send(build_set_link(place.index("upper"), up=True))
    place.send(build_add_route(Route(2, 254, oif=place.index("upper"), scope=253)))
    done = on(place, "diff", fabric)
    assert done.exit_code == 1
    assert "apply refuses this plan: this machine's default route leaves by upper, on rail0" in done.stderr


def test_an_undo_waits_for_no_apply(place: Host, fabric: str) -> None:
    assert on(place, "apply", fabric, "--yes").exit_code == 0
    with (place.records / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = on(place, "apply", fabric, "--undo")
    assert (done.exit_code, "another trackbed apply is under way here" in done.stderr) == (1, True)
    assert on(place, "apply", fabric, "--undo").exit_code == 0


def test_a_namespace_alone_gets_no_files(place: Host, fabric: str) -> None:
    done = run("apply", "-f", fabric, "--node", "gpu-1", "--netns", place.machine.netns, "--dry-run")
    assert "write " not in done.stderr


def test_apply_warns_of_other_files_that_speak_of_a_rail(place: Host, fabric: str) -> None:
    other = place.machine.root / "etc/netplan/01-site.yaml"
    other.parent.mkdir(parents=True)
    other.write_text("network:\n  ethernets:\n    rail0: {mtu: 1500}\n")
    done = on(place, "apply", fabric, "--dry-run")
    assert "warning: /etc/netplan/01-site.yaml:3: rail0: {mtu: 1500}: this configures or names a rail" in done.stderr


def test_a_port_that_is_missing_makes_apply_exit_with_one(place: Host, fabric: str) -> None:
    text = Path(fabric).read_text()
    Path(fabric).write_text(text.replace(MACS[1], "b8:3f:d2:00:00:0f"))
    done = on(place, "apply", fabric, "--yes")
    assert done.exit_code == 1
    assert "no interface has MAC b8:3f:d2:00:00:0f" in done.stderr


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """A Fabric with the host's name and other ports."""
    path = tmp_path / "wrong.yaml"
    text = FABRIC.replace(MACS[0], "p0").replace(MACS[1], "p1")
    path.write_text(text.replace("{scheme: point-to-point}", "{scheme: shared-subnet, ipv4: 10.0.0.0/16}"))
    return str(path)


def test_apply_refuses_a_plan_that_does_not_fit_and_changes_nothing(place: Host, fabric: str, wrong: str) -> None:
    assert on(place, "apply", fabric, "--yes", "--persist", "none").exit_code == 0
    before = everything(place.machine)
    refused = on(place, "apply", wrong, "--yes", "--persist", "none")
    assert refused.exit_code == 2
    assert "gpu-1: this host has none of the 2 planned ports (here: " in refused.stderr
    assert "rail0" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert everything(place.machine) == before


def test_diff_counts_and_marks_removals_and_apply_takes_their_number(place: Host, fabric: str, wrong: str) -> None:
    assert on(place, "apply", fabric, "--yes").exit_code == 0
    shown = on(place, "diff", wrong)
    totals = json.loads(on(place, "diff", wrong, "-o", "json").stdout)["totals"]
    removals = totals["remove"]
    assert removals == sum(line.startswith("-  ") for line in shown.stdout.splitlines()) > 0
    assert f"gpu-1: {totals['add']} to add, {totals['change']} to change, {removals} to remove" in shown.stdout
    assert f"--removals {removals} applies it all the same" in shown.stderr
    assert on(place, "apply", wrong, "--yes", "--persist", "none", "--removals", removals + 1).exit_code == 2
    assert on(place, "diff", fabric).exit_code == 0
    on(place, "apply", wrong, "--yes", "--persist", "none", "--removals", removals)
    assert json.loads(on(place, "diff", wrong, "-o", "json").stdout)["totals"]["remove"] == 0
    assert on(place, "apply", wrong, "--undo").exit_code == 0
    assert on(place, "diff", fabric).exit_code == 0


def test_apply_refuses_the_plan_of_another_node_by_the_host_name(fabric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_contact(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-0.site")
    for contact in ("open_socket", "freeze", "read", "write_sysctl", "write_attribute"):
        monkeypatch.setattr(Machine, contact, refuse_contact)
    refused = run("apply", "-f", fabric, "--node", "gpu-1", "--yes")
    assert refused.exit_code == 2
    assert "this host is gpu-0, another node of fabric 'train' than gpu-1; nothing was changed" in refused.stderr


@pytest.mark.parametrize("output_format", ["netplan", "networkd", "networkmanager", "ifupdown"])
def test_render_prints_every_file_under_its_name_or_writes_them(
    tmp_path: Path, fabric: str, output_format: str
) -> None:
    shown = run("render", "host", "-f", fabric, "--node", "gpu-1", "--format", output_format)
    wrote = run("render", "host", "-f", fabric, "--node", "gpu-1", "--format", output_format, "--to", tmp_path / "out")
    assert (shown.exit_code, wrote.exit_code) == (0, 0)
    paths = [line.removeprefix("# --- ") for line in shown.stdout.splitlines() if line.startswith("# --- ")]
    assert all((tmp_path / "out" / path.lstrip("/")).read_text() in shown.stdout for path in paths)
    assert len(paths) >= 5
