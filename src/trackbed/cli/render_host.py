"""`trackbed render host`: what hosts hold at their next boot, as network files or for the tools that build hosts."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import fabric_option, folder_option, node_of, read_fabric, refuse

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
    "form",
    type=click.Choice(NETWORKS + TOOLS),
    default="netplan",
    show_default=True,
    help="What reads the files.",
)
@click.option(
    "--network",
    type=click.Choice(NETWORKS),
    default="netplan",
    show_default=True,
    help="What configures the network of the hosts, for the formats of tools.",
)
@click.option("--cpu", type=click.Choice(CPUS), help="Whose CPU the hosts have; only a tar cannot find out itself.")
@folder_option
def host(
    fabric_file: str, node_name: str | None, form: str, network: Format, cpu: str | None, folder: Path | None
) -> None:
    """Write the files of hosts; `trackbed apply` writes the same.

    netplan, networkd and networkmanager are the network's files alone. The other formats hand over every file for the
    next boot, and the kernel arguments, to a tool that builds hosts.

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
    nodes = planned.nodes if node_name == "all" else (node_of(planned, node_name),)
    found = _rendered(nodes, form, network, cpu, everything=node_name == "all")
    if folder is None:
        _show(found, single=len(nodes) == 1)
    else:
        click.echo(f"wrote {_write(folder, found)} files below {folder}")


def _rendered(nodes: Sequence[NodePlan], form: str, network: Format, cpu: str | None, *, everything: bool) -> Files:
    """Path and content of every file; of many nodes, each below its name."""
    if form == "maas":
        from trackbed.host.export import maas

        return maas.render(nodes).items()
    if form == "ansible":
        from trackbed.host.export import ansible

        return ansible.render(nodes, network)
    if form == "tar":
        return _archives(nodes, network, cpu)
    if form in {"cloud-init", "autoinstall"}:
        return _seeds(nodes, form, network)
    return _networks(nodes, form, below_name=everything)


def _networks(nodes: Iterable[NodePlan], form: str, *, below_name: bool) -> Files:
    from trackbed.host.render import FORMATS

    render = next(found for name, found in FORMATS.items() if name == form)
    for node in nodes:
        for path, content in render(node).items():
            yield f"{node.name}{path}" if below_name else path, content


def _seeds(nodes: Iterable[NodePlan], form: str, network: Format) -> Files:
    from trackbed.host.export import autoinstall, cloud_init

    render = cloud_init.render_user_data if form == "cloud-init" else autoinstall.render_user_data
    for node in nodes:
        yield f"{node.name}/user-data", render(node, network)
        yield f"{node.name}/meta-data", cloud_init.render_meta_data(node)


def _archives(nodes: Iterable[NodePlan], network: Format, cpu: str | None) -> Iterator[tuple[str, bytes]]:
    from trackbed.host.export.archive import build_archive
    from trackbed.host.export.arguments import CPUS as VENDORS
    from trackbed.host.export.arguments import find_arguments

    asks = False
    for node in nodes:
        wanted = find_arguments(node)
        asks |= wanted is not None
        if wanted and wanted.iommu and cpu is None:
            refuse(
                f"node {node.name} wants the IOMMU on, and its switch depends on the CPU; say --cpu {'|'.join(CPUS)}"
            )
        yield f"{node.name}.tar", build_archive(node, network, VENDORS[cpu] if cpu else None)
    if asks:
        click.echo("the kernel arguments lie in GRUB's drop-in; they count once update-grub has run", err=True)


def _show(found: Files, *, single: bool) -> None:
    """Print texts under their names; a tar, and a user-data of one node, as they are."""
    listed = list(found)
    if len(listed) == 1 and isinstance(listed[0][1], bytes):
        _show_bytes(listed[0][1])
        return
    texts = [(path, content) for path, content in listed if isinstance(content, str)]
    if len(texts) != len(listed):
        refuse("several archives cannot be printed; write them below a folder with -o DIR")
    if single and texts[0][0].endswith("/user-data"):
        click.echo(texts[0][1], nl=False)
        return
    click.echo("\n".join(f"# --- {path}\n{content}" for path, content in texts), nl=False)


def _show_bytes(raw: bytes) -> None:
    if sys.stdout.isatty():
        refuse("a tar does not belong on a terminal; pipe it, or write it below a folder with -o DIR")
    click.echo(raw, nl=False)


def _write(folder: Path, found: Files) -> int:
    count = 0
    made: set[Path] = set()
    try:
        for path, content in found:
            place = folder / path.lstrip("/")
            if place.parent not in made:
                place.parent.mkdir(parents=True, exist_ok=True)
                made.add(place.parent)
            _replace(place, path, content)
            count += 1
    except OSError as error:
        _cannot(folder, error)
    return count


def _replace(place: Path, path: str, content: str | bytes) -> None:
    """Write a file whole or not at all, with the permissions that its readers want."""
    fresh = place.with_name(f".{place.name}.new")
    try:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        fresh.chmod(_mode(path))
        fresh.replace(place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()


def _mode(path: str) -> int:
    from trackbed.host.export.commission import NAME
    from trackbed.host.formats import choose_mode

    if path == NAME or path.endswith(".sh"):
        return 0o755
    return choose_mode("/" + path.partition("/")[2]) if "/etc/" in path else 0o644


def _cannot(folder: Path, error: OSError) -> NoReturn:
    refuse(f"cannot write {error.filename or folder}: {error.strerror}")
