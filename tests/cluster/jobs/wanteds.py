"""What stacks of each shape want on a pod, and jobs of each kind to want it on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trackbed.cluster.jobs.kinds import KINDS
from trackbed.cluster.jobs.kinds.kind import JobKind, JobParameters
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.stacks.access import Access, Claim, HostPath, PodNetwork

VARIABLES = (("NCCL_IB_HCA", "=rail0:1:0,rail1:1:1"), ("NCCL_SOCKET_IFNAME", "=eth0"), ("NCCL_IB_TC", "104"))
SELECTOR = (("trackbed.dev/fabric", "train"),)
RAILS = tuple(PodNetwork("ai", f"rail{rail}", f"rail{rail}") for rail in range(2))
DEVICES = (("nvidia.com/rail0", 1), ("nvidia.com/rail1", 1))
CLAIM = Claim("rails", "eight-rails", "ai", ("eight-rails-gpus",))

WANTED = {
    "networks and devices": PodRequirements(Access(networks=RAILS, resources=DEVICES), VARIABLES, SELECTOR),
    "one network many times": PodRequirements(
        Access(
            networks=tuple(PodNetwork("default", "vf", f"net{n}") for n in (1, 2)), resources=(("nvidia.com/vf", 2),)
        ),
        VARIABLES,
        SELECTOR,
    ),
    "claims": PodRequirements(Access(claims=(CLAIM,)), VARIABLES, SELECTOR),
    "host network": PodRequirements(Access(host_network=True, privileged=True), VARIABLES, SELECTOR),
    "everything": PodRequirements(
        Access(
            networks=RAILS,
            resources=DEVICES,
            claims=(Claim("more", "more-rails", "ai"),),
            annotations=(("cloud/inject", "true"),),
            host_paths=(
                HostPath("lib", "/opt/lib", "/usr/local/lib/net"),
                HostPath("dev", "/dev/net0", "/dev/net0", read_only=False),
            ),
            hugepages=(("hugepages-2Mi", "5120Mi"),),
        ),
        VARIABLES,
        SELECTOR,
    ),
}
"""Shape of a stack -> what it wants."""

PLAIN = WANTED["networks and devices"]


def template(**fields: Any) -> dict[str, Any]:
    """A pod template of one container that uses GPUs, and more fields of its container."""
    resources = {"limits": {"nvidia.com/gpu": 8}, "requests": {"memory": "64Gi"}}
    return {"spec": {"containers": [{"name": "main", "image": "i", "resources": resources, **fields}]}}


def build_params(wanted: PodRequirements) -> JobParameters:
    """Three nodes of two GPUs."""
    access = wanted.access
    return JobParameters("try", "image", 3, 2, wanted.gpu_resource, access.host_network, bool(access.hugepages))


def cases() -> Iterator[tuple[str, JobKind, PodRequirements]]:
    """Each kind with each shape of stack."""
    for name, kind in KINDS.items():
        for title, wanted in WANTED.items():
            yield f"{name}: {title}", kind, wanted


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Where something of `before` is not in `after`; lists may have grown anywhere, order kept; null means nothing."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        gone = [f"{path}.{key}" for key in before if key not in after]
        return gone + [
            item for key in before if key in after for item in lost(before[key], after[key], f"{path}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list):
        remainder = iter(after)
        return [
            f"{path}[{n}]" for n, item in enumerate(before) if not any(not lost(item, other) for other in remainder)
        ]
    return [] if before is None or before == after else [path]
