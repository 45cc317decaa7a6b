"""Which node a pod's container runs on, and the commands there that run a program in it or read what it wrote.

The API server cannot reach the nodes' kubelets (see `node`), so this goes over the servers' own channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trackbed.cluster.api.response import Object
from trackbed_lab.kubernetes.blocking import BlockingClient

_RUNC_STATE = "/run/containerd/runc/k8s.io"
"""Where containerd keeps runc's state for Kubernetes' containers."""


class PodError(Exception):
    """The container does not run; the message says why."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container that runs."""

    node: str
    id: str

    def run(self, argv: Sequence[str]) -> list[str]:
        """The command that runs a program in it, as its user and with its environment."""
        return ["runc", "--root", _RUNC_STATE, "exec", self.id, *argv]

    def read(self) -> list[str]:
        """The command that prints what it has written: lines of time, stream, F or P, text (CRI's log format)."""
        return ["sh", "-c", f'exec cut -d " " -f 4- /var/log/containers/*-{self.id}.log']


def find(client: BlockingClient, namespace: str, pod: str, container: str | None = None) -> Container:
    """A container of a pod, its first unless named. Raises PodError, KubeError."""
    one = client.get("v1", "Pod", pod, namespace)
    states: list[Object] = one.get("status", {}).get("containerStatuses") or []
    names = [state["name"] for state in states]
    if container is not None and container not in names:
        raise PodError(f"pod {pod} has no container {container!r}; it has {', '.join(names) or 'none yet'}")
    state = next((one for one in states if container in {None, one["name"]}), None)
    if state is None or not state.get("containerID"):
        phase = one.get("status", {}).get("phase", "Pending")
        raise PodError(f"pod {pod} has no container yet: it is {phase}{_why(one, state)}")
    return Container(one["spec"]["nodeName"], state["containerID"].rpartition("/")[2])


def _why(pod: Object, state: Object | None) -> str:
    """What the container waits for, or why the pod is on no node."""
    waiting = (state or {}).get("state", {}).get("waiting", {})
    conditions = pod.get("status", {}).get("conditions") or []
    unscheduled: Object = next((one for one in conditions if one.get("reason") == "Unschedulable"), {})
    told = waiting.get("message") or waiting.get("reason") or unscheduled.get("message")
    return f" ({told})" if told else ""
