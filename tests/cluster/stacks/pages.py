"""The golden files of the stacks, their objects for 2 nodes with 2 rails, and the reference pages that show them.

`scripts/docs` writes both. Read the difference before you commit it: the golden files are reviewed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.stacks import MODULES, stack
from trackbed.cluster.stacks.install.readme import readme
from trackbed.cluster.stacks.rights import rights
from trackbed.cluster.stacks.stack import objects
from trackbed.fabric.yaml_text import render_documents

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "reference" / "stacks"
GOLDEN = Path(__file__).parent / "golden"


def rendered(name: str) -> str:
    """What `trackbed render stack` prints for a stack's small fabric."""
    one, plan = stack(name), planned(name, alike(2, 2), 2)
    files = [f"# --- {file}\n{text}" for file, text in one.files(plan).items()]
    nothing = not one.has_objects and not files
    return "".join([*(readme(one, plan, ()) if nothing else ()), *render_documents(objects(one, plan)), *files])


def golden(name: str) -> Path:
    """Where a stack's golden file is; without objects it is no YAML."""
    return GOLDEN / f"{name}.{'yaml' if stack(name).has_objects else 'txt'}"


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    return {f"{name}.md": _page(name) for name in MODULES} | {"README.md": _index(), "rights.md": _rights()}


def _index() -> str:
    rows = [f"| [`{name}`]({name}.md) | {stack(name).title} |" for name in MODULES]
    head = "# Stacks\n\nWritten by `scripts/docs`; do not edit. `trackbed stacks -f FILE` says which fit a Fabric.\n"
    foot = "\n[What an account must be allowed](rights.md) to apply them."
    return "\n".join([head, "| stack | what attaches what |", "|---|---|", *rows, foot]) + "\n"


def _rights() -> str:
    """What `trackbed controller --stacks` needs, for a small Fabric of each stack."""
    head = (
        "# Rights to apply a stack\n\nWritten by `scripts/docs`; do not edit.\n\n"
        "`trackbed controller --stacks STACK` applies what a Fabric names in `kubernetes.stack`, and has no right "
        "to do it until you give it:\n\n    trackbed render rights STACK -f fabric.yaml | kubectl apply -f -\n\n"
        "These are the rules for two nodes with two rails; another `kubernetes.ipam` has other kinds.\n"
    )
    own = [name for name in MODULES if stack(name).has_objects and name != "native"]
    return "\n".join([head, *(f"## {name}\n\n{_rules(name)}" for name in own)])


def _rules(name: str) -> str:
    rules = rights(stack(name), planned(name, alike(2, 2), 2))
    cells = [(one["apiGroups"][0] or "core", *(", ".join(one[key]) for key in ("resources", "verbs"))) for one in rules]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(["| API group | kinds | verbs |", "|---|---|---|", *rows]) + "\n"


def _page(name: str) -> str:
    one = stack(name)
    site = {key: value for key, value in SITES[name].items() if key != "addressing"}
    fabric = f"scheme `{SITES[name]['addressing']['scheme']}`" + (f", `{json.dumps(site)}`" if site else "")
    parts = [
        f"# {name}\n\nWritten by `scripts/docs`; do not edit.\n\n{one.title}.\n",
        _list("Needs", one.needs),
        _list("Cannot", one.cannot),
        f"## Two nodes, two rails\n\nWhat `trackbed render stack {name}` prints ({fabric}):\n",
        f"```{'yaml' if one.has_objects else 'text'}\n{golden(name).read_text()}```\n",
    ]
    return "\n".join(part for part in parts if part)


def _list(title: str, lines: tuple[str, ...]) -> str:
    return f"## {title}\n\n" + "".join(f"- {line}\n" for line in lines) if lines else ""


if __name__ == "__main__":
    PAGES.mkdir(parents=True, exist_ok=True)
    for known in MODULES:
        golden(known).write_text(rendered(known))
    for file, text in pages().items():
        (PAGES / file).write_text(text)
