"""The command `trackbed import netplan`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click.shell_completion
import pytest
from click.testing import CliRunner, Result

from tests.fabric.importers.sites import EXAMPLE
from trackbed.cli.main import cli
from trackbed.fabric.importers.registry import SOURCES
from trackbed.fabric.model.load import load_fabric


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return four files of the example site."""
    directory = tmp_path / "Site 7"
    directory.mkdir()
    for number in (0, 1, 32, 33):
        shutil.copy(EXAMPLE / f"worker-gpu-{number}.yaml", directory)
    return directory


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin)


def test_both_documents_are_printed_and_findings_go_to_standard_error(site: Path) -> None:
    result = run("import", "netplan", site)
    loaded = load_fabric(result.stdout.encode(), "stdout")
    assert result.exit_code == 0
    assert loaded.lock is not None
    assert loaded.fabric.metadata.name == loaded.lock.fabric == "site-7"
    assert "eno1 is no rail" in result.stderr
    assert result.stderr.splitlines()[-1] == (
        "4 netplan files: 4 hosts, 8 rails, 32 ports; the plan reproduces every address"
    )


def test_the_output_can_be_planned_at_once(site: Path) -> None:
    planned = run("plan", "-f", "-", "-o", "csv", stdin=run("import", "netplan", site).stdout)
    assert planned.exit_code == 0
    assert planned.stdout.splitlines()[-1].startswith("worker-gpu-33,1,7,enp66s0np0,b8:3f:d2:01:01:70,172.30.1.2/31,")


def test_files_are_written_beside_each_other_and_read_together(site: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "place"
    result = run("import", "netplan", site, "--to", target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert sorted(path.name for path in target.iterdir()) == ["fabric.yaml", "trackbed.lock.yaml"]
    assert run("lock", "-f", target / "fabric.yaml", "--check").exit_code == 0


@pytest.mark.parametrize("existing", ["fabric.yaml", "trackbed.lock.yaml"])
def test_a_file_that_exists_is_never_replaced_unasked(site: Path, tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    result = run("import", "netplan", site, "--to", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"trackbed: {tmp_path / existing} exists; write elsewhere, or replace it with --force\n"
    assert (tmp_path / existing).read_text() == "mine"
    assert run("import", "netplan", site, "--to", tmp_path, "--force").exit_code == 0
    assert (tmp_path / existing).read_text() != "mine"


def test_something_found_ends_with_1_and_still_gives_a_fabric(site: Path) -> None:
    path = site / "worker-gpu-1.yaml"
    path.write_text(path.read_text().replace("172.18.0.2/31", "172.18.0.8/31"))
    result = run("import", "netplan", site)
    assert result.exit_code == 1
    assert f"{path}:25:19: error: worker-gpu-1 rail 1 (enp140s0np0)" in result.stderr
    load_fabric(result.stdout.encode(), "stdout")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("h.yaml", b"network: [", "h.yaml:2:1: error: this is not YAML"),
        ("h.yaml", b"network: {ethernets: {eno1: {dhcp4: true}}}", "no rail found in the files of 1 host"),
        ("h.yaml", b"\xff\xfe", "h.yaml:1:1: error: byte 0xff is not UTF-8"),
        ("h.yml", b"network: {}", "netplan reads files ending in .yaml only"),
        (
            "README",
            b"",
            "holds no netplan files; it must hold HOST.yaml for each host, or a directory HOST with",
        ),
    ],
    ids=["not YAML", "no rail", "not UTF-8", "yml", "no files"],
)
def test_nothing_usable_ends_with_2(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = run("import", "netplan", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_directory_for_each_host_is_read_whole(site: Path) -> None:
    for path in sorted(site.glob("*.yaml")):
        netplan = site / path.stem / "etc" / "netplan"
        netplan.mkdir(parents=True)
        path.rename(netplan / "50-fabric.yaml")
        (netplan / "90-mtu.yaml").write_text("network: {ethernets: {enp27s0np0: {mtu: 9000}}}\n")
    result = run("import", "netplan", site)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1].startswith("8 netplan files: 4 hosts, 8 rails, 32 ports")


def test_a_host_in_both_layouts_is_a_finding(site: Path) -> None:
    (site / "worker-gpu-0").mkdir()
    shutil.copy(site / "worker-gpu-0.yaml", site / "worker-gpu-0" / "netplan.yaml")
    result = run("import", "netplan", site)
    assert result.exit_code == 1
    assert f"{site / 'worker-gpu-0.yaml'}:1:1: error: host 'worker-gpu-0' has a directory too" in result.stderr
    assert "worker-gpu-0: 0" in result.stdout


def test_links_pipes_and_devices_hold_nothing_up(site: Path) -> None:
    (site / "loop").symlink_to(site)
    (site / "host").mkdir()
    (site / "host" / "again").symlink_to(site / "host")
    (site / "gone.yaml").symlink_to(site / "nowhere")
    (site / "self.yaml").symlink_to(site / "self.yaml")
    (site / "zero.yaml").symlink_to("/dev/zero")
    os.mkfifo(site / "pipe.yaml")
    result = run("import", "netplan", site)
    assert result.exit_code == 1
    assert f"{site / 'loop'}:1:1: warning: links to directories are not followed" in result.stderr
    assert f"{site / 'gone.yaml'}:1:1: warning: cannot read this file: No such file or directory" in result.stderr
    assert (
        f"{site / 'self.yaml'}:1:1: warning: cannot read this file: Too many levels of symbolic links" in result.stderr
    )
    for name in ("zero.yaml", "pipe.yaml"):
        assert f"{site / name}:1:1: warning: cannot read this file: it is not a regular file" in result.stderr
    assert "4 hosts, 8 rails, 32 ports; the plan reproduces every address" in result.stderr


def test_a_directory_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    assert run("import", "netplan", tmp_path / "nowhere").exit_code == 2


@pytest.mark.parametrize("name", ["fabric.yaml", "12.5", "-", "ÄÖ"])
def test_any_name_of_a_directory_gives_a_name_for_the_fabric(site: Path, name: str) -> None:
    other = site.rename(site.parent / name)
    assert run("import", "netplan", other).exit_code == 0


def test_a_directory_of_50_mb_files_is_refused_file_by_file(site: Path) -> None:
    with (site / "big.yaml").open("wb") as stream:
        stream.truncate(50 << 20)
    result = run("import", "netplan", site)
    assert result.exit_code == 1
    assert f"{site / 'big.yaml'}:1:1: error: the file is larger than 1 MB, the most that is read" in result.stderr


def test_every_source_has_its_help_and_stands_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "import.md").read_text()
    for name, (_, about) in SOURCES.items():
        result = run("import", name, "--help")
        assert result.exit_code == 0
        assert f"trackbed import {name} ./{name} --to ." in result.stdout
        assert f"  {name}" in run("import", "--help").stdout
        assert f"`{name}`" in guide
        assert about.endswith(".")


def test_completion_knows_every_source() -> None:
    completion = click.shell_completion.BashComplete(cli, {}, "trackbed", "_TRACKBED_COMPLETE")
    completed = {item.value for item in completion.get_completions(["import"], "n")}
    assert completed == {name for name in SOURCES if name.startswith("n")}


def test_an_unknown_source_is_told_with_the_nearest() -> None:
    result = run("import", "netplam", ".")
    assert result.exit_code == 2
    assert "no such source 'netplam'; did you mean 'netplan'?" in result.stderr


def test_files_at_any_depth_below_a_host_are_read(tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / f"gpu-{number}" / "etc" / "systemd" / "network" / "10-eth0.network.d"
        folder.mkdir(parents=True)
        (folder / "mtu.conf").write_text("[Link]\nMTUBytes=9000\n")
        text = f"[Match]\nName=eth0\n[Network]\nAddress=10.0.0.{16 * number + 16}/24\n"
        (folder.parent / "10-eth0.network").write_text(text)
    result = run("import", "networkd", tmp_path)
    assert (result.exit_code, result.stderr) == (
        0,
        "4 networkd files: 2 hosts, 1 rail, 2 ports; the plan reproduces every address\n",
    )


def test_files_of_a_site_are_read_wherever_they_lie(tmp_path: Path) -> None:
    for folder in ("config", "inventory"):
        (tmp_path / folder).mkdir()
    config = "topology: 2-tier\nhost_first_octet: 172\nhost_interfaces: [eth1]\n"
    (tmp_path / "config" / "config.yaml").write_text(config)
    (tmp_path / "inventory" / "hosts").write_text("[host]\nhgx-su00-h[00:03]\n")
    result = run("import", "rcp", tmp_path)
    assert result.exit_code == 0
    assert result.stderr.endswith("2 RCP files: 4 hosts, 1 rail, 4 ports; the plan reproduces every address\n")
