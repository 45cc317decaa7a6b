"""The containers of pods: their nodes, and the commands there that run a program in them or print their logs.

The API server cannot reach the nodes' kubelets (module node), so these commands are run over the servers' channels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trackbed.cluster.api.response import Object
from trackbed_lab.kubernetes.blocking import BlockingClient

_RUNC_STATE = "/run/containerd/runc/k8s.io"
"""runc's state of Kubernetes' containers, as containerd configures it."""


class PodError(Exception):
    """The container is not running; the message says why."""


@dataclass(frozen=True, slots=True)
class Container:
    """One running container."""

    node: str
    id: str

    def build_exec_command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs a program in it, as its user and with its environment."""
        return ["runc", "--root", _RUNC_STATE, "exec", self.id, *argv]

    def build_log_command(self) -> list[str]:
        """Return the command that prints its log (CRI format: time, stream, F or P, text) as text."""
        return ["sh", "-c", f'exec cut -d " " -f 4- /var/log/containers/*-{self.id}.log']


def find_container(client: BlockingClient, namespace: str, name: str, container: str | None = None) -> Container:
    """Return a container of a pod, by default its first. Raises PodError, KubeError."""
    pod = client.get("v1", "Pod", name, namespace)
    states: list[Object] = pod.get("status", {}).get("containerStatuses") or []
    names = [state["name"] for state in states]
    if container is not None and container not in names:
        raise PodError(f"pod {name} has no container {container!r}; it has {', '.join(names) or 'none yet'}")
    state = next((state for state in states if container in {None, state["name"]}), None)
    if state is None or not state.get("containerID"):
        phase = pod.get("status", {}).get("phase", "Pending")
        raise PodError(f"pod {name} has no container yet: it is {phase}{_explain_delay(pod, state)}")
    return Container(pod["spec"]["nodeName"], state["containerID"].rpartition("/")[2])


def _explain_delay(pod: Object, state: Object | None) -> str:
    """Return why the container waits, or why the pod is not scheduled, or has ended before it had one."""
    ended = pod.get("status", {}).get("message")
    waiting = (state or {}).get("state", {}).get("waiting", {})
    conditions = pod.get("status", {}).get("conditions") or []
    unscheduled: Object = next((item for item in conditions if item.get("reason") == "Unschedulable"), {})
    message = waiting.get("message") or waiting.get("reason") or unscheduled.get("message") or ended
    return f" ({message})" if message else ""
