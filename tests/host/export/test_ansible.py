import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.host.export.fabrics import planned, variables
from trackbed.host.export.ansible import ROLE, render
from trackbed.host.export.arguments import find_arguments, render_grub_file, render_line
from trackbed.host.export.files import HostFile, build_patterns, list_files
from trackbed.host.kinds.bootloader import GRUB_FILE

MODULES = re.compile(r"^  ([a-z_.]+):$", re.MULTILINE)


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    folder = tmp_path / "playbook"
    for name, content in render(planned().nodes, "netplan"):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    return folder


def listed(content: str, name: str) -> set[HostFile]:
    return {HostFile(f["path"], f["content"], int(f["mode"], 8)) for f in variables(content)[name]}


@pytest.mark.parametrize("nodes", [1, 3])
def test_every_host_gets_the_files_of_apply(nodes: int) -> None:
    plan = planned(nodes=nodes)
    written = dict(render(plan.nodes, "networkd"))
    shared = listed(written[f"{ROLE}/defaults/main.yml"], "trackbed_files")
    for node in plan.nodes:
        listed_files = listed(written[f"host_vars/{node.name}.yml"], "trackbed_host_files")
        assert not listed_files & shared
        assert listed_files | shared == set(list_files(node, "networkd"))
    assert bool(shared) == (nodes > 1)


def test_only_builtin_modules_are_used() -> None:
    written = dict(render(planned().nodes, "netplan"))
    parts = [written[f"{ROLE}/{name}"] for name in ("tasks/main.yml", "tasks/kernel.yml", "handlers/main.yml")]
    keys = {key for part in parts for key in MODULES.findall(part)} - {"vars", "listen"}
    assert {key for key in keys if not key.startswith("ansible.builtin.")} <= {"loop_control"}
    assert len(keys) > 8


def test_the_inventory_lists_the_nodes() -> None:
    inventory = yaml.safe_load(dict(render(planned().nodes, "netplan"))["inventory.yml"])
    assert inventory == {"trackbed": {"hosts": {"gpu-0": None, "gpu-1": None, "gpu-2": None}}}


def test_nothing_in_a_file_is_taken_for_a_template() -> None:
    text = dict(render(planned().nodes, "netplan"))["host_vars/gpu-0.yml"]
    assert text.count("content: ") == text.count("content: !unsafe ") > 0


def test_old_files_are_recognised_by_whole_names() -> None:
    pattern = re.compile("|".join(build_patterns()))
    assert pattern.match("/etc/systemd/network/10-trackbed-rail9.link")
    assert not pattern.match("/etc/systemd/network/10-trackbed-rail9.link.bak")
    assert not pattern.match("/etc/systemd/network/sub/10-trackbed-rail9.link")
    assert not pattern.match("/etc/netplan/90-trackbedXyaml")


def run(playbook: Path, root: Path, *arguments: str) -> str:
    program = shutil.which("ansible-playbook")
    assert program is not None
    command = [
        program,
        *("-i", "inventory.yml"),
        *("--limit", "gpu-1"),
        *("--connection", "local"),
        *("--extra-vars", f"trackbed_root={root} ansible_become=false"),
        *("--extra-vars", f"ansible_python_interpreter={sys.executable}"),
        *arguments,
        "site.yml",
    ]
    env = {**os.environ, "ANSIBLE_PIPELINING": "1", "ANSIBLE_LOCALHOST_WARNING": "0"}
    done = subprocess.run(command, cwd=playbook, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.may_skip("ansible-core is no dependency: only where ansible-playbook is on PATH")
@pytest.mark.needs("ansible-playbook", "root")
@pytest.mark.slow
def test_ansible_writes_them_once_and_then_changes_nothing(playbook: Path, tmp_path: Path) -> None:
    root = tmp_path / "host"
    for path in ("etc/default/grub", "etc/systemd/network/10-trackbed-rail9.link", "etc/systemd/network/10-site.link"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("there before\n")
    before = {path: path.read_text() for path in root.rglob("*") if path.is_file()}
    assert "changed=0 " not in run(playbook, root, "--check")
    assert {path: path.read_text() for path in root.rglob("*") if path.is_file()} == before
    assert "changed=0 " not in run(playbook, root)
    assert "changed=0 " in run(playbook, root)
    left = {
        f"/{p.relative_to(root)}": (p.read_text(), p.stat().st_mode & 0o777) for p in root.rglob("*") if p.is_file()
    }
    node = planned().nodes[1]
    wanted = find_arguments(node)
    assert wanted is not None
    assert {left.pop(GRUB_FILE)[0]} <= {
        render_grub_file(render_line(wanted, vendor)) for vendor in ("GenuineIntel", "AuthenticAMD")
    }
    assert {left.pop(path)[0] for path in ("/etc/default/grub", "/etc/systemd/network/10-site.link")} == {
        "there before\n"
    }
    assert left == {file.path: (file.content, file.mode) for file in list_files(node, "netplan")}
