"""Rules for claims of dynamic resource allocation: of which pods they can be, and what they name."""

from collections.abc import Iterator
from typing import Any

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.pods import PodTemplate
from trackbed.lint.tree import dig, enumerate_mappings

_NETWORK_DRIVERS = ("dra.net", "sriovnetwork.k8snetworkplumbingwg.io")
"""Drivers whose devices are moved into the network namespace of a pod, so that one pod at most can have one."""
_SINGLE = frozenset({"Pod", "PodTemplate"})
"""Kinds that stand for one pod."""
_CLAIM_KINDS = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}
"""What a field of a pod's claim names."""
_ClaimKey = tuple[str, str, str]
"""Kind, namespace and name."""
_REPLICA_FIELDS = (("spec", "replicas"), ("spec", "parallelism"), ("spec", "numWorkers"))


def check_pod_claims(corpus: Corpus) -> Iterator[Breach]:
    """Find pods that cannot have the claims that they name."""
    claims = _index_network_claims(corpus)
    for pod in corpus.pods:
        for number, claim in enumerate_mappings(pod.get("spec", "resourceClaims")):
            yield from _check_scheduler(pod, number)
            yield from _check_template(corpus, pod, number, claim)
            if not claims.isdisjoint(_list_claim_keys(pod, claim)):
                yield from _check_network_claim(pod, number, claim)


def _check_scheduler(pod: PodTemplate, number: int) -> Iterator[Breach]:
    """Find a pod whose node is written, so that the scheduler does not reserve its claims; not one that was read."""
    if number == 0 and pod.get("spec", "nodeName") and not pod.doc.get("metadata", "uid"):
        path = pod.locate("spec", "nodeName")
        message = "the pod bypasses the scheduler, which alone reserves its claims"
        yield Breach("claim-without-scheduler", pod.doc.tree, path, message, key=True)


def _check_template(corpus: Corpus, pod: PodTemplate, number: int, claim: dict[str, Any]) -> Iterator[Breach]:
    """Find a template that is not in the pod's namespace, although its folder has templates."""
    name, templates = claim.get("resourceClaimTemplateName"), corpus.select_kinds("ResourceClaimTemplate")
    is_beside = any(doc.folder == pod.doc.folder for doc in templates)
    names = _list_names(templates, pod.namespace) | _list_made_templates(corpus, pod.namespace)
    if not isinstance(name, str) or not is_beside or name in names:
        return
    places = sorted({doc.effective_namespace for doc in templates if doc.name == name})
    where = f"; namespace {', '.join(places)} has it" if places else ""
    path = pod.locate("spec", "resourceClaims", number, "resourceClaimTemplateName")
    message = f"namespace {pod.namespace} has no ResourceClaimTemplate {name}{where}"
    yield Breach("claim-template-not-found", pod.doc.tree, path, message)


def _check_network_claim(pod: PodTemplate, number: int, claim: dict[str, Any]) -> Iterator[Breach]:
    path = pod.locate("spec", "resourceClaims", number)
    if pod.get("spec", "hostNetwork") is True:
        message = "no device can be moved into a pod with hostNetwork"
        yield Breach("network-claim-with-host-network", pod.doc.tree, pod.locate("spec", "hostNetwork"), message)
    if isinstance(claim.get("resourceClaimName"), str) and _has_replicas(pod):
        message = f"all pods share claim {claim['resourceClaimName']}, whose devices can be in one"
        yield Breach("network-claim-shared", pod.doc.tree, (*path, "resourceClaimName"), message)


def _has_replicas(pod: PodTemplate) -> bool:
    """Return whether an object makes several pods of the template, as far as its own fields say."""
    if pod.doc.kind in _SINGLE:
        return False
    counts = [pod.doc.get(*path) for path in _REPLICA_FIELDS]
    return pod.doc.kind == "DaemonSet" or any(isinstance(count, int) and count > 1 for count in counts)


def _index_network_claims(corpus: Corpus) -> frozenset[_ClaimKey]:
    """Return the claims and templates of the input that are for network devices."""
    classes = {doc.name for doc in corpus.select_kinds("DeviceClass") if _selects_network(doc.get("spec", "selectors"))}
    return frozenset(
        (doc.kind, doc.effective_namespace, doc.name)
        for doc in corpus.select_kinds("ResourceClaim", "ResourceClaimTemplate")
        for _, request in enumerate_mappings(doc.get(*_locate_claim_spec(doc), "devices", "requests"))
        if _is_of_network(request, classes)
    )


def _list_claim_keys(pod: PodTemplate, claim: dict[str, Any]) -> list[_ClaimKey]:
    """Return what a pod's claim names."""
    return [(kind, pod.namespace, str(claim[key])) for key, kind in _CLAIM_KINDS.items() if key in claim]


def _is_of_network(request: dict[str, Any], network_classes: set[str]) -> bool:
    """Return whether a request, or its DeviceClass, selects by a driver of network devices."""
    exact = request.get("exactly") if isinstance(request.get("exactly"), dict) else request
    return str(dig(exact, "deviceClassName")) in network_classes or _selects_network(dig(exact, "selectors"))


def _selects_network(selectors: object) -> bool:
    expressions = (str(dig(selector, "cel", "expression")) for _, selector in enumerate_mappings(selectors))
    return any(driver in expression for expression in expressions for driver in _NETWORK_DRIVERS)


def _locate_claim_spec(doc: Document) -> tuple[str, ...]:
    return ("spec", "spec") if doc.kind == "ResourceClaimTemplate" else ("spec",)


def check_device_classes(corpus: Corpus) -> Iterator[Breach]:
    """Find claims that name a DeviceClass that is not there, although the input has others.

    Names with a dot, such as gpu.nvidia.com, are of classes that a driver's chart brings.
    """
    names = {doc.name for doc in corpus.select_kinds("DeviceClass")}
    for doc in corpus.select_kinds("ResourceClaim", "ResourceClaimTemplate") if names else ():
        prefix = _locate_claim_spec(doc)
        for number, request in enumerate_mappings(doc.get(*prefix, "devices", "requests")):
            inner = ("exactly",) if isinstance(request.get("exactly"), dict) else ()
            name = dig(request, *inner, "deviceClassName")
            if isinstance(name, str) and "." not in name and name not in names:
                path = (*prefix, "devices", "requests", number, *inner, "deviceClassName")
                yield Breach("device-class-not-found", doc.tree, path, f"there is no DeviceClass {name}")


def _list_made_templates(corpus: Corpus, namespace: str) -> set[str]:
    """Return the templates that NVIDIA's DRA driver makes for each ComputeDomain (resource.nvidia.com)."""
    return {
        doc.get_text("spec", "channel", "resourceClaimTemplate", "name")
        for doc in corpus.select_kinds("ComputeDomain")
        if doc.effective_namespace == namespace
    }


def _list_names(documents: tuple[Document, ...], namespace: str) -> set[str]:
    return {doc.name for doc in documents if doc.effective_namespace == namespace}


CHECKS = (check_pod_claims, check_device_classes)
