"""Policy rules in the words of ip-rule(8), to which every source can bring its rules."""

from collections.abc import Mapping, Sequence

from trackbed.fabric.importers.interface import StaticRule
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.source import Scalar

_SYNONYMS = {"lookup": "table", "pref": "priority", "preference": "priority", "order": "priority"}
_MAX_DIGITS = 10
"""Digits of the highest priority, which has 32 bits."""


def parse_rule_words(parser: ValueParser, words: Sequence[str], place: Place) -> StaticRule | None:
    """Return the rule of `[not] from RANGE table TABLE priority NUMBER`; None if its ranges cannot be read."""
    is_inverted = "not" in words[:3]
    terms = [word for word in words if word not in {"not", "add"}]
    pairs = zip(terms[::2], terms[1::2], strict=False)
    return parse_rule(parser, dict(pairs), place, inverted=is_inverted)


def parse_rule(
    parser: ValueParser, options: Mapping[str, str], place: Place, *, inverted: bool = False
) -> StaticRule | None:
    """Return the rule of options such as {from: 10.0.0.1, table: 101}; None if its ranges cannot be read.

    With `inverted`, the rule is for packets that the options do not describe.
    """
    options = {_SYNONYMS.get(key, key): value for key, value in options.items() if value}
    ranges = {}
    for key in ("from", "to"):
        text = options.get(key, "all")
        ranges[key] = None if text in {"all", "any"} else parser.parse_range(Scalar(text, place))
        if ranges[key] is None and text not in {"all", "any"}:
            return None
    priority = options.get("priority", "")
    is_number = priority.isascii() and priority.isdigit() and len(priority) <= _MAX_DIGITS
    extras = [f"{key} {value}" for key, value in options.items() if key not in {"from", "to", "table", "priority"}]
    extras += [f"priority {priority}"] if priority and not is_number else []
    unless_to = ranges["to"] if inverted and ranges["from"] is None else None
    extras += [f"to {ranges['to']}"] if ranges["to"] and not unless_to else []
    extras += ["not"] if inverted and not unless_to else []
    return StaticRule(
        ranges["from"], options.get("table", ""), int(priority) if is_number else None, place, tuple(extras), unless_to
    )
