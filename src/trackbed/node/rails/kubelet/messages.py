"""The messages of the device plugin API v1beta1 and of the pod-resources API v1 that the agent needs.

Field numbers: staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto and podresources/v1/api.proto of
Kubernetes; KEP-3573 and KEP-606.
"""

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
    """A device of a rail that the kubelet can allocate to a pod."""

    id: str
    healthy: bool
    numa: int | None = None
    """NUMA node; None: unknown."""


Offer = Mapping[int, tuple[Device, ...]]
"""The devices by rail."""


def name_resource(rail: int) -> str:
    """Return the resource name that a pod requests for a rail."""
    return f"{DOMAIN}/rail{rail}"


class GrantedDevices(NamedTuple):
    """The devices of one resource that the kubelet allocated to a pod's container."""

    resource: str
    ids: tuple[str, ...]


def build_register_request(endpoint: str, rail: int) -> bytes:
    """Return the RegisterRequest for a rail; `endpoint` is a socket in the kubelet's folder."""
    return encode_message((1, VERSION), (2, endpoint), (3, name_resource(rail)))


def build_device_list(devices: Iterable[Device]) -> bytes:
    """Return the ListAndWatchResponse."""
    return encode_message(*repeat_field(1, map(_encode_device, devices)))


def _encode_device(device: Device) -> bytes:
    topology = () if device.numa is None else ((3, encode_message((1, encode_message((1, device.numa))))),)
    return encode_message((1, device.id), (2, HEALTHY if device.healthy else UNHEALTHY), *topology)


def parse_allocate_request(request: bytes) -> list[tuple[str, ...]]:
    """Return the device ids of each container of an AllocateRequest. Raises WireError."""
    return [get_texts(parse_fields(container), 1) for container in get_messages(parse_fields(request), 1)]


def build_allocate_response(containers: Iterable[Iterable[str]]) -> bytes:
    """Return the AllocateResponse with the CDI device names of each container."""
    devices = ([encode_message((1, name)) for name in names] for names in containers)
    return encode_message(*repeat_field(1, (encode_message(*repeat_field(5, messages)) for messages in devices)))


def build_get_request(namespace: str, name: str) -> bytes:
    """Return the GetPodResourcesRequest."""
    return encode_message((1, name), (2, namespace))


def parse_get_response(response: bytes) -> tuple[GrantedDevices, ...]:
    """Return the devices of all containers of a pod from a GetPodResourcesResponse. Raises WireError."""
    return tuple(devices for pod in get_messages(parse_fields(response), 1) for devices in _parse_pod(pod))


def parse_list_response(response: bytes, namespace: str, name: str) -> tuple[GrantedDevices, ...] | None:
    """Return a pod's devices from a ListPodResourcesResponse; None where it is not listed. Raises WireError."""
    for pod in get_messages(parse_fields(response), 1):
        fields = parse_fields(pod)
        if (get_text(fields, 2), get_text(fields, 1)) == (namespace, name):
            return tuple(_parse_pod(pod))
    return None


def _parse_pod(pod: bytes) -> Iterable[GrantedDevices]:
    for container in get_messages(parse_fields(pod), 3):
        for devices in get_messages(parse_fields(container), 2):
            fields = parse_fields(devices)
            yield GrantedDevices(get_text(fields, 1), get_texts(fields, 2))
