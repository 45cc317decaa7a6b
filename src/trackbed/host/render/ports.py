"""The network settings of a node, grouped by port for the configuration files."""

from __future__ import annotations

from dataclasses import dataclass

from trackbed.fabric.plan.plan import AddressPlan, NodePlan
from trackbed.fabric.plan.routes import PlannedRoute, PlannedRule
from trackbed.host.kinds import address, mtu, name, route, sysctl
from trackbed.host.setting import Setting
from trackbed.host.steps import RENDERED, iter_settings


@dataclass(frozen=True, slots=True)
class Port:
    """A port's identity and the settings of its network file.

    Each port's file also has the node's own rules: systemd-networkd removes the rules of a port that leaves for a pod,
    except those that the file of another port has (links_have_routing_policy_rule, networkd-routing-policy-rule.c).
    """

    name: name.Want
    mtu_bytes: int
    infiniband: bool
    addresses: tuple[AddressPlan, ...]
    routes: tuple[PlannedRoute, ...]
    rules: tuple[PlannedRule, ...]

    @property
    def is_renamed(self) -> bool:
        """Whether a .link file can rename the port, because the plan identifies its hardware."""
        return bool(self.name.pci or self.name.mac)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """All ports of a node in rail order, and all kernel parameters."""

    ports: tuple[Port, ...]
    sysctls: tuple[sysctl.Want, ...]


def build_network_settings(node: NodePlan) -> NetworkSettings:
    """Group the settings of a node by port. Settings are computed once, because that takes most of the time."""
    wanted = iter_settings(node, RENDERED)
    names = [(setting.rail, setting.want) for setting in wanted if isinstance(setting.want, name.Want)]
    return NetworkSettings(
        tuple(_build_port(node, wanted, name_want, rail) for rail, name_want in names),
        tuple(setting.want for setting in wanted if isinstance(setting.want, sysctl.Want)),
    )


def _build_port(node: NodePlan, wanted: tuple[Setting, ...], name_want: name.Want, rail: int | None) -> Port:
    wants = [setting.want for setting in wanted if setting.rail in {rail, None}]
    return Port(
        name_want,
        next(want.mtu_bytes for want in wants if isinstance(want, mtu.Want)),
        node.common.link_type == "infiniband",
        tuple(want.address for want in wants if isinstance(want, address.Want)),
        tuple(want.route for want in wants if isinstance(want, route.Want)),
        tuple(want for want in wants if isinstance(want, PlannedRule)),
    )
