"""A node in network namespaces: ports with peers, pods, an agent, and a runtime that calls it."""

import json
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink import addresses, links, netns, routes, rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.install import install_executable

RAILS = 8
FABRIC = """
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: test}
spec:
  nodes: [{hosts: "gpu-[0-3]"}]
  rails: 8
  addressing: {scheme: node-subnet, ipv4: 10.0.0.0/12, ipv4NodePrefix: 27}
"""
START_SECONDS = 60.0
CALL_SECONDS = 60.0


def planned(text: str = FABRIC, node: str = "gpu-1") -> NodePlan:
    """Return the plan of one node of a Fabric."""
    loaded = load_fabric(text.encode(), "fabric.yaml")
    plan = compute_plan(loaded.fabric, {}).find_node(node)
    assert plan is not None
    return plan


@dataclass(frozen=True)
class Ended:
    """The exit of the executable."""

    status: int
    printed: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The printed document."""
        read: dict[str, Any] = json.loads(self.printed)
        return read


@dataclass
class Pod:
    """A network namespace as a runtime hands it over."""

    path: Path
    container: str = field(default_factory=lambda: secrets.token_hex(32))
    ifname: str = "net1"


class Agent:
    """An agent process."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL)

    def wait_until_ready(self) -> bool:
        """Return whether the agent serves; False if it exited instead."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        assert ready, self.log()
        return bool(self.process.stdout.readline())

    def log(self) -> str:
        """Return the log of this agent and of earlier ones."""
        return self._log.read_text()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Kill the agent and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(START_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


class Node:
    """One node; `netns` has its ports, `segment` what they are cabled to (far0, far1, ...)."""

    def __init__(self, folder: Path, plan_: NodePlan, stack: ExitStack) -> None:
        self.folder = folder
        self.plan = plan_
        self.socket = folder / "agent.sock"
        self.state = folder / "state"
        self._stack = stack
        self.netns = self.namespace("node")
        self.segment = self.namespace("segment")
        (folder / "plan.json").write_bytes(encode_node(plan_))
        (folder / "bin").mkdir()
        self.executable = install_executable(folder / "bin", self.socket)
        self._make_ports()

    def namespace(self, name: str) -> Path:
        """Create a network namespace that is deleted with the node."""
        path = self.folder / f"{name}-{secrets.token_hex(4)}"
        netns.create_netns(path)
        self._stack.callback(netns.delete_netns, path)
        return path

    def pod(self, **fields: str) -> Pod:
        """Create a pod."""
        return Pod(self.namespace("pod"), **fields)

    def start(self, command: Sequence[str] = (), options: Sequence[str] = ()) -> Agent:
        """Start the agent (by another command if given) and wait until it serves."""
        words = [sys.executable, "-m", "trackbed", "agent", "run", "--plan", f"{self.folder}/plan.json"]
        words += ["--state", f"{self.state}", "--socket", f"{self.socket}", "--netns", f"{self.netns}"]
        agent = Agent(command or [*words, *options], self.folder / "agent.log")
        self._stack.callback(agent.kill)
        assert agent.wait_until_ready(), agent.log()
        return agent

    def config(self, **fields: object) -> dict[str, Any]:
        """Return a network configuration."""
        return {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed", **fields}

    def call(
        self, command: str, pod: Pod | None = None, env: Mapping[str, str] | None = None, /, **fields: object
    ) -> Ended:
        """Call the executable as a runtime does, with `fields` in the configuration."""
        return self.execute(
            {**self.environment(command, pod), **(env or {})}, json.dumps(self.config(**fields)).encode()
        )

    def environment(self, command: str, pod: Pod | None = None) -> dict[str, str]:
        """Return the environment variables that a runtime sets."""
        variables = {"CNI_COMMAND": command, "CNI_PATH": str(self.executable.parent)}
        if pod is None:
            return variables
        return variables | {"CNI_CONTAINERID": pod.container, "CNI_NETNS": str(pod.path), "CNI_IFNAME": pod.ifname}

    def execute(self, environment: Mapping[str, str], config: bytes) -> Ended:
        """Run the executable until it exits."""
        done = subprocess.run(
            [self.executable], input=config, env=environment, capture_output=True, timeout=CALL_SECONDS, check=False
        )
        assert done.stderr == b""
        return Ended(done.returncode, done.stdout)

    def add(self, pod: Pod, **fields: object) -> dict[str, Any]:
        """Run an ADD that must succeed; return its result."""
        done = self.call("ADD", pod, **fields)
        assert done.status == 0, done.printed
        return done.json

    def delete(self, pod: Pod, **fields: object) -> None:
        """Run a DEL that must succeed."""
        done = self.call("DEL", pod, **fields)
        assert (done.status, done.printed) == (0, b"")

    def unpin(self, pod: Pod) -> None:
        """End a pod's namespace, as a runtime does after DEL, or a crash before it."""
        netns.delete_netns(pod.path)

    def _make_ports(self) -> None:
        with Socket(netns=self.netns) as host, netns_fd(self.segment) as segment:
            for port in self.plan.ports:
                far = links.VethEnd(f"far{port.rail}", netns_fd=segment, mtu=9000)
                host.send([links.build_create_veth(links.VethEnd(port.netdev, mtu=9000), far)])
            host.send([links.build_set_link(link.index, up=True) for link in links.list_links(host)])
        with Socket(netns=self.segment) as far_side:
            far_side.send([links.build_set_link(link.index, up=True) for link in links.list_links(far_side)])


@contextmanager
def netns_fd(path: Path) -> Iterator[int]:
    """Open a namespace; yield its descriptor."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def made(folder: Path, plan_: NodePlan | None = None) -> Iterator[Node]:
    """Create a node without an agent."""
    with ExitStack() as stack:
        yield Node(folder, plan_ or planned(), stack)


@dataclass(frozen=True)
class Inside:
    """The content of a network namespace."""

    links: dict[str, links.Link]
    addresses: tuple[addresses.Address, ...]
    routes: tuple[routes.Route, ...]
    rules: tuple[rules.PolicyRule, ...]

    @property
    def rails(self) -> list[str]:
        """Names of the links that are up, without lo."""
        return sorted(name for name, link in self.links.items() if link.is_up and name != "lo")


def inside(path: Path) -> Inside:
    """Return the content of a network namespace, without operational states.

    The kernel's link watch changes those up to a second after a link is up (RFC 2863 states, `net/core/link_watch.c`).
    """
    with Socket(netns=path) as sock:
        return Inside(
            {link.name: link._replace(operstate="") for link in links.list_links(sock)},
            addresses.list_addresses(sock),
            routes.list_routes(sock),
            rules.list_rules(sock),
        )
