"""MPIJob (kubeflow.org/v2beta1, kubeflow.org/v1): workers get rails; the launcher only starts them.

Ranks are started over ssh (in v1 by `kubectl exec`), whose sessions do not inherit the container's environment. Each
variable must therefore also be passed as `-x NAME=VALUE` on Open MPI's command line (mpirun(1)).
"""

import re
from collections.abc import Iterator

from trackbed.cluster.jobs.kinds.kind import (
    JobContext,
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    patch_templates,
    uses_gpus,
)
from trackbed.cluster.jobs.kinds.pytorch_job import iter_role_templates
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.program import ALL_REDUCE_BY_RAIL, ALL_REDUCE_PERF
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import List, Mapping, read_list, read_mapping, read_mappings
from trackbed.cluster.stacks.objects import Manifest, build_manifest

_REPLICAS = ("spec", "mpiReplicaSpecs")
_MPIRUN = re.compile(r"(?:.*/)?(?:mpirun|mpiexec|orterun)")
_SSH_PORT = "2222"
"""Port of sshd in pods with hostNetwork, where port 22 is in use by the host's sshd."""
_NOT_INHERITED = "ranks are started over ssh and do not inherit the container's variables"


def _iter_templates(job: Mapping) -> Iterator[Template]:
    for template in iter_role_templates(job, *_REPLICAS):
        gets_rails = template.role != "Launcher" or read_mapping(job, "spec").get("runLauncherAsWorker") is True
        yield template._replace(gets_rails=gets_rails)


def _patch_job(job: Mapping, context: JobContext) -> list[Note]:
    templates = list(_iter_templates(job))
    notes = patch_templates(templates, job, context)
    is_open_mpi = read_mapping(job, "spec").get("mpiImplementation", "OpenMPI") == "OpenMPI"
    for template in templates:
        if template.role == "Launcher" and (not context.has_gpus or any(uses_template_gpus(t) for t in templates)):
            launcher_notes = export_variables(template.template, context.requirements, is_open_mpi=is_open_mpi)
            notes += map(template.locate, launcher_notes)
    return notes


def uses_template_gpus(template: Template) -> bool:
    """Return whether the pods of a template use GPUs."""
    return uses_gpus(read_mapping(template.template, "spec"))


def export_variables(template: Mapping, requirements: PodRequirements, *, is_open_mpi: bool = True) -> Iterator[Note]:
    """Export the variables to all ranks in the command of a launcher's pod template, in place; yield notes."""
    for container in read_mappings(read_mapping(template, "spec"), "containers")[:1]:
        mpirun = _find_mpirun(container) if is_open_mpi else None
        notes = _export_variables(*mpirun, requirements) if mpirun else _check_exports(container, requirements)
        yield from (note.with_parent("spec.containers[0]") for note in notes)


def _find_mpirun(container: Mapping) -> tuple[List, int] | None:
    """Return the container's command or args, whichever contains mpirun, and its index; None if neither does."""
    for key in ("command", "args"):
        words = read_list(container, key)
        for index, word in enumerate(words):
            if isinstance(word, str) and _MPIRUN.fullmatch(word):
                return words, index
    return None


def _export_variables(arguments: List, mpirun_index: int, requirements: PodRequirements) -> Iterator[Note]:
    """Add `-x NAME=VALUE` after mpirun for variables that are not exported yet; yield notes."""
    pairs = (arguments[index + 1] for index in range(mpirun_index, len(arguments) - 1) if arguments[index] == "-x")
    exports = dict(str(pair).partition("=")[::2] for pair in pairs)
    options: list[str] = []
    for name, value in requirements.variables:
        if name not in exports:
            options += ["-x", f"{name}={value}"]
            yield Note("missing", "mpi-variable-not-exported", f"mpirun -x {name}={value}", _NOT_INHERITED)
        elif exports[name] != value:
            yield Note(
                "different",
                "nccl-variable",
                f"mpirun exports {name}={exports[name]}, the plan has {value!r}",
                _NOT_INHERITED if not exports[name] else "ranks take that value",
            )
    arguments[mpirun_index + 1 : mpirun_index + 1] = options


def _check_exports(container: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    """Yield a note on variables that the user must export, as the command is a script or another MPI's."""
    command_text = " ".join(str(word) for key in ("command", "args") for word in read_list(container, key))
    missing = [
        f"{name}={value}" for name, value in requirements.variables if not re.search(rf"\b{name}\b", command_text)
    ]
    if missing:
        yield Note(
            "different",
            "mpi-variable-not-exported",
            "the command is not an Open MPI mpirun that could be edited; export " + " ".join(missing),
            _NOT_INHERITED,
        )


def _build_job(params: JobParameters) -> list[Manifest]:
    launcher = {"name": "launcher", "image": params.image, "command": _build_mpirun_command(params)}
    sshd = ("/usr/sbin/sshd", "-De", "-p", _SSH_PORT) if params.host_network else ()
    spec = {
        "slotsPerWorker": params.gpus_per_node,
        "runPolicy": {"cleanPodPolicy": "Running"},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": build_pod_spec(launcher)}},
            "Worker": {
                "replicas": params.node_count,
                "template": {"spec": build_pod_spec(build_container(params, sshd, "worker"))},
            },
        },
    }
    return [build_manifest("kubeflow.org/v2beta1", "MPIJob", params.name, spec=spec)]


def _build_mpirun_command(params: JobParameters) -> list[str]:
    """Return an mpirun command. MPI itself uses TCP over the primary network; only NCCL uses the rails."""
    option = ("plm_rsh_args", f"-p {_SSH_PORT}") if params.host_network else ("btl_tcp_if_include", "eth0")
    split = ("-x", f"NCCL_TESTS_SPLIT=MOD {params.gpus_per_node}") if params.by_rail else ()
    return [
        "mpirun",
        "--allow-run-as-root",
        *("-np", str(params.node_count * params.gpus_per_node)),
        *("--bind-to", "none"),
        *("--mca", "pml", "ob1"),
        *("--mca", "btl", "self,tcp"),
        *("--mca", *option),
        *split,
        *(ALL_REDUCE_BY_RAIL if params.by_rail else (*ALL_REDUCE_PERF, "-g", "1")),
    ]


KINDS: tuple[JobKind, ...] = (
    JobKind("mpijob", "MPIJob", ("kubeflow.org/v2beta1", "kubeflow.org/v1"), _iter_templates, _build_job, _patch_job),
)
