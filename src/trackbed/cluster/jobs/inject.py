"""The one function that puts rails on a pod template; the command line, job kinds and the webhook share it.

    inject    edits the template in place: adds what is missing, keeps what the user wrote, says what it kept
    stray     for templates that get no rails, such as an MPI launcher's: what they hold in vain

Injecting twice changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.jobs import environment, networks, placement, resources, security, volumes
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.security import Level
from trackbed.cluster.jobs.template import Mapping, container_of, items, look, mapping, names, place_of


def inject(
    template: Mapping, wanted: PodRequirements, namespace: str | None = None, level: Level = "privileged"
) -> list[Note]:
    """Put rails on a template (metadata, spec), in place.

    `namespace` is that of the pods, None where it is not known, and `level` what it allows them: IPC_LOCK is left out
    where it is forbidden, see also `security.forbidden`. Only the container that uses the GPUs is touched.
    NotAJobError if there is no container, or a field has not the shape Kubernetes gives it.
    """
    access = wanted.access
    spec = mapping(template, "spec")
    container = container_of(spec, access.gpu_resource)
    return [
        *networks.annotate(template, access, namespace),
        *resources.ask(spec, container, access),
        *security.permit(spec, container, access, level),
        *volumes.mount(spec, container, access),
        *_environment(spec, container, wanted),
        *placement.place(spec, access, wanted.selector),
    ]


def _environment(spec: Mapping, container: Mapping, wanted: PodRequirements) -> Iterator[Note]:
    place = f"{place_of(spec, container)}.env"
    for note in environment.set_variables(container, wanted.access, wanted.variables):
        yield note.below(place)


def stray(template: Mapping, wanted: PodRequirements, namespace: str | None = None) -> list[Note]:
    """Rails on a template that uses none: nothing is changed."""
    ours = {name for name, _ in wanted.access.resources}
    held = [
        name
        for one in items(look(template, "spec"), "containers")
        for name in dict.fromkeys(names(one))
        if name in ours
    ]
    breaks = "it takes a device from the pods that use the GPUs"
    found = [Note("extra", "pod-rails-unused", f"this pod asks for {name} and uses no GPU", breaks) for name in held]
    entries = networks.parsed(look(template, "metadata", "annotations").get(networks.ANNOTATION) or "") or []
    if any(networks.names_one(entry, wanted.access.networks, namespace) for entry in entries):
        found.append(Note("extra", "pod-rails-unused", "this pod joins rails and uses no GPU", breaks))
    return found
