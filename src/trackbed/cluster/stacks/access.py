"""The parts of a pod's spec that give it rails. Stacks return them, jobs write them into pod templates.

networks    elements of the annotation k8s.v1.cni.cncf.io/networks, in rail order
resources   extended resources of the container that uses the GPUs
claims      resource claims (dynamic resource allocation), one for each ResourceClaimTemplate
"""

import msgspec


class PodNetwork(msgspec.Struct, frozen=True):
    """A network that a pod joins: its namespace and name, and the interface's name in the pod (at most 15 bytes)."""

    namespace: str
    name: str
    interface: str


class Claim(msgspec.Struct, frozen=True):
    """A resource claim of a pod: its name in the pod, and its ResourceClaimTemplate (resource.k8s.io/v1)."""

    name: str
    template: str
    namespace: str
    """Namespace of the template, which must be that of the pod."""
    larger_templates: tuple[str, ...] = ()
    """Templates that give the same devices and others besides."""

    @property
    def templates(self) -> tuple[str, ...]:
        """All templates whose claims give the devices."""
        return (self.template, *self.larger_templates)


class Hca(msgspec.Struct, frozen=True):
    """A port of an RDMA device and its rail; as a string in NCCL's notation device:port:rail."""

    device: str
    port: int
    rail: int

    def __str__(self) -> str:
        return f"{self.device}:{self.port}:{self.rail}"


class HostPath(msgspec.Struct, frozen=True):
    """A folder of the host that is mounted in the container at path `mount`."""

    name: str
    path: str
    mount: str
    read_only: bool = True


class Access(msgspec.Struct, frozen=True):
    """The additions to a pod that give it all its rails on a stack."""

    networks: tuple[PodNetwork, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    """Names and counts of extended resources, in rail order."""
    claims: tuple[Claim, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """Annotations of the pod besides its networks, such as those for a cloud's controllers."""
    hcas: tuple[Hca, ...] = ()
    """The RDMA devices, if their names in the pod are known before it starts; empty for VFs, whose names are not."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables of the stack or cloud. An empty value removes the fabric's variable of that name."""
    host_paths: tuple[HostPath, ...] = ()
    hugepages: tuple[tuple[str, str], ...] = ()
    """Huge pages for the network library: resource names, such as hugepages-2Mi, and quantities."""
    host_network: bool = False
    privileged: bool = False
