"""The messages of the device plugin API v1beta1 and of the pod-resources API v1 that the agent needs.

Field numbers: staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto and podresources/v1/api.proto of
Kubernetes; KEP-3573 and KEP-606.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trackbed.node.rails.kubelet.wire import (
    encode_message,
    get_messages,
    get_text,
    get_texts,
    parse_fields,
    repeat_field,
)

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


def name_resource(rail: int) -> str:
    """What a pod asks for."""
    return f"{DOMAIN}/rail{rail}"


class GrantedDevices(NamedTuple):
    """Devices of one resource that a pod's container was given."""

    resource: str
    ids: tuple[str, ...]


def build_register_request(endpoint: str, rail: int) -> bytes:
    """RegisterRequest: which socket in the kubelet's folder offers which rail."""
    return encode_message((1, VERSION), (2, endpoint), (3, name_resource(rail)))


def build_device_list(devices: Iterable[Device]) -> bytes:
    """ListAndWatchResponse."""
    return encode_message(*repeat_field(1, map(_device, devices)))


def _device(one: Device) -> bytes:
    topology = () if one.numa is None else ((3, encode_message((1, encode_message((1, one.numa))))),)
    return encode_message((1, one.id), (2, HEALTHY if one.healthy else UNHEALTHY), *topology)


def parse_allocate_request(request: bytes) -> list[tuple[str, ...]]:
    """The devices of each container that an AllocateRequest is for. Raises WireError."""
    return [get_texts(parse_fields(one), 1) for one in get_messages(parse_fields(request), 1)]


def build_allocate_response(each: Iterable[Iterable[str]]) -> bytes:
    """AllocateResponse: each container gets the devices that CDI calls so."""
    return encode_message(
        *repeat_field(
            1, (encode_message(*repeat_field(5, (encode_message((1, name)) for name in names))) for names in each)
        )
    )


def build_get_request(namespace: str, name: str) -> bytes:
    """GetPodResourcesRequest."""
    return encode_message((1, name), (2, namespace))


def parse_get_response(answer: bytes) -> tuple[GrantedDevices, ...]:
    """What all containers of a pod were given, from a GetPodResourcesResponse. Raises WireError."""
    return tuple(one for pod in get_messages(parse_fields(answer), 1) for one in _given(pod))


def parse_list_response(answer: bytes, namespace: str, name: str) -> tuple[GrantedDevices, ...] | None:
    """The same from a ListPodResourcesResponse; None where the pod is not listed. Raises WireError."""
    for pod in get_messages(parse_fields(answer), 1):
        found = parse_fields(pod)
        if (get_text(found, 2), get_text(found, 1)) == (namespace, name):
            return tuple(_given(pod))
    return None


def _given(pod: bytes) -> Iterable[GrantedDevices]:
    for container in get_messages(parse_fields(pod), 3):
        for devices in get_messages(parse_fields(container), 2):
            found = parse_fields(devices)
            yield GrantedDevices(get_text(found, 1), get_texts(found, 2))
