"""What a pod must carry to get rails on a stack: a stack says it, workloads put it on pod templates.

networks    elements of the annotation k8s.v1.cni.cncf.io/networks, in rail order
resources   extended resources of the container that uses the GPUs
claims      dynamic resource allocation: a claim for each template
"""

from __future__ import annotations

import msgspec


class PodNetwork(msgspec.Struct, frozen=True):
    """One attachment: the network's namespace and name, and the interface's name inside the pod (15 bytes at most)."""

    namespace: str
    name: str
    interface: str


class Claim(msgspec.Struct, frozen=True):
    """One ResourceClaimTemplate that a pod names (resource.k8s.io/v1)."""

    name: str
    template: str


class Hca(msgspec.Struct, frozen=True):
    """One RDMA device as NCCL names it: device, port, rail."""

    device: str
    port: int
    rail: int

    def __str__(self) -> str:
        return f"{self.device}:{self.port}:{self.rail}"


class HostPath(msgspec.Struct, frozen=True):
    """A folder or device of the host that the container must see."""

    name: str
    path: str
    mount: str
    read_only: bool = True


class Access(msgspec.Struct, frozen=True):
    """What a pod carries on one stack to get all its rails."""

    networks: tuple[PodNetwork, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    """Resource name and count, in rail order."""
    claims: tuple[Claim, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """Other annotations of the pod, such as an injector's or a cloud's."""
    hcas: tuple[Hca, ...] = ()
    """The RDMA devices, where their names inside the pod are known beforehand. VFs' names are not."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables that this stack or cloud asks for, or (value empty) whose general value it must not have."""
    host_paths: tuple[HostPath, ...] = ()
    hugepages: tuple[tuple[str, str], ...] = ()
    """Huge pages that the network library needs: resource name (hugepages-2Mi) and quantity."""
    host_network: bool = False
    privileged: bool = False
    gpu_resource: str | None = "nvidia.com/gpu"
    """The resource that marks the container which uses GPUs; None where a claim gives them."""
