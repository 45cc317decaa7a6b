"""Which container is meant, and what is said where none runs. Objects as a real kubelet and scheduler wrote them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.pods import Container, PodError, find_container

RUNS = {
    "spec": {"nodeName": "node-1"},
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "containerID": "containerd://4ee6e913", "state": {"running": {}}},
            {"name": "side", "containerID": "containerd://9ab1", "state": {"running": {}}},
        ],
    },
}
SHORT = "0/2 nodes are available: 2 Insufficient trackbed.dev/rail0."
UNSCHEDULED = {
    "spec": {},
    "status": {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": SHORT,
            }
        ],
    },
}
NO_IMAGE = {
    "spec": {"nodeName": "node-0"},
    "status": {
        "phase": "Pending",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"waiting": {"reason": "ErrImageNeverPull", "message": 'Container image "x" is not present'}},
            }
        ],
    },
}


class One:
    """Has one pod."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod

    def get(self, *_: object) -> dict[str, Any]:
        """The pod, whichever is asked for."""
        return self.pod


def found(pod: dict[str, Any], container: str | None = None) -> Container:
    return find_container(cast("BlockingClient", One(pod)), "default", "worker", container)


@pytest.mark.parametrize(("name", "number"), [(None, "4ee6e913"), ("main", "4ee6e913"), ("side", "9ab1")])
def test_the_first_container_is_meant_unless_one_is_named(name: str | None, number: str) -> None:
    assert found(RUNS, name) == Container("node-1", number)


@pytest.mark.parametrize(
    ("pod", "container", "reason"),
    [
        (RUNS, "mian", "pod worker has no container 'mian'; it has main, side"),
        (
            UNSCHEDULED,
            None,
            f"pod worker has no container yet: it is Pending ({SHORT})",
        ),
        (
            NO_IMAGE,
            None,
            'pod worker has no container yet: it is Pending (Container image "x" is not present)',
        ),
        ({"spec": {}, "status": {}}, None, "pod worker has no container yet: it is Pending"),
        ({"spec": {}}, "main", "pod worker has no container 'main'; it has none yet"),
    ],
)
def test_where_none_runs_the_reason_is_told(pod: dict[str, Any], container: str | None, reason: str) -> None:
    with pytest.raises(PodError) as error:
        found(pod, container)
    assert str(error.value) == reason
