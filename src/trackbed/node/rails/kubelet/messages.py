"""The messages of the device plugin API v1beta1 and of the pod-resources API v1 that the agent needs.

Field numbers: staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto and podresources/v1/api.proto of
Kubernetes; KEP-3573 and KEP-606.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trackbed.node.rails.kubelet.wire import fields, message, messages, repeated, text, texts

VERSION = "v1beta1"
DOMAIN = "trackbed.dev"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Device(NamedTuple):
    """One thing of a rail that a pod can be given."""

    id: str
    healthy: bool
    numa: int | None = None
    """NUMA node; None: the machine does not say."""


Offer = Mapping[int, tuple[Device, ...]]
"""What there is of each rail."""


def resource(rail: int) -> str:
    """What a pod asks for."""
    return f"{DOMAIN}/rail{rail}"


class Given(NamedTuple):
    """Devices of one resource that a pod's container was given."""

    resource: str
    ids: tuple[str, ...]


def register(endpoint: str, rail: int) -> bytes:
    """RegisterRequest: which socket in the kubelet's folder offers which rail."""
    return message((1, VERSION), (2, endpoint), (3, resource(rail)))


def device_list(devices: Iterable[Device]) -> bytes:
    """ListAndWatchResponse."""
    return message(*repeated(1, map(_device, devices)))


def _device(one: Device) -> bytes:
    topology = () if one.numa is None else ((3, message((1, message((1, one.numa))))),)
    return message((1, one.id), (2, HEALTHY if one.healthy else UNHEALTHY), *topology)


def containers(request: bytes) -> list[tuple[str, ...]]:
    """The devices of each container that an AllocateRequest is for. Raises WireError."""
    return [texts(fields(one), 1) for one in messages(fields(request), 1)]


def allocated(each: Iterable[Iterable[str]]) -> bytes:
    """AllocateResponse: each container gets the devices that CDI calls so."""
    return message(*repeated(1, (message(*repeated(5, (message((1, name)) for name in names))) for names in each)))


def which_pod(namespace: str, name: str) -> bytes:
    """GetPodResourcesRequest."""
    return message((1, name), (2, namespace))


def of_pod(answer: bytes) -> tuple[Given, ...]:
    """What all containers of a pod were given, from a GetPodResourcesResponse. Raises WireError."""
    return tuple(one for pod in messages(fields(answer), 1) for one in _given(pod))


def of_pod_in_list(answer: bytes, namespace: str, name: str) -> tuple[Given, ...] | None:
    """The same from a ListPodResourcesResponse; None where the pod is not listed. Raises WireError."""
    for pod in messages(fields(answer), 1):
        found = fields(pod)
        if (text(found, 2), text(found, 1)) == (namespace, name):
            return tuple(_given(pod))
    return None


def _given(pod: bytes) -> Iterable[Given]:
    for container in messages(fields(pod), 3):
        for devices in messages(fields(container), 2):
            found = fields(devices)
            yield Given(text(found, 1), texts(found, 2))
