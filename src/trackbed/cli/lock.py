"""`trackbed lock`: a record of each node's slot."""

from __future__ import annotations

from pathlib import Path

import click

from trackbed.cli.options import LOCK_NAME, fabric_option, read_fabric, refuse


@click.command("lock")
@fabric_option
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the lock is not up to date.")
def command(fabric_file: str, check: bool) -> None:
    """Record the slot of each node, so that no node is ever renumbered.

    The lock (trackbed.lock.yaml beside the Fabric) belongs under version control. A node that leaves the Fabric keeps
    its slot there; delete its line to release its addresses.

    \b
    Examples:
      trackbed lock -f fabric.yaml
      trackbed lock -f fabric.yaml --check
    """
    from trackbed.fabric.plan.lock import merge_slots, render_lock

    if fabric_file == "-":
        refuse("a lock lies beside its Fabric; name the file with -f FILE")
    loaded, planned = read_fabric(fabric_file)
    old = loaded.lock.nodes if loaded.lock else {}
    new = merge_slots(old, {node.name: node.slot for node in planned.nodes})
    added = len(new) - len(old)
    path = Path(fabric_file).with_name(LOCK_NAME)
    if not added:
        click.echo(f"{path} is up to date: {len(new)} nodes")
        return
    if check:
        click.echo(f"{path} lacks {added} nodes; run trackbed lock")
        raise SystemExit(1)
    _write(path, render_lock(loaded.fabric.metadata.name, new))
    click.echo(f"wrote {path}: {added} nodes added, {len(new)} in all")


def _write(path: Path, text: str) -> None:
    """Replace the lock atomically, so that a crash leaves either version."""
    import os

    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        refuse(f"cannot write {path}: {error.strerror}")
