"""A run of another project's stack, by its own programs: from two servers in factory state to pods with RDMA rails.

factory, apply, reboot, nodes, doctor    as in kubernetes/run.py
stack      `trackbed apply cluster`: the stack's charts by helm, then its objects, stage by stage
job        two pods that request every rail run; two more run on one node, with half of the rails each
devices    each pod sees exactly its rails and can open exactly its RDMA devices
addresses  each rail's address is one that the plan gives to pods; routes within and between rails leave by their rail
full       one more pod is Pending, and the scheduler's message names the rails
ip         pings of packets of the RDMA size between the job's pods on every rail; where RDMA cannot be had, that is all
rdma       writes between the job's pods on every rail, by an unprivileged user
cm         connections on every rail by the RDMA CM
back       the job ends; every VF is back on its node as before, no address is held
"""

import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import resources
from subprocess import CompletedProcess

import yaml

from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.steps import list_release_names
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import NodePlan, Plan, PortPlan
from trackbed_lab.kubernetes import job, run
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.run import ClusterRun, as_lab_errors
from trackbed_lab.kubernetes.stacks.lab_stack import LabStack, StackTools
from trackbed_lab.processes import run_program
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm import remote
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.lab import VmLabError

_INTERFACES = f"""{run.VF_LINES}
for path in /sys/class/net/rail[0-9]*; do
    echo "${{path##*/}} $(cat "$path/address" "$path/mtu" "$path/flags" | tr "\\n" " ")"
done
ls /sys/class/infiniband
"""
"""Prints the VFs of the node, its ports (name, MAC, MTU, flags) and its RDMA devices."""
WITHOUT_NAMES = r"sed 's/^\(rail[0-9]* virtfn[0-9]*\) [^ ]*/\1/'"
"""Leaves the names of VFs out of what _INTERFACES prints."""
_RENAMED = "ls -d /sys/class/net/dev[0-9]* 2>/dev/null; true"
"""Prints the VFs that the kernel has named: their pod's namespace ended before a CNI plugin had moved them out."""
_STACK_SECONDS = 1800.0
_GATE_SECONDS = 600
_LINES = 12
_PING_BYTES = 4132
"""Payload of ping: 4,160 bytes with IP (20) and ICMP (8) headers, as a RoCE v2 packet of path MTU 4096 with IP (20),
UDP (8), BTH (12), RETH (16), immediate data (4) and CRC (4)."""
_HELM = """#!/bin/sh
# helm upgrade --install RELEASE CHART ..., with the chart of a folder: no repository can be reached from here.
number=0
options=
for word; do
    shift
    number=$((number + 1))
    case $number.$word in
        *.--repo | *.--version) dropped=next; continue ;;
{charts}
    esac
    [ -n "$dropped" ] || set -- "$@" "$word"
    dropped=
done
{helm} "$@" {hooks}$options || exit
{afterwards}
"""


def run_phases(lab_stack: LabStack, vm_run: vm.VmRun, client: BlockingClient, image: str, tools: StackTools) -> None:
    """Run all phases of a stack on a cluster whose servers have just come up."""
    listing = f"({_INTERFACES}) | {WITHOUT_NAMES}" if lab_stack.leaves else _INTERFACES + run.CDI
    cluster_run = ClusterRun(vm_run, client, vm_run.plan, image, [], lab_stack.name, listing)
    vm_run.run_phase("factory", lambda: vm.check_factory_state(vm_run))
    vm_run.run_phase("apply", lambda: vm.check_apply(vm_run, remote.apply_over_channel))
    phases: dict[str, Callable[[ClusterRun], PhaseOutcome]] = {
        "reboot": run.join_and_reboot,
        "nodes": run.wait_for_nodes,
        "doctor": run.run_doctor,
        "stack": partial(apply_stack, lab_stack, tools),
        "job": run.run_job,
        "devices": run.check_devices,
        "addresses": partial(_check_addresses, lab_stack),
        "full": run.check_pending_pod,
        "ip": partial(_check_ip, lab_stack),
        **({} if lab_stack.without_rdma else {"rdma": run.check_rdma, "cm": run.check_cm}),
        "back": partial(_end_job, lab_stack),
    }
    for name, work in phases.items():
        vm_run.run_phase(name, partial(as_lab_errors, work, cluster_run))


def apply_stack(lab_stack: LabStack, tools: StackTools, cluster_run: ClusterRun) -> PhaseOutcome:
    """Apply the stack as a user does; check that every rail is allocatable on every node."""
    for name in cluster_run.node_names:
        metadata = {"name": name, "labels": dict(lab_stack.node_labels)}
        cluster_run.client.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    helm = tools.folder / "helm"
    helm.write_text(render_helm(lab_stack, tools))
    helm.chmod(helm.stat().st_mode | stat.S_IXUSR)
    fabric = tools.folder / "fabric.yaml"
    _install_site_parts(lab_stack, tools, cluster_run)
    skips = [f"--skip={release}" for release in list_skipped(lab_stack)]
    argv = ["apply", "cluster", lab_stack.name, "-f", str(fabric), "--yes", "--wait", str(_GATE_SECONDS), *skips]
    process = _run_user_program(tools, [sys.executable, "-m", "trackbed", *argv])
    if process.returncode:
        lines = (process.stdout + process.stderr).strip().splitlines()
        return f"status {process.returncode}: {' / '.join(lines[-_LINES:])}", False
    cluster_run.wait_for("every rail offered by every node", lambda: all(run.iter_allocatable_counts(cluster_run)))
    cluster_run.vfs_before = cluster_run.run_on_nodes(cluster_run.listing)
    least = min(run.iter_allocatable_counts(cluster_run))
    names = ", ".join(chart.component for chart in load_stack(lab_stack.name).charts(cluster_run.plan))
    return f"{names}; each rail allocatable {least} times on each node", True


def list_skipped(lab_stack: LabStack) -> list[str]:
    """Return the releases that `apply cluster` is not to install: the lab has none, or the site has them already."""
    known = list_release_names()
    return [*lab_stack.skipped_charts, *(release for release in lab_stack.site_charts if release in known)]


def _install_site_parts(lab_stack: LabStack, tools: StackTools, cluster_run: ClusterRun) -> None:
    """Install what the stack's own charts do not bring, as a site does; with the values of its bundle if it has any."""
    fabric, bundle = tools.folder / "fabric.yaml", tools.folder / "bundle"
    render = ["render", "stack", lab_stack.name, "-f", str(fabric), "--to", str(bundle)]
    _check_success(_run_user_program(tools, [sys.executable, "-m", "trackbed", *render]))
    namespaces = {chart.component: chart.namespace for chart in load_stack(lab_stack.name).charts(cluster_run.plan)}
    for release in lab_stack.site_charts:
        values = bundle / f"values-{release}.yaml"
        options = [*(["--values", str(values)] if values.exists() else []), *lab_stack.options.get(release, ())]
        argv = [str(tools.helm), "upgrade", "--install", release, str(tools.charts[release]), *options]
        namespace = namespaces.get(release, release)
        _check_success(_run_user_program(tools, [*argv, "--namespace", namespace, "--create-namespace", "--no-hooks"]))
    if lab_stack.site_objects:
        text = resources.files(__package__).joinpath(lab_stack.site_objects).read_text()
        for body in yaml.safe_load_all(text):
            cluster_run.client.apply(body)


def _run_user_program(tools: StackTools, argv: Sequence[str]) -> CompletedProcess[str]:
    variables = {"KUBECONFIG": str(tools.kubeconfig), "PATH": f"{tools.folder}:/usr/sbin:/usr/bin:/sbin:/bin"}
    return run_program(argv, _STACK_SECONDS, VmLabError, variables=variables)


def _check_success(process: CompletedProcess[str]) -> None:
    if process.returncode:
        raise VmLabError(" / ".join((process.stdout + process.stderr).strip().splitlines()[-_LINES:]))


def render_helm(lab_stack: LabStack, tools: StackTools) -> str:
    """Return the program `helm` that takes charts from the folder of programs."""
    options = {name: shlex.quote(" ".join(lab_stack.options.get(name, ()))) for name in tools.charts}
    charts = [
        f"        4.{name}) word={shlex.quote(str(path))} options={options[name]} ;;"
        for name, path in tools.charts.items()
    ]
    afterwards = lab_stack.after_chart.format(kubectl=shlex.quote(str(tools.kubectl)))
    hooks = "" if lab_stack.runs_hooks else "--no-hooks "
    helm = shlex.quote(str(tools.helm))
    return _HELM.format(charts="\n".join(charts), helm=helm, hooks=hooks, afterwards=afterwards)


def _check_addresses(lab_stack: LabStack, cluster_run: ClusterRun) -> PhaseOutcome:
    """Check addresses and routes of the job's pods against the plan."""
    pods = cluster_run.list_job_pods()
    views = {name: cluster_run.inspect_pod(name) for name in pods}
    nodes = {node.name: node for node in cluster_run.plan.nodes}
    problems = [
        problem
        for name in pods
        for problem in find_strays(
            cluster_run.plan, nodes[cluster_run.find_node(name)], views[name], moved=lab_stack.moves_addresses
        )
    ]
    checked = 0
    for name, peer in zip(pods, reversed(pods), strict=True):
        routes = list(_iter_routes(cluster_run, views[name], views[peer]))
        script = "".join(
            f"/usr/bin/ip -4 route get {target} from {source}{'' if lab_stack.has_rules else f' oif rail{rail}'}"
            " 2>&1 | head -n 1\n"
            for rail, source, target in routes
        )
        lines = cluster_run.run_in_pod(name, script).splitlines()
        checked += len(lines)
        if len(lines) != len(routes):
            problems.append(f"{name}: {len(routes)} routes were asked for: {' / '.join(lines)}")
        for (rail, _, target), line in zip(routes, lines, strict=False):
            if f"dev rail{rail} " not in f"{line} ":
                problems.append(f"{name}: {target} of rail {rail}: {line.strip()}")
    summary = f"{len(pods) * len(cluster_run.rails)} addresses of the planned blocks, {checked} routes by their rail"
    return "; ".join(problems[:_LINES]) or summary, not problems


def _check_ip(lab_stack: LabStack, cluster_run: ClusterRun) -> PhaseOutcome:
    """Ping the peer on every rail, with packets that fill a frame of RDMA (path MTU 4096) and may not be split."""
    client, server = cluster_run.list_job_pods()
    view, peer = cluster_run.inspect_pod(client), cluster_run.inspect_pod(server)
    pings = "".join(
        f"(/usr/bin/ping -c 2 -i 0.2 -W 5 -M do -s {_PING_BYTES} -I {view.get_address(rail)} {peer.get_address(rail)}"
        f" >/dev/null 2>&1 && echo rail {rail}) &\n"
        for rail in cluster_run.rails
    )
    count = cluster_run.run_in_pod(client, f"{pings}wait\n").count("rail ")
    summary = f"{count} of {len(cluster_run.rails)} rails by ping of {_PING_BYTES} bytes"
    reason = f"; no RDMA: {lab_stack.without_rdma}" if lab_stack.without_rdma else ""
    return f"{summary}{reason}", count == len(cluster_run.rails)


def find_strays(plan: Plan, node: NodePlan, view: job.PodInspection, *, moved: bool = False) -> Iterator[str]:
    """Yield a message for each rail whose address the plan does not give to pods of the node.

    `moved`: ports bring their own addresses into pods.

    NV-IPAM deals the blocks of a shared subnet to nodes as they come, and Whereabouts knows no nodes. Then each address
    is right that is in the rail's range and neither a port's nor a gateway's.
    """
    for port in node.ports:
        address = view.addresses.get(f"rail{port.rail}", "none")
        allowed = _list_port_addresses(port) if moved else _list_allowed_addresses(plan, port)
        if address not in allowed:
            yield f"{node.name} rail {port.rail}: {address} is not of {allowed[0]} to {allowed[-1]}"


def _list_port_addresses(port: PortPlan) -> list[str]:
    return [format_address(V4, block.address) for block in port.addresses if block.version == V4]


def _list_allowed_addresses(plan: Plan, port: PortPlan) -> list[str]:
    return _list_free_addresses(plan, port) if plan.common.has_shared_subnets else _list_pod_addresses(port)


def _list_pod_addresses(port: PortPlan) -> list[str]:
    block = next(block for block in port.addresses if block.version == V4)
    return [format_address(V4, block.pods_first + number) for number in range(block.pods_count)]


def _list_free_addresses(plan: Plan, port: PortPlan) -> list[str]:
    blocks = [other.ports[port.rail].v4 for other in plan.nodes]
    taken = {number for block in blocks if block for number in (block.address, block.gateway)}
    last = max(block.pods_first + block.pods_count for block in blocks if block)
    first = next(block.subnet.base for block in blocks if block)
    return [format_address(V4, number) for number in range(first + 1, last) if number not in taken]


def _iter_routes(
    cluster_run: ClusterRun, view: job.PodInspection, peer: job.PodInspection
) -> Iterator[tuple[int, str, str]]:
    """Yield rail, source and destination of each route: within each rail, and to the next one if rails are routed."""
    rails = cluster_run.rails
    for index, rail in enumerate(rails):
        yield rail, view.get_address(rail), peer.get_address(rail)
        if cluster_run.plan.common.cross_rail == "routed":
            yield rail, view.get_address(rail), peer.get_address(rails[(index + 1) % len(rails)])


def _end_job(lab_stack: LabStack, cluster_run: ClusterRun) -> PhaseOutcome:
    """End the job; check that its VFs and addresses were returned."""
    held = _count_held_addresses(lab_stack, cluster_run)
    run.end_job(cluster_run)
    count = sum(listing.count(" 0x") for listing in cluster_run.vfs_before)
    cluster_run.wait_for("no address is held", lambda: not _count_held_addresses(lab_stack, cluster_run))
    summary = f"the job is complete; all {count} VFs and ports as before; {held} addresses were held, now none"
    return summary + _describe_leftovers(lab_stack, cluster_run), held > 0


def _describe_leftovers(lab_stack: LabStack, cluster_run: ClusterRun) -> str:
    if not lab_stack.leaves:
        return ""
    files, names = (
        sum(len(listing.splitlines()) for listing in cluster_run.run_on_nodes(script)) for script in (run.CDI, _RENAMED)
    )
    return f"; {files} CDI files and {names} names of VFs stay: {lab_stack.leaves}"


def _count_held_addresses(lab_stack: LabStack, cluster_run: ClusterRun) -> int:
    on_nodes = sum(len(listing.splitlines()) for listing in cluster_run.run_on_nodes(lab_stack.held))
    return on_nodes + lab_stack.held_in_api(cluster_run.client)
