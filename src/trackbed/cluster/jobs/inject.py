"""Injection of rails into pod templates, for the command line, job kinds and the webhook.

    inject_rails        edits a template in place: adds missing fields, keeps the user's values and reports differences
    find_stray_rails    reports rails on a template that needs none, such as an MPI launcher's

Injection is idempotent. A pod with hostNetwork gets nothing on a stack that gives pods their own networks or devices.
"""

from collections.abc import Collection, Iterator

from trackbed.cluster.jobs import claims, environment, networks, placement, resources, security, volumes
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.security import PodSecurityLevel
from trackbed.cluster.jobs.template import (
    Mapping,
    choose_container,
    ensure_mapping,
    iter_resource_names,
    locate_container,
    read_mapping,
    read_mappings,
)


def inject_rails(
    template: Mapping,
    requirements: PodRequirements,
    namespace: str | None = None,
    pod_security_level: PodSecurityLevel = "privileged",
    volume_names: Collection[str] = (),
) -> list[Note]:
    """Add everything that a pod needs to use rails to its template, in place; return notes on differences.

    `namespace` is the pods' namespace, None if unknown. IPC_LOCK is omitted if `pod_security_level`, the level of that
    namespace, forbids it; see also `security.describe_forbidden`. `volume_names` are volumes that the pods have besides
    those of the template. Only the container that uses the GPUs is edited.

    Raises:
        NotAJobError: The template has no container, or a field has the wrong type.
    """
    access = requirements.access
    spec = ensure_mapping(template, "spec")
    container = choose_container(spec, requirements.gpu_resource, [claim.template for claim in access.claims])
    if spec.get("hostNetwork") is True and not access.host_network:
        return [placement.HOST_NETWORK_CONFLICT]
    return [
        *networks.add_annotations(template, access, namespace),
        *networks.find_excluded_networks(template, requirements.excluded.networks, namespace),
        *claims.find_excluded_claims(spec, requirements.excluded.claim_templates),
        *resources.add_resources(spec, container, requirements),
        *_find_excluded_rails(container, requirements),
        *security.allow_memory_locking(spec, container, access, pod_security_level),
        *volumes.add_volumes(spec, container, requirements, volume_names),
        *_set_environment(spec, container, requirements),
        *placement.set_placement(spec, access, requirements.selector),
    ]


def _set_environment(spec: Mapping, container: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    access, variables, path = requirements.access, requirements.variables, locate_container(spec, container)
    for note in environment.set_variables(container, access, variables):
        yield note.with_parent(f"{path}.env")
    for note in environment.check_script(container, access, variables):
        yield note.with_parent(path)
    if requirements.shares_ports:
        yield from environment.check_image(container)


def _find_excluded_rails(container: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    for name in dict.fromkeys(iter_resource_names(container)):
        if name in requirements.excluded.resources:
            difference = (
                f"this pod asks for {name}, which is not among its rails; delete the resource, or choose the rail"
            )
            yield Note("extra", "pod-rails-unused", difference, "it takes a device that it shall not use")


def find_stray_rails(template: Mapping, requirements: PodRequirements, namespace: str | None = None) -> list[Note]:
    """Return notes on rail resources and networks of a template that should have none; the template is not changed."""
    resource_names = {name for name, _ in requirements.access.resources}
    stray_names = [
        name
        for container in read_mappings(read_mapping(template, "spec"), "containers")
        for name in dict.fromkeys(iter_resource_names(container))
        if name in resource_names
    ]
    breaks = "it takes a device from the pods that use the GPUs"
    notes = [
        Note("extra", "pod-rails-unused", f"this pod asks for {name} and uses no GPU", breaks) for name in stray_names
    ]
    annotation = read_mapping(template, "metadata", "annotations").get(networks.ANNOTATION)
    entries = networks.parse_networks(annotation or "") or []
    if any(networks.refers_to_any(entry, requirements.access.networks, namespace) for entry in entries):
        notes.append(Note("extra", "pod-rails-unused", "this pod joins rails and uses no GPU", breaks))
    return notes
