"""A container runtime's view of a CNI plugin (CNI specification 1.1, section 2)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import spawn
from bench.node import Pod


def call(argv: Sequence[str], path: Path, pod: Pod, wanted: tuple[str, str], config: Mapping[str, object]) -> bytes:
    """Exec a plugin for (command, interface) with `config` on stdin, and return its output.

    Raises RuntimeError with the plugin's own error when it failed.
    """
    command, interface = wanted
    end = spawn.call(argv, _environment(pod, command, interface, path), json.dumps(config).encode())
    if end.code != 0:
        printed = (end.stdout + b" " + end.stderr).decode(errors="replace").strip()
        message = f"{' '.join(argv)} {command} {interface} of {pod.name} ended with {end.code}: {printed[:600]}"
        raise RuntimeError(message)
    return end.stdout


def _environment(pod: Pod, command: str, interface: str, path: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": pod.id,
        "CNI_NETNS": str(pod.netns),
        "CNI_IFNAME": interface,
        "CNI_PATH": str(path),
        "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={pod.namespace};K8S_POD_NAME={pod.name};"
        f"K8S_POD_UID={pod.uid or pod.id[:32]};K8S_POD_INFRA_CONTAINER_ID={pod.id}",
    }
