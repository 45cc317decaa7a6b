"""A running job while its hosts drift, and while a Fabric comes that does not fit them.

Somebody changes a QoS value and a sysctl by hand, three times. Each comparison repairs them in place: no taint, no
eviction, the same pods. The first two comparisons are brought about by a field of the RailNode that means nothing while
nothing may be changed, the third by a restart of the agents.
"""

from collections.abc import Callable
from functools import partial

from trackbed.cluster.api.response import Object
from trackbed.cluster.api.times import format_now
from trackbed.cluster.resources import railnode
from trackbed_lab.kubernetes.chart_tools import NAMESPACE, Tools
from trackbed_lab.kubernetes.pods import find_container
from trackbed_lab.kubernetes.run import ClusterRun, check_rdma
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm.channel import execute_command
from trackbed_lab.vm.lab import VmLabError

_COMPARISONS = 3
_LOG_LINES = 8
_SECONDS = 600.0
"""Time for an agent to compare and repair its host; without KVM that takes a minute, on a busy machine several."""
_FIND = """
for device in /sys/class/infiniband/*; do
    found=/sys/kernel/config/rdma_cm/${{device##*/}}/ports/1/default_roce_tos
    if [ -e $found ] && [ "$(cat $device/ports/1/gid_attrs/ndevs/0)" = {netdev} ]; then tos=$found; fi
done
sysctl=/proc/sys/net/ipv4/conf/{netdev}/arp_ignore
"""
_READ = f"{_FIND}cat $tos $sysctl"
_FLIP = f"{_FIND}echo 0 > $tos; echo $((1 - $(cat $sysctl))) > $sysctl; cat $tos $sysctl"
_DUMP = (
    r"ip -d addr | sed -E 's/[a-z_]+_timer +[0-9.]+//g'; "
    "ip rule; ip -6 rule; ip route show table all; ip -6 route show table all"
)
"""Addresses, rules and routes, without the running timers of bridges."""


def check_repair(tools: Tools, run: ClusterRun) -> PhaseOutcome:
    """Change QoS and a sysctl of a port by hand, three times; check that they are repaired under the running job."""
    try:
        return _change_and_wait(tools, run)
    except VmLabError as error:
        raise VmLabError(f"{error}\n{_read_agent_logs(run)}") from error


def _read_agent_logs(run: ClusterRun) -> str:
    """Return the end of the logs of the agents that prepare the nodes."""
    texts = []
    for pod in run.client.list("v1", "Pod", NAMESPACE):
        if pod["metadata"]["name"].startswith("trackbed-prepare"):
            container = find_container(run.client, NAMESPACE, pod["metadata"]["name"])
            channel = run.vm_run.lab.find_server(container.node).channel
            log = execute_command(channel, container.build_log_command(), _SECONDS).output.decode(errors="replace")
            texts += [f"    {container.node}: {line}" for line in log.splitlines()[-_LOG_LINES:]]
    return "\n".join(texts)


def _change_and_wait(tools: Tools, run: ClusterRun) -> PhaseOutcome:
    netdev = run.plan.nodes[0].ports[-1].netdev
    planned, pods = run.run_on_nodes(_READ.format(netdev=netdev)), _describe_pods(run)
    drains = _count_events(run, "Preparing")
    for number in range(_COMPARISONS):
        flipped = run.run_on_nodes(_FLIP.format(netdev=netdev))
        if flipped == planned:
            return f"{netdev}: QoS and sysctl could not be changed by hand: {planned}", False
        _compare_now(tools, run, restart=number == _COMPARISONS - 1)
        run.wait_for(f"repair {number + 1}", lambda: run.run_on_nodes(_READ.format(netdev=netdev)) == planned, _SECONDS)
        run.wait_for(f"report {number + 1}", partial(_is_reported, run, netdev, number + 1), _SECONDS)
    run.wait_for("no difference", lambda: all(map(_is_as_planned, _list_railnodes(run))), _SECONDS)
    total = _COMPARISONS * len(run.node_names)
    run.wait_for(f"{total} events", lambda: _count_events(run, "Repaired") >= total, _SECONDS)
    is_undisturbed = _describe_pods(run) == pods and _count_events(run, "Preparing") == drains
    traffic, works = check_rdma(run)
    repaired = _count_events(run, "Repaired")
    summary = f"{_COMPARISONS} times repaired in place ({repaired} events), no drain, the same pods; {traffic}"
    return summary if is_undisturbed else f"pods or taints changed: {pods}, {_describe_pods(run)}", (
        is_undisturbed and works
    )


def check_refusal(tools: Tools, list_stages: Callable[[ClusterRun], list[str]], run: ClusterRun) -> PhaseOutcome:
    """Apply the Fabric with ports that no server has; check that it is refused, and that nothing has changed."""
    right = tools.folder / "fabric.yaml"
    wrong = tools.folder / "wrong.yaml"
    wrong.write_text(right.read_text().replace("0000:", "0001:"))
    before, pods = run.run_on_nodes(_DUMP), _describe_pods(run)
    tools.apply(wrong)
    run.wait_for("every node Held", lambda: set(list_stages(run)) == {"Held"}, _SECONDS)
    messages = {_find_condition(rail, railnode.ROLLED).get("message", "") for rail in _list_railnodes(run)}
    after = run.run_on_nodes(_DUMP)
    tools.apply(right)
    run.wait_for("both nodes as planned again", lambda: set(list_stages(run)) == {"Sound"}, _SECONDS)
    is_refused = all(message.startswith("the plan does not fit it") for message in messages)
    size = sum(map(len, before))
    summary = f"{min(messages)[:90]}...; {size} bytes of addresses, rules and routes as before"
    return summary if after == before else f"changed: {_find_change(before, after)}", (
        is_refused and after == before and _describe_pods(run) == pods
    )


def _compare_now(tools: Tools, run: ClusterRun, *, restart: bool) -> None:
    """Have every node's agent compare its host now."""
    if restart:
        selector = "app.kubernetes.io/name=trackbed-prepare"
        tools.run(tools.kubectl, "delete", "pod", "--namespace", NAMESPACE, "--selector", selector, "--wait=false")
        return
    patch = f'{{"spec": {{"changingSince": "{format_now()}"}}}}'
    for name in run.node_names:
        tools.run(tools.kubectl, "patch", "railnode", name, "--type=merge", f"--patch={patch}")


def _list_railnodes(run: ClusterRun) -> list[Object]:
    return list(run.client.list(railnode.API_VERSION, railnode.KIND))


def _find_condition(rail: Object, condition_type: str) -> Object:
    conditions: list[Object] = rail.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == condition_type), {})


def _is_as_planned(rail: Object) -> bool:
    return _find_condition(rail, railnode.PREPARED).get("status") == "True" and not rail["status"].get("differences")


def _is_reported(run: ClusterRun, netdev: str, count: int) -> bool:
    """Return whether every RailNode lists at least so many repairs of the port's sysctl; others may be listed, too."""
    return all(
        any(
            repair["subject"].endswith(f"/{netdev}/arp_ignore") and len(repair["times"]) >= count
            for repair in rail.get("status", {}).get("repairs", ())
        )
        for rail in _list_railnodes(run)
    )


def _count_events(run: ClusterRun, reason: str) -> int:
    """Return the number of events about RailNodes with this reason."""
    return sum(
        event.get("reason") == reason and event.get("regarding", {}).get("kind") == railnode.KIND
        for event in run.client.list("events.k8s.io/v1", "Event")
    )


def _describe_pods(run: ClusterRun) -> list[tuple[str, str, int]]:
    """Return UID, phase and restarts of each pod of the job."""
    return sorted(
        (
            str(pod["metadata"]["uid"]),
            str(pod["status"]["phase"]),
            sum(state["restartCount"] for state in pod["status"].get("containerStatuses", ())),
        )
        for pod in run.list_pods()
    )


def _find_change(before: list[str], after: list[str]) -> str:
    """Return the first lines that differ."""
    pairs = zip("\n".join(before).splitlines(), "\n".join(after).splitlines(), strict=False)
    return next((f"{old!r} -> {new!r}" for old, new in pairs if old != new), "lines were added or removed")
