"""Environment variables of the container that uses the GPUs. A value that the user wrote always stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, items, listed
from trackbed.cluster.stacks.access import Access

BREAKS = {
    "NCCL_IB_HCA": "NCCL takes every RDMA device it sees, storage and management among them",
    "NCCL_SOCKET_IFNAME": "bootstrap takes an interface that may be a rail, or may not reach the other nodes",
    "NCCL_CROSS_NIC": "rings join NICs of different rails, which do not reach each other",
    "NCCL_IB_SUBNET_AWARE_ROUTING": "a connection may take a NIC that is not in its peer's subnet",
    "NCCL_IB_SUBNET_PREFIX_LEN": "NCCL takes rails for other subnets than they are",
    "NCCL_IB_ADDR_FAMILY": "the GID may be of the IP version that is not routed",
    "NCCL_IB_ADDR_RANGE": "the GID may be that of another address of the device",
    "NCCL_IB_TC": "the job's traffic is not in the fabric's lossless class",
    "UCX_NET_DEVICES": "UCX takes any device",
    "UCX_IB_TRAFFIC_CLASS": "UCX's traffic is not in the fabric's lossless class",
    "UCX_IB_ROCE_REACHABILITY_MODE": "UCX takes peers in other subnets for unreachable",
}
"""Variable -> what happens without the planned value."""
_GENERAL = "the stack asks for this value"


def set_variables(container: Mapping, access: Access, variables: tuple[tuple[str, str], ...]) -> Iterator[Note]:
    """Add the variables that the container has not, and report those it has otherwise."""
    held = {str(one.get("name")): one for one in items(container, "env")}
    for name, value in variables:
        breaks = BREAKS.get(name, _GENERAL)
        if name not in held:
            listed(container, "env").append({"name": name, "value": value})
            yield Note("missing", "nccl-variable", f"{name}={value}", breaks)
        elif "valueFrom" not in held[name] and (written := _value(held[name])) != value:
            yield Note("different", "nccl-variable", f"{name} is {written!r}, the plan has {value!r}", breaks)
    yield from _harmful(held, access)


def _value(entry: Mapping) -> str:
    value = entry.get("value")
    return "" if value is None else str(value)


def _harmful(held: dict[str, Mapping], access: Access) -> Iterator[Note]:
    """Values that break the job whatever the plan, and those that this stack must not have."""
    for name, value in access.env:
        if not value and name in held and _value(held[name]):
            yield Note("extra", "nccl-variable-unwanted", f"{name}={_value(held[name])}", "this stack must not have it")
    for name, (harms, code, breaks) in _HARMFUL.items():
        if name in held and harms(_value(held[name])) and not (code == "nccl-gid-index-fixed" and access.host_network):
            yield Note("extra", code, f"{name}={_value(held[name])}", breaks)


_HARMFUL: dict[str, tuple[Callable[[str], bool], str, str]] = {
    "NCCL_IB_GID_INDEX": (
        lambda value: value not in {"", "-1"},
        "nccl-gid-index-fixed",
        "in pods the index differs from device to device, so some connections time out; leave it unset",
    ),
    "NCCL_IB_DISABLE": (
        lambda value: value not in {"", "0"},
        "nccl-using-sockets",
        "NCCL goes over TCP and uses no rail",
    ),
    "NCCL_IB_HCA": (
        lambda value: bool(value) and not value.removeprefix("^").startswith("="),
        "nccl-hca-prefix-match",
        "names match by prefix, so mlx5_1 takes mlx5_10 too; begin the value with =",
    ),
}
"""Variable -> whether a value harms, the fault's name, what it breaks."""
