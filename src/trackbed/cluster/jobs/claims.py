"""Resource claims of a pod (dynamic resource allocation) and their references in the container that uses the GPUs."""

from collections.abc import Collection, Iterator

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import (
    Mapping,
    ensure_list,
    ensure_mapping,
    locate_container,
    read_mapping,
    read_mappings,
)
from trackbed.cluster.stacks.access import Access, Claim


def add_claims(spec: Mapping, container: Mapping, access: Access) -> Iterator[Note]:
    """Add the stack's claims to the pod, and references to them to the container; yield notes."""
    for claim in access.claims:
        yield from _add_claim(spec, container, claim, f"{locate_container(spec, container)}.resources")


def _add_claim(spec: Mapping, container: Mapping, claim: Claim, path: str) -> Iterator[Note]:
    """Add a resource claim to the pod and a reference to it to the container; yield notes.

    A claim of the user from the same template, or from one with more devices, is used, whatever its name.
    """
    templates = {
        str(pod_claim.get("name")): pod_claim.get("resourceClaimTemplateName")
        for pod_claim in read_mappings(spec, "resourceClaims")
    }
    name = next((name for name, template in templates.items() if template in claim.templates), None)
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


def check_namespace(access: Access, namespace: str | None) -> Iterator[Note]:
    """Yield a note if the claim templates are not in the pod's namespace, which is None if unknown."""
    for home in dict.fromkeys(claim.namespace for claim in access.claims):
        if namespace not in {None, home}:
            yield Note(
                "different",
                "claim-template-not-found",
                f"the claim templates of the Fabric are in namespace {home}, and the job is in {namespace}",
                "its pods stay pending; put the job there, or render the stack with another kubernetes.namespace",
                "metadata.namespace",
            )


def find_excluded_claims(spec: Mapping, excluded_templates: Collection[str]) -> Iterator[Note]:
    """Yield notes on claims of rails that the pod shall not have; `excluded_templates` are their templates."""
    for claim in read_mappings(spec, "resourceClaims"):
        template = str(claim.get("resourceClaimTemplateName"))
        if template in excluded_templates:
            yield Note(
                "extra",
                "pod-rails-unused",
                f"claim {claim.get('name')} of template {template} has rails that are not this pod's; remove it",
                "it takes devices that the pod shall not use",
                "spec.resourceClaims",
            )
