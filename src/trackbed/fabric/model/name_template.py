"""Templates of names: text with the words {rail}, {number} and {unit}.

`str.format` would read attributes and items of values, and pad a number to any width; only the words are substituted.
"""

import re

TEMPLATE_CHARACTERS = 128
"""Longest template."""
TEMPLATE = re.compile(r"([A-Za-z0-9_.-]|[{](rail|number|unit)[}])+")
RESOURCE_TEMPLATE = re.compile(r"([A-Za-z0-9_./-]|[{](rail|number|unit)[}])+")
"""A slash separates the prefix of a resource."""

KEEP = "keep"
"""The template by which ports keep their names."""


def render_name(template: str, rail: int, unit: int = 0) -> str:
    """Return the name of a rail, and of a unit if the template names it."""
    return template.replace("{rail}", str(rail)).replace("{number}", str(rail + 1)).replace("{unit}", str(unit))


def explain_bad_template(template: str, pattern: re.Pattern[str]) -> str:
    """Return what is wrong with a template; empty if nothing is."""
    if len(template) > TEMPLATE_CHARACTERS:
        return f"a template has {len(template)} characters; write {TEMPLATE_CHARACTERS} at most"
    if not pattern.fullmatch(template):
        words = re.sub(r"[{](rail|number|unit)[}]", "", template)
        if set("{}") & set(words):
            return f"template {template!r} may use {{rail}}, {{number}} and {{unit}} only"
        return f"template {template!r} may have letters, digits, '_', '.' and '-' only, besides {{rail}} and its like"
    if template != KEEP and render_name(template, 0) == render_name(template, 1):
        return f"template {template!r} gives all rails one name, put {{rail}} in it"
    return ""
