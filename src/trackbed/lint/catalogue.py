"""The rules: title, reason and fix, with a manifest that breaks it and one that follows it (`rulebook/*.yaml`)."""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from trackbed.lint.finding import Severity
from trackbed.lint.rules import FAMILIES


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule, as its file in `rulebook/` describes it."""

    id: str
    severity: Severity
    title: str
    """The violation in one line."""
    why: str
    """The consequence of a violation, and the standard, program or document it follows from."""
    fix: str
    bad: str
    """A manifest that breaks this rule."""
    good: str
    """The same manifest without the mistake."""
    family: str = ""
    safe: bool = False
    """Whether --fix repairs a violation."""
    nodes: int | None = None
    """Nodes that the examples assume (--node-count)."""


@cache
def load_rules() -> dict[str, Rule]:
    """Return every rule by id, in the order of the reference documentation."""
    rules = [rule for family in FAMILIES for rule in _load_family(family)]
    return {rule.id: rule for rule in rules}


def _load_family(family: str) -> list[Rule]:
    text = files("trackbed.lint").joinpath("rulebook", f"{family}.yaml").read_text(encoding="utf-8")
    raw: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return [msgspec.convert({**rule, "family": family}, Rule) for rule in raw]
