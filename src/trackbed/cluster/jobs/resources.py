"""Resource requests of the container that uses the GPUs: a device of each rail, huge pages, resource claims (`claims`).

The limits of extended resources must be integers and equal to the requests (Kubernetes, "Extended resources"). The same
holds for huge pages, which also require a request for cpu or memory.
"""

from collections.abc import Iterator

from trackbed.cluster.jobs import claims
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    ensure_mapping,
    find_gpu_resources,
    iter_resource_names,
    locate_container,
    read_mapping,
    read_mappings,
)
from trackbed.cluster.stacks.access import Access
from trackbed.fabric.quantities import is_same_quantity, parse_quantity

_NO_DEVICE = "the container gets no RDMA device of that rail"
_NO_ATTACHMENT = f"{_NO_DEVICE}, and the network attachment fails"
_NO_PAGES = "the network library finds no huge pages"


def add_resources(spec: Mapping, container: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    """Add rail resources and huge pages to the container, and resource claims to container and pod; yield notes."""
    access, path = requirements.access, f"{locate_container(spec, container)}.resources"
    yield from _check_gpus(container, requirements, path)
    yield from _check_other_containers(spec, container, requirements)
    other_names = {name for other in _iter_other_containers(spec, container) for name in iter_resource_names(other)}
    effect = _NO_ATTACHMENT if access.networks else _NO_DEVICE
    for name, count in access.resources:
        if name not in other_names:
            yield from _add_resource(container, name, count, path, effect)
    for name, quantity in access.hugepages:
        yield from _add_resource(container, name, quantity, path, _NO_PAGES)
    yield from _check_huge_page_memory(container, access, path)
    yield from claims.add_claims(spec, container, access)


def _add_resource(container: Mapping, name: str, quantity: int | str, path: str, effect: str) -> Iterator[Note]:
    """Add a resource to the limits, and to the requests unless the user has set the request; yield notes.

    `effect` is what happens to a job without it.
    """
    limit = read_mapping(container, "resources", "limits").get(name)
    request = read_mapping(container, "resources", "requests").get(name)
    if limit is None:
        limit = quantity if request is None else request
        ensure_mapping(container, "resources", "limits")[name] = limit
        if request is None:
            ensure_mapping(container, "resources", "requests")[name] = limit
        yield Note(
            "missing",
            "network-resource-not-requested",
            f"limit {name}: {limit}",
            effect,
            f"{path}.limits",
        )
    if not is_same_quantity(limit, quantity):
        yield Note(
            "different",
            "pod-fewer-rails-than-planned",
            f"{name} is {limit}, the plan has {quantity}",
            "devices and network attachments do not pair up",
            f"{path}.limits",
        )
    if request is not None and not is_same_quantity(request, limit):
        yield Note(
            "different",
            "request-differs",
            f"request {name} is {request}, its limit {limit}",
            "the API refuses the pod",
            f"{path}.requests",
        )


def _check_gpus(container: Mapping, requirements: PodRequirements, path: str) -> Iterator[Note]:
    """Yield notes on GPUs that no node has, or not as many of.

    Parts of GPUs have other names below the same domain.
    """
    known = dict(requirements.known_gpus)
    domains = {name.partition("/")[0] for name in known}
    limits = read_mapping(container, "resources", "limits")
    for name in find_gpu_resources(container, requirements.gpu_resource):
        count = parse_quantity(str(limits.get(name)))
        if known and name.partition("/")[0] not in domains:
            yield Note(
                "different",
                "pod-gpu-of-other-vendor",
                f"asks for {name}, the nodes have {' or '.join(known)}",
                "no node offers it, so the pod stays pending",
                path,
            )
        elif name in known and count is not None and count > known[name]:
            yield Note(
                "different",
                "pod-more-gpus-than-a-node",
                f"asks for {limits[name]} {name}, a node has {known[name]}",
                "no node has as many, so the pod stays pending",
                path,
            )


def _iter_other_containers(spec: Mapping, container: Mapping) -> Iterator[Mapping]:
    """Return an iterator over the containers that run beside this one, which may be init containers (KEP-753).

    The devices of other init containers are used again by the pod's containers (Kubernetes, device manager).
    """
    sidecars = (other for other in read_mappings(spec, "initContainers") if other.get("restartPolicy") == "Always")
    return (other for other in (*read_mappings(spec, "containers"), *sidecars) if other is not container)


def _check_other_containers(spec: Mapping, container: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    """Yield notes on other containers that request rails or GPUs, and on resources of another stack."""
    rail_names = [name for name, _ in requirements.access.resources]
    for other in _iter_other_containers(spec, container):
        for name in dict.fromkeys(name for name in iter_resource_names(other) if name in rail_names):
            yield Note(
                "different",
                "nic-on-other-container",
                f"container {other.get('name')} asks for {name}, container {container.get('name')} uses the GPUs",
                "the job sees no device of that rail",
            )
        if find_gpu_resources(other, requirements.gpu_resource):
            yield Note(
                "different",
                "pod-two-gpu-containers",
                f"container {other.get('name')} asks for GPUs too; rails go to {container.get('name')} alone",
                "it reaches other nodes by TCP only",
            )
    yield from _check_other_stack_resources(container, rail_names, f"{locate_container(spec, container)}.resources")


def _check_other_stack_resources(container: Mapping, rail_names: list[str], path: str) -> Iterator[Note]:
    """Yield notes on resources of the same rails with another prefix, which belong to another stack."""
    short_names = {name.rpartition("/")[2] for name in rail_names}
    for name in dict.fromkeys(iter_resource_names(container)):
        if "/" in name and name not in rail_names and name.rpartition("/")[2] in short_names:
            yield Note(
                "extra",
                "pod-resource-of-other-stack",
                f"{name} is not this stack's",
                "no node offers both, so the pod stays pending",
                path,
            )


def _check_huge_page_memory(container: Mapping, access: Access, path: str) -> Iterator[Note]:
    if access.hugepages and not {"cpu", "memory"} & set(iter_resource_names(container)):
        yield Note(
            "different",
            "hugepages-alone",
            "huge pages are requested without cpu or memory; state how much memory the job needs",
            "the API refuses the pod",
            path,
        )
