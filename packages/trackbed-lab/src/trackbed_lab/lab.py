"""A lab from inside its sandbox: its files, its machines, and what can be done to them.

FILES/fabric.yaml       the Fabric the lab works with (faults may change it), original.yaml as it was
FILES/ns/NAME           network namespaces of nodes, switches and pods
FILES/nodes/NAME/       root folder of a node: etc, var, run, opt
FILES/pods/NODE         names of the node's pods, one a line
FILES/s/N               the agents' sockets (a unix socket's path has 107 bytes at most)
FILES/logs/NODE         what an agent said
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

from trackbed.doctor.diagnosis import Diagnosis, diagnose
from trackbed.doctor.inspection import Subject, inspect_node, link_peers, parse_agent_address
from trackbed.doctor.probes import Timeouts
from trackbed.doctor.view import SwitchView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.wire import write_node
from trackbed.host.machine import Machine
from trackbed.host.render import FORMATS
from trackbed.host.steps import settings
from trackbed.host.transaction import record
from trackbed.host.transaction.apply import apply
from trackbed.host.transaction.files import find_renderer
from trackbed.kernel.netlink.addresses import list_addresses
from trackbed.kernel.netlink.links import VethEnd, create_veth
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import status
from trackbed.node.rails.install import install
from trackbed_lab import netns, runtime, speaker
from trackbed_lab.fabric_findings import to_findings
from trackbed_lab.topology import MANAGEMENT, SPINE, Topology, build_topology, get_management_address

if TYPE_CHECKING:
    from trackbed.doctor.finding import Finding
    from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan
    from trackbed.host.transaction.apply import Applied

PATIENCE = Timeouts(reply=0.7, lldp=1.2, lldp_interval=1.0)
"""Leaves of a lab speak four times a second."""
_AGENT_SECONDS = 15.0
_NODE_FOLDERS = ("etc/systemd/network", "etc/trackbed", "var/lib", "run", "opt/cni/bin")


class LabError(Exception):
    """The lab cannot do that; the message says why and what to do."""


def _without_vfs(planned: Plan) -> Plan:
    """Namespaces have no VFs: pods that would get one share the port instead."""
    if planned.common.pod_mode != "sriov":
        return planned
    common = planned.common._replace(pod_mode="macvlan")
    return planned._replace(common=common, nodes=tuple(node._replace(common=common) for node in planned.nodes))


class Lab:
    """One lab. All methods must be called inside its sandbox."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.fabric_file = files / "fabric.yaml"
        self._agents: list[subprocess.Popen[bytes]] = []

    @cached_property
    def plan(self) -> Plan:
        """The plan of the Fabric the lab was made from."""
        loaded = load_fabric((self.files / "original.yaml").read_bytes(), "fabric.yaml")
        return _without_vfs(compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {}))

    @cached_property
    def topology(self) -> Topology:
        """Namespaces, cables, switches."""
        return build_topology(self.plan)

    # --- making it -------------------------------------------------------------------------------------------------

    def build(self, fabric: bytes) -> None:
        """Lay everything out: files, namespaces, cables, switches; LabError if two of them would share a name."""
        for folder in ("nodes", "pods", "s", "logs"):
            (self.files / folder).mkdir()
        for name in ("original.yaml", "fabric.yaml"):
            (self.files / name).write_bytes(fabric)
        self._distinct()
        for node in self.plan.nodes:
            for folder in _NODE_FOLDERS:
                (self.locate_root(node.name) / folder).mkdir(parents=True)
        netns.build_namespaces(self.topology, self.files / "ns")

    def _distinct(self) -> None:
        pods = (name for node in self.plan.nodes for name in _pod_names(node))
        taken = {switch.name for switch in self.topology.switches} | set(pods)
        for node in self.plan.nodes:
            if node.name in taken:
                raise LabError(f"the lab has a switch or pod called {node.name!r}; rename the node")

    def apply(self) -> list[Applied]:
        """Configure every host with the code that configures real ones."""
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            done = list(pool.map(self.apply_node, self.plan.nodes))
        netns.wait_until_up(self.files / "ns", self.topology.namespaces)
        return done

    def apply_node(self, node: NodePlan) -> Applied:
        """Configure one host; ApplyError after everything was put back."""
        machine = self.get_machine(node.name)
        return apply(machine, tuple(settings(node)), record.find_folder(machine), FORMATS[find_renderer(machine)](node))

    def start_speaker(self) -> None:
        """Let the leaves speak, in a process of their own that ends with the lab."""
        leaves = [switch.name for switch in self.topology.switches if switch.name not in {SPINE, MANAGEMENT}]
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                speaker.announce_leaves(leaves, self.files / "ns", self.files / speaker.OVERRIDES)
            finally:
                os._exit(1)

    def start_agents(self) -> None:
        """Start every node's agent, install its CNI executable; LabError with its last words if one does not serve."""
        for node in self.plan.nodes:
            self._start_agent(node)
        deadline = time.monotonic() + _AGENT_SECONDS
        for node, process in zip(self.plan.nodes, self._agents, strict=True):
            self._until_served(node, process, deadline)

    def _start_agent(self, node: NodePlan) -> None:
        root = self.locate_root(node.name)
        plan_file = root / "etc/trackbed/node.json"
        plan_file.write_bytes(write_node(node))
        install(root / "opt/cni/bin", self.locate_socket(node.name))
        where: list[str | Path] = [
            "--plan",
            plan_file,
            "--state",
            root / "var/lib/trackbed/agent",
            "--socket",
            self.locate_socket(node.name),
        ]
        with (self.files / "logs" / node.name).open("wb") as log:
            command: list[str | Path] = [
                sys.executable,
                "-m",
                "trackbed",
                "agent",
                "run",
                *where,
                "--netns",
                self.locate_netns(node.name),
            ]
            self._agents.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - our own program
            )

    def _until_served(self, node: NodePlan, process: subprocess.Popen[bytes], deadline: float) -> None:
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(OSError):
                status(self.locate_socket(node.name))
                return
            time.sleep(0.02)
        raise LabError(self._silent(node.name))

    def _silent(self, node: str) -> str:
        said = (self.files / "logs" / node).read_text(errors="replace").strip().splitlines()[-3:]
        return f"the agent of {node} does not serve: {' / '.join(said) or 'its log is empty'}"

    # --- where things are ------------------------------------------------------------------------------------------

    def locate_netns(self, name: str) -> Path:
        """The network namespace of a node, switch or pod."""
        return self.files / "ns" / name

    def locate_root(self, node: str) -> Path:
        """The root folder of a node."""
        return self.files / "nodes" / node

    def locate_socket(self, node: str) -> Path:
        """The socket of a node's agent."""
        return self.files / "s" / str([n.name for n in self.plan.nodes].index(node))

    def locate_executable(self, node: str) -> Path:
        """The node's CNI executable."""
        return self.locate_root(node) / "opt/cni/bin/trackbed"

    def get_machine(self, node: str) -> Machine:
        """A node as hosts sees it."""
        return Machine(self.locate_root(node), self.locate_netns(node))

    def find_leaf_end(self, node: str, rail: int) -> tuple[str, str]:
        """Where a port's cable ends: (leaf, interface)."""
        return self.topology.leaf_ends[node, rail]

    def get_spine(self) -> str:
        """Name of the spine."""
        return SPINE

    # --- pods ------------------------------------------------------------------------------------------------------

    def list_pods(self, node: str) -> tuple[str, ...]:
        """Names of the pods on a node."""
        listed = self.files / "pods" / node
        return tuple(listed.read_text().split()) if listed.exists() else ()

    def find_pod(self, name: str) -> runtime.LabPod:
        """A pod by name."""
        numbers = [pod for node in self.plan.nodes for pod in _pod_names(node)]
        return runtime.LabPod(name, numbers.index(name), self.locate_netns(name))

    def add_pod(self, node: NodePlan) -> str:
        """Start a pod with all rails on a node; CniCallError if it does not get them."""
        pod = self.find_pod(f"pod-{node.name}")
        runtime.create_pod(pod, self.files / "ns")
        runtime.call_add(pod, self.locate_executable(node.name))
        (self.files / "pods" / node.name).write_text(f"{pod.name}\n")
        return pod.name

    def add_pods(self) -> list[str]:
        """Start one pod on every node, all at once."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.plan.nodes))) as pool:
            names = list(pool.map(self.add_pod, self.plan.nodes))
        netns.wait_until_up(self.files / "ns", names)
        return names

    def drop_pods(self) -> None:
        """Give every pod's rails back and remove it."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.plan.nodes))) as pool:
            list(pool.map(self._drop_pods_of, self.plan.nodes))

    def _drop_pods_of(self, node: NodePlan) -> None:
        for name in self.list_pods(node.name):
            runtime.call_delete(self.find_pod(name), self.locate_executable(node.name))
            runtime.remove_pod(self.find_pod(name))
        (self.files / "pods" / node.name).unlink(missing_ok=True)

    def list_attachments(self, node: str) -> list[dict[str, Any]]:
        """What the node's agent has attached; LabError with its last words if it does not answer."""
        try:
            found: list[dict[str, Any]] = status(self.locate_socket(node))["attachments"]
        except OSError as error:
            raise LabError(self._silent(node)) from error
        return found

    def list_pod_rails(self, node: str, pod: str) -> list[tuple[int, str, AddressPlan]]:
        """The rails that a pod has, by its node's agent: (rail, interface, addressing)."""
        container = self.find_pod(pod).container
        ports = [port for a in self.list_attachments(node) if a["container"] == container for port in a["ports"]]
        return [
            (port["rail"], port["name"], own)
            for port in ports
            for own in map(parse_agent_address, port.get("addresses", ())[:1])
        ]

    def reattach(self, node: str, pod: str) -> None:
        """Detach a pod and attach it again."""
        runtime.call_delete(self.find_pod(pod), self.locate_executable(node))
        runtime.call_add(self.find_pod(pod), self.locate_executable(node))

    def attach_twin(self, node: str, pod: str, occupied: str) -> None:
        """Try to attach a pod whose namespace already holds an interface called `occupied`; the refusal is expected."""
        twin = self.find_pod(f"{pod}-{node}")
        runtime.create_pod(twin, self.files / "ns")
        with Socket(netns=twin.netns) as sock:
            sock.send([create_veth(VethEnd(occupied), VethEnd("other"))])
        with suppress(runtime.CniCallError):
            runtime.call_add(twin, self.locate_executable(node))

    def forget_refusals(self, node: str) -> None:
        """Remove the twin; its DEL clears what the agent remembers of it."""
        twin = self.find_pod(f"twin-{node}")
        runtime.call_delete(twin, self.locate_executable(node))
        runtime.remove_pod(twin)

    # --- breaking and healing ----------------------------------------------------------------------------------------

    def restore_plan(self, *names: str) -> None:
        """Bring nodes and switches back to what is planned."""
        for name in names:
            node = self.plan.find_node(name)
            netns.configure_namespace(self.topology, name, self.files / "ns")
            if node is not None:
                self.apply_node(node)
        netns.wait_until_up(self.files / "ns", names)

    def restore_fabric(self) -> None:
        """Put the Fabric back that the lab was made from."""
        shutil.copyfile(self.files / "original.yaml", self.fabric_file)

    def set_advertisement(self, leaf: str, interface: str, what: str) -> None:
        """Change what a leaf port says by LLDP: `mute`, `vlan N`, or nothing for the truth."""
        import json  # noqa: PLC0415 - one use

        path = self.files / speaker.OVERRIDES
        said = speaker.read_overrides(path) | {f"{leaf}/{interface}": what}
        new = path.with_suffix(".new")
        new.write_text(json.dumps({key: value for key, value in said.items() if value}))
        new.replace(path)

    # --- looking -----------------------------------------------------------------------------------------------------

    def diagnose(self) -> Diagnosis:
        """Doctor on every node, each knowing the others and what the leaves say of themselves.

        The Fabric comes first: one that cannot be planned is the finding.
        """
        if wrong := self._lint():
            return Diagnosis(tuple(wrong), wrong[0])
        switches = self._switches()
        subjects = [self._subject(number, node, switches) for number, node in enumerate(self.plan.nodes)]
        with ThreadPoolExecutor(max_workers=max(1, len(subjects))) as pool:
            views = list(pool.map(lambda subject: inspect_node(subject, self.plan, PATIENCE), subjects))
        return diagnose(link_peers(views))

    def _lint(self) -> list[Finding]:
        try:
            loaded = load_fabric(self.fabric_file.read_bytes(), "fabric.yaml")
            compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
        except SpecError as error:
            return to_findings(error.problems)
        return []

    def _subject(self, number: int, node: NodePlan, switches: dict[str, SwitchView]) -> Subject:
        others = tuple(get_management_address(n) for n in range(len(self.plan.nodes)) if n != number)
        return Subject(
            self.get_machine(node.name), node, partial(status, self.locate_socket(node.name)), others, switches
        )

    def _switches(self) -> dict[str, SwitchView]:
        """The leaves' addresses; in scheme shared-subnet the spine's, which has the gateways."""
        names = {port.leaf for node in self.plan.nodes for port in node.ports}
        above = self._addresses(SPINE) if self.plan.common.scheme == "shared-subnet" else frozenset[int]()
        return {name: SwitchView(name, self._addresses(name) | above) for name in names}

    def _addresses(self, name: str) -> frozenset[int]:
        with Socket(netns=self.locate_netns(name)) as sock:
            return frozenset(own.address for own in list_addresses(sock))


def _pod_names(node: NodePlan) -> tuple[str, str]:
    """A node's pod, and the one that `attach` refuses."""
    return f"pod-{node.name}", f"twin-{node.name}"
