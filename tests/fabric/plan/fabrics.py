"""Fabrics of all schemes for property tests: a strategy, and invariants of every plan."""

from __future__ import annotations

from hypothesis import strategies as st

from trackbed.fabric.model.fabric import Fabric

HEAD = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "f"}}


def fabric(**spec: object) -> Fabric:
    """Return a Fabric with 10.0.0.0/8 free for rails."""
    return Fabric.model_validate(HEAD | {"spec": {"otherRanges": {"docker": []}} | spec})


def shared(draw: st.DrawFn) -> dict[str, object]:
    """Draw addressing of one subnet for each rail; it may be small, with any usable gateway."""
    return {
        "scheme": "shared-subnet",
        "ipv4RailPrefix": draw(st.integers(18, 24)),
        "podAddresses": draw(st.integers(0, 40)),
        "gateway": draw(st.sampled_from(["none", "first", "last"])),
    }


def subnets(draw: st.DrawFn) -> dict[str, object]:
    """Draw addressing of one subnet for each node."""
    return {
        "scheme": "node-subnet",
        "ipv4RailPrefix": draw(st.integers(16, 20)),
        "ipv4NodePrefix": draw(st.integers(25, 29)),
    }


def points(draw: st.DrawFn) -> dict[str, object]:
    """Draw addressing of one /31 for each node, in IPv6 a /127 or wider."""
    layout = draw(st.sampled_from(["dense", "spectrum-x-2tier"]))
    return {"scheme": "point-to-point", "layout": layout, "ipv6NodePrefix": draw(st.sampled_from([64, 126, 127]))}


SCHEMES = (shared, subnets, points)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Draw a Fabric of the three schemes with addresses, with enough room for its nodes."""
    addressing = draw(st.sampled_from(SCHEMES))(draw) | {"ipv4": "10.0.0.0/8"}
    if addressing.get("layout") == "spectrum-x-2tier":
        addressing |= {"ipv4": "172.16.0.0/12"}
    if draw(st.booleans()):
        addressing |= {"ipv6": "fd00::/32"}
    rails, nodes = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    return fabric(
        nodes=[{"hosts": f"n[1-{nodes}]"}],
        rails=rails,
        nodesPerUnit=draw(st.sampled_from([1, 2, 32])),
        addressing=addressing,
        pods={"mode": "move"},
    )
