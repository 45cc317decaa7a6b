"""An option means one thing in every command; whoever writes a former one reads what to write instead."""

from __future__ import annotations

import shlex
from collections import defaultdict

import click
import pytest
from click.testing import CliRunner

from tests.cli.test_command_tree import FABRIC, tree
from trackbed.cli.main import cli

OLD = {
    f"plan -f {FABRIC} --node worker-gpu-0": "--node worker-gpu-0: write --nodes worker-gpu-0 instead",
    f"render host -f {FABRIC} --node all": "--node all: write --nodes all instead",
    "render host -o ./files": "-o ./files: write --to ./files instead",
    "render host --cpu amd": "--cpu amd: write --cpu-vendor amd instead",
    "render stack native -o ./cluster": "-o is a format (yaml, json); to write below a folder, write --to ./cluster",
    "render stack native --json": "--json: write -o json instead",
    "render switch -o ./leaves": "-o is a format (text, json); to write below a folder, write --to ./leaves instead",
    "render switch --check a --json": "--json: write -o json instead",
    "import netplan . -o site": "-o site: write --to site instead",
    "init -o fabric.yaml": "-o fabric.yaml: write --to fabric.yaml instead",
    "capture -o a.tar.gz": "-o a.tar.gz: write --to a.tar.gz instead",
    "lint --nodes 5": "--nodes 5: write --node-count 5 instead",
    "job new job --nodes 5": "--nodes 5: write --node-count 5 instead",
    "apply --remove 5": "--remove 5: write --removals 5 instead",
    "doctor --listen 31": "--listen 31: write --lldp 31 instead",
    "doctor --agent a.sock": "--agent a.sock: write --socket a.sock instead",
    "discover --listen 31": "--listen 31: write --lldp 31 instead",
    "lab kubernetes up --nodes 2": "--nodes 2: write --node-count 2 instead",
    "lab kubernetes up --rails 2": "--rails 2: write --rail-count 2 instead",
    "lab vm up --rails 2": "--rails 2: write --rail-count 2 instead",
}
FABRICS = {"FILE|-", "FILE|DIR", "DIR or FILE"}
"""The Fabric; a lab takes a folder of netplan files too."""


@pytest.mark.parametrize("words", OLD)
def test_an_old_form_is_answered_with_what_to_write_instead(words: str) -> None:
    done = CliRunner().invoke(cli, shlex.split(words))
    assert (done.exit_code, done.stdout) == (2, "")
    assert OLD[words] in " ".join(done.stderr.split())


def test_an_option_takes_one_kind_of_value_in_all_commands() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for context in tree():
        for option in context.command.params:
            if isinstance(option, click.Option) and not option.hidden:
                for name in option.opts:
                    kinds[name].add(_describe_value(option))
    assert {name: described for name, described in kinds.items() if len(described) > 1} == {
        "-f": FABRICS,
        "--fabric": FABRICS,
        "--check": {"DIR or FILE", "a flag"},  # both compare and write nothing; a lock is beside its Fabric
        "--memory": {"MIB", "QUANTITY"},  # of an emulated server, and of a pod as Kubernetes writes it
    }


def _describe_value(option: click.Option) -> str:
    if option.is_flag:
        return "a flag"
    if isinstance(option.type, click.Choice):
        return "choice"
    if isinstance(option.type, click.Path) or option.metavar in {"FILE", "DIR"}:
        return "DIR or FILE"
    return option.metavar or option.type.name
