"""The reference of the rules of `trackbed lint`, made of the rulebook."""

from collections.abc import Iterator

from trackbed.lint.catalogue import Rule, load_rules
from trackbed.lint.rules import FAMILIES

_HEAD = """# Rules of trackbed lint

Written from the rules by `scripts/docs`; do not edit. An error is refused by an API server or cannot work; a warning
works now and then, or not as meant; a note never changes the exit status. Rules of the family `schema` need CRDs
(`--crds`). *fix* means that `--fix` mends it.
"""


def render_lint_page() -> str:
    """Render the whole page: a table of all rules, then a section for each."""
    sections = (line for rule in load_rules().values() for line in _iter_section(rule))
    return "\n".join([_HEAD, *_iter_table(), "", *sections]).rstrip() + "\n"


def _iter_table() -> Iterator[str]:
    yield "| rule | severity | | what |"
    yield "|---|---|---|---|"
    for family in FAMILIES:
        for rule in load_rules().values():
            if rule.family == family:
                title = rule.title.replace("|", "\\|")
                yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {'fix' if rule.safe else ''} | {title} |"


def _iter_section(rule: Rule) -> Iterator[str]:
    yield f"## {rule.id}\n\n{FAMILIES[rule.family].title}, {rule.severity}: {rule.title}.\n"
    yield f"{rule.why}\n\n**Fix.** {rule.fix}\n"
    nodes = f" (with `--nodes {rule.nodes}`)" if rule.nodes else ""
    yield f"Found in{nodes}:\n\n```yaml\n{rule.bad}```\n"
    yield f"Sound:\n\n```yaml\n{rule.good}```\n"
