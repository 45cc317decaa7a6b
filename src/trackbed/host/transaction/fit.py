"""Whether a plan fits the machine, or would remove entries that carry the machine's traffic.

A Fabric of another cluster, an old file or the plan of another node has none of a host's ports or addresses. To apply
it would remove the addresses, routes, rules and VFs that carry the host's traffic. Such a plan is refused, unless the
caller confirms the number of removals.

The plan of another node may differ in its addresses alone, and addresses of other programs stay. So it is known by the
rules: those of the host all have other sources than the planned ones.
"""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.change import Comparison, count_changes
from trackbed.host.kinds import name, rule
from trackbed.host.kinds.registry import KINDS
from trackbed.host.kinds.view import View

_MIN_PRESENT_PER_LOST = 3
"""A plan fits if the machine has at least this many entries for each entry that would be lost."""
_MAX_NAMES = 16
"""Maximum number of interfaces, ports or sources that a message lists."""


class Fit(NamedTuple):
    """What applying a plan would remove from a machine."""

    present: int
    """Number of addresses, routes, rules and VFs on planned ports or marked as Trackbed's."""
    lost: int
    """Number of these that would be removed without a replacement."""
    removals: int
    """Number of all removals, files included."""
    planned_ports: tuple[str, ...]
    """Names of the planned ports."""
    absent_ports: tuple[str, ...]
    """Names of the planned ports that the machine lacks, without those that are in pods."""
    interfaces: tuple[str, ...]
    """Names of the machine's interfaces that could be ports."""
    other_sources: tuple[str, ...] = ()
    """Sources of the machine's rules, if none of them is planned."""


def measure_fit(view: View, comparison: Comparison) -> Fit:
    """Return what applying the compared plan would remove."""
    wants = view.list_wants(name.Want)
    return Fit(
        present=sum(kind.count_entries(view) for kind in KINDS),
        lost=sum(change.removed for change in comparison.changes),
        removals=count_changes(comparison).remove,
        planned_ports=tuple(want.netdev for want in wants),
        absent_ports=tuple(
            want.netdev for want in wants if want.netdev not in view.ports and not name.find_pod(view, want)
        ),
        interfaces=tuple(link.name for link in view.state.links if name.can_be_port(link) and link.name != "lo"),
        other_sources=rule.find_other_sources(view),
    )


def explain_misfit(fit: Fit) -> str:
    """Return why the plan does not fit, and the machine's own ports; empty if it fits.

    A host whose ports are all in pods has none of them, but has rules of the plan, and loses nothing.
    """
    if fit.planned_ports and len(fit.absent_ports) == len(fit.planned_ports) and (fit.lost or not fit.present):
        here = _format_names(fit.interfaces) or "no port"
        return f"this host has none of the {len(fit.planned_ports)} planned ports (here: {here})"
    if fit.absent_ports and fit.lost:
        return (
            f"this host lacks {len(fit.absent_ports)} of the {len(fit.planned_ports)} planned ports"
            f" ({_format_names(fit.absent_ports)}), and {_format_loss(fit)}"
        )
    if fit.lost * _MIN_PRESENT_PER_LOST > fit.present:
        return _format_loss(fit)
    if fit.other_sources:
        return f"the rules of this host are those of another plan: from {_format_names(fit.other_sources)}"
    return ""


def explain_refusal(fit: Fit, removals: int | None) -> str:
    """Return why a plan must not be applied; empty if it may. `removals` is the number that the user confirmed."""
    if removals is None:
        misfit = explain_misfit(fit)
        remedy = f"--removals {fit.removals} applies it all the same"
        return misfit and f"{misfit}. Is it the right Fabric and node? {remedy}"
    if removals != fit.removals:
        return f"{fit.removals} entries would be removed, not {removals}; look at the differences again"
    return ""


def _format_loss(fit: Fit) -> str:
    return f"{fit.lost} of {fit.present} addresses, routes, rules and VFs would be removed"


def _format_names(names: tuple[str, ...]) -> str:
    suffix = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + suffix
