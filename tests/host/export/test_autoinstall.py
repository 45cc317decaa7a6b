import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.host.export.fabrics import planned
from trackbed.host.export.arguments import find_arguments, render_script
from trackbed.host.export.autoinstall import iter_write_commands, render_user_data
from trackbed.host.export.files import list_files


def read(spec: str | None = None) -> dict[str, Any]:
    plan = planned() if spec is None else planned(spec=spec)
    text = render_user_data(plan.nodes[1], "netplan")
    assert text.startswith("#cloud-config\n")
    document: dict[str, Any] = yaml.safe_load(text)
    assert set(document) == {"autoinstall"}
    section: dict[str, Any] = document["autoinstall"]
    return section


def test_it_is_version_one_and_names_the_host() -> None:
    section = read()
    assert (section["version"], section["user-data"]) == (1, {"hostname": "gpu-1"})
    assert set(section) == {"version", "user-data", "late-commands"}


@pytest.mark.needs("processes")
def test_its_commands_leave_every_file_in_the_target(tmp_path: Path) -> None:
    node = planned().nodes[1]
    for command in iter_write_commands(node, "netplan", str(tmp_path)):
        subprocess.run(["/bin/sh", "-c", command], check=True, timeout=10)
    left = {f"/{p.relative_to(tmp_path)}": p for p in tmp_path.rglob("*") if p.is_file()}
    wanted = list_files(node, "netplan")
    assert {path: (p.read_text(), p.stat().st_mode & 0o7777) for path, p in left.items()} == {
        file.path: (file.content, file.mode) for file in wanted
    }


def test_the_document_holds_these_commands_for_target() -> None:
    assert read()["late-commands"][:-1] == list(iter_write_commands(planned().nodes[1], "netplan", "/target"))


def test_the_last_command_sees_to_kernel_arguments_inside_the_target() -> None:
    wanted = find_arguments(planned().nodes[1])
    assert wanted is not None
    assert read()["late-commands"][-1] == [
        "curtin", "in-target", "--target=/target", "--", "sh", "-c", render_script(wanted),
    ]  # fmt: skip


def test_without_arguments_files_are_all() -> None:
    assert all(isinstance(command, str) for command in read(spec="")["late-commands"])
