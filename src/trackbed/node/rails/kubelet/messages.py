"""The messages of the device plugin API v1beta1 and of the pod-resources API v1 that the agent needs.

Field numbers: staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto and podresources/v1/api.proto of
Kubernetes; KEP-3573 and KEP-606.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trackbed.node.rails.kubelet.wire import (
    WireError,
    encode_message,
    expand_repeated_field,
    get_last_string,
    get_messages,
    get_strings,
    parse_fields,
)

VERSION = "v1beta1"
DOMAIN = "trackbed.dev"


class Device(NamedTuple):
    """A device of a rail that the kubelet can allocate to a pod."""

    id: str
    healthy: bool
    numa_node: int | None = None
    """NUMA node of the device; None if unknown."""


Offer = Mapping[int, tuple[Device, ...]]
"""The devices that the agent offers to the kubelet, by rail."""


class GrantedDevices(NamedTuple):
    """The devices of one resource that the kubelet allocated to a pod's container."""

    resource: str
    ids: tuple[str, ...]


def build_register_request(endpoint: str, rail: int) -> bytes:
    """Return the RegisterRequest for a rail; `endpoint` is a socket in the kubelet's folder."""
    return encode_message((1, VERSION), (2, endpoint), (3, f"{DOMAIN}/rail{rail}"))


def build_device_list(devices: Iterable[Device]) -> bytes:
    """Return the ListAndWatchResponse with these devices."""
    return encode_message(*expand_repeated_field(1, map(_encode_device, devices)))


def _encode_device(device: Device) -> bytes:
    topology = () if device.numa_node is None else ((3, encode_message((1, encode_message((1, device.numa_node))))),)
    return encode_message((1, device.id), (2, "Healthy" if device.healthy else "Unhealthy"), *topology)


def parse_allocate_request(request: bytes) -> list[tuple[str, ...]]:
    """Return the device ids of each container of an AllocateRequest. Raises WireError."""
    return [get_strings(parse_fields(container), 1) for container in get_messages(parse_fields(request), 1)]


def build_allocate_response(containers: Iterable[Iterable[str]], device_files: Iterable[str] = ()) -> bytes:
    """Return the AllocateResponse with the CDI device names of each container.

    All of them also get `device_files`, which a runtime without CDI takes, and which a runtime with CDI finds twice.
    """
    files = [encode_message((1, path), (2, path), (3, "rw")) for path in device_files]
    return encode_message(*expand_repeated_field(1, [_encode_container(names, files) for names in containers]))


def _encode_container(names: Iterable[str], files: Iterable[bytes]) -> bytes:
    devices = [encode_message((1, name)) for name in names]
    return encode_message(*expand_repeated_field(3, files), *expand_repeated_field(5, devices))


def build_get_request(namespace: str, pod_name: str) -> bytes:
    """Return the GetPodResourcesRequest for a pod."""
    return encode_message((1, pod_name), (2, namespace))


def parse_get_response(response: bytes, namespace: str, pod_name: str) -> tuple[GrantedDevices, ...]:
    """Return the devices of all containers of a pod from a GetPodResourcesResponse.

    Raises:
        WireError: it is malformed, or about another pod.
    """
    granted: list[GrantedDevices] = []
    for pod in get_messages(parse_fields(response), 1):
        fields = parse_fields(pod)
        if (get_last_string(fields, 2), get_last_string(fields, 1)) != (namespace, pod_name):
            raise WireError("it answers about another pod")
        granted += _iter_pod_devices(pod)
    return tuple(granted)


def parse_list_response(response: bytes, namespace: str, pod_name: str) -> tuple[GrantedDevices, ...] | None:
    """Return a pod's devices from a ListPodResourcesResponse; None if the pod is not listed. Raises WireError."""
    for pod in get_messages(parse_fields(response), 1):
        fields = parse_fields(pod)
        if (get_last_string(fields, 2), get_last_string(fields, 1)) == (namespace, pod_name):
            return tuple(_iter_pod_devices(pod))
    return None


def _iter_pod_devices(pod: bytes) -> Iterable[GrantedDevices]:
    for container in get_messages(parse_fields(pod), 3):
        for devices in get_messages(parse_fields(container), 2):
            fields = parse_fields(devices)
            yield GrantedDevices(get_last_string(fields, 1), get_strings(fields, 2))
