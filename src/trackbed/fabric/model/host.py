"""Settings of hosts other than addresses: routing, QoS, VFs, RDMA, names, with expert defaults."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from trackbed.fabric.bounds import (
    ARGUMENT_CHARACTERS,
    DSCP,
    HUGE_PAGES,
    MAX_RAILS,
    MTU,
    PRIORITY,
    RULE_PRIORITY,
    TABLE_BASE,
    VFS,
)
from trackbed.fabric.model.model import FabricModel, build_text_schema, check_interface_name, make_error
from trackbed.fabric.model.name_template import (
    RESOURCE_TEMPLATE,
    TEMPLATE,
    TEMPLATE_CHARACTERS,
    explain_bad_template,
    render_name,
)
from trackbed.fabric.text_syntax import CPUS, DNS_LABEL, KERNEL_ARGUMENT, LEAF_NAME, RDMA_NAME, RESOURCE

MAX_NETWORK_BYTES = 40
"""Network names leave room for the suffixes of stacks: a group, an IP version, a node."""


class RoutingSpec(FabricModel):
    """Source routing: each rail has its own table, so traffic leaves by the rail of its source address.

    Example:
        crossRail: isolated
        tableBase: 2000
        rulePriority: 2000
    """

    cross_rail: Literal["routed", "isolated"] | None = None
    """Whether one rail reaches another. Default: routed if rails have gateways, else isolated."""
    table_base: int = Field(default=1000, ge=TABLE_BASE.low, le=TABLE_BASE.high)
    """Rail r uses table tableBase + r. 0 to 255 belong to the kernel and the distribution."""
    rule_priority: int = Field(default=1000, ge=RULE_PRIORITY.low, le=RULE_PRIORITY.high)
    """Rail r's rule has this priority + r; the fence rule has the priority before it. Must stay below main's 32766."""


class QosSpec(FabricModel):
    """Lossless RoCE: its traffic class. The same values are used for hosts, switches and NCCL.

    Example:
        dscp: 24
        priority: 3
        cnpDscp: 48
        pfc: true
        ecn: true
    """

    dscp: int = Field(default=26, ge=DSCP.low, le=DSCP.high)
    """DSCP of RDMA traffic (RFC 2474); RoCE guides use 26, Spectrum-X uses 24."""
    priority: int = Field(default=3, ge=PRIORITY.low, le=PRIORITY.high)
    """802.1Qbb priority (PFC) that RDMA traffic maps to."""
    cnp_dscp: int = Field(default=48, ge=DSCP.low, le=DSCP.high)
    """DSCP of congestion notification packets, served with strict priority."""
    pfc: bool = True
    """Priority flow control on `priority`."""
    ecn: bool = True
    """ECN with DCQCN on `priority`."""


class VfsSpec(FabricModel):
    """SR-IOV virtual functions of each port.

    Each has a MAC address, or a GUID on InfiniBand, that follows from the node's slot, the rail and its number.

    Example:
        count: 8
        mtu: 9000
        trust: false
        spoofCheck: true
    """

    count: int = Field(default=0, ge=VFS.low, le=VFS.high)
    """VFs of a port; 0 leaves SR-IOV off. A host has 4096 at most."""
    mtu: int | None = Field(default=None, ge=MTU.low, le=MTU.high)
    """MTU of the VFs in bytes. Default: the port's."""
    trust: bool = False
    """Whether a VF may change its MAC address and become promiscuous."""
    spoof_check: bool = True
    """Whether the port drops frames of a VF with a foreign MAC address."""


class HugePagesSpec(FabricModel):
    """Huge pages that the kernel reserves at boot.

    Example:
        size: 1G
        count: 64
    """

    size: Literal["2M", "1G"] = "1G"
    """Size of a page."""
    count: int = Field(ge=HUGE_PAGES.low, le=HUGE_PAGES.high)
    """Pages on the whole host."""


class KernelSpec(FabricModel):
    """Kernel command line. Existing arguments are kept; a change needs a reboot.

    Example:
        iommu: auto
        hugepages:
          - size: 1G
            count: 64
        isolatedCpus: 4-63,68
        arguments: [pci=realloc]
    """

    iommu: Literal["auto", "passthrough", "leave"] = "auto"
    """passthrough: the IOMMU is on, as VFs in virtual machines need it, and the host's own devices bypass it. auto: as
    leave, because VFs in containers need none, and an IOMMU makes the kernel turn ACS on."""
    hugepages: tuple[HugePagesSpec, ...] = ()
    """Huge pages, each size once; the first is the default size."""
    isolated_cpus: str | None = None
    """CPUs, as 4-63,68, isolated from the scheduler, its tick and RCU callbacks."""
    arguments: tuple[str, ...] = ()
    """Further arguments, as pci=realloc."""

    @field_validator("hugepages")
    @classmethod
    def _check_sizes(cls, value: tuple[HugePagesSpec, ...]) -> tuple[HugePagesSpec, ...]:
        if len({pages.size for pages in value}) != len(value):
            raise make_error("bad-hugepages", "each size of huge pages may be named once")
        return value

    @field_validator("isolated_cpus")
    @classmethod
    def _check_cpus(cls, value: str | None) -> str | None:
        return _check_cpus(value, "4-63,68")

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for argument in value:
            if not KERNEL_ARGUMENT.fullmatch(argument):
                message = (
                    f"{argument!r} is no kernel argument; write one a line, as pci=realloc, without blanks or quotes"
                )
                raise make_error("bad-argument", message)
        if (characters := sum(len(argument) + 1 for argument in value)) > ARGUMENT_CHARACTERS:
            message = f"the arguments have {characters} characters; the kernel has room for {ARGUMENT_CHARACTERS}"
            raise make_error("bad-argument", message)
        return value


class KubeletSpec(FabricModel):
    """Placement of pods beside their NICs by kubelet. Default: kubelet is unchanged.

    Example:
        topologyManager: single-numa-node
        reservedCpus: 0-3,32
    """

    topology_manager: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = None
    """KubeletConfiguration's topologyManagerPolicy."""
    reserved_cpus: str | None = None
    """CPUs, as 0-3, reserved for the system; they imply the static cpuManagerPolicy."""

    @field_validator("reserved_cpus")
    @classmethod
    def _check_cpus(cls, value: str | None) -> str | None:
        return _check_cpus(value, "0-3,32")


class RdmaSpec(FabricModel):
    """RDMA core settings.

    Example:
        namespaceMode: exclusive
        pathMtu: 4096
    """

    namespace_mode: Literal["exclusive", "shared"] | None = None
    """exclusive: an RDMA device belongs to one netns. Default: shared for macvlan without VFs, else exclusive."""
    path_mtu: Literal[256, 512, 1024, 2048, 4096] = 4096
    """RDMA path MTU in bytes of payload; the port's MTU must leave room for it."""

    @field_validator("path_mtu", mode="before")
    @classmethod
    def _parse_number(cls, value: object) -> object:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        return value


_Template = Annotated[str, build_text_schema(longest=TEMPLATE_CHARACTERS, pattern=f"^{TEMPLATE.pattern}$")]
_ResourceTemplate = Annotated[
    str, build_text_schema(longest=TEMPLATE_CHARACTERS, pattern=f"^{RESOURCE_TEMPLATE.pattern}$")
]


class NamesSpec(FabricModel):
    """Name templates; {rail} is the rail's index, {number} the index counted from 1, {unit} the scalable unit.

    Besides these words a name has letters, digits, '_', '.' and '-', and a resource one '/'.

    Example:
        netdev: gpu{rail}
        rdma: gpu{rail}
        pod: net{number}
        resource: nvidia.com/rail{rail}
        network: gpu-rail{rail}
        leaf: su{unit}-leaf{number}
    """

    netdev: _Template = "rail{rail}"
    """Interface name of a port. A port selected by name only keeps that name; `keep` keeps all names."""
    rdma: _Template = "rail{rail}"
    """RDMA device name of a port."""
    pod: _Template | None = None
    """Interface name of a rail in pods. Default: the port's name by `netdev`; Multus uses net{number}."""
    resource: _ResourceTemplate = "trackbed.dev/rail{rail}"
    """Kubernetes resource of a rail. With the default, stacks that need another prefix use theirs."""
    network: _Template = "rail{rail}"
    """Name of a rail's network and address pool in Kubernetes."""
    leaf: _Template = "leaf-u{unit}-r{rail}"
    """Name of the leaf switch of a unit and rail, as its LLDP reports it."""

    @field_validator("netdev", "rdma", "resource", "network", "leaf", "pod")
    @classmethod
    def _check_template(cls, value: str | None, info: ValidationInfo) -> str | None:
        pattern = RESOURCE_TEMPLATE if info.field_name == "resource" else TEMPLATE
        if value is not None and (reason := explain_bad_template(value, pattern)):
            raise make_error("bad-template", reason)
        return value

    @field_validator("pod")
    @classmethod
    def _check_pod_name(cls, value: str | None) -> str | None:
        if value is not None:
            for name in _list_names(value):
                check_interface_name(name)
        return value

    @field_validator("rdma")
    @classmethod
    def _check_rdma(cls, value: str) -> str:
        for name in _list_names(value):
            if not RDMA_NAME.fullmatch(name):
                message = (
                    f"RDMA device name {name!r} is not one for all tools: 63 bytes at most, the first no '.' or '-'"
                )
                raise make_error("bad-name", message)
        return value

    @field_validator("leaf")
    @classmethod
    def _check_leaf(cls, value: str) -> str:
        name = render_name(value, MAX_RAILS - 1, _HIGHEST_UNIT)
        if not LEAF_NAME.fullmatch(name):
            message = f"leaf name {name!r} is no name of a switch: 128 bytes at most, the first no '.' or '-'"
            raise make_error("bad-name", message)
        return value

    @field_validator("resource")
    @classmethod
    def _check_resource(cls, value: str) -> str:
        for name in _list_names(value):
            if not RESOURCE.fullmatch(name):
                message = (
                    f"resource name {name!r} is not one that all device plugins take: PREFIX/NAME, the name of "
                    "letters, digits, '_' and '-' (the SR-IOV device plugin takes no '.')"
                )
                raise make_error("bad-resource", message)
        return value

    @field_validator("network")
    @classmethod
    def _check_network(cls, value: str) -> str:
        for name in _list_names(value):
            if not DNS_LABEL.fullmatch(name) or len(name) > MAX_NETWORK_BYTES:
                message = (
                    f"network name {name!r} is no DNS label of {MAX_NETWORK_BYTES} bytes at most: lower case letters, "
                    "digits and '-' (RFC 1123)"
                )
                raise make_error("bad-network", message)
        return value


_HIGHEST_UNIT = 99_999
"""One node in each unit, and as many nodes as a Fabric may have."""


def _list_names(template: str) -> list[str]:
    """Return the names of all rails that a Fabric may have."""
    return [render_name(template, rail) for rail in range(MAX_RAILS)]


def _check_cpus(value: str | None, example: str) -> str | None:
    if value is None:
        return None
    spans = [part.partition("-") for part in value.split(",")] if CPUS.fullmatch(value) else []
    if not spans or any(dash and int(first) > int(last) for first, dash, last in spans):
        raise make_error("bad-cpus", f"{value!r} is no list of CPUs; write it as {example}")
    if len(value) > ARGUMENT_CHARACTERS:
        raise make_error("bad-cpus", f"the list of CPUs has {len(value)} characters; write ranges, as {example}")
    return value
