"""The reference of the rules of `trackbed lint`, made of the rulebook."""

from collections.abc import Iterator

from trackbed.lint.catalogue import Rule, load_rules
from trackbed.lint.rules import FAMILIES
from trackbed.lint.schemas.shipped import count_sources

_HEAD = """# Rules of trackbed lint

An error is refused by an API server or cannot work; a warning works now and then, or not as meant; a note never
changes the exit status. *fix* means that `--fix` mends it.

The rules of the family `schema` check fields and types. Lint ships with the schemas of Kubernetes {kubernetes} and of
{crds} kinds of operators around GPU networks; `--crds DIR` and `--cluster` add those of other kinds and releases. Where
several releases of a kind are shipped, a field of any of them is right.

A comment `# trackbed: ignore RULE reason` accepts a problem: at the end of a line, or alone above it, for that line and
for the text that a `|` on it begins; before the first line of content for the whole file. `--baseline FILE` does not
report the problems that FILE holds, and `--update-baseline` writes it.

The files of one folder are checked together. Pods that name networks or resources of another folder are related to it
if one of their names is defined there.
"""


def render_lint_page() -> str:
    """Render the whole page: a table of all rules, then a section for each."""
    sections = (line for rule in load_rules().values() for line in _iter_section(rule))
    head = _HEAD.format(**count_sources())
    return "\n".join([head, *_iter_table(), "", *sections]).rstrip() + "\n"


def _iter_table() -> Iterator[str]:
    yield "| rule | severity | | what |"
    yield "|---|---|---|---|"
    for family in FAMILIES:
        for rule in load_rules().values():
            if rule.family == family:
                title = rule.title.replace("|", "\\|")
                yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {'fix' if rule.safe else ''} | {title} |"


def _iter_section(rule: Rule) -> Iterator[str]:
    yield f"## {rule.id}\n\n{FAMILIES[rule.family]}, {rule.severity}: {rule.title}.\n"
    yield f"{rule.why}\n\n**Fix.** {rule.fix}\n"
    nodes = f" (with `--node-count {rule.nodes}`)" if rule.nodes else ""
    yield f"Found in{nodes}:\n\n```yaml\n{rule.bad}```\n"
    yield f"Sound:\n\n```yaml\n{rule.good}```\n"
