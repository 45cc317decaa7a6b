"""`trackbed lock`: a record of each node's slot."""

from pathlib import Path

import click

from trackbed.cli.files import replace_file
from trackbed.cli.options import LOCK_NAME, fabric_option, read_fabric, refuse
from trackbed.fabric.counts import format_count


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
    loaded, plan = read_fabric(fabric_file)
    old = loaded.lock.nodes if loaded.lock else {}
    new = merge_slots(old, {node.name: node.slot for node in plan.nodes})
    added = len(new) - len(old)
    path = Path(fabric_file).with_name(LOCK_NAME)
    if not added:
        click.echo(f"{path} is up to date: {format_count(len(new), 'node')}")
        return
    if check:
        click.echo(f"{path} lacks {format_count(added, 'node')}; run trackbed lock")
        raise SystemExit(1)
    replace_file(path, render_lock(loaded.fabric.metadata.name, new).encode())
    click.echo(f"wrote {path}: {format_count(added, 'node')} added, {len(new)} in all")
