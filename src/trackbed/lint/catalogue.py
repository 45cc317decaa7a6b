"""The rules: what each says and why, with a manifest that breaks it and one that keeps it (`rulebook/*.yaml`)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from trackbed.lint.finding import Severity
from trackbed.lint.rules import FAMILIES


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule."""

    id: str
    severity: Severity
    title: str
    """One line."""
    why: str
    """What breaks, and which standard, program or document says so."""
    fix: str
    bad: str
    """A manifest that breaks this rule."""
    good: str
    """The same manifest, sound."""
    family: str = ""
    safe: bool = False
    """Whether --fix mends it."""
    nodes: int | None = None
    """Number of nodes that the examples assume (--nodes)."""


@cache
def catalogue() -> dict[str, Rule]:
    """Every rule by id."""
    rules = [rule for family in FAMILIES for rule in _read(family)]
    return {rule.id: rule for rule in rules}


def explain_rule(rule: Rule) -> str:
    """Render one rule for a terminal."""
    mended = "\n--fix mends it." if rule.safe else ""
    nodes = f" (with --nodes {rule.nodes})" if rule.nodes else ""
    return (
        f"{rule.id} ({rule.severity}): {rule.title}\n\n{rule.why}\n\nfix: {rule.fix}{mended}\n\n"
        f"found in{nodes}:\n\n{rule.bad}\nsound:\n\n{rule.good}"
    )


def _read(family: str) -> list[Rule]:
    text = files("trackbed.lint").joinpath("rulebook", f"{family}.yaml").read_text(encoding="utf-8")
    raw: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return [msgspec.convert({**rule, "family": family}, Rule) for rule in raw]
