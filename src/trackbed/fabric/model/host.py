"""Settings of hosts other than addresses: routing, QoS, VFs, RDMA, names, with expert defaults."""

import re
from typing import Literal

from pydantic import Field, field_validator

from trackbed.fabric.model.model import DNS_LABEL, FabricModel, check_interface_name, make_error
from trackbed.fabric.model.rails import MAX_RAILS

_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_]{0,61}[A-Za-z0-9])?")
"""An extended resource (Kubernetes: a qualified name) whose name every device plugin accepts."""

_CPUS = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:/@+-]+)?")
"""A kernel argument without characters that are special in GRUB's files, which a shell reads."""

MAX_NETWORK_BYTES = 40
"""Network names leave room for the suffixes of stacks: a group, an IP version, a node."""


class RoutingSpec(FabricModel):
    """Source routing: each rail has its own table, so traffic leaves by the rail of its source address."""

    cross_rail: Literal["routed", "isolated"] | None = None
    """Whether one rail reaches another. Default: routed if rails have gateways, else isolated."""
    table_base: int = Field(default=1000, ge=256, le=4_000_000_000)
    """Rail r uses table tableBase + r. 0 to 255 belong to the kernel and the distribution."""
    rule_priority: int = Field(default=1000, ge=2, le=32_000)
    """Rail r's rule has this priority + r; the fence rule has the priority before it. Must stay below main's 32766."""


class QosSpec(FabricModel):
    """Lossless RoCE: its traffic class. The same values are used for hosts, switches and NCCL."""

    dscp: int = Field(default=26, ge=0, le=63)
    """DSCP of RDMA traffic (RFC 2474); RoCE guides use 26, Spectrum-X uses 24."""
    priority: int = Field(default=3, ge=0, le=7)
    """802.1Qbb priority (PFC) that RDMA traffic maps to."""
    cnp_dscp: int = Field(default=48, ge=0, le=63)
    """DSCP of congestion notification packets, served with strict priority."""
    pfc: bool = True
    """Priority flow control on `priority`."""
    ecn: bool = True
    """ECN with DCQCN on `priority`."""


class VfsSpec(FabricModel):
    """SR-IOV virtual functions of each port."""

    count: int = Field(default=0, ge=0, le=256)
    """VFs of a port; 0 leaves SR-IOV off."""
    mtu: int | None = Field(default=None, ge=1280, le=65535)
    """MTU of the VFs in bytes. Default: the port's."""
    trust: bool = False
    """Whether a VF may change its MAC address and become promiscuous."""
    spoof_check: bool = True
    """Whether the port drops frames of a VF with a foreign MAC address."""


class HugePagesSpec(FabricModel):
    """Huge pages that the kernel reserves at boot."""

    size: Literal["2M", "1G"] = "1G"
    """Size of a page."""
    count: int = Field(ge=1, le=1_000_000)
    """Pages on the whole host."""


class KernelSpec(FabricModel):
    """Kernel command line. Existing arguments are kept; a change needs a reboot."""

    iommu: Literal["auto", "passthrough", "leave"] = "auto"
    """passthrough: the IOMMU is on, and the host's own devices bypass it. auto: passthrough if ports have VFs."""
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
        if value is not None and not _CPUS.fullmatch(value):
            raise make_error("bad-cpus", f"{value!r} is no list of CPUs; write it as 4-63,68")
        return value

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for argument in value:
            if not _ARGUMENT.fullmatch(argument):
                message = (
                    f"{argument!r} is no kernel argument; write one a line, as pci=realloc, without blanks or quotes"
                )
                raise make_error("bad-argument", message)
        return value


class KubeletSpec(FabricModel):
    """Placement of pods beside their NICs by kubelet. Default: kubelet is unchanged."""

    topology_manager: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = None
    """KubeletConfiguration's topologyManagerPolicy."""
    reserved_cpus: str | None = None
    """CPUs, as 0-3, reserved for the system; they imply the static cpuManagerPolicy."""

    @field_validator("reserved_cpus")
    @classmethod
    def _check_cpus(cls, value: str | None) -> str | None:
        if value is not None and not _CPUS.fullmatch(value):
            raise make_error("bad-cpus", f"{value!r} is no list of CPUs; write it as 0-3,32")
        return value


class RdmaSpec(FabricModel):
    """RDMA core settings."""

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


class NamesSpec(FabricModel):
    """Name templates; {rail} is the rail's index, {number} the index counted from 1, {unit} the scalable unit."""

    netdev: str = "rail{rail}"
    """Interface name of a port. A port selected by name only keeps that name; `keep` keeps all names."""
    rdma: str = "rail{rail}"
    """RDMA device name of a port."""
    pod: str | None = None
    """Interface name of a rail in pods. Default: the port's name by `netdev`; Multus uses net{number}."""
    resource: str = "trackbed.dev/rail{rail}"
    """Kubernetes resource of a rail. With the default, stacks that need another prefix use theirs."""
    network: str = "rail{rail}"
    """Name of a rail's network and address pool in Kubernetes."""
    leaf: str = "leaf-u{unit}-r{rail}"
    """Name of the leaf switch of a unit and rail, as its LLDP reports it."""

    @field_validator("netdev", "rdma", "resource", "network", "leaf", "pod")
    @classmethod
    def _check_template(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            first, second = (value.format(rail=rail, number=rail + 1, unit=0) for rail in (0, 1))
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise make_error(
                "bad-template", f"template {value!r} may use {{rail}}, {{number}} and {{unit}} only"
            ) from error
        if first == second and value != "keep":
            raise make_error("bad-template", f"template {value!r} gives all rails one name, put {{rail}} in it")
        return value

    @field_validator("pod")
    @classmethod
    def _check_pod_name(cls, value: str | None) -> str | None:
        if value is not None:
            check_interface_name(value.format(rail=MAX_RAILS - 1, number=MAX_RAILS, unit=0))
        return value

    @field_validator("resource")
    @classmethod
    def _check_resource(cls, value: str) -> str:
        sample = value.format(rail=0, number=1, unit=0)
        if not _RESOURCE.fullmatch(sample):
            message = (
                f"resource name {sample!r} is not one that all device plugins take: PREFIX/NAME, the name of letters, "
                "digits and '_' (the SR-IOV device plugin takes no '-', the SR-IOV operator no '.')"
            )
            raise make_error("bad-resource", message)
        return value

    @field_validator("network")
    @classmethod
    def _check_network(cls, value: str) -> str:
        sample = value.format(rail=0, number=1, unit=0)
        if not DNS_LABEL.fullmatch(sample) or len(sample) > MAX_NETWORK_BYTES:
            message = (
                f"network name {sample!r} is no DNS label of {MAX_NETWORK_BYTES} bytes at most: lower case letters, "
                "digits and '-' (RFC 1123)"
            )
            raise make_error("bad-network", message)
        return value
