"""The part of a container runtime: it creates a pod's network namespace and eth0, and calls the CNI executable."""

import hashlib
import json
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackbed.fabric.model.ranges import format_address
from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.addresses import Address, build_add_address
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link, get_link
from trackbed.kernel.netlink.routes import Route, build_add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.topology import MANAGEMENT, MANAGEMENT_RANGE, get_pod_address

CNI_VERSION = "1.1.0"
_CALL_SECONDS = 60
_MAIN, _BRIDGE = 254, "br0"


class CniCallError(Exception):
    """The CNI executable failed; the message has its error."""


@dataclass(frozen=True, slots=True)
class LabPod:
    """One pod: its name, its number among the lab's pods, and the path of its namespace."""

    name: str
    number: int
    netns: Path

    @property
    def container(self) -> str:
        """The container id in the format of a runtime, 64 hexadecimal digits."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    @property
    def uplink(self) -> str:
        """The name of the other end of its eth0, on the management switch."""
        return f"pod{self.number}"


def create_pod(pod: LabPod, namespaces: Path) -> None:
    """Create the pod's namespace with loopback and eth0, as the runtime and the primary network do."""
    netns.create_netns(pod.netns)
    inside, outside = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (pod.netns, namespaces / MANAGEMENT))
    try:
        with Socket(netns=outside) as switch:
            switch.send([build_create_veth(VethEnd(pod.uplink, mtu=1500), VethEnd("eth0", inside, 1500))])
            master = get_link(switch, _BRIDGE).index
            switch.send([build_set_link(get_link(switch, pod.uplink).index, up=True, master=master)])
        with Socket(netns=inside) as sock:
            _configure_eth0(sock, pod.number)
    finally:
        os.close(inside)
        os.close(outside)


def _configure_eth0(sock: Socket, number: int) -> None:
    eth0 = get_link(sock, "eth0").index
    address = Address(eth0, socket.AF_INET, get_pod_address(number), MANAGEMENT_RANGE.prefix)
    default = Route(socket.AF_INET, _MAIN, oif=eth0, gateway=MANAGEMENT_RANGE.base + 1)
    sock.send(
        [
            build_set_link(1, up=True),
            build_set_link(eth0, up=True),
            build_add_address(address),
            build_add_route(default),
        ]
    )


def remove_pod(pod: LabPod) -> None:
    """Remove the pod's namespace with its interfaces."""
    netns.delete_netns(pod.netns)


def call_add(pod: LabPod, executable: Path) -> dict[str, Any]:
    """Call CNI ADD, chained behind the primary network; return the result. Raises CniCallError."""
    result: dict[str, Any] = json.loads(_call_cni("ADD", pod, executable, _build_previous_result(pod)))
    return result


def call_delete(pod: LabPod, executable: Path) -> None:
    """Call CNI DEL. Raises CniCallError."""
    _call_cni("DEL", pod, executable, None)


def call_check(pod: LabPod, executable: Path, result: dict[str, Any]) -> None:
    """Call CNI CHECK with the result of ADD. Raises CniCallError."""
    _call_cni("CHECK", pod, executable, result)


def _build_previous_result(pod: LabPod) -> dict[str, Any]:
    """Return the result of the primary network's plugin."""
    address = f"{format_address(4, get_pod_address(pod.number))}/{MANAGEMENT_RANGE.prefix}"
    return {
        "cniVersion": CNI_VERSION,
        "interfaces": [{"name": "eth0", "sandbox": str(pod.netns)}],
        "ips": [{"interface": 0, "address": address, "gateway": format_address(4, MANAGEMENT_RANGE.base + 1)}],
    }


def _call_cni(command: str, pod: LabPod, executable: Path, previous: dict[str, Any] | None) -> bytes:
    config: dict[str, Any] = {"cniVersion": CNI_VERSION, "name": "rails", "type": "trackbed"}
    if previous is not None:
        config["prevResult"] = previous
    environment = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": pod.container,
        "CNI_NETNS": str(pod.netns),
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(executable.parent),
        "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod.name}",
    }
    process = subprocess.run(  # noqa: S603 - the executable that the lab has installed
        [executable],
        env=environment,
        input=json.dumps(config).encode(),
        capture_output=True,
        timeout=_CALL_SECONDS,
        check=False,
    )
    if process.returncode != 0:
        error = _format_error(process.stdout) or process.stderr.decode()
        raise CniCallError(f"CNI {command} of pod {pod.name}: {error}")
    return process.stdout


def _format_error(output: bytes) -> str:
    """Return the error that a CNI executable printed as JSON, or its output."""
    try:
        error = json.loads(output)
        return f"{error['msg']} (code {error['code']}) {error.get('details', '')}".strip()
    except (ValueError, KeyError, TypeError):
        return output.decode(errors="replace").strip()
