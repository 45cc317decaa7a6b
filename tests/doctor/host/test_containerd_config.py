"""containerd's files are read as containerd itself reads them: `containerd config dump` of 1.7 and of 2."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.host.containerds import find_containerd_1, find_containerd_2
from trackbed.doctor.checks.runtime import read_containerd_config
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

pytestmark = pytest.mark.needs("processes")

NIGHTLY = pytest.mark.nightly("containerd 2 is built from source")
_CONFIG, _DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/90-site.toml"
_PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}


def _render(version: int, setting: str = "") -> str:
    """Return a configuration with a cgroup driver, and with a setting of the CRI plugin."""
    plugin = f"plugins.'{_PLUGINS[version]}'"
    runc = f"[{plugin}.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
    return f"version = {version}\nimports = ['{{folder}}/conf.d/*.toml']\n[{plugin}]\n{setting}\n{runc}"


def _read_dump(containerd: list[str], folder: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        target = folder / Path(path).relative_to("/etc/containerd")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("{folder}", str(folder)))
    argv = [*containerd, "--config", str(folder / "config.toml"), "config", "dump"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def _pick(config: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether CDI is on, and whether runc leaves cgroups to systemd."""
    runc = config.get("containerd", {}).get("runtimes", {}).get("runc", {})
    return bool(config["enable_cdi"]), bool(runc.get("options", {}).get("SystemdCgroup"))


@pytest.mark.may_skip("Debian's archive and the network that a build needs")
@pytest.mark.support("runtime", "containerd 1.7", "ran", "`containerd config dump` of Debian 13's 1.7, CDI on and off")
@pytest.mark.support("runtime", "containerd 2", "ran", "`containerd config dump` of the lab's 2.2, CDI on and off")
@pytest.mark.parametrize(
    ("find", "version", "settings", "outcome"),
    [
        pytest.param(find_containerd_1, 2, ("", None), (False, True), id="1.7, absent"),
        pytest.param(find_containerd_1, 2, ("enable_cdi = true", None), (True, True), id="1.7, on"),
        pytest.param(find_containerd_1, 2, ("", "enable_cdi = true"), (True, False), id="1.7, drop-in"),
        pytest.param(find_containerd_2, 3, ("", None), (True, True), id="2, absent", marks=NIGHTLY),
        pytest.param(find_containerd_2, 3, ("enable_cdi = false", None), (False, True), id="2, off", marks=NIGHTLY),
        pytest.param(find_containerd_2, 3, ("", "enable_cdi = false"), (False, True), id="2, drop-in", marks=NIGHTLY),
    ],
)
def test_files_are_read_as_containerd_reads_them(
    tmp_path: Path,
    find: Callable[[], list[str]],
    version: int,
    settings: tuple[str, str | None],
    outcome: tuple[bool, bool],
) -> None:
    """Before 2.0 a drop-in takes away what the main file says in its section: here the cgroup driver."""
    files = {_CONFIG: _render(version, settings[0])}
    if settings[1]:
        files[_DROP_IN] = f"version = {version}\n[plugins.'{_PLUGINS[version]}']\n{settings[1]}\n"
    dump = ProgramResult(0, _read_dump(find(), tmp_path, files))
    printed = read_containerd_config(Snapshot(outputs={("containerd", "config", "dump"): dump}))
    parsed = read_containerd_config(Snapshot({path: text.encode() for path, text in files.items()}))
    assert (_pick(printed), _pick(parsed)) == (outcome, outcome)
