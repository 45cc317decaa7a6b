"""`trackbed agent`: the daemon on each node that attaches pods to rails."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from trackbed.cli.groups import CommandGroup
from trackbed.cli.options import AGENT_SOCKET, emit_json, exit_unknown, output_option, prepare_daemon, refuse
from trackbed.cli.terminal import print_line

STATE = Path("/var/lib/trackbed/agent")
CDI = Path("/var/run/cdi")
_PLAN_SECONDS = 2.0

_socket_option = click.option(
    "--socket",
    "socket_file",
    type=click.Path(path_type=Path),
    default=AGENT_SOCKET,
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


@click.group("agent", cls=CommandGroup)
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
@click.option(
    "--netns", type=click.Path(path_type=Path), help="Serve this network namespace instead of the current one."
)
@click.option(
    "--kubelet",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Offer rails to the kubelet of this folder, /var/lib/kubelet; pods get the devices that it allocates.",
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
    """Serve the container runtime until SIGTERM. A changed plan is reloaded; pods keep their attachments.

    \b
    Examples:
      trackbed agent run --plan /etc/trackbed/node.json
      trackbed agent run --plan /etc/trackbed/node.json \\
          --kubelet /var/lib/kubelet \\
          --cni-bin /opt/cni/bin --cni-conf /etc/cni/net.d
    """
    from trackbed.fabric.model.problems import SpecError
    from trackbed.node.rails.agent import AgentPaths
    from trackbed.node.rails.agent import run_agent as serve
    from trackbed.node.rails.journal import JournalError
    from trackbed.node.rails.plan_file import PlanFile
    from trackbed.node.rails.presence import CniFolders

    if (cni_bin is None) != (cni_conf is None):
        refuse("--cni-bin and --cni-conf go together: either has no effect without the other")
    presence = CniFolders(cni_bin, cni_conf) if cni_bin and cni_conf else None
    paths = AgentPaths(state, socket_file, kubelet, cdi, presence)
    prepare_daemon()
    try:
        _wait_for_plan(plan_file, wait=kubelet is not None)
        if netns is not None:
            _enter_netns(netns)
        has_new_plan = True
        while has_new_plan:
            plan = PlanFile(plan_file)
            _require_kernel(plan.node.common.pod_mode)
            message = f"serving node {plan.node.name} at {socket_file}"
            has_new_plan = serve(plan.node, paths, partial(click.echo, message), plan.has_changed)
    except SpecError as error:
        refuse(f"{plan_file}: {error.problems[0]}")
    except JournalError as error:
        refuse(error)
    except OSError as error:
        refuse(f"{error.filename or socket_file}: {error.strerror}")


def _require_kernel(pod_mode: str) -> None:
    """Exit if a moved interface cannot keep its index, by which the agent finds it in the pod and brings it home."""
    import os

    from trackbed.kernel.release import MOVE_TO_INDEX, explain_old_kernel

    reason = explain_old_kernel(os.uname().release, MOVE_TO_INDEX, f"pods.mode {pod_mode}")
    if reason and pod_mode != "macvlan":
        refuse(f"{reason}; install a newer kernel on this node")


def _wait_for_plan(plan_file: Path, *, wait: bool) -> None:
    """Wait until the plan's file exists: in Kubernetes the agent may start before `trackbed apply` has written it."""
    import time

    if wait and not plan_file.exists():
        click.echo(f"waiting for {plan_file}, which `trackbed apply` writes on this host", err=True)
    while wait and not plan_file.exists():
        time.sleep(_PLAN_SECONDS)


@command.command("status")
@_socket_option
@output_option("table", "json")
def status(socket_file: Path, output_format: str) -> None:
    """Show attachments, free addresses, lost devices and problems. Exits with 0 if sound, 1 if not, 3 without an agent.

    \b
    Examples:
      trackbed agent status
      trackbed agent status -o json
    """
    from trackbed.node.rails.client import read_status

    try:
        state = read_status(socket_file)
    except OSError as error:
        exit_unknown(f"no agent answers on {socket_file}: {error.strerror or error}")
    if output_format == "json":
        emit_json(state)
    else:
        _print_status(state)
    lost = any(devices["lost"] for devices in state["devices"].values())
    raise SystemExit(1 if state["trouble"] or state["conflicts"] or lost else 0)


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
      trackbed agent install-cni /opt/cni/bin \\
          --chain /etc/cni/net.d/10-flannel.conflist
    """
    from trackbed.node.rails.chain import ChainError, add_to_chain
    from trackbed.node.rails.install import install_executable

    try:
        click.echo(install_executable(folder, socket_file, python))
        if conflist is not None:
            click.echo(f"{conflist}: {'added' if add_to_chain(conflist) else 'already present'}")
    except (ChainError, ValueError) as error:
        refuse(error)
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
    """Remove Trackbed from the chain, then its executable from FOLDER. Running it again is safe.

    \b
    Examples:
      trackbed agent remove-cni /opt/cni/bin \\
          --chain /etc/cni/net.d/10-flannel.conflist
      trackbed agent remove-cni /opt/cni/bin --networks /etc/cni/net.d
    """
    from trackbed.node.rails.chain import ChainError, remove_from_all_chains, remove_from_chain
    from trackbed.node.rails.install import NAME

    try:
        if conflist is not None:
            click.echo(f"{conflist}: {'removed' if remove_from_chain(conflist) else 'not present'}")
        for path in remove_from_all_chains(networks) if networks is not None else ():
            click.echo(f"{path}: removed")
        (folder / NAME).unlink(missing_ok=True)
    except ChainError as error:
        refuse(error)
    except OSError as error:
        refuse(f"cannot change {error.filename or folder}: {error.strerror}")
    if stay:
        _wait_for_sigterm()


def _wait_for_sigterm() -> None:
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # PID 1 of a container does not receive it otherwise
    click.echo("Trackbed is out of the chain; this waits for SIGTERM")
    signal.sigwait({signal.SIGTERM})


def _enter_netns(netns: Path) -> None:
    import os

    from trackbed.kernel.netlink.netns import setns

    fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(fd)
    finally:
        os.close(fd)


def _print_status(state: dict[str, Any]) -> None:
    from trackbed.cli.tables import print_table

    columns = ("pod", "mode", "rail", "netdev", "rdma", "mac", "addresses", "state")
    rows = [
        (
            entry["pod"] or f"{entry['container'][:12]}/{entry['ifname']}",
            entry["mode"],
            str(port["rail"]),
            port["name"],
            port.get("rdma", {}).get("name", "-"),
            port["mac"],
            " ".join(address["text"] for address in port.get("addresses", ())) or "-",
            "attached" if entry["done"] else "being attached",
        )
        for entry in state["attachments"]
        for port in entry["ports"]
    ]
    free = ", ".join(f"rail {rail}: {count}" for rail, count in state["free"].items())
    print_table(columns, rows, f"node {state['node']} of {state['fabric']}")
    click.echo(f"free addresses: {free or 'none planned'}")
    for rail, entry in state["devices"].items():
        all_lost = len(entry["lost"]) == entry["devices"]
        lost = f"; lost: {'all, see the port' if all_lost else ', '.join(entry['lost'])}" if entry["lost"] else ""
        print_line(f"rail {rail}: {entry['devices']} devices, {entry['inPods']} moved into pods{lost}")
    for conflict in state["conflicts"]:
        print_line(
            f"conflict: {conflict['address']} of {conflict['container'][:12]} is also used by {conflict['other']}"
        )
    if state["trouble"]:
        print_line(f"trouble: {state['trouble']}")


@command.command("prepare")
@click.option(
    "--node",
    "name",
    envvar="NODE_NAME",
    required=True,
    metavar="NAME",
    help="Name of this node in the cluster; $NODE_NAME.",
)
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: by the pod's own account.")
@_socket_option
def prepare(name: str, kubeconfig: str | None, socket_file: Path) -> None:
    """Prepare this node's host according to its RailNode, and report its state; in a privileged pod with hostPID.

    The host is compared whenever its RailNode changes, and every ten minutes. Drift that no pod notices is repaired in
    place. All else is changed only while the node is drained by the controller, and a reboot needs the RailNode to name
    the current boot.

    \b
    Examples:
      trackbed agent prepare
      trackbed agent prepare --node gpu-0 --kubeconfig admin.conf
    """
    import asyncio

    from trackbed.cluster.api.client import connect
    from trackbed.cluster.api.errors import ConfigurationError
    from trackbed.host.boot_id import read_boot_id
    from trackbed.node.sync.preparer import serve_node

    prepare_daemon()
    try:
        client = connect(kubeconfig)
    except ConfigurationError as error:
        refuse(error)
    asyncio.run(serve_node(client, name, read_boot_id(), socket_file))
