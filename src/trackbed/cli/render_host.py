"""`trackbed render host`: the files of hosts for their next boot, plain or for provisioning tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_nodes
from trackbed.cli.files import OutputFile, write_files
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import (
    ALL_NODES,
    fabric_option,
    find_node,
    folder_option,
    node_option,
    read_fabric,
    refuse,
    refuse_output_option,
    select_nodes,
)
from trackbed.cli.terminal import emit_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.formats import Format

    Files = Iterable[tuple[str, str | bytes]]

NETWORKS = ("netplan", "networkd", "networkmanager", "ifupdown")
TOOLS = ("cloud-init", "autoinstall", "maas", "ansible", "tar")
CPUS = ("intel", "amd", "arm")


@click.command("host")
@fabric_option
@node_option
@click.option(
    "--nodes",
    metavar="SET",
    shell_complete=complete_nodes,
    help="These nodes instead, as gpu-[0-3], or all; files are below their names.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(NETWORKS + TOOLS),
    metavar="READER",
    default="netplan",
    show_default=True,
    help=f"Reader of the files: {', '.join(NETWORKS + TOOLS)}.",
)
@click.option(
    "--network",
    type=click.Choice(NETWORKS),
    default="netplan",
    show_default=True,
    help="Network configuration of the hosts, for the formats of tools.",
)
@click.option("--cpu-vendor", "cpu", type=click.Choice(CPUS), help="Vendor of the hosts' CPUs; only a tar needs it.")
@folder_option
@refuse_option("--cpu", instead="--cpu-vendor {value}")
@refuse_output_option
def host(
    fabric_file: str,
    node_name: str | None,
    nodes: str | None,
    output_format: str,
    network: Format,
    cpu: str | None,
    folder: Path | None,
) -> None:
    """Write the files of hosts; `trackbed apply` writes the same.

    netplan, networkd, networkmanager and ifupdown are the network's files alone. The other formats pass every
    file for the next boot, and the kernel arguments, to a provisioning tool.

    \b
    Examples:
      trackbed render host -f fabric.yaml --node gpu-0
      trackbed render host -f fabric.yaml --node gpu-0 --format networkd \\
          --to ./gpu-0
      trackbed render host -f fabric.yaml --nodes all --format cloud-init \\
          --to ./seed
      trackbed render host -f fabric.yaml --nodes all --format maas --to ./maas \\
          && ./maas/tags.sh admin
      trackbed render host -f fabric.yaml --nodes all --format ansible \\
          --to ./playbook
      trackbed render host -f fabric.yaml --node gpu-0 --format tar \\
          --cpu-vendor amd | ssh gpu-0 tar -C / -xf -
    """
    if node_name == ALL_NODES:
        raise click.UsageError("--node all: write --nodes all instead")
    _, plan = read_fabric(fabric_file)
    chosen = select_nodes(plan, nodes) if nodes else (find_node(plan, node_name),)
    files = _render_files(chosen, output_format, network, cpu, everything=nodes is not None)
    if folder is None:
        _print_files(files, single=len(chosen) == 1)
    else:
        write_files(folder, (OutputFile(path, [content], _choose_mode(path)) for path, content in files))


def _render_files(
    nodes: Sequence[NodePlan], output_format: str, network: Format, cpu: str | None, *, everything: bool
) -> Files:
    """Return path and content of every file; with several nodes, files are below the node's name."""
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
            refuse(f"node {node.name} wants the IOMMU on, whose argument depends on the CPU; add --cpu-vendor {cpus}")
        yield f"{node.name}.tar", build_archive(node, network, VENDORS[cpu] if cpu else None)
    if has_arguments:
        click.echo("the kernel arguments are in a GRUB drop-in; they take effect after update-grub", err=True)


def _print_files(files: Files, *, single: bool) -> None:
    """Print texts with their names as headings; a tar archive, or the user-data of a single node, without."""
    listed = list(files)
    if len(listed) == 1 and isinstance(listed[0][1], bytes):
        _print_archive(listed[0][1])
        return
    texts = [(path, content) for path, content in listed if isinstance(content, str)]
    if len(texts) != len(listed):
        refuse("several archives cannot be printed; write them below a folder with --to DIR")
    if single and texts[0][0].endswith("/user-data"):
        emit_document(texts[0][1])
        return
    emit_document("\n".join(f"# --- {path}\n{content}" for path, content in texts))


def _print_archive(raw: bytes) -> None:
    if sys.stdout.isatty():
        refuse("a tar does not belong on a terminal; pipe it, or write it below a folder with --to DIR")
    click.echo(raw, nl=False)


def _choose_mode(path: str) -> int:
    from trackbed.host.export.commission import NAME
    from trackbed.host.formats import get_file_mode

    if path == NAME or path.endswith(".sh"):
        return 0o755
    return get_file_mode("/" + path.partition("/")[2]) if "/etc/" in path else 0o644
