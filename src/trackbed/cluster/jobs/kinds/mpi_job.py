"""MPIJob (kubeflow.org/v2beta1, kubeflow.org/v1): workers get rails; the launcher only starts them.

Ranks are started over ssh (in v1 by `kubectl exec`), whose sessions do not inherit the container's environment. Each
variable must therefore also be passed as `-x NAME=VALUE` on Open MPI's command line (mpirun(1)).
"""

import re
from collections.abc import Iterator

from trackbed.cluster.jobs.environment import check_harmful_values, check_script, read_variable_value
from trackbed.cluster.jobs.kinds.kind import (
    JobContext,
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    patch_templates,
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


def _iter_templates(job: Mapping, _: str) -> Iterator[Template]:
    for template in iter_role_templates(job, *_REPLICAS):
        gets_rails = template.role != "Launcher" or read_mapping(job, "spec").get("runLauncherAsWorker") is True
        yield template._replace(gets_rails=gets_rails)


def _patch_job(job: Mapping, context: JobContext) -> list[Note]:
    gpu_resource = context.requirements.gpu_resource
    templates = list(_iter_templates(job, gpu_resource))
    has_gpu_users = any(template.uses_gpus(gpu_resource) for template in templates)
    notes = patch_templates(templates, job, context)
    is_open_mpi = read_mapping(job, "spec").get("mpiImplementation", "OpenMPI") == "OpenMPI"
    for template in templates:
        if template.role == "Launcher" and (has_gpu_users or not context.has_gpus):
            launcher_notes = export_variables(template.template, context.requirements, is_open_mpi=is_open_mpi)
            notes += map(template.locate, launcher_notes)
    return notes


def export_variables(template: Mapping, requirements: PodRequirements, *, is_open_mpi: bool = True) -> Iterator[Note]:
    """Export the variables to all ranks in the command of a launcher's pod template, in place; yield notes."""
    for container in read_mappings(read_mapping(template, "spec"), "containers")[:1]:
        mpirun = _find_mpirun(container) if is_open_mpi else None
        notes = (
            _export_variables(container, *mpirun, requirements) if mpirun else _check_exports(container, requirements)
        )
        yield from (note.with_parent("spec.containers[0]") for note in notes)


def _find_mpirun(container: Mapping) -> tuple[List, int] | None:
    """Return the container's command or args, whichever contains mpirun, and its index; None if neither does."""
    for key in ("command", "args"):
        words = read_list(container, key)
        for index, word in enumerate(words):
            if isinstance(word, str) and _MPIRUN.fullmatch(word):
                return words, index
    return None


def _export_variables(
    container: Mapping, arguments: List, mpirun_index: int, requirements: PodRequirements
) -> Iterator[Note]:
    """Add `-x NAME=VALUE` after mpirun for variables that are not exported yet; yield notes."""
    exports = _read_exports(container, arguments, mpirun_index)
    options: list[str] = []
    for name, value in requirements.variables:
        if name not in exports:
            options += ["-x", f"{name}={value}"]
            yield Note("missing", "mpi-variable-not-exported", f"mpirun -x {name}={value}", _NOT_INHERITED)
        elif exports[name] not in {None, value}:
            exported = f"{name}={exports[name]}" if exports[name] else f"{name}, which the launcher's env does not set"
            difference = f"mpirun exports {exported}, the plan has {value!r}"
            breaks = "ranks take that value" if exports[name] else _NOT_INHERITED
            yield Note("different", "nccl-variable", difference, breaks)
    arguments[mpirun_index + 1 : mpirun_index + 1] = options
    values = {name: value for name, value in exports.items() if value is not None}
    yield from check_harmful_values(values, requirements.access)


def _read_exports(container: Mapping, arguments: List, mpirun_index: int) -> dict[str, str | None]:
    """Return the variables that mpirun exports with their values; `-x NAME` exports that of the launcher's container.

    A value is None if the manifest does not say it.
    """
    unknown = None if read_list(container, "envFrom") else ""
    entries = read_mappings(container, "env")
    env = {str(entry.get("name")): None if "valueFrom" in entry else read_variable_value(entry) for entry in entries}
    words = [str(arguments[n + 1]) for n in range(mpirun_index, len(arguments) - 1) if arguments[n] == "-x"]
    pairs = (word.partition("=") for word in words)
    return {name: value if sign else env.get(name, unknown) for name, sign, value in pairs}


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
    yield from check_script(container, requirements.access, requirements.variables)


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
