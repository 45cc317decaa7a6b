"""The reference of the rules, written from the rulebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from trackbed.lint.catalogue import FAMILIES, Rule, catalogue

_HEAD = """# Rules of trackbed lint

Written from the rules by `python -m trackbed.lint.reference`; do not edit. An error is refused by an API server or
cannot work; a warning works now and then, or not as meant; a note never changes the exit status. Rules of the family
`schema` need CRDs (`--crds`). *fix* means that `--fix` mends it.
"""

_TITLES = {
    "schema": "Schemas",
    "documents": "Objects",
    "ranges": "Ranges, gateways, routes",
    "nvipam": "Pools of nv-ipam",
    "whereabouts": "Whereabouts",
    "names": "Names that must meet",
    "attach": "How pods name their networks",
    "cni": "CNI configurations",
    "sriov": "SR-IOV and Network Operator",
    "spiderpool": "SpiderMultusConfig",
    "pods": "Containers",
    "nccl": "NCCL and MPI",
    "quota": "Kueue",
}


def reference() -> str:
    """The whole reference as Markdown: a table of all rules, then a section for each."""
    rules = catalogue().values()
    return "\n".join([_HEAD, *_table(), "", *(part for rule in rules for part in _section(rule))]).rstrip() + "\n"


def _table() -> Iterator[str]:
    yield "| rule | severity | | what |"
    yield "|---|---|---|---|"
    for family in FAMILIES:
        for rule in catalogue().values():
            if rule.family == family:
                title = rule.title.replace("|", "\\|")
                yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {'fix' if rule.safe else ''} | {title} |"


def _section(rule: Rule) -> list[str]:
    return [
        f"## {rule.id}",
        "",
        f"{_TITLES[rule.family]}, {rule.severity}: {rule.title}.",
        "",
        rule.why,
        "",
        f"**Fix.** {rule.fix}",
        "",
        f"Found in{_assuming(rule)}:",
        "",
        f"```yaml\n{rule.bad}```",
        "",
        "Sound:",
        "",
        f"```yaml\n{rule.good}```",
        "",
    ]


def _assuming(rule: Rule) -> str:
    return f" (with `--nodes {rule.nodes}`)" if rule.nodes else ""


def explained(rule: Rule) -> str:
    """One rule for a terminal."""
    mended = "\n--fix mends it." if rule.safe else ""
    assumed = f" (with --nodes {rule.nodes})" if rule.nodes else ""
    return (
        f"{rule.id} ({rule.severity}): {rule.title}\n\n{rule.why}\n\nfix: {rule.fix}{mended}\n\n"
        f"found in{assumed}:\n\n{rule.bad}\nsound:\n\n{rule.good}"
    )


if __name__ == "__main__":  # scripts/docs
    sys.stdout.write(reference())
