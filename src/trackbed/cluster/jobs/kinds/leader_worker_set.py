"""LeaderWorkerSet (leaderworkerset.x-k8s.io/v1): the leader is rank 0 and needs rails too."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, pod, ranked
from trackbed.cluster.jobs.template import Mapping, look, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest

_PATH = ("spec", "leaderWorkerTemplate")


def _templates(job: Mapping) -> Iterator[Template]:
    for role in ("leaderTemplate", "workerTemplate"):
        if look(job, *_PATH, role):
            yield Template(".".join((*_PATH, role)), mapping(job, *_PATH, role), gets_rails=True)


def _skeleton(shape: Shape) -> list[Manifest]:
    """Without a template of its own the leader is made from the workers'."""
    command = ranked(shape, "$(LWS_WORKER_INDEX)", "$(LWS_LEADER_ADDRESS)", stays=True)
    spec = {
        "replicas": 1,
        "leaderWorkerTemplate": {"size": shape.nodes, "workerTemplate": {"spec": pod(container(shape, command))}},
    }
    return [manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", shape.name, spec=spec)]


KINDS = (JobKind("leaderworkerset", "LeaderWorkerSet", ("leaderworkerset.x-k8s.io/v1",), _templates, _skeleton),)
