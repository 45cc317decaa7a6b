"""The golden files of the stacks, their objects for 2 nodes with 2 rails, and the reference pages that show them.

Read the difference before you commit it: the golden files are reviewed by hand.
"""

import json
from collections.abc import Iterator

from tests.cluster.stacks.sites import SITES, alike, planned
from tools.pages.chart_values_page import render_chart_values_page
from tools.pages.stack_costs_page import render_stack_costs_page
from trackbed.cli.stack_tables import list_figures
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.comparison import EVIDENCE, MATURITY, ComparedStack, compare_stack
from trackbed.cluster.stacks.install.readme import render_readme
from trackbed.cluster.stacks.rights import build_cluster_role_rules
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.fabric.yaml_text import render_documents


def render_golden(name: str) -> str:
    """Return what `trackbed render stack` prints for a stack's small Fabric."""
    renderer, plan = load_stack(name), planned(name, alike(2, 2), 2)
    files = [f"# --- {file}\n{text}" for file, text in renderer.files(plan).items()]
    instructions = () if renderer.has_objects or files else render_readme(renderer, plan, ())
    return "".join([*instructions, *render_documents(iter_objects(renderer, plan)), *files])


def format_golden_name(name: str) -> str:
    """Return the name of a stack's golden file; without objects it is no YAML."""
    return f"{name}.{_get_format(name, 'yaml', 'txt')}"


def iter_stack_pages() -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of every page."""
    for name in MODULES:
        yield f"{name}.md", _render_page(name)
    yield "README.md", _render_index()
    yield "rights.md", _render_rights_page()
    yield "chart-values.md", render_chart_values_page()
    yield "costs.md", render_stack_costs_page()


def _render_index() -> str:
    rows = [f"| [`{name}`]({name}.md) | {load_stack(name).title} |" for name in MODULES]
    figures = [f"| {' | '.join(_iter_index_cells(name))} |" for name in MODULES]
    head = "# Stacks\n\n`trackbed stacks -f FILE` says which fit a Fabric.\n"
    foot = (
        "\n[What an account must be allowed](rights.md) to apply them. "
        "[What stacks write into charts](chart-values.md), and what it changes. [What they cost](costs.md)."
    )
    text = [head, "| stack | what attaches what |", "|---|---|", *rows, "", _COMPARED, *figures, "", *_MEANINGS, foot]
    return "\n".join(text) + "\n"


_COMPARED = """\
## Compared

Each with the small Fabric of its page; `trackbed stacks -f FILE` has the figures of yours, and says which to take.

| stack | for | a pod gets | Kubernetes | API writes a pod | maturity | tried |
|---|---|---|---|---|---|---|"""
_MEANINGS = [f"- **{word}**: {meaning}" for word, meaning in [*MATURITY.items(), *EVIDENCE.items()]]


def _iter_index_cells(name: str) -> Iterator[str]:
    candidate = _compare(name)
    figures = candidate.figures
    yield f"[`{name}`]({name}.md)"
    yield candidate.only_for or "any cluster"
    yield from (figures.pod_gets, figures.kubernetes, figures.writes) if figures else "---"
    yield from (candidate.maturity, candidate.evidence)


def _compare(name: str) -> ComparedStack:
    return compare_stack(load_stack(name), planned(name, alike(2, 2), 2))


def _list_facts(name: str) -> tuple[str, ...]:
    """Return the facts of a stack with its small Fabric."""
    candidate = _compare(name)
    maturity = f"maturity: {candidate.maturity} ({candidate.maturity_reason})"
    tried = f"tried: {candidate.evidence} ({candidate.evidence_detail})"
    return (maturity, tried, *(list_figures(candidate.figures) if candidate.figures else ()))


def _render_rights_page() -> str:
    """Render what `trackbed controller --stacks` needs, for a small Fabric of each stack."""
    head = (
        "# Rights to apply a stack\n\n"
        "`trackbed controller --stacks STACK` applies what a Fabric names in `kubernetes.stack`, and has no right "
        "to do it until you give it:\n\n    trackbed render rights STACK -f fabric.yaml | kubectl apply -f -\n\n"
        "These are the rules for two nodes with two rails; another `kubernetes.ipam` has other kinds.\n"
    )
    names = [name for name in MODULES if load_stack(name).has_objects and name != "native"]
    return "\n".join([head, *(f"## {name}\n\n{_render_rules(name)}" for name in names)])


def _render_rules(name: str) -> str:
    rules = build_cluster_role_rules(load_stack(name), planned(name, alike(2, 2), 2))
    cells = [
        (rule["apiGroups"][0] or "core", *(", ".join(rule[key]) for key in ("resources", "verbs"))) for rule in rules
    ]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(["| API group | kinds | verbs |", "|---|---|---|", *rows]) + "\n"


def _render_page(name: str) -> str:
    renderer = load_stack(name)
    site = {key: value for key, value in SITES[name].items() if key != "addressing"}
    fabric = f"scheme `{SITES[name]['addressing']['scheme']}`" + (f", `{json.dumps(site)}`" if site else "")
    tried = _compare(name)
    parts = [
        f"# {name}\n\n{tried.evidence.capitalize()}: {tried.evidence_detail}.\n",
        f"{renderer.title}.\n",
        _render_list("Facts", _list_facts(name)),
        _render_list("Needs", renderer.needs),
        _render_list("Cannot", renderer.cannot),
        f"## Two nodes, two rails\n\nWhat `trackbed render stack {name}` prints ({fabric}):\n",
        f"```{_get_format(name, 'yaml', 'text')}\n{render_golden(name)}```\n",
    ]
    return "\n".join(part for part in parts if part)


def _get_format(name: str, objects_format: str, text_format: str) -> str:
    return objects_format if load_stack(name).has_objects else text_format


def _render_list(title: str, lines: tuple[str, ...]) -> str:
    return f"## {title}\n\n" + "".join(f"- {line}\n" for line in lines) if lines else ""
