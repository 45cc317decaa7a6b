"""The page of JSON output lists the keys that commands print, and no command with JSON output is left out."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from trackbed_lab.run_result import Phase, RunResult
from trackbed_lab.soak.run import SoakResult

from tests.cli.json_page import SECTIONS, check_document, read_keys
from tests.prove.nccl.logs import build_ranks, build_result
from trackbed.cli.main import cli

FABRIC = (
    "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: train}\nspec:\n"
    "  nodes:\n    - {hosts: 'gpu-[0-1]', server: dgx-h100}\n  rails: 8\n"
    "  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/13}\n"
)
FILES = {
    "fabric.yaml": FABRIC,
    "pool.yaml": (
        "apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: IPPool\nmetadata: {name: rail0}\n"
        "spec: {subnet: 10.0.0.1/16, perNodeBlockSize: 16}\n"
    ),
    "train.yaml": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  containers:\n"
        "    - {name: train, image: a.example/b, resources: {limits: {nvidia.com/gpu: 8}}}\n"
    ),
    "all-reduce.log": "\n".join([*build_ranks(), build_result(0.01)]),
    "leaf.nv": "nv set system hostname leaf-u0-r0\n",
}
ELSEWHERE = {
    "agent status": "tests/node/rails/test_macvlan.py",
    "apply --node gpu-0 --root .": "tests/cli/test_host_commands.py",
    "apply --nodes gpu-[0-1]": "tests/fleet/test_failing_hosts.py",
    "apply cluster native": "tests/cli/test_cluster_commands.py",
    "bios diff": "tests/host/bios/test_emulator.py",
    "diff --nodes gpu-[0-1]": "tests/fleet/test_tree.py",
    "diff cluster native": "tests/cli/test_cluster_commands.py",
    "lab doctor": "tests/lab/test_commands.py",
    "lab run": "tests/lab/test_commands.py",
    "prove --nodes gpu-[0-1]": "tests/fleet/test_proof_of_networks.py",
    "status": "tests/cli/test_status_command.py",
}
"""Command -> the test that runs it, with the hosts or the cluster that it asks for, and checks its document."""
TYPES = {
    "lab run": RunResult,
    "lab soak": SoakResult,
    "lab vm run": Phase,
    "lab vm prove": Phase,
    "lab kubernetes prove": Phase,
    "lab kubernetes run": Phase,
    "lab kubernetes roll": Phase,
}
"""Command that takes minutes -> the type that it encodes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the commands name."""
    path = tmp_path_factory.mktemp("json")
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


@pytest.mark.needs("processes")
@pytest.mark.parametrize("command", [name for name in SECTIONS if name not in {**ELSEWHERE, **TYPES}])
def test_a_command_prints_the_keys_that_the_page_lists(folder: Path, command: str) -> None:
    done = subprocess.run(
        [f"{sys.prefix}/bin/trackbed", *shlex.split(command), "-o", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    check_document(command, json.loads(done.stdout))


@pytest.mark.parametrize(("command", "kind"), TYPES.items(), ids=TYPES)
def test_the_page_lists_the_fields_of_what_takes_minutes(command: str, kind: type[msgspec.Struct]) -> None:
    assert set(read_keys(command)) == {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(("command", "file"), ELSEWHERE.items(), ids=ELSEWHERE)
def test_what_needs_hosts_or_a_cluster_is_checked_where_these_are(command: str, file: str) -> None:
    assert command in SECTIONS
    assert f'check_document("{command}", ' in (Path(__file__).parents[2] / file).read_text()


def test_every_command_with_json_output_has_a_section() -> None:
    known = {find_command(section) for section in SECTIONS}
    assert sorted(" ".join(path) for path in iter_json_commands(cli, ()) if path not in known) == []


def iter_json_commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that has JSON as a choice of its output."""
    choices = [option.type.choices for option in command.params if isinstance(option.type, click.Choice)]
    if any("json" in names for names in choices):
        yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            if member is not None:
                yield from iter_json_commands(member, (*path, name))


def find_command(section: str) -> tuple[str, ...]:
    """Return the words of a section's heading that are a command's."""
    command: click.Command | None = cli
    path: tuple[str, ...] = ()
    for word in section.split():
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if command is None:
            break
        path = (*path, word)
    return path
