"""The site of a soak: a fabric in namespaces with an agent on each node, an API server with controllers and a webhook.

    node-0 .. node-2    macvlan; the agent of node-0 is never killed
    node-3              the ports themselves move into pods
    controller-0, -1    one leads; controller-0 is never killed
    webhook             never killed

The journal of each agent is on a small disk of its own.
"""

import random
import shutil
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from trackbed.cluster.api.client import RequestPolicy
from trackbed.cluster.api.dynamic import connect
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.stacks.native.annotation import LABEL, LABEL_VALUE
from trackbed.fabric.plan.node_document import encode_node
from trackbed.kernel.netlink.addresses import Address, build_add_address
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link, get_link
from trackbed.kernel.netlink.routes import Route, build_add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status
from trackbed.node.rails.install import install_executable
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.crds import install_crds
from trackbed_lab.lab import Lab
from trackbed_lab.ports import hold_ports
from trackbed_lab.sandbox import mount_tmpfs
from trackbed_lab.soak.daemons import Daemon
from trackbed_lab.soak.pods import SoakPod
from trackbed_lab.soak.record import SoakRecord

FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: soak}
spec:
  nodes: [{hosts: "node-[0-3]"}]
  rails: 4
  addressing: {scheme: node-subnet, ipv4: 10.64.0.0/12, ipv4NodePrefix: 27}
  otherRanges: {docker: []}
"""
RAILS = 4
MOVE_NODE = "node-3"
DISK_BYTES = 4 << 20
"""Size of the disk of a journal, which is compacted at 1 MiB."""
API_SERVER = "kube-apiserver"
NAMESPACE = "trackbed-system"
POD_NAMESPACE = "soak"
"""Namespace of the Pods; its label lets the API server admit no Pod without the webhook."""
READY_SECONDS = 120.0
_UPLINK, _UPLINK_ADDRESS = "uplink", 172 << 24 | 18 << 16 | 1
_MAIN_TABLE = 254
_API_POLICY = RequestPolicy(timeout_seconds=5.0)
"""A server that has just started accepts requests and leaves them waiting."""


class SoakError(Exception):
    """The site could not be built; the message says what did not start."""


@dataclass(frozen=True, slots=True)
class SoakPrograms:
    """The programs that are built or fetched before the sandbox exists."""

    control_plane: Path
    executable: Path
    """The CNI executable, as an image has it."""
    clock_library: Path
    crds: list[dict[str, object]]


@dataclass
class SoakNode:
    """A node with its agent."""

    name: str
    daemon: Daemon
    executable: Path
    socket: Path
    journal: Path
    mode: str
    free_rails: set[int] = field(default_factory=lambda: set(range(RAILS)))
    """Rails that no pod has; used in mode move only."""


class Site:
    """All parts of a soak. Call its methods inside a sandbox."""

    def __init__(self, files: Path, programs: SoakPrograms, record: SoakRecord) -> None:
        self.files, self.programs, self.record = files, programs, record
        self.lab = Lab(files)
        self.cluster = files / "cluster"
        self.pods = files / "soak-pods"
        self.nodes: list[SoakNode] = []
        self.controllers: list[Daemon] = []
        self.webhook: Daemon | None = None
        self.api: BlockingClient | None = None
        self.api_command: list[str] = []
        """Command of the API server that is to run after it was killed; empty while it is away."""
        self._numbers = count()
        self._lock = threading.Lock()

    # --- setup -----------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Start everything. Raises SoakError, LabError, ControlPlaneError, KubeError, OSError."""
        self.lab.build(FABRIC)
        self.lab.apply()
        for folder in (self.cluster, self.pods, self.files / "daemons", self.files / "journals"):
            folder.mkdir()
        self.nodes = [self._build_node(node.name) for node in self.lab.plan.nodes]
        for node in self.nodes:
            node.daemon.start()
        self._start_cluster()
        for node in self.nodes:
            self.wait_for_agent(node)

    def _build_node(self, name: str) -> SoakNode:
        root, agent_socket = self.lab.locate_root(name), self.lab.locate_socket(name)
        plan_file, journal = root / "etc/trackbed/node.json", self.files / "journals" / name
        plan = self.lab.plan.find_node(name)
        assert plan is not None  # noqa: S101 - the name is of the plan
        plan_file.write_bytes(encode_node(plan))
        executable = install_executable(root / "opt/cni/bin", agent_socket, binary=self.programs.executable)
        journal.mkdir()
        mount_tmpfs(journal, f"size={DISK_BYTES}")
        options = ("--plan", plan_file, "--state", journal, "--socket", agent_socket)
        argv = ["agent", "run", *map(str, (*options, "--netns", self.lab.locate_netns(name)))]
        daemon = self._build_daemon(f"agent-{name}", argv, expendable=name != "node-0")
        return SoakNode(name, daemon, executable, agent_socket, journal, "move" if name == MOVE_NODE else "macvlan")

    def _build_daemon(self, name: str, arguments: list[str], *, expendable: bool) -> Daemon:
        argv = [sys.executable, "-m", "trackbed", *arguments]
        return Daemon(name, argv, self.files / "daemons", self.programs.clock_library, expendable)

    def _start_cluster(self) -> None:
        _connect_uplink()
        mount_tmpfs(self.cluster, "size=2g")
        kubeconfig = str(
            control_plane.start_control_plane(self.cluster, self.programs.control_plane, controllers=False)
        )
        self.api = BlockingClient(connect(kubeconfig, policy=_API_POLICY))
        install_crds(self.api, self.programs.crds)
        for name, labels in ((NAMESPACE, {}), (POD_NAMESPACE, {LABEL: LABEL_VALUE})):
            self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        account = {"name": "default", "namespace": POD_NAMESPACE}
        self.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        self.controllers = [
            self._build_daemon(name, ["controller", "--kubeconfig", kubeconfig, "--name", name], expendable=number > 0)
            for number, name in enumerate(("controller-0", "controller-1"))
        ]
        for controller in reversed(self.controllers):
            controller.start()
        with hold_ports(1) as (port,):
            address = f"127.0.0.1:{port}"
            options = ["--kubeconfig", kubeconfig, "--listen", address, "--url", f"https://{address}"]
            self.webhook = self._build_daemon("webhook", ["webhook", *options], expendable=False)
            self.webhook.start()
            self._wait_for_webhook(self.webhook)

    def _wait_for_webhook(self, webhook: Daemon) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while b"serving reviews at " not in webhook.log.read_bytes():
            if not webhook.pid or time.monotonic() > deadline:
                raise SoakError(f"the webhook does not serve: {webhook.read_log_end()}")
            time.sleep(0.1)

    def wait_for_rails(self) -> None:
        """Wait until the webhook knows the Fabric, and so gives rails to a pod. Raises SoakError."""
        assert self.api is not None  # noqa: S101 - the site is built
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.api.create(build_pod_object("first"), dry_run=True)
            except KubeError as error:
                if time.monotonic() > deadline:
                    raise SoakError(f"no pod gets rails: {error}") from error
                time.sleep(0.5)
            else:
                return

    def wait_for_agent(self, node: SoakNode) -> None:
        """Wait until an agent serves. Raises SoakError."""
        deadline = time.monotonic() + READY_SECONDS
        while node.daemon.pid and time.monotonic() < deadline:
            with suppress(OSError):
                read_status(node.socket)
                return
            time.sleep(0.05)
        raise SoakError(f"{node.daemon.name} does not serve: {node.daemon.read_log_end()}")

    # --- use -------------------------------------------------------------------------------------------------------

    @property
    def daemons(self) -> list[Daemon]:
        """All programs under test."""
        return [node.daemon for node in self.nodes] + self.controllers + ([self.webhook] if self.webhook else [])

    def keep_api_server(self) -> None:
        """Start the API server again where it has ended, as a kubelet does: its port may not be free at first."""
        processes = control_plane.load_processes(self.cluster)
        if self.api_command and not any(item.name == API_SERVER and item.is_alive for item in processes):
            control_plane.start_program_again(self.cluster, API_SERVER, self.api_command)

    def is_api_ready(self) -> bool:
        """Return whether the API server answers."""
        assert self.api is not None  # noqa: S101 - the site is built
        with suppress(KubeError):
            return bool(self.api.read_version())
        return False

    def build_pod(self, chance: random.Random, mode: str | None = None) -> SoakPod | None:
        """Return a new pod on a random node, without a namespace yet; None if no rail of the node is free."""
        node = chance.choice([node for node in self.nodes if mode in {None, node.mode}])
        rails = tuple(range(RAILS))
        with self._lock:
            name = f"pod-{next(self._numbers)}"
            if node.mode == "move":
                if not node.free_rails:
                    return None
                rails = (chance.choice(sorted(node.free_rails)),)
                node.free_rails -= {*rails}
        return SoakPod(name, node.name, node.executable, self.pods / name, node.mode, rails, self.record)

    def return_rails(self, pod: SoakPod) -> None:
        """Let other pods have the rails of a pod that has ended."""
        if pod.mode == "move":
            with self._lock:
                next(node for node in self.nodes if node.name == pod.node).free_rails.update(pod.rails)

    def stop(self) -> None:
        """Stop all programs, the API server last."""
        for daemon in self.daemons:
            daemon.stop()
        if self.api is not None:
            self.api.__exit__()
        control_plane.stop_control_plane(self.cluster)

    def copy_logs(self, folder: Path) -> None:
        """Copy the logs of all programs."""
        for log in (*(self.files / "daemons").glob("*.log"), *self.cluster.glob("*.log")):
            shutil.copy(log, folder)


def _connect_uplink() -> None:
    """Set up loopback and a default route, without which an API server does not start."""
    with Socket() as sock:
        sock.send([build_create_veth(VethEnd(_UPLINK), VethEnd(f"{_UPLINK}x"))])
        index = get_link(sock, _UPLINK).index
        sock.send([build_set_link(end, up=True) for end in (1, index, get_link(sock, f"{_UPLINK}x").index)])
        sock.send(
            [
                build_add_address(Address(index, socket.AF_INET, _UPLINK_ADDRESS, 24)),
                build_add_route(Route(socket.AF_INET, _MAIN_TABLE, oif=index, gateway=_UPLINK_ADDRESS + 1)),
            ]
        )


def build_pod_object(name: str) -> dict[str, object]:
    """Return a Pod that asks for all rails."""
    container = {"name": "main", "image": "soak", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    metadata = {"name": name, "namespace": POD_NAMESPACE, "annotations": {"trackbed.dev/rails": "all"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
