"""`discover`, `init`, `servers`, `capture` as people call them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.host.discover import machines
from tests.host.discover.test_rails import dgx_h100
from trackbed.cli.main import cli
from trackbed.fabric.model.load import load_fabric
from trackbed.host.discover.read import read_inventory
from trackbed.host.snapshot.snapshot import Snapshot


def trackbed(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def written(snapshot: Snapshot, place: Path) -> str:
    place.write_bytes(msgspec.json.encode(read_inventory(snapshot)))
    return str(place)


def laid_out(snapshot: Snapshot, root: Path) -> str:
    """The machine as a tree of files and links."""
    for path, target in snapshot.links.items():
        device = root / path.lstrip("/")
        device.parent.mkdir(parents=True, exist_ok=True)
        (device.parent / target).resolve().mkdir(parents=True, exist_ok=True)
        device.symlink_to(target)
    for path, raw in snapshot.files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
    return str(root)


def test_discover_prints_rails_and_what_is_set_aside(tmp_path: Path) -> None:
    result = trackbed("discover", "--root", written(dgx_h100(), tmp_path / "gpu-0.json"))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[2].split()[:6] == ["0", "0", "PIX", "0000:18:00.0", "eth_mlx5_0", "mlx5_0"]
    assert sum(line.startswith("-") for line in lines) == 7
    assert "as dgx-h100 in the catalogue" in lines[-1]


def test_discover_without_a_rail_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert trackbed("discover", "--root", str(tmp_path)).exit_code == 1
    result = trackbed("discover", "--root", str(tmp_path), "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["nics"]) == (1, [])
    assert result.stderr.startswith("no rails on ")


def test_a_machine_an_archive_of_it_and_its_inventory_are_the_same_to_init(tmp_path: Path) -> None:
    root = laid_out(machines.machine(machines.MI355X), tmp_path / "root")
    archive = str(tmp_path / "gpu-0.tar.gz")
    assert trackbed("capture", "--root", root, "--to", archive, "--identified").exit_code == 0
    inventory_file = tmp_path / "gpu-0.json"
    inventory_file.write_text(trackbed("discover", "--root", archive, "-o", "json").stdout)
    texts = [trackbed("init", source).stdout for source in (root, archive, str(inventory_file))]
    assert texts[0].count("PIX") == 8
    assert texts[1:] == texts[:1] * 2


def test_init_writes_a_fabric_that_loads_and_never_overwrites(tmp_path: Path) -> None:
    source = written(dgx_h100(), tmp_path / "gpu-0.json")
    place = tmp_path / "fabric.yaml"
    words = ("init", source, "--name", "small", "--ipv4", "10.64.0.0/13", "--to", str(place))
    assert trackbed(*words).exit_code == 0
    loaded = load_fabric(place.read_bytes(), "fabric.yaml").fabric
    assert loaded.metadata.name == "small"
    assert "ipv4: 10.64.0.0/13" in place.read_text()
    before = place.read_bytes()
    again = trackbed(*words)
    assert (again.exit_code, place.read_bytes()) == (2, before)


WRONG = {
    "a range that is none": ("--ipv4", "10.64.0.0/99"),
    "a range too small": ("--ipv4", "10.64.0.0/28"),
    "a name that is none": ("--name", "No Name"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_init_refuses_what_makes_no_fabric(words: tuple[str, str], tmp_path: Path) -> None:
    result = trackbed("init", written(dgx_h100(), tmp_path / "gpu-0.json"), *words)
    assert (result.exit_code, result.stdout) == (2, "")


NO_INVENTORY = {
    "text": b"gpu-0",
    "another document": b'{"kind": "Fabric"}',
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "half an archive": b"\x1f\x8b\x00",
}


@pytest.mark.parametrize("raw", NO_INVENTORY.values(), ids=NO_INVENTORY)
def test_a_file_that_tells_of_no_machine_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(raw)
    result = trackbed("init", str(tmp_path / "x"))
    assert result.exit_code == 2
    assert "neither what `trackbed discover -o json` prints nor an archive" in result.stderr


def test_capture_never_overwrites(tmp_path: Path) -> None:
    place = tmp_path / "x.tar.gz"
    place.write_text("mine")
    (tmp_path / "root").mkdir()
    result = trackbed("capture", "--root", str(tmp_path / "root"), "--to", str(place))
    assert (result.exit_code, place.read_text()) == (2, "mine")


def test_an_archive_has_no_names_unless_they_are_asked_for(tmp_path: Path) -> None:
    root = machines.with_files(machines.machine(machines.MI355X), {"/proc/sys/kernel/hostname": "acme17\n"})
    folder = laid_out(root, tmp_path / "root")
    names = {}
    for options, file in (((), "sent.tar.gz"), (("--identified",), "kept.tar.gz")):
        place = str(tmp_path / file)
        result = trackbed("capture", "--root", folder, "--to", place, *options)
        names[file] = json.loads(trackbed("discover", "--root", place, "-o", "json").stdout)["host"]
        assert ("do not send it" in result.stderr) == bool(options)
        assert ("look into it before you send it" in result.stderr) != bool(options)
    assert names["kept.tar.gz"] == "acme17"
    assert names["sent.tar.gz"].startswith("host-")


def test_only_its_owner_reads_an_archive(tmp_path: Path) -> None:
    place = tmp_path / "x.tar.gz"
    (tmp_path / "root").mkdir()
    assert trackbed("capture", "--root", str(tmp_path / "root"), "--to", str(place)).exit_code == 0
    assert place.stat().st_mode & 0o777 == 0o600


def test_servers_finds_those_with_a_part_of_a_name_a_model_or_a_nic() -> None:
    names = [line.split()[0] for line in trackbed("servers", "thor2").stdout.splitlines()[1:]]
    assert {"dell-xe9680-mi300x", "smc-as-8126gs-tnmr-mi325x"} <= set(names)
    assert "dgx-h100" not in names
    assert trackbed("servers", "no such").exit_code == 2


def test_servers_lists_the_catalogue_and_shows_one() -> None:
    assert "dgx-h100" in trackbed("servers").stdout
    assert "0000:dc:00.0" in trackbed("servers", "dgx-h100").stdout
    servers = json.loads(trackbed("servers", "dgx-h100", "-o", "json").stdout)
    assert len(servers["dgx-h100"]["ports"]) == 8


def test_servers_says_a_rate_once() -> None:
    assert re.findall(r"\b(\d+G)\b.*\b\1\b", trackbed("servers").stdout) == []


def test_servers_names_the_nearest_where_there_is_none() -> None:
    result = trackbed("servers", "dgx-h1000")
    assert (result.exit_code, "did you mean 'dgx-h100'?" in result.stderr) == (2, True)


SSH = """#!/bin/sh
case "$*" in
  *gpu-1*) echo "ssh: connect to host gpu-1 port 22: No route to host" >&2; exit 255;;
  *gpu-4*) printf '{"x":'; head -c 5000 /dev/zero | tr '\\0' '[';;
  *"trackbed discover -o json") exec cat "$TOLD";;
esac
exit 9
"""


@pytest.mark.needs("processes")
def test_other_hosts_are_asked_over_ssh_and_one_that_is_silent_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TOLD", written(dgx_h100(), tmp_path / "told.json"))
    result = trackbed("discover", "--nodes", "gpu-[1-4]", "-o", "json")
    assert result.exit_code == 3
    assert "gpu-1: ssh: connect to host gpu-1 port 22: No route to host" in result.stderr
    assert "gpu-4: no answer to" in result.stderr
    (tmp_path / "gpus.json").write_text(result.stdout)
    text = trackbed("init", str(tmp_path / "gpus.json")).stdout
    assert "- hosts: gpu-[2-3]\n" in text


def test_a_range_of_hosts_that_cannot_be_read_is_refused() -> None:
    assert trackbed("discover", "--nodes", "gpu-[0-").exit_code == 2
