"""`trackbed agent`: the daemon on each node that gives pods their rails."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from trackbed.cli.options import emit_json, output_option, refuse

SOCKET = Path("/run/trackbed/agent.sock")
STATE = Path("/var/lib/trackbed")
CDI = Path("/var/run/cdi")
_PLAN_SECONDS = 2.0

_socket_option = click.option(
    "--socket",
    "socket_file",
    type=click.Path(path_type=Path),
    default=SOCKET,
    show_default=True,
    help="The agent's unix socket.",
)


_python_option = click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="PROGRAM",
    help="Interpreter of the executable, as the runtime finds it: 3.9 or later.  [default: the one that runs this; "
    "none where an image has built the executable]",
)


@click.group("agent")
def command() -> None:
    """Run the node agent that gives pods their rails.

    \b
    Examples:
      trackbed agent run --plan /etc/trackbed/node.json
      trackbed agent install-cni /opt/cni/bin
      trackbed agent status
    """


@command.command("run")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), required=True, help="The node's plan.")
@click.option(
    "--state", type=click.Path(path_type=Path), default=STATE, show_default=True, help="Folder of the journal."
)
@_socket_option
@click.option("--netns", type=click.Path(path_type=Path), help="Serve this network namespace instead of the own.")
@click.option(
    "--kubelet",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Offer rails to the kubelet of this folder, /var/lib/kubelet; pods get those that it gives them.",
)
@click.option(
    "--cdi",
    type=click.Path(path_type=Path),
    default=CDI,
    show_default=True,
    help="Where the runtime reads CDI specifications.  [with --kubelet]",
)
@click.option("--cni-bin", type=click.Path(path_type=Path), metavar="DIR", help="Install the CNI executable here.")
@click.option(
    "--cni-conf",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Stay chained in the first network configuration here.  [with --cni-bin]",
)
def run(
    plan_file: Path,
    state: Path,
    socket_file: Path,
    netns: Path | None,
    kubelet: Path | None,
    cdi: Path,
    cni_bin: Path | None,
    cni_conf: Path | None,
) -> None:
    """Serve the container runtime until SIGTERM. A plan that is replaced meanwhile is taken; pods keep what they have.

    \b
    Examples:
      trackbed agent run --plan /etc/trackbed/node.json
      trackbed agent run --plan /etc/trackbed/node.json --kubelet /var/lib/kubelet \\
          --cni-bin /opt/cni/bin --cni-conf /etc/cni/net.d
    """
    import logging

    from trackbed.fabric.model.problems import SpecError
    from trackbed.node.rails.agent import AgentPaths
    from trackbed.node.rails.agent import run_agent as serve
    from trackbed.node.rails.journal import JournalError
    from trackbed.node.rails.plan_file import PlanFile
    from trackbed.node.rails.presence import CniFolders

    if (cni_bin is None) != (cni_conf is None):
        refuse("--cni-bin and --cni-conf go together: an executable that nobody calls, or a call of none, helps nobody")
    presence = CniFolders(cni_bin, cni_conf) if cni_bin and cni_conf else None
    places = AgentPaths(state, socket_file, kubelet, cdi, presence)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        _await_plan(plan_file, wait=kubelet is not None)
        if netns is not None:
            _enter(netns)
        again = True
        while again:
            plan = PlanFile(plan_file)
            words = f"serving node {plan.node.name} at {socket_file}"
            again = serve(plan.node, places, partial(click.echo, words), plan.has_changed)
    except SpecError as error:
        refuse(f"{plan_file}: {error.problems[0]}")
    except JournalError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or socket_file}: {error.strerror}")


def _await_plan(path: Path, *, wait: bool) -> None:
    """Wait for the plan's file: in Kubernetes the agent may be there before `trackbed apply` has written it."""
    import time

    if wait and not path.exists():
        click.echo(f"waiting for {path}, which `trackbed apply` writes on this host", err=True)
    while wait and not path.exists():
        time.sleep(_PLAN_SECONDS)


@command.command("status")
@_socket_option
@output_option("table", "json")
def status(socket_file: Path, form: str) -> None:
    """Show what is attached, what is free or lost, and what is wrong. Exit 0 good, 1 trouble, 3 no agent.

    \b
    Examples:
      trackbed agent status
      trackbed agent status -o json
    """
    from trackbed.node.rails.client import read_status as ask

    try:
        found = ask(socket_file)
    except OSError as error:
        click.echo(f"trackbed: no agent answers on {socket_file}: {error.strerror or error}", err=True)
        raise SystemExit(3) from error
    if form == "json":
        emit_json(found)
    else:
        _show(found)
    lost = any(one["lost"] for one in found["devices"].values())
    raise SystemExit(1 if found["trouble"] or found["conflicts"] or lost else 0)


_chain_option = click.option(
    "--chain",
    "conflist",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The primary network's .conflist: Trackbed is called last in it.",
)


@command.command("install-cni")
@click.argument("folder", type=click.Path(path_type=Path))
@_socket_option
@_chain_option
@_python_option
def install_cni(folder: Path, socket_file: Path, conflist: Path | None, python: Path | None) -> None:
    """Write the CNI executable into FOLDER, where the container runtime looks for it.

    \b
    Examples:
      trackbed agent install-cni /opt/cni/bin
      trackbed agent install-cni /opt/cni/bin --chain /etc/cni/net.d/10-flannel.conflist
    """
    from trackbed.node.rails.chain import ChainError, chain
    from trackbed.node.rails.install import install

    try:
        click.echo(install(folder, socket_file, python))
        if conflist is not None:
            click.echo(f"{conflist}: {'added' if chain(conflist) else 'it is there already'}")
    except (ChainError, ValueError) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot write to {error.filename or folder}: {error.strerror}")


@command.command("remove-cni")
@click.argument("folder", type=click.Path(path_type=Path))
@_chain_option
@click.option(
    "--networks",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Every network configuration here, /etc/cni/net.d, in place of one.",
)
@click.option("--stay", is_flag=True, help="Then wait for SIGTERM, as the container of a pod that must not end.")
def remove_cni(folder: Path, conflist: Path | None, networks: Path | None, stay: bool) -> None:
    """Take Trackbed out of the chain, then its executable out of FOLDER. Doing it twice is fine.

    \b
    Examples:
      trackbed agent remove-cni /opt/cni/bin --chain /etc/cni/net.d/10-flannel.conflist
      trackbed agent remove-cni /opt/cni/bin --networks /etc/cni/net.d
    """
    from trackbed.node.rails.chain import ChainError, unchain, unchain_all
    from trackbed.node.rails.install import NAME

    try:
        if conflist is not None:
            click.echo(f"{conflist}: {'removed' if unchain(conflist) else 'it was not there'}")
        for path in unchain_all(networks) if networks is not None else ():
            click.echo(f"{path}: removed")
        (folder / NAME).unlink(missing_ok=True)
    except ChainError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot change {error.filename or folder}: {error.strerror}")
    if stay:
        _await_end()


def _await_end() -> None:
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the first process of a container gets none otherwise
    click.echo("Trackbed is out of the chain; this waits for SIGTERM")
    signal.sigwait({signal.SIGTERM})


def _enter(netns: Path) -> None:
    import os

    from trackbed.kernel.netlink.netns import setns

    fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(fd)
    finally:
        os.close(fd)


def _show(found: dict[str, Any]) -> None:
    from trackbed.cli.tables import table

    columns = ("pod", "mode", "rail", "netdev", "rdma", "mac", "addresses", "state")
    rows = [
        (
            one["pod"] or f"{one['container'][:12]}/{one['ifname']}",
            one["mode"],
            str(port["rail"]),
            port["name"],
            port.get("rdma", {}).get("name", "-"),
            port["mac"],
            " ".join(own["text"] for own in port.get("addresses", ())) or "-",
            "attached" if one["done"] else "being attached",
        )
        for one in found["attachments"]
        for port in one["ports"]
    ]
    free = ", ".join(f"rail {rail}: {count}" for rail, count in found["free"].items())
    table(columns, rows, f"node {found['node']} of {found['fabric']}")
    click.echo(f"free addresses: {free or 'none planned'}")
    for rail, one in found["devices"].items():
        every = len(one["lost"]) == one["devices"]
        lost = f"; lost: {'all, see the port' if every else ', '.join(one['lost'])}" if one["lost"] else ""
        click.echo(f"rail {rail}: {one['devices']} devices, {one['inPods']} moved into pods{lost}")
    for conflict in found["conflicts"]:
        click.echo(
            f"conflict: {conflict['address']} of {conflict['container'][:12]} is also used by {conflict['other']}"
        )
    if found["trouble"]:
        click.echo(f"trouble: {found['trouble']}")


@command.command("prepare")
@click.option("--node", "name", envvar="NODE_NAME", required=True, help="Name of this node in the cluster; $NODE_NAME.")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: by the pod's own account.")
@_socket_option
def prepare(name: str, kubeconfig: str | None, socket_file: Path) -> None:
    """Make this node's host what its RailNode says, and say what it is; in a privileged pod with hostPID.

    The host is compared whenever its RailNode changes, and every ten minutes; it is changed only while the controller
    has drained the node, and rebooted only when the RailNode names the boot that it is in.

    \b
    Examples:
      trackbed agent prepare
      trackbed agent prepare --node gpu-0 --kubeconfig admin.conf
    """
    import asyncio
    import logging

    from trackbed.cluster.api.client import connect
    from trackbed.cluster.api.errors import ConfigurationError
    from trackbed.host.boot_id import read_boot_id
    from trackbed.node.sync.preparer import serve

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each request
    try:
        client = connect(kubeconfig)
    except ConfigurationError as error:
        refuse(str(error))
    asyncio.run(serve(client, name, read_boot_id(), socket_file))
