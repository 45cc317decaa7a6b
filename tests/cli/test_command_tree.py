"""Every command, argument, option and exit status is what was reviewed: nobody's scripts break unseen.

command_tree.txt has a line for each command and each of its parameters, exit_codes.txt one for each invocation:
`status  arguments`. `scripts/test --rewrite cli` writes both; review the difference.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.prove.nccl.logs import build_ranks, build_result
from trackbed.cli.main import cli, main

TREE = Path(__file__).with_name("command_tree.txt")
EXIT_CODES = Path(__file__).with_name("exit_codes.txt")
EXAMPLES = Path(__file__).parents[2] / "examples"

FABRIC = "examples/point-to-point.yaml"
FILES = {
    "broken.yaml": "kind: Fabric\nspec: {rails: many}\n",
    "captured/trackbed-capture.json": '{"outputs": [], "format": "trackbed-capture/1"}',
    "captured/proc/sys/kernel/hostname": "worker-gpu-0\n",
    "captured/proc/cmdline": "quiet\n",
    "all-reduce.log": "\n".join([*build_ranks(), build_result(0.01, wrong="3")]),
    "leaf-u0-r0.nv": "nv set system hostname leaf-u0-r0\n",
    "inventory.json": json.dumps(
        {
            "host": "gpu-0",
            "vendor": "Supermicro",
            "product": "SYS-821GE-TNHR",
            "gpus": [],
            "nics": [
                {
                    "pci": f"0000:{bus}:00.0",
                    "path": [f"pci0000:{bus}"],
                    "id": "15b3:1021",
                    "subsystem": "",
                    "model": "ConnectX-7 400 Gb/s InfiniBand and Ethernet adapter",
                    "netdev": f"enp{number}s0np0",
                    "mac": f"b8:3f:d2:00:00:0{number}",
                    "link": "ethernet",
                    "speed": 400000,
                    "driver": "mlx5_core",
                }
                for number, bus in enumerate(("17", "3d"))
            ],
        }
    ),
    "job.yaml": """apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: train, image: train:1}]}}}
""",
    "twice.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: train, name: train}\n",
}
"""What the invocations find where they run, beside the examples."""

VALUES = {"action": "diff", "topic": "172.16.0.0", "fault_id": "vfs-count-wrong", "file": "job.yaml", "kind": "job"}
VALUES |= {"name": "native", "stack_name": "native", "chart": "examples"}
"""A good value for a required parameter, by its name; `x` for all others."""

UNSET = (
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "NODE_NAME",
    "TRACKBED_BMC_PASSWORD",
    "TRACKBED_BMC_USER",
    "TRACKBED_CRDS",
    "_TRACKBED_COMPLETE",
)
"""Variables by which a person's environment would change an exit status."""

CHOSEN = f"""
--version
-h
agent remove-cni no-such-folder
agent run --plan plan.json --cni-bin bin
agent status --socket no-such-socket
apply --dry-run -f {FABRIC} --root captured
apply --persist paper
apply --root no-such-folder
apply --undo --nodes worker-gpu-0 -f {FABRIC}
apply cluster bare-metal -f {FABRIC}
apply cluster native -f {FABRIC} --kubeconfig missing.yaml
apply cluster no-such-stack -f {FABRIC}
bios diff -f {FABRIC}
bios mend -f {FABRIC}
capture --root captured --to job.yaml
capture --root captured --to no-such-folder/host.tar.gz
controller --kubeconfig missing.yaml
controller --stacks native
controller --stacks no-such-stack
diff -f {FABRIC} --node no-such-node
diff -f {FABRIC} --node worker-gpu-0 --root captured
diff -f {FABRIC} --nodes no-such-node
diff -f {FABRIC} --nodes worker-gpu-0 --fanout 0
diff cluster native -f {FABRIC} --kubeconfig missing.yaml
diff cluster no-such-stack -f {FABRIC}
discover --root captured
discover --root captured -o json
discover --root inventory.json
discover --root job.yaml
doctor -f {FABRIC} --node no-such-node --root captured
doctor -f {FABRIC} --node worker-gpu-0 --root captured
doctor -f {FABRIC} --node worker-gpu-0 --root captured -o json
explain 172.16.0.0 -f {FABRIC}
explain 172.16.0.0 -f {FABRIC} -o json
explain 8.8.8.8 -f {FABRIC}
explain nowhere -f {FABRIC}
explain route-rule-missing
explain hca-prefix
explain spec.addressing.scheme
explain spec.no.such
explain worker-gpu-0 -f {FABRIC}
explain rail0 -f {FABRIC} -o json
help
help apply cluster
help no-such-command
version
validate -f {FABRIC}
validate -f {FABRIC} -o json
validate -f broken.yaml
faults
faults -o json
faults no-such-fault
faults route-rule-missing
import netplan captured
import netplan examples/spectrum-x-4
import netplan no-such-folder
init captured
init inventory.json
init job.yaml
job diff job.yaml -f {FABRIC} --stack network-operator-hostdevice
job diff -f {FABRIC} --stack network-operator-hostdevice
job judge all-reduce.log -f {FABRIC}
job diff --pod train/train-0 -f {FABRIC} --stack network-operator-hostdevice --kubeconfig missing.yaml
job new job -f {FABRIC} --stack network-operator-hostdevice
job new job -f {FABRIC} --stack network-operator-hostdevice --image train:1
job new job -f {FABRIC} --stack network-operator-hostdevice --image train:1 --node-count 65
job new kueue -f {FABRIC} --stack network-operator-hostdevice
job new no-such-kind -f {FABRIC} --stack network-operator-hostdevice
job patch job.yaml -f {FABRIC} --stack bare-metal
job patch job.yaml -f {FABRIC} --stack network-operator-hostdevice
job patch missing.yaml -f {FABRIC} --stack network-operator-hostdevice
job patch twice.yaml -f {FABRIC} --stack network-operator-hostdevice
lab break --name no-such-lab route-rule-missing
lab doctor --name no-such-lab
lab exec --name no-such-lab node-0 -- true
lab heal --name no-such-lab route-rule-missing
lab kubernetes exec --dir no-such-folder pod -- true
lab kubernetes logs --dir no-such-folder pod
lab kubernetes status --dir no-such-folder
lab kubernetes up --crds no-such-folder
lab run --break no-such-fault
lab run --report no-such-folder/report.html
lab run -f broken.yaml
lab status --name ../no-such-lab
lab status --name no-such-lab
lab up -f broken.yaml
lab vm break --dir no-such-folder node-0 no-such-fault
lab vm break --dir no-such-folder node-0 vfs-count-wrong
lab vm exec --dir no-such-folder node-0 -- true
lab vm heal --dir no-such-folder node-0 vfs-count-wrong
lab vm reboot --dir no-such-folder node-0
lab vm run -f broken.yaml
lab vm status --dir no-such-folder
lab vm up --accelerator steam
lint
lint --cluster --kubeconfig missing.yaml
lint --crds no-such-folder job.yaml
lint --explain duplicate-key
lint --explain no-such-rule
lint --rules
lint --rules -o json
lint -
lint job.yaml
lint job.yaml -o sarif
lint missing.yaml
lint twice.yaml
lint twice.yaml -o json
lint twice.yaml -o junit
lint twice.yaml -o paper
lock --check -f {FABRIC}
lock -f -
no-such-command
plan
plan -f -
plan -f broken.yaml
plan -f {FABRIC}
plan -f {FABRIC} --nodes no-such-node
plan -f {FABRIC} --nodes all --rail 0 -o csv
plan -f {FABRIC} --nodes worker-gpu-0 --rail 0
plan -f {FABRIC} --rail 8
plan -f {FABRIC} --rail first
plan -f {FABRIC} -o csv
plan -f {FABRIC} -o json
plan -f {FABRIC} -o yaml
prove -f {FABRIC} --nodes all --budget
render host -f {FABRIC} --nodes all --format tar
render host -f {FABRIC} --node no-such-node
render host -f {FABRIC} --node worker-gpu-0
render host -f {FABRIC} --node worker-gpu-0 --format cloud-init --network networkd
render node -f {FABRIC} --node no-such-node
render node -f {FABRIC} --node worker-gpu-0
render rights network-operator-hostdevice -f {FABRIC}
render rights network-operator-hostdevice -f {FABRIC} --account nobody
render stack network-operator-hostdevice -f {FABRIC}
render stack network-operator-hostdevice -f {FABRIC} -o json
render stack network-operator-sriov -f {FABRIC}
render stack no-such-stack -f {FABRIC}
render switch -f {FABRIC}
render switch -f {FABRIC} --check job.yaml
render switch -f {FABRIC} --check leaf-u0-r0.nv
render switch -f {FABRIC} --check leaf-u0-r0.nv --format nvue
render switch -f {FABRIC} --check leaf-u0-r0.nv -o json
render switch -f {FABRIC} --format nvue
render switch -f {FABRIC} --format nvue --leaf no-such-leaf
render switch -f {FABRIC} --format sonic
render switch -f {FABRIC} --format sonic --leaf leaf-u0-r0
servers
servers dgx-h100
servers dgx-h100 -o json
servers no-such-server
stacks
stacks -f broken.yaml
stacks -f {FABRIC}
stacks -f {FABRIC} -o wide
stacks -o json
stacks no-such-stack
stacks spiderpool
status --kubeconfig missing.yaml
status -f broken.yaml
uninstall --agents --kubeconfig missing.yaml
uninstall --kubeconfig missing.yaml
webhook --kubeconfig missing.yaml
webhook --listen nowhere
webhook --url http://127.0.0.1:8443
""".strip().splitlines()
"""Invocations with an end worth keeping; none reaches a host, a network or a folder other than its own."""


def contexts(context: click.Context) -> Iterator[click.Context]:
    """A command and everything below it, each with its path."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None, name
            yield from contexts(click.Context(command, context, name, **command.context_settings))


def tree() -> list[click.Context]:
    """Every command."""
    return list(contexts(click.Context(cli, info_name="trackbed", **cli.context_settings)))


def tree_lines() -> list[str]:
    """A line for each command and each of its parameters."""
    return sorted(line for context in tree() for line in command_lines(context))


def command_lines(context: click.Context) -> Iterator[str]:
    """What a command is; then its arguments by their places, and its options."""
    command = context.command
    words = ["group" if isinstance(command, click.Group) else "command"]
    words += ["alone-too"] * (isinstance(command, click.Group) and command.invoke_without_command)
    words += ["options-pass-through"] * context.ignore_unknown_options
    words += ["hidden"] * command.hidden + ["deprecated"] * bool(command.deprecated) + ["help"] * bool(command.help)
    yield f"{context.command_path}: {' '.join([*words, *sorted(command.get_help_option_names(context))])}"
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    for place, argument in enumerate(arguments, start=1):
        yield f"{context.command_path}: argument {place} {argument.name}: {parameter_words(argument)}"
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{context.command_path}: option {option_names(option)}: {parameter_words(option)}"


def option_names(option: click.Option) -> str:
    """All strings that stand for it, those that switch it off after a slash."""
    return " ".join(option.opts) + (" / " + " ".join(option.secondary_opts) if option.secondary_opts else "")


def parameter_words(parameter: click.Parameter) -> str:
    """All that changes what a parameter takes; written here, because click's own words change with its version."""
    option = parameter if isinstance(parameter, click.Option) else None
    flags = {
        "required": parameter.required,
        "multiple": parameter.multiple,
        "flag": option is not None and option.is_flag,
        "count": option is not None and option.count,
        "eager": parameter.is_eager,
        "hidden": option is not None and option.hidden,
        "help": option is not None and bool(option.help),
    }
    names = parameter.envvar if isinstance(parameter.envvar, str) else " ".join(parameter.envvar or ())
    values = {
        "nargs": str(parameter.nargs),
        "default": default_text(parameter),
        "metavar": parameter.metavar or "",
        "env": names,
    }
    named = [f"{name}={value}" for name, value in values.items() if value]
    return " ".join([type_text(parameter.type), *named, *(name for name, holds in flags.items() if holds)])


def default_text(parameter: click.Parameter) -> str:
    """A plain default as JSON; empty without one, and where a flag is merely off."""
    default = parameter.default
    if callable(default):
        return "computed"  # from the person's home, so another on every machine
    if isinstance(default, Path):
        return json.dumps(str(default))
    return json.dumps(default) if isinstance(default, str | int | float) and default is not False else ""


def type_text(kind: click.ParamType[Any]) -> str:
    """A type with its choices, bounds, or what a path must be."""
    if isinstance(kind, click.Choice):
        return f"choice({'|'.join(map(str, kind.choices))}){'' if kind.case_sensitive else ' any-case'}"
    if isinstance(kind, click.IntRange | click.FloatRange):
        left, right = "(" if kind.min_open else "[", ")" if kind.max_open else "]"
        number = "integer" if isinstance(kind, click.IntRange) else "float"
        bounds = ["-" if bound is None else f"{bound:g}" for bound in (kind.min, kind.max)]
        return f"{number}{left}{','.join(bounds)}{right}{' clamped' if kind.clamp else ''}"
    if isinstance(kind, click.Path):
        kinds = [name for name, fits in (("file", kind.file_okay), ("folder", kind.dir_okay)) if fits]
        return f"path({'|'.join(kinds)}){' exists' * kind.exists}{' or-dash' * kind.allow_dash}"
    return "unprocessed" if kind is click.UNPROCESSED else kind.name


def invocations() -> list[str]:
    """What every command must answer alike, and the chosen ones."""
    return sorted({*CHOSEN, *(" ".join(words) for context in tree() for words in usual(context))})


def usual(context: click.Context) -> Iterator[list[str]]:
    """Help, an option and a command that do not exist, each required parameter left out, no file for the Fabric."""
    path = context.command_path.split()[1:]
    command = context.command
    needed = [parameter for parameter in command.params if parameter.required]
    yield [*path, "--help"]
    yield [*path, "--no-such-option"]
    if isinstance(command, click.Group):
        yield [*path, "no-such-command"]
    for absent in needed:
        yield [*path, *(word for parameter in needed if parameter is not absent for word in filled(parameter))]
    if any("--fabric" in parameter.opts for parameter in command.params):
        yield [*path, *(word for parameter in needed for word in filled(parameter)), "-f", "missing.yaml"]


def filled(parameter: click.Parameter) -> list[str]:
    """A required parameter with a value."""
    value = VALUES.get(parameter.name or "", "x")
    return [parameter.opts[0], value] if isinstance(parameter, click.Option) else [value]


def exit_code(invocation: str) -> int:
    """The status that the shell gets; whatever is no way to end raises here."""
    environment: dict[str, str | None] = dict.fromkeys(UNSET)
    home = str(Path.cwd())
    with (
        CliRunner().isolation(env=environment | {"HOME": home, "XDG_STATE_HOME": home}),
        contextlib.ExitStack() as undo,
    ):
        undo.callback(setattr, sys, "argv", sys.argv)
        sys.argv = ["trackbed", *shlex.split(invocation)]
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def furnish(folder: Path) -> None:
    """Put what the invocations read below a folder."""
    shutil.copytree(EXAMPLES, folder / "examples")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def exit_codes() -> dict[str, int]:
    """The reviewed status of each invocation."""
    lines = (line.partition("  ") for line in EXIT_CODES.read_text().splitlines())
    return {invocation: int(status) for status, _, invocation in lines}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("furnished")
    furnish(folder)
    return folder


def test_every_command_and_parameter_is_what_was_reviewed(rewrites_goldens: bool) -> None:
    if rewrites_goldens:
        TREE.write_text("".join(f"{line}\n" for line in tree_lines()))
    reviewed = TREE.read_text().splitlines()
    difference = "\n".join(unified_diff(reviewed, tree_lines(), "reviewed", "now", n=0, lineterm=""))
    assert difference == "", difference


def test_every_invocation_has_a_reviewed_exit_code(
    furnished: Path,
    monkeypatch: pytest.MonkeyPatch,
    rewrites_goldens: bool,
) -> None:
    if rewrites_goldens:
        monkeypatch.chdir(furnished)
        statuses = {invocation: exit_code(invocation) for invocation in invocations()}
        EXIT_CODES.write_text("".join(f"{status}  {invocation}\n" for invocation, status in statuses.items()))
    assert set(invocations()) ^ set(exit_codes()) == set()


@pytest.mark.parametrize("invocation", invocations())
def test_a_command_ends_with_the_reviewed_exit_code(
    furnished: Path, monkeypatch: pytest.MonkeyPatch, invocation: str
) -> None:
    monkeypatch.chdir(furnished)
    assert exit_code(invocation) == exit_codes()[invocation]


def test_invocations_leave_nothing_behind(furnished: Path, tmp_path: Path) -> None:
    furnish(tmp_path)
    before, after = ({path.relative_to(folder) for path in folder.rglob("*")} for folder in (tmp_path, furnished))
    assert after == before
