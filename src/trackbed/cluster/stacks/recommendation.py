"""The stack to take for a plan: the best candidate that fits, what speaks for it and against it, and the others.

Stacks for certain sites only, as those of clouds, are never the best; they are named with their site.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trackbed.cluster.stacks.comparison import EVIDENCE, MATURITY, ComparedStack, Figures
from trackbed.cluster.stacks.traits import Share
from trackbed.fabric.plan.plan import Plan

_SHARES = {"move": Share.PORT, "sriov": Share.VF, "macvlan": Share.SHARED}
"""What pods.mode asks for."""
_UNKNOWN_WRITES = 1 << 20
"""A stack whose API writes are unknown ranks after all others."""

_Choice = tuple[ComparedStack, Figures]


class Recommendation(msgspec.Struct, frozen=True, rename="camel"):
    """The stack to take, what speaks for it and against it, and when to take another."""

    name: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]
    alternatives: tuple[tuple[str, str], ...]
    """Other stacks that fit, each with the case in which to take it."""


def recommend(candidates: Iterable[ComparedStack], plan: Plan) -> Recommendation | None:
    """Return the stack to take; None if no stack fits that is for any cluster."""
    choices = [(candidate, candidate.figures) for candidate in candidates if candidate.figures is not None]
    wanted = _SHARES[plan.common.pod_mode]
    general = [choice for choice in choices if not choice[0].only_for]
    best = min(general, key=lambda choice: _rank(choice, wanted), default=None)
    if best is None:
        return None
    others = sorted((choice for choice in general if choice is not best), key=lambda choice: _rank(choice, wanted))
    alternatives = [
        (candidate.name, _describe_case(best[0], (candidate, figures), wanted)) for candidate, figures in others
    ]
    alternatives += [(candidate.name, f"for {candidate.only_for}") for candidate, _ in choices if candidate.only_for]
    return Recommendation(
        best[0].name,
        tuple(_iter_reasons(best, others, plan.common.pod_mode, wanted)),
        tuple(_iter_cautions(best, plan.common.pod_mode, wanted)),
        tuple(alternatives),
    )


def _rank(choice: _Choice, wanted: Share) -> tuple[int, ...]:
    """Return the order of preference: what pods.mode asks for, no preview, what was tried, what it needs and costs."""
    candidate, figures = choice
    return (
        figures.pod_gets != wanted,
        candidate.maturity == "preview",
        list(EVIDENCE).index(candidate.evidence),
        len(figures.operators),
        _UNKNOWN_WRITES if figures.writes_per_pod is None else figures.writes_per_pod,
    )


def _iter_reasons(best: _Choice, others: Sequence[_Choice], pod_mode: str, wanted: Share) -> Iterator[str]:
    candidate, figures = best
    if figures.pod_gets == wanted:
        yield f"pods get what pods.mode {pod_mode} asks for, {_name_share(wanted)}: {wanted.isolation}"
    if figures.pods_per_node is not None:
        yield f"a node has room for {figures.pods_per_node} {_pluralize(figures.pods_per_node)} with all rails"
    alone = "it alone was run" if all(other.evidence != candidate.evidence for other, _ in others) else "it was run"
    yield f"{alone}: {candidate.evidence_detail}" if candidate.evidence == "ran" else candidate.evidence_detail
    if candidate.maturity == "released":
        yield f"{MATURITY['released']}: {candidate.maturity_reason}"
    yield from _iter_costs(figures, [other for _, other in others])


def _name_share(share: Share) -> str:
    return {Share.VF: "a VF of their own", Share.PORT: "the port itself"}.get(share, "a share of the port")


def _pluralize(count: int) -> str:
    return "pod" if count == 1 else "pods"


def _iter_costs(figures: Figures, others: Sequence[Figures]) -> Iterator[str]:
    if figures.writes_per_pod is not None:
        known = [other.writes_per_pod for other in others if other.writes_per_pod is not None]
        compared = f", with other stacks {min(known)} or more" if known and min(known) > figures.writes_per_pod else ""
        yield f"a starting pod costs the API server {figures.writes} writes{compared}"
    if not figures.operators:
        yield f"its charts bring all that it needs: {', '.join(figures.installs) or 'none'}"


def _iter_cautions(best: _Choice, pod_mode: str, wanted: Share) -> Iterator[str]:
    candidate, figures = best
    if figures.pod_gets != wanted:
        yield f"pods.mode {pod_mode} asks for {_name_share(wanted)}, and no stack that fits gives it"
    if candidate.maturity != "released":
        yield f"{candidate.maturity}: {candidate.maturity_reason}"
    if candidate.evidence != "ran":
        yield "no pod of it ran in Trackbed's tests as this plan wants it"
    if figures.operators:
        yield f"the cluster must have {', '.join(figures.operators)}"
    yield from (f"it cannot do: {limit}" for limit in candidate.cannot)


def _describe_case(best: ComparedStack, other: _Choice, wanted: Share) -> str:
    """Return the case in which to take another stack than the best."""
    candidate, figures = other
    if figures.pod_gets != wanted:
        return f"if pods are to get {_name_share(Share(figures.pod_gets))} instead"
    if candidate.maturity == "released" and best.maturity != "released":
        return f"if others must rely on it already: {candidate.maturity_reason}"
    return f"if its operators run in the cluster already ({candidate.maturity_reason})"
