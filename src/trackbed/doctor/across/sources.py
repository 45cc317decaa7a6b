"""What excerpts lack because of how they were read: nodes that were not read, pseudonyms, two captures of one host.

The nodes may be sound.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackbed.doctor.across.excerpt import NodeExcerpt
from trackbed.doctor.finding import FaultEnd, Finding
from trackbed.doctor.unjudged import PSEUDONYMOUS, REPEATED, UNREAD, Unjudged
from trackbed.fabric.host_ranges import fold_hosts

IDS = (UNREAD.id, PSEUDONYMOUS.id, REPEATED.id)
PSEUDONYMOUS_PARTS = ("macs", "addresses", "identity", "guids")
"""Attributes of NodeExcerpt that a capture without --identified has not."""


class RepeatedCapture(NamedTuple):
    """A capture that is not compared, and the earlier one of the same host."""

    dropped: NodeExcerpt
    kept: NodeExcerpt


def explain_unread(excerpt: NodeExcerpt, part: str) -> str | None:
    """Return the id of the finding that explains why a part of an excerpt was not read; None if there is none."""
    if excerpt.failure:
        return UNREAD.id
    return PSEUDONYMOUS.id if excerpt.is_pseudonymous and part in PSEUDONYMOUS_PARTS else None


def report_unread(excerpts: Sequence[NodeExcerpt]) -> Iterator[Finding]:
    """Yield one finding for the nodes of which nothing was read, by reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for excerpt in excerpts:
        if excerpt.failure:
            remedy = "Capture it again" if excerpt.source else "Log in by ssh and mend that"
            reasons.setdefault((excerpt.failure, remedy), []).append(excerpt.node)
    for (reason, remedy), names in reasons.items():
        yield _build_finding(
            UNREAD,
            names,
            (
                f"{fold_hosts(names)}: {reason}",
                UNREAD.cause,
                f"{remedy}, then run this again; the other findings are of the nodes that were read.",
            ),
        )


def report_pseudonymous(excerpts: Sequence[NodeExcerpt]) -> Iterator[Finding]:
    """Yield one finding for the captures in which names and addresses are pseudonyms."""
    names = list(dict.fromkeys(excerpt.node for excerpt in excerpts if excerpt.is_pseudonymous))
    if names:
        yield _build_finding(
            PSEUDONYMOUS,
            names,
            (
                f"{fold_hosts(names)}: captured without --identified; names, addresses and GUIDs were not compared",
                PSEUDONYMOUS.cause,
                PSEUDONYMOUS.fix,
            ),
        )


def report_repeated(repeated: Sequence[RepeatedCapture]) -> Iterator[Finding]:
    """Yield one finding for each capture that was dropped."""
    for dropped, kept in repeated:
        alike = "GUIDs or MAC addresses, host name and machine id" if _identify_host(dropped) else "file name"
        yield _build_finding(
            REPEATED,
            list(dict.fromkeys((dropped.node, kept.node))),
            (
                f"{kept.source} and {dropped.source} are captures of one host",
                f"Their {alike} are the same. Only {kept.source} was compared with others.",
                REPEATED.fix,
            ),
        )


def drop_repeated(excerpts: Sequence[NodeExcerpt]) -> tuple[list[NodeExcerpt], list[RepeatedCapture]]:
    """Return the excerpts without captures of a host of which there is an earlier one, and those captures."""
    kept: dict[object, NodeExcerpt] = {}
    repeated = []
    for position, excerpt in enumerate(excerpts):
        is_capture = bool(excerpt.source) and not excerpt.failure
        host: object = (_identify_host(excerpt) or excerpt.node) if is_capture else position
        other = kept.setdefault(host, excerpt)
        if other is excerpt:
            continue
        if _has_other_macs(excerpt, other):
            kept[position] = excerpt
        else:
            repeated.append(RepeatedCapture(excerpt, other))
    return list(kept.values()), repeated


def _identify_host(excerpt: NodeExcerpt) -> tuple[object, ...] | None:
    """Return what no two hosts share; None if it was not read. Clones share names but not the NICs' own numbers."""
    hardware = excerpt.guids or _list_port_macs(excerpt)
    return (excerpt.identity, hardware) if hardware else None


def _has_other_macs(excerpt: NodeExcerpt, other: NodeExcerpt) -> bool:
    macs = (_list_port_macs(excerpt), _list_port_macs(other))
    return all(macs) and macs[0] != macs[1]


def _list_port_macs(excerpt: NodeExcerpt) -> tuple[str, ...]:
    """Return the MAC addresses of the ports; those of VFs may be others after a reboot."""
    return tuple(held.mac for held in excerpt.macs or () if held.vf is None)


def _build_finding(kind: Unjudged, names: Sequence[str], texts: tuple[str, str, str]) -> Finding:
    """Return a finding `unknown` of nodes; `texts` are evidence, cause and fix."""
    ends = tuple(map(FaultEnd, names))
    return Finding(kind.id, "fabric", "unknown", kind.title, *texts, node=names[0], ends=ends)
