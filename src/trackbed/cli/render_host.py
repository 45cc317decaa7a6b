"""`trackbed render host`: the files of hosts for their next boot, plain or for provisioning tools."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import fabric_option, find_node, folder_option, read_fabric, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.formats import Format

    Files = Iterable[tuple[str, str | bytes]]

NETWORKS = ("netplan", "networkd", "networkmanager")
TOOLS = ("cloud-init", "autoinstall", "maas", "ansible", "tar")
CPUS = ("intel", "amd", "arm")


@click.command("host")
@fabric_option
@click.option("--node", "node_name", metavar="NAME|all", help="Node of the plan, or all. Default: this host's name.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(NETWORKS + TOOLS),
    default="netplan",
    show_default=True,
    help="Reader of the files.",
)
@click.option(
    "--network",
    type=click.Choice(NETWORKS),
    default="netplan",
    show_default=True,
    help="Network configuration of the hosts, for the formats of tools.",
)
@click.option("--cpu", type=click.Choice(CPUS), help="Vendor of the hosts' CPUs; only a tar needs it.")
@folder_option
def host(
    fabric_file: str, node_name: str | None, output_format: str, network: Format, cpu: str | None, folder: Path | None
) -> None:
    """Write the files of hosts; `trackbed apply` writes the same.

    netplan, networkd and networkmanager are the network's files alone. The other formats pass every file for the next
    boot, and the kernel arguments, to a provisioning tool.

    \b
    Examples:
      trackbed render host -f fabric.yaml --node gpu-0
      trackbed render host -f fabric.yaml --node gpu-0 --format networkd -o ./gpu-0
      trackbed render host -f fabric.yaml --node all --format cloud-init -o ./seed
      trackbed render host -f fabric.yaml --node all --format maas -o ./maas && ./maas/tags.sh admin
      trackbed render host -f fabric.yaml --node all --format ansible -o ./playbook
      trackbed render host -f fabric.yaml --node gpu-0 --format tar --cpu amd | ssh gpu-0 tar -C / -xf -
    """
    _, planned = read_fabric(fabric_file)
    nodes = planned.nodes if node_name == "all" else (find_node(planned, node_name),)
    files = _render_files(nodes, output_format, network, cpu, everything=node_name == "all")
    if folder is None:
        _print_files(files, single=len(nodes) == 1)
    else:
        click.echo(f"wrote {_write_files(folder, files)} files below {folder}")


def _render_files(
    nodes: Sequence[NodePlan], output_format: str, network: Format, cpu: str | None, *, everything: bool
) -> Files:
    """Return path and content of every file; files of many nodes are below the node's name."""
    if output_format == "maas":
        from trackbed.host.export import maas

        return maas.render(nodes).items()
    if output_format == "ansible":
        from trackbed.host.export import ansible

        return ansible.render(nodes, network)
    if output_format == "tar":
        return _render_archives(nodes, network, cpu)
    if output_format in {"cloud-init", "autoinstall"}:
        return _render_seeds(nodes, output_format, network)
    return _render_networks(nodes, output_format, below_name=everything)


def _render_networks(nodes: Iterable[NodePlan], output_format: str, *, below_name: bool) -> Files:
    from trackbed.host.render import FORMATS

    render = next(renderer for name, renderer in FORMATS.items() if name == output_format)
    for node in nodes:
        for path, content in render(node).items():
            yield f"{node.name}{path}" if below_name else path, content


def _render_seeds(nodes: Iterable[NodePlan], output_format: str, network: Format) -> Files:
    from trackbed.host.export import autoinstall, cloud_init

    render = cloud_init.render_user_data if output_format == "cloud-init" else autoinstall.render_user_data
    for node in nodes:
        yield f"{node.name}/user-data", render(node, network)
        yield f"{node.name}/meta-data", cloud_init.render_meta_data(node)


def _render_archives(nodes: Iterable[NodePlan], network: Format, cpu: str | None) -> Iterator[tuple[str, bytes]]:
    from trackbed.host.export.archive import build_archive
    from trackbed.host.export.arguments import CPUS as VENDORS
    from trackbed.host.export.arguments import find_arguments

    has_arguments = False
    for node in nodes:
        kernel_arguments = find_arguments(node)
        has_arguments |= kernel_arguments is not None
        if kernel_arguments and kernel_arguments.iommu and cpu is None:
            cpus = "|".join(CPUS)
            refuse(f"node {node.name} wants the IOMMU on, whose argument depends on the CPU; add --cpu {cpus}")
        yield f"{node.name}.tar", build_archive(node, network, VENDORS[cpu] if cpu else None)
    if has_arguments:
        click.echo("the kernel arguments are in a GRUB drop-in; they take effect after update-grub", err=True)


def _print_files(files: Files, *, single: bool) -> None:
    """Print texts with their names as headings; a tar, or the user-data of a single node, is printed alone."""
    listed = list(files)
    if len(listed) == 1 and isinstance(listed[0][1], bytes):
        _print_archive(listed[0][1])
        return
    texts = [(path, content) for path, content in listed if isinstance(content, str)]
    if len(texts) != len(listed):
        refuse("several archives cannot be printed; write them below a folder with -o DIR")
    if single and texts[0][0].endswith("/user-data"):
        click.echo(texts[0][1], nl=False)
        return
    click.echo("\n".join(f"# --- {path}\n{content}" for path, content in texts), nl=False)


def _print_archive(raw: bytes) -> None:
    if sys.stdout.isatty():
        refuse("a tar does not belong on a terminal; pipe it, or write it below a folder with -o DIR")
    click.echo(raw, nl=False)


def _write_files(folder: Path, files: Files) -> int:
    count = 0
    folders: set[Path] = set()
    try:
        for path, content in files:
            path_below = folder / path.lstrip("/")
            if path_below.parent not in folders:
                path_below.parent.mkdir(parents=True, exist_ok=True)
                folders.add(path_below.parent)
            _replace_file(path_below, path, content)
            count += 1
    except OSError as error:
        _refuse_write(folder, error)
    return count


def _replace_file(target: Path, path: str, content: str | bytes) -> None:
    """Write a file atomically, with the permissions that its reader needs."""
    temporary = target.with_name(f".{target.name}.new")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.chmod(_find_mode(path))
        temporary.replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _find_mode(path: str) -> int:
    from trackbed.host.export.commission import NAME
    from trackbed.host.formats import choose_mode

    if path == NAME or path.endswith(".sh"):
        return 0o755
    return choose_mode("/" + path.partition("/")[2]) if "/etc/" in path else 0o644


def _refuse_write(folder: Path, error: OSError) -> NoReturn:
    refuse(f"cannot write {error.filename or folder}: {error.strerror}")
