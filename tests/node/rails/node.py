"""A node in network namespaces: ports with somebody at the far end, pods, an agent, and a runtime that calls it."""

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
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import write_node
from trackbed.kernel.netlink import addresses, links, netns, routes, rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.install import install

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
START_SECONDS = 20.0
CALL_SECONDS = 30.0


def planned(text: str = FABRIC, node: str = "gpu-1") -> NodePlan:
    """The plan of one node of a Fabric."""
    loaded = load_fabric(text.encode(), "fabric.yaml")
    found = compute_plan(loaded.fabric, {}).find_node(node)
    assert found is not None
    return found


@dataclass(frozen=True)
class Ended:
    """How the executable ended."""

    status: int
    printed: bytes

    @property
    def json(self) -> dict[str, Any]:
        """What it printed."""
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
        """Whether it came to serve; False if it ended instead."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        assert ready, self.log()
        return bool(self.process.stdout.readline())

    def log(self) -> str:
        """What it logged, and those before it."""
        return self._log.read_text()

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End it; its exit status."""
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
        (folder / "plan.json").write_bytes(write_node(plan_))
        (folder / "bin").mkdir()
        self.executable = install(folder / "bin", self.socket)
        self._make_ports()

    def namespace(self, name: str) -> Path:
        """A new network namespace, gone with the node."""
        path = self.folder / f"{name}-{secrets.token_hex(4)}"
        netns.create(path)
        self._stack.callback(netns.delete, path)
        return path

    def pod(self, **given: str) -> Pod:
        """A new pod."""
        return Pod(self.namespace("pod"), **given)

    def start(self, command: Sequence[str] = (), more: Sequence[str] = ()) -> Agent:
        """Start the agent (by another command if given) and wait until it serves."""
        own = [sys.executable, "-m", "trackbed", "agent", "run", "--plan", f"{self.folder}/plan.json"]
        own += ["--state", f"{self.state}", "--socket", f"{self.socket}", "--netns", f"{self.netns}"]
        agent = Agent(command or [*own, *more], self.folder / "agent.log")
        self._stack.callback(agent.kill)
        assert agent.wait_until_ready(), agent.log()
        return agent

    def config(self, **more: object) -> dict[str, Any]:
        """A network configuration."""
        return {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed", **more}

    def call(
        self, command: str, pod: Pod | None = None, env: Mapping[str, str] | None = None, /, **more: object
    ) -> Ended:
        """Call the executable as a runtime does, with `more` in the configuration."""
        return self.execute({**self.environment(command, pod), **(env or {})}, json.dumps(self.config(**more)).encode())

    def environment(self, command: str, pod: Pod | None = None) -> dict[str, str]:
        """The variables that a runtime sets."""
        own = {"CNI_COMMAND": command, "CNI_PATH": str(self.executable.parent)}
        if pod is None:
            return own
        return own | {"CNI_CONTAINERID": pod.container, "CNI_NETNS": str(pod.path), "CNI_IFNAME": pod.ifname}

    def execute(self, environment: Mapping[str, str], config: bytes) -> Ended:
        """Run the executable to its end."""
        done = subprocess.run(
            [self.executable], input=config, env=environment, capture_output=True, timeout=CALL_SECONDS, check=False
        )
        assert done.stderr == b""
        return Ended(done.returncode, done.stdout)

    def add(self, pod: Pod, **more: object) -> dict[str, Any]:
        """An ADD that must succeed; its result."""
        done = self.call("ADD", pod, **more)
        assert done.status == 0, done.printed
        return done.json

    def delete(self, pod: Pod, **more: object) -> None:
        """A DEL that must succeed."""
        done = self.call("DEL", pod, **more)
        assert (done.status, done.printed) == (0, b"")

    def unpin(self, pod: Pod) -> None:
        """End a pod's namespace, as a runtime does after DEL, or a crash before it."""
        netns.delete(pod.path)

    def _make_ports(self) -> None:
        with Socket(netns=self.netns) as host, netns_fd(self.segment) as segment:
            for port in self.plan.ports:
                far = links.VethEnd(f"far{port.rail}", netns_fd=segment, mtu=9000)
                host.send([links.create_veth(links.VethEnd(port.netdev, mtu=9000), far)])
            host.send([links.set_link(link.index, up=True) for link in links.list_links(host)])
        with Socket(netns=self.segment) as far_side:
            far_side.send([links.set_link(link.index, up=True) for link in links.list_links(far_side)])


@contextmanager
def netns_fd(path: Path) -> Iterator[int]:
    """A descriptor of a namespace."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def made(folder: Path, plan_: NodePlan | None = None) -> Iterator[Node]:
    """A node without agent."""
    with ExitStack() as stack:
        yield Node(folder, plan_ or planned(), stack)


@dataclass(frozen=True)
class Inside:
    """What is in a namespace."""

    links: dict[str, links.Link]
    addresses: tuple[addresses.Address, ...]
    routes: tuple[routes.Route, ...]
    rules: tuple[rules.PolicyRule, ...]

    @property
    def rails(self) -> list[str]:
        """Names of the links that are up, without lo."""
        return sorted(name for name, link in self.links.items() if link.up and name != "lo")


def inside(path: Path) -> Inside:
    """Look into a namespace."""
    with Socket(netns=path) as sock:
        return Inside(
            {link.name: link for link in links.list_links(sock)},
            addresses.list_addresses(sock),
            routes.list_routes(sock),
            rules.list_rules(sock),
        )
