"""The network settings of a node, grouped by port as the files need them."""

from __future__ import annotations

from dataclasses import dataclass

from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import AddressPlan, NodePlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.host.kinds import address, mtu, name, route, sysctl
from trackbed.host.setting import Setting
from trackbed.host.steps import RENDERED, list_settings


@dataclass(frozen=True, slots=True)
class Port:
    """One port: its identification and the content of its file. The fence belongs to the first port."""

    name: name.Want
    mtu_bytes: int
    infiniband: bool
    addresses: tuple[AddressPlan, ...]
    routes: tuple[PlannedRoute, ...]
    rules: tuple[PlannedRule, ...]

    @property
    def renamed(self) -> bool:
        """Whether the port is identified by hardware, so that a .link file can rename it."""
        return bool(self.name.pci or self.name.mac)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All ports of a node in rail order, and all kernel parameters."""

    ports: tuple[Port, ...]
    sysctls: tuple[sysctl.Want, ...]


def gather(node: NodePlan) -> Gathered:
    """Group the settings of a node in one pass: computing them is most of the work of a file."""
    wanted = list_settings(node, RENDERED)
    names = [(setting.rail, setting.want) for setting in wanted if isinstance(setting.want, name.Want)]
    return Gathered(
        tuple(_build_port(node, wanted, name_want, rail, first=rail == names[0][0]) for rail, name_want in names),
        tuple(setting.want for setting in wanted if isinstance(setting.want, sysctl.Want)),
    )


def list_versions(port: Port) -> tuple[int, ...]:
    """Return the IP versions in which the port has an address."""
    return tuple(version for version in (V4, V6) if any(address.version == version for address in port.addresses))


def _build_port(
    node: NodePlan, wanted: tuple[Setting, ...], name_want: name.Want, rail: int | None, *, first: bool
) -> Port:
    wants = [setting.want for setting in wanted if setting.rail == rail or (first and setting.rail is None)]
    return Port(
        name_want,
        next(want.mtu_bytes for want in wants if isinstance(want, mtu.Want)),
        node.common.link_type == "infiniband",
        tuple(want.address for want in wants if isinstance(want, address.Want)),
        tuple(want.route for want in wants if isinstance(want, route.Want)),
        tuple(want for want in wants if isinstance(want, PlannedRule)),
    )
