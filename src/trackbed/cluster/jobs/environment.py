"""Environment variables of the container that uses the GPUs. Values set by the user are always kept."""

from collections.abc import Callable, Iterator

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, ensure_list, read_list, read_mappings
from trackbed.cluster.stacks.access import Access
from trackbed.fabric.nccl_images import FIRST_FIT, has_old_nccl
from trackbed.lint.assignments import find_assignments

DEVIATION_EFFECTS = {
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
"""Variable name -> effect of a value that differs from the planned one."""


def set_variables(container: Mapping, access: Access, variables: tuple[tuple[str, str], ...]) -> Iterator[Note]:
    """Add missing variables to the container; yield notes on additions and on values that differ or are harmful."""
    entries = {str(entry.get("name")): entry for entry in read_mappings(container, "env")}
    for name, value in variables:
        if name not in entries:
            breaks = DEVIATION_EFFECTS.get(name, _STACK_EFFECT)
            ensure_list(container, "env").append({"name": name, "value": value})
            yield Note("missing", "nccl-variable", f"{name}={value}", breaks)
        elif "valueFrom" not in entries[name] and (job_value := read_variable_value(entries[name])) != value:
            yield _build_difference(f"{name} is", name, job_value, value, access)
    if "NCCL_IB_HCA" in entries and "NCCL_IB_HCA" not in dict(variables):
        yield from _check_device_count(read_variable_value(entries["NCCL_IB_HCA"]), access)
    yield from check_harmful_values({name: read_variable_value(entry) for name, entry in entries.items()}, access)


def check_script(container: Mapping, access: Access, variables: tuple[tuple[str, str], ...]) -> Iterator[Note]:
    """Yield notes on variables that the container's command sets otherwise than planned, or to a harmful value."""
    planned = dict(variables)
    for key in ("command", "args"):
        for index, text in enumerate(read_list(container, key)):
            values = {
                match["name"]: match["value"] for match in find_assignments(text if isinstance(text, str) else "")
            }
            notes = [
                _build_difference(f"the command sets {name} to", name, value, planned[name], access)
                for name, value in values.items()
                if value != planned.get(name, value)
            ]
            for note in (*notes, *check_harmful_values(values, access)):
                yield note.with_parent(f"{key}[{index}]")


def _build_difference(subject: str, name: str, job_value: str, value: str, access: Access) -> Note:
    names = describe_device_list(job_value, access) if name == "NCCL_IB_HCA" else ""
    breaks = _describe_effect(name, job_value, access)
    return Note("different", "nccl-variable", f"{subject} {job_value!r}{names}, the plan has {value!r}", breaks)


def _describe_effect(name: str, job_value: str, access: Access) -> str:
    """Return the effect of a variable's value that is not the planned one."""
    if name != "NCCL_IB_HCA" or not job_value.startswith("=") or not access.hcas:
        return DEVIATION_EFFECTS.get(name, _STACK_EFFECT)
    if {hca.device for hca in access.hcas} == set(_list_devices(job_value)):
        return "NCCL is not told the planned port and rail of each device, and may connect different rails"
    return "NCCL uses these devices alone"


_STACK_EFFECT = "the stack asks for this value"
_FAMILIES = frozenset({"mlx4", "mlx5"})
"""Names that end with a digit and match every device of a driver."""


def describe_device_list(value: str, access: Access) -> str:
    """Return which rails the devices of an NCCL_IB_HCA are, and of how many; empty if the list excludes devices."""
    names = _list_devices(value)
    if not names or not access.hcas:
        return ""
    rails = [hca.rail for hca in access.hcas if any(_matches(name, hca.device, value) for name in names)]
    if not rails:
        return f", which names none of the {len(access.hcas)} rails"
    noun = "rail" if len(rails) == 1 else "rails"
    return f", which names {noun} {', '.join(map(str, rails))} of {len(access.hcas)}"


def _check_device_count(value: str, access: Access) -> Iterator[Note]:
    """Yield a note on a list with fewer devices than the pod has rails, where the plan cannot name the devices."""
    names, rails = _list_devices(value), sum(count for _, count in access.resources)
    is_counted = value.startswith("=") or all(name[-1].isdigit() and name not in _FAMILIES for name in names)
    if names and is_counted and len(names) < rails:
        yield Note(
            "different",
            "nccl-fewer-devices",
            f"NCCL_IB_HCA names {len(names)} ({', '.join(names)}) of {rails} rails",
            "NCCL uses no other rail",
        )


def _list_devices(value: str) -> list[str]:
    """Return the names in an NCCL_IB_HCA without ports; empty if it excludes devices."""
    parts = [] if value.startswith("^") else value.removeprefix("=").split(",")
    return [part.partition(":")[0].strip() for part in parts if part.strip()]


def _matches(name: str, device: str, value: str) -> bool:
    return name == device if value.startswith("=") else device.startswith(name)


def read_variable_value(entry: Mapping) -> str:
    """Return the value of an element of `env`; empty if it has none."""
    value = entry.get("value")
    return "" if value is None else str(value)


def check_image(container: Mapping) -> Iterator[Note]:
    """Yield a note on an image whose NCCL ends the job in pods that share ports, unless the GID index is set."""
    image, names = (
        str(container.get("image", "")),
        {str(entry.get("name")) for entry in read_mappings(container, "env")},
    )
    if has_old_nccl(image) and "NCCL_IB_GID_INDEX" not in names:
        yield Note(
            "different",
            "nccl-too-old",
            f"{image} has an NCCL before {FIRST_FIT}",
            "it ends at the first gap of the GID table, which other pods' interfaces make; take a newer image",
        )


def check_harmful_values(values: dict[str, str], access: Access) -> Iterator[Note]:
    """Yield notes on values that break the job on any plan, and on variables that this stack must not have."""
    for name, stack_value in access.env:
        if not stack_value and values.get(name):
            yield Note("extra", "nccl-variable-unwanted", f"{name}={values[name]}", "this stack must not have it")
    for name, (is_harmful, code, breaks) in _HARMFUL_VALUES.items():
        is_allowed = code == "gid-index-fixed" and access.host_network
        if name in values and is_harmful(values[name]) and not is_allowed:
            yield Note("extra", code, f"{name}={values[name]}", breaks)


_HARMFUL_VALUES: dict[str, tuple[Callable[[str], bool], str, str]] = {
    "NCCL_IB_GID_INDEX": (
        lambda value: value not in {"", "-1"},
        "gid-index-fixed",
        "in pods the index differs from device to device, so some connections time out; leave it unset",
    ),
    "NCCL_IB_DISABLE": (
        lambda value: value not in {"", "0"},
        "ib-disabled",
        "NCCL goes over TCP and uses no rail",
    ),
    "NCCL_IB_HCA": (
        lambda value: bool(value) and not value.removeprefix("^").startswith("="),
        "hca-prefix",
        "names match by prefix, so mlx5_1 means mlx5_10 too; begin the value with =, and a list to exclude with ^=",
    ),
}
"""Variable name -> predicate for a harmful value, name of the fault, effect."""
