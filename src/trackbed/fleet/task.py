"""What one host is asked to do, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import to_node_document
from trackbed.host.render import FORMATS
from trackbed.host.snapshot.snapshot import Wanted

Verb = Literal["diff", "apply", "boot", "reboot", "capture"]


class Task(msgspec.Struct, frozen=True):
    """One request; encoded it is what `node` reads."""

    verb: Verb
    name: str
    node: dict[str, Any] | None
    """The node document, see `plan.wire`; None where the verb needs none."""
    files: Mapping[str, Mapping[str, str]]
    """Files for the next boot, by format and path: the host has nothing to render them with."""
    persist: str
    seconds: int
    """How long the host may work on it before it puts everything back."""
    wanted: Wanted | None = None
    """What `capture` reads; every other verb has none."""


def task(verb: Verb, node: NodePlan, persist: str, seconds: int) -> Task:
    """The request for one node. `persist` is a name of `host.render.FORMATS`, `auto` or `none`."""
    if verb in {"boot", "reboot"}:
        return Task(verb, node.name, None, {}, persist, seconds)
    wanted = [form for form in FORMATS if persist in {"auto", form}]
    forms: dict[str, Mapping[str, str]] = {form: FORMATS[form](node) for form in wanted}
    return Task(verb, node.name, to_node_document(node), forms, persist, seconds)
