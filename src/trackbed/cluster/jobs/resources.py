"""Resource requests of the container that uses the GPUs: a device of each rail, huge pages, resource claims.

The limits of extended resources must be integers and equal to the requests (Kubernetes, "Extended resources"). The same
holds for huge pages, which also require a request for cpu or memory.
"""

from collections.abc import Iterator

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    ensure_list,
    ensure_mapping,
    iter_resource_names,
    locate_container,
    read_mapping,
    read_mappings,
    requests_gpus,
)
from trackbed.cluster.stacks.access import Access, Claim
from trackbed.fabric.gpus import is_gpu_resource
from trackbed.fabric.quantities import is_same_quantity, parse_quantity

_NO_DEVICE = "the container gets no RDMA device of that rail"
_NO_ATTACHMENT = f"{_NO_DEVICE}, and the network attachment fails"
_NO_PAGES = "the network library finds no huge pages"


def add_resources(spec: Mapping, container: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    """Add rail resources and huge pages to the container, and resource claims to container and pod; yield notes."""
    access, path = requirements.access, f"{locate_container(spec, container)}.resources"
    yield from _check_gpus(container, dict(requirements.known_gpus), path)
    yield from _check_other_containers(spec, container, requirements)
    other_names = {name for other in _iter_other_containers(spec, container) for name in iter_resource_names(other)}
    effect = _NO_ATTACHMENT if access.networks else _NO_DEVICE
    for name, count in access.resources:
        if name not in other_names:
            yield from _add_resource(container, name, count, path, effect)
    for name, quantity in access.hugepages:
        yield from _add_resource(container, name, quantity, path, _NO_PAGES)
    yield from _check_huge_page_memory(container, access, path)
    for claim in access.claims:
        yield from _add_claim(spec, container, claim, path)


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


def _check_gpus(container: Mapping, known: dict[str, int], path: str) -> Iterator[Note]:
    """Yield notes on GPUs that no node has, or not as many of; `known` is the most of a node, by resource.

    Parts of GPUs have other names below the same domain.
    """
    domains = {name.partition("/")[0] for name in known}
    limits = read_mapping(container, "resources", "limits")
    for name in dict.fromkeys(filter(is_gpu_resource, iter_resource_names(container))):
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
    """Return an iterator over the pod's containers other than this one, init containers included."""
    return (
        other
        for key in ("containers", "initContainers")
        for other in read_mappings(spec, key)
        if other is not container
    )


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
        if requests_gpus(other, requirements.gpu_resource):
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


def _add_claim(spec: Mapping, container: Mapping, claim: Claim, path: str) -> Iterator[Note]:
    """Add a resource claim to the pod and a reference to it to the container; yield notes.

    A claim of the user from the same template is used, whatever its name.
    """
    templates = {
        str(pod_claim.get("name")): pod_claim.get("resourceClaimTemplateName")
        for pod_claim in read_mappings(spec, "resourceClaims")
    }
    name = next((name for name, template in templates.items() if template == claim.template), None)
    if name is None and claim.name in templates:
        yield Note(
            "different",
            "pod-claim-of-other-template",
            f"claim {claim.name} is not of template {claim.template}",
            "the pod gets other devices",
            "spec.resourceClaims",
        )
    elif name is None:
        ensure_list(spec, "resourceClaims").append({"name": claim.name, "resourceClaimTemplateName": claim.template})
        yield Note(
            "missing",
            "pod-claim-missing",
            f"claim {claim.name} of template {claim.template}",
            "the pod gets no rails",
            "spec.resourceClaims",
        )
    name = name or claim.name
    container_claims = read_mappings(read_mapping(container, "resources"), "claims")
    if not any(container_claim.get("name") == name for container_claim in container_claims):
        ensure_list(ensure_mapping(container, "resources"), "claims").append({"name": name})
        yield Note(
            "missing",
            "claim-unused",
            f"claim {name} in the container",
            "the devices are prepared, and the container does not get them",
            f"{path}.claims",
        )
