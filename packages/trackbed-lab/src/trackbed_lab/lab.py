"""A lab inside its sandbox: its files, nodes, agents and pods, and the operations on them.

FILES/fabric.yaml       the lab's Fabric, which faults may change; original.yaml is the unchanged one
FILES/ns/NAME           network namespaces of nodes, switches and pods
FILES/nodes/NAME/       root folder of a node: etc, var, run, opt
FILES/pods/NODE         names of the node's pods, one a line
FILES/s/N               the agents' sockets (a unix socket's path has 107 bytes at most)
FILES/logs/NODE         an agent's log
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from trackbed.doctor.agent_status import parse_agent_address
from trackbed.doctor.diagnosis import Diagnosis, diagnose_nodes
from trackbed.doctor.finding import Finding
from trackbed.doctor.inspection import InspectionTarget, inspect_node
from trackbed.doctor.probes import ProbeTimeouts
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings
from trackbed.host.transaction import record
from trackbed.host.transaction.apply import ApplyResult, apply
from trackbed.kernel.netlink.addresses import list_addresses
from trackbed.kernel.netlink.links import VethEnd, build_create_veth
from trackbed.kernel.netlink.neighbour_tables import list_neighbour_tables
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status
from trackbed.node.rails.install import install_executable
from trackbed_lab import netns, runtime, speaker
from trackbed_lab.fabric_findings import to_findings
from trackbed_lab.neighbour_room import explain_shortage
from trackbed_lab.topology import MANAGEMENT, SPINE, Topology, build_topology, get_management_address

TIMEOUTS = ProbeTimeouts(reply=0.7, lldp=1.2, lldp_interval=1.0)
"""Limits of doctor's probes: leaves of a lab announce themselves four times a second."""
_AGENT_SECONDS, _AGENT_SECONDS_PER_NODE = 15.0, 0.5
"""How long the agents of a lab may take until they serve: they start at once, on as few cores as there are."""
_NODES_AT_ONCE = 16
"""How many nodes doctor probes at once; with many more, its own threads delay the answers that it waits for."""
_WANTS = "etc/systemd/system/multi-user.target.wants"
_NODE_FOLDERS = ("etc/systemd/network", _WANTS, "etc/trackbed", "var/lib", "run", "opt/cni/bin")


class LabError(Exception):
    """An operation on the lab failed; the message says why and what to do."""


def _replace_vfs(plan: Plan) -> Plan:
    """Return the plan with macvlan instead of VFs, which network namespaces lack."""
    if plan.common.pod_mode != "sriov":
        return plan
    common = plan.common._replace(pod_mode="macvlan")
    return plan._replace(common=common, nodes=tuple(node._replace(common=common) for node in plan.nodes))


class Lab:
    """One lab. All methods must be called inside its sandbox."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.fabric_file = files / "fabric.yaml"
        self._agents: list[subprocess.Popen[bytes]] = []

    @cached_property
    def plan(self) -> Plan:
        """The plan of the original Fabric."""
        loaded = load_fabric((self.files / "original.yaml").read_bytes(), "fabric.yaml")
        return _replace_vfs(compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {}))

    @cached_property
    def topology(self) -> Topology:
        """The namespaces, cables and switches of the plan."""
        return build_topology(self.plan)

    @property
    def is_built(self) -> bool:
        """Whether `build` has written the files and begun with the namespaces."""
        return (self.files / "ns").is_dir()

    # --- setup -----------------------------------------------------------------------------------------------------

    def build(self, fabric: bytes) -> None:
        """Create files, namespaces, cables and switches.

        Raises:
            LabError: a node has the name of a switch or a pod, or the kernel lacks room for the lab's neighbours.
        """
        for folder in ("nodes", "pods", "s", "logs"):
            (self.files / folder).mkdir()
        for name in ("original.yaml", "fabric.yaml"):
            (self.files / name).write_bytes(fabric)
        self._check_names()
        self._check_room()
        for node in self.plan.nodes:
            for folder in _NODE_FOLDERS:
                (self.locate_root(node.name) / folder).mkdir(parents=True)
            unit = "systemd-networkd.service"
            (self.locate_root(node.name) / _WANTS / unit).symlink_to(f"/lib/systemd/system/{unit}")
        netns.build_namespaces(self.topology, self.files / "ns")

    def _check_names(self) -> None:
        pods = (name for node in self.plan.nodes for name in _list_pod_names(node))
        taken = {switch.name for switch in self.topology.switches} | set(pods)
        for node in self.plan.nodes:
            if node.name in taken:
                raise LabError(f"the lab has a switch or pod called {node.name!r}; rename the node")

    def _check_room(self) -> None:
        with Socket() as sock:
            shortage = explain_shortage(self.plan, list_neighbour_tables(sock))
        if shortage:
            raise LabError(shortage)

    def apply(self) -> list[ApplyResult]:
        """Configure every host with the code for real hosts."""
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            results = list(pool.map(self.apply_node, self.plan.nodes))
        netns.wait_until_up(self.files / "ns", self.topology.namespaces)
        return results

    def apply_node(self, node: NodePlan) -> ApplyResult:
        """Configure one host. Raises ApplyError after its changes were rolled back."""
        machine = self.get_machine(node.name)
        return apply(machine, tuple(iter_settings(node)), record.find_folder(machine), FORMATS["networkd"](node))

    def start_speaker(self) -> None:
        """Start the leaves' LLDP speaker, a process that ends with the lab."""
        leaves = [switch.name for switch in self.topology.switches if switch.name not in {SPINE, MANAGEMENT}]
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                speaker.announce_leaves(leaves, self.files / "ns", self.files / speaker.OVERRIDES)
            finally:
                os._exit(1)

    def start_agents(self) -> None:
        """Install every node's CNI executable and start its agent.

        Raises:
            LabError: an agent does not serve; the message has the end of its log.
        """
        for node in self.plan.nodes:
            self._start_agent(node)
        deadline = time.monotonic() + _AGENT_SECONDS + _AGENT_SECONDS_PER_NODE * len(self.plan.nodes)
        for node, process in zip(self.plan.nodes, self._agents, strict=True):
            self._wait_for_agent(node, process, deadline)

    def _start_agent(self, node: NodePlan) -> None:
        root = self.locate_root(node.name)
        plan_file = root / "etc/trackbed/node.json"
        plan_file.write_bytes(encode_node(node))
        install_executable(root / "opt/cni/bin", self.locate_socket(node.name))
        options: list[str | Path] = [
            *("--plan", plan_file),
            *("--state", root / "var/lib/trackbed/agent"),
            *("--socket", self.locate_socket(node.name)),
            *("--netns", self.locate_netns(node.name)),
        ]
        command = [sys.executable, "-m", "trackbed", "agent", "run", *options]
        with (self.files / "logs" / node.name).open("wb") as log:
            self._agents.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - Trackbed itself
            )

    def _wait_for_agent(self, node: NodePlan, process: subprocess.Popen[bytes], deadline: float) -> None:
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(OSError):
                read_status(self.locate_socket(node.name))
                return
            time.sleep(0.02)
        raise LabError(self._describe_agent_failure(node.name))

    def _describe_agent_failure(self, node: str) -> str:
        lines = (self.files / "logs" / node).read_text(errors="replace").strip().splitlines()[-3:]
        return f"the agent of {node} does not serve: {' / '.join(lines) or 'its log is empty'}"

    # --- paths and names -------------------------------------------------------------------------------------------

    def locate_netns(self, name: str) -> Path:
        """Return the network namespace of a node, switch or pod."""
        return self.files / "ns" / name

    def locate_root(self, node: str) -> Path:
        """Return the root folder of a node."""
        return self.files / "nodes" / node

    def locate_socket(self, node: str) -> Path:
        """Return the socket of a node's agent."""
        return self.files / "s" / str([item.name for item in self.plan.nodes].index(node))

    def locate_executable(self, node: str) -> Path:
        """Return the node's CNI executable."""
        return self.locate_root(node) / "opt/cni/bin/trackbed"

    def get_machine(self, node: str) -> Machine:
        """Return a node as the code for hosts sees it."""
        return Machine(self.locate_root(node), self.locate_netns(node))

    def find_leaf_end(self, node: str, rail: int) -> tuple[str, str]:
        """Return leaf and interface at the other end of a port's cable."""
        return self.topology.leaf_ends[node, rail]

    def get_spine(self) -> str:
        """Return the name of the spine."""
        return SPINE

    # --- pods ------------------------------------------------------------------------------------------------------

    def list_pods(self, node: str) -> tuple[str, ...]:
        """Return the names of the pods on a node."""
        path = self.files / "pods" / node
        return tuple(path.read_text().split()) if path.exists() else ()

    def find_pod(self, name: str) -> runtime.LabPod:
        """Return the pod of that name."""
        names = [pod for node in self.plan.nodes for pod in _list_pod_names(node)]
        return runtime.LabPod(name, names.index(name), self.locate_netns(name))

    def add_pod(self, node: NodePlan) -> str:
        """Start a pod with all rails on a node; return its name. Raises CniCallError."""
        pod = self.find_pod(f"pod-{node.name}")
        runtime.create_pod(pod, self.files / "ns")
        runtime.call_add(pod, self.locate_executable(node.name))
        (self.files / "pods" / node.name).write_text(f"{pod.name}\n")
        return pod.name

    def add_pods(self) -> list[str]:
        """Start one pod on every node, all at once; return their names."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.plan.nodes))) as pool:
            names = list(pool.map(self.add_pod, self.plan.nodes))
        netns.wait_until_up(self.files / "ns", names)
        return names

    def remove_pods(self) -> None:
        """Detach and remove every pod."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.plan.nodes))) as pool:
            list(pool.map(self._remove_node_pods, self.plan.nodes))

    def _remove_node_pods(self, node: NodePlan) -> None:
        for name in self.list_pods(node.name):
            runtime.call_delete(self.find_pod(name), self.locate_executable(node.name))
            runtime.remove_pod(self.find_pod(name))
        (self.files / "pods" / node.name).unlink(missing_ok=True)

    def list_attachments(self, node: str) -> list[dict[str, Any]]:
        """Return the attachments of the node's agent.

        Raises:
            LabError: the agent does not respond; the message has the end of its log.
        """
        try:
            attachments: list[dict[str, Any]] = read_status(self.locate_socket(node))["attachments"]
        except OSError as error:
            raise LabError(self._describe_agent_failure(node)) from error
        return attachments

    def list_pod_rails(self, node: str, pod: str) -> list[tuple[int, str, AddressPlan]]:
        """Return the rails of a pod as its node's agent lists them: (rail, interface, addressing)."""
        container = self.find_pod(pod).container
        attachments = [item for item in self.list_attachments(node) if item["container"] == container]
        return [
            (port["rail"], port["name"], parse_agent_address(**address))
            for attachment in attachments
            for port in attachment["ports"]
            for address in port.get("addresses", ())[:1]
        ]

    def reattach_pod(self, node: str, pod: str) -> None:
        """Detach a pod and attach it again."""
        runtime.call_delete(self.find_pod(pod), self.locate_executable(node))
        runtime.call_add(self.find_pod(pod), self.locate_executable(node))

    def attach_twin(self, node: str, pod: str, occupied: str) -> None:
        """Try to attach a pod whose namespace already has an interface `occupied`; the refusal is ignored."""
        twin = self.find_pod(f"{pod}-{node}")
        runtime.create_pod(twin, self.files / "ns")
        with Socket(netns=twin.netns) as sock:
            sock.send([build_create_veth(VethEnd(occupied), VethEnd("other"))])
        with suppress(runtime.CniCallError):
            runtime.call_add(twin, self.locate_executable(node))

    def clear_refusals(self, node: str) -> None:
        """Remove the twin; its DEL clears the refusal that the agent remembers."""
        twin = self.find_pod(f"twin-{node}")
        runtime.call_delete(twin, self.locate_executable(node))
        runtime.remove_pod(twin)

    # --- faults ------------------------------------------------------------------------------------------------------

    def restore_plan(self, *names: str) -> None:
        """Configure nodes and switches as planned."""
        for name in names:
            node = self.plan.find_node(name)
            netns.configure_namespace(self.topology, name, self.files / "ns")
            if node is not None:
                self.apply_node(node)
        netns.wait_until_up(self.files / "ns", names)

    def restore_fabric(self) -> None:
        """Restore the original Fabric."""
        shutil.copyfile(self.files / "original.yaml", self.fabric_file)

    def set_advertisement(self, leaf: str, interface: str, override: str) -> None:
        """Override the LLDP advertisement of a leaf's port: `mute`, `vlan N`, or "" for none."""
        path = self.files / speaker.OVERRIDES
        override_by_port = speaker.read_overrides(path) | {f"{leaf}/{interface}": override}
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({port: value for port, value in override_by_port.items() if value}))
        temporary.replace(path)

    # --- diagnosis ---------------------------------------------------------------------------------------------------

    def diagnose(self) -> Diagnosis:
        """Run doctor on every node, with the addresses of the other nodes and of the switches.

        If the Fabric cannot be planned, its problems are the only findings.
        """
        if findings := self._lint_fabric():
            return Diagnosis(tuple(findings), findings[0])
        switches = self._read_switch_addresses()
        targets = [self._build_target(number, node, switches) for number, node in enumerate(self.plan.nodes)]
        with ThreadPoolExecutor(max_workers=_NODES_AT_ONCE) as pool:
            views = list(pool.map(lambda target: inspect_node(target, self.plan, TIMEOUTS), targets))
        return diagnose_nodes(views)

    def _lint_fabric(self) -> list[Finding]:
        try:
            loaded = load_fabric(self.fabric_file.read_bytes(), "fabric.yaml")
            compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
        except SpecError as error:
            return to_findings(error.problems)
        return []

    def _build_target(self, number: int, node: NodePlan, switches: dict[str, frozenset[int]]) -> InspectionTarget:
        others = tuple(get_management_address(other) for other in range(len(self.plan.nodes)) if other != number)
        return InspectionTarget(
            self.get_machine(node.name), node, partial(read_status, self.locate_socket(node.name)), others, switches
        )

    def _read_switch_addresses(self) -> dict[str, frozenset[int]]:
        """Return the leaves' addresses; in scheme shared-subnet with the spine's, which has the gateways."""
        names = {port.leaf for node in self.plan.nodes for port in node.ports}
        gateways = self._read_addresses(SPINE) if self.plan.common.has_shared_subnets else frozenset[int]()
        return {name: self._read_addresses(name) | gateways for name in names}

    def _read_addresses(self, name: str) -> frozenset[int]:
        with Socket(netns=self.locate_netns(name)) as sock:
            return frozenset(address.address for address in list_addresses(sock))


def _list_pod_names(node: NodePlan) -> tuple[str, str]:
    """Return the names of a node's pod and of its twin, whose attachment is refused."""
    return f"pod-{node.name}", f"twin-{node.name}"
