"""MPIJob (kubeflow.org/v2beta1): workers get rails, the launcher only starts them.

Ranks are started over ssh, whose sessions have not the container's environment; so each variable must also stand as
`-x NAME=VALUE` on Open MPI's command line (mpirun(1)).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, patch_templates, pod
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.program import ALL_REDUCE_PERF
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import List, Mapping, items, listed, look, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest

_REPLICAS = ("spec", "mpiReplicaSpecs")
_LAUNCHER = (*_REPLICAS, "Launcher", "template")
_STARTERS = re.compile(r"(?:.*/)?(?:mpirun|mpiexec|orterun)")
_SSH_PORT = "2222"
"""In the host's network port 22 is the host's own."""
_LOST = "ranks are started over ssh and do not inherit the container's variables"


def _templates(job: Mapping) -> Iterator[Template]:
    for role in look(job, *_REPLICAS):
        path = (*_REPLICAS, role, "template")
        rails = role != "Launcher" or look(job, "spec").get("runLauncherAsWorker") is True
        yield Template(".".join(path), mapping(job, *path), rails)


def _patch(job: Mapping, wanted: PodRequirements, _: Sequence[Mapping]) -> list[Note]:
    found = patch_templates(_templates(job), job, wanted)
    if look(job, *_LAUNCHER):
        found += [note.below(f"{'.'.join(_LAUNCHER)}.spec") for note in _launcher(job, wanted)]
    return found


def _launcher(job: Mapping, wanted: PodRequirements) -> Iterator[Note]:
    spec = look(job, *_LAUNCHER, "spec")
    for index, one in enumerate(items(spec, "containers")[:1]):
        implementation = look(job, "spec").get("mpiImplementation", "OpenMPI")
        line = _command_line(one) if implementation == "OpenMPI" else None
        notes = _exported(*line, wanted) if line else _told(one, wanted)
        yield from (note.below(f"containers[{index}]") for note in notes)


def _command_line(one: Mapping) -> tuple[List, int] | None:
    """The list that holds the word mpirun, and where in it that stands."""
    for key in ("command", "args"):
        words = listed(one, key) if one.get(key) is not None else []
        for index, word in enumerate(words):
            if isinstance(word, str) and _STARTERS.fullmatch(word):
                return words, index
    return None


def _exported(words: List, start: int, wanted: PodRequirements) -> Iterator[Note]:
    """Add `-x NAME=VALUE` behind mpirun for what is not exported yet."""
    pairs = (words[at + 1] for at in range(start, len(words) - 1) if words[at] == "-x")
    held = dict(str(pair).partition("=")[::2] for pair in pairs)
    fresh: list[str] = []
    for name, value in wanted.variables:
        if name not in held:
            fresh += ["-x", f"{name}={value}"]
            yield Note("missing", "mpi-variable-not-exported", f"mpirun -x {name}={value}", _LOST)
        elif held[name] != value:
            what = f"mpirun exports {name}={held[name]}, the plan has {value!r}"
            yield Note("different", "nccl-variable", what, _LOST if not held[name] else "ranks take that value")
    words[start + 1 : start + 1] = fresh


def _told(one: Mapping, wanted: PodRequirements) -> Iterator[Note]:
    """A script, or another MPI: what a person must add there."""
    written = " ".join(str(word) for key in ("command", "args") for word in (one.get(key) or ()))
    missing = [f"{name}={value}" for name, value in wanted.variables if not re.search(rf"\b{name}\b", written)]
    if missing:
        what = "the command is not an Open MPI mpirun that could be edited; export " + " ".join(missing)
        yield Note("different", "mpi-variable-not-exported", what, _LOST)


def _skeleton(shape: Shape) -> list[Manifest]:
    launcher = {"name": "launcher", "image": shape.image, "command": _mpirun(shape)}
    sshd = ("/usr/sbin/sshd", "-De", "-p", _SSH_PORT) if shape.host_network else ()
    spec = {
        "slotsPerWorker": shape.gpus,
        "runPolicy": {"cleanPodPolicy": "Running"},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": pod(launcher)}},
            "Worker": {"replicas": shape.nodes, "template": {"spec": pod(container(shape, sshd, "worker"))}},
        },
    }
    return [manifest("kubeflow.org/v2beta1", "MPIJob", shape.name, spec=spec)]


def _mpirun(shape: Shape) -> list[str]:
    """MPI itself talks TCP and keeps off the rails; only NCCL uses them."""
    near = (
        ["--mca", "plm_rsh_args", f"-p {_SSH_PORT}"] if shape.host_network else ["--mca", "btl_tcp_if_include", "eth0"]
    )
    return [
        "mpirun",
        "--allow-run-as-root",
        *("-np", str(shape.nodes * shape.gpus)),
        *("--bind-to", "none"),
        *("--mca", "pml", "ob1"),
        *("--mca", "btl", "self,tcp"),
        *near,
        *ALL_REDUCE_PERF,
        *("-g", "1"),
    ]


KINDS: tuple[JobKind, ...] = (JobKind("mpijob", "MPIJob", ("kubeflow.org/v2beta1",), _templates, _skeleton, _patch),)
