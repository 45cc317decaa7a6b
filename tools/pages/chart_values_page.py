"""The page on the values of other projects' charts: what stacks write, and what changes with the Fabric."""

import json
from collections.abc import Iterator
from itertools import groupby

from tests.cluster.stacks.chart_fabrics import CASES, FABRICS, compute_case, iter_paths, list_charts
from tools.pages.chart_values import list_paths, load_chart_values
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.releases import load_catalogue
from trackbed.cluster.stacks.stack import iter_objects

_HEAD = """\
# Values of charts

`trackbed render stack` writes a file of Helm values for each chart that a stack installs. These are all values in them:
the chart's own default, why a stack writes another or the same, and where the value shows in what helm renders. Helm
merges mappings, so the chart's own labels stay in a node selector; lists are replaced.
[values](../fabric.md) of the Fabric win over all of them.

Tests take these facts to the real charts of the versions named (Spiderpool 1.2.2, Network Operator 26.4.1 and its main
branch of August 2026, GPU Operator 26.7.0, SR-IOV operator 1.6.0, Whereabouts 0.9.4, dra-driver-sriov at cd9404f): each
value exists, changes what helm renders, and shows where this page says; a real API server takes every object. Network
Operator 26.4.1 and SR-IOV operator 1.6.0 also run there: their networks, device plugins and node selectors say what the
Fabric wants. DRANET's chart is not among them: its row was read in the chart of 1.4.0.

"""
_FEATURES = """\
## Feature by feature

What changes where a Fabric differs from the first of its stack: values of the charts, with the place where they show,
and fields of the stack's own objects, which the same tests give to an API server with the charts' kinds.

| stack | first Fabric | other Fabric | values of charts | objects of the stack |
|---|---|---|---|---|
"""


def render_chart_values_page() -> str:
    """Render the whole page."""
    return "".join([_HEAD, *_iter_chart_tables(), _FEATURES, *_iter_feature_rows()])


def _iter_chart_tables() -> Iterator[str]:
    written = _collect_written_values()
    for component, facts in groupby(load_chart_values(), lambda fact: fact.component):
        release = load_catalogue()[component].releases[-1]
        yield f"## {component} {release.version}\n\n"
        yield "| value | written | default | why | shows in |\n|---|---|---|---|---|\n"
        for fact in facts:
            values = " or ".join(_render_value(value) for value in written[component, fact.value])
            yield f"| `{fact.value}` | {values} | {_render_value(fact.default)} | {fact.why} | {fact.shows} |\n"
        yield "\n"


def _collect_written_values() -> dict[tuple[str, str], list[object]]:
    """Return all values that any Fabric gives, by component and path."""
    result: dict[tuple[str, str], list[object]] = {}
    for stack, feature in CASES:
        for key, value in _list_values(stack, feature).items():
            values = result.setdefault(key, [])
            if value not in values:
                values.append(value)
    return result


def _list_values(stack: str, feature: str) -> dict[tuple[str, str], object]:
    return {
        (step.chart.component, path): value
        for step in list_charts(stack, feature)
        for path, value in iter_paths(step.chart.values, list_paths(step.chart.component))
    }


def _iter_feature_rows() -> Iterator[str]:
    for stack, features in FABRICS.items():
        first, *others = features
        for feature in others:
            cells = (_list_value_changes(stack, first, feature), _list_object_changes(stack, first, feature))
            values, objects = ("<br>".join(lines) or "none" for lines in cells)
            yield f"| [`{stack}`]({stack}.md) | {first} | {feature} | {values} | {objects} |\n"


def _list_value_changes(stack: str, first: str, feature: str) -> list[str]:
    """Return the values that differ, and where they show."""
    facts = {(fact.component, fact.value): fact for fact in load_chart_values()}
    before, after = _list_values(stack, first), _list_values(stack, feature)
    changed = [key for key in {**before, **after} if key not in before or before[key] != after.get(key, before[key])]
    dropped = [key for key in before if key not in after]
    return [
        *(f"{key[0]}: `{key[1]}` {_render_value(after[key])} ({facts[key].shows})" for key in changed),
        *(f"{key[0]}: no `{key[1]}`" for key in dropped),
    ]


def _list_object_changes(stack: str, first: str, feature: str) -> list[str]:
    """Return the kinds that only one of two Fabrics has, and the fields that differ in the first object of a kind."""
    before, after = _find_first_objects(stack, first), _find_first_objects(stack, feature)
    return [
        *(f"`{kind}`" for kind in after if kind not in before),
        *(f"no `{kind}`" for kind in before if kind not in after),
        *(
            f"`{kind}` {', '.join(f'`{field}`' for field in fields)}"
            for kind in before
            if (fields := _list_changed_fields(before[kind], after.get(kind, before[kind])))
        ),
    ]


def _find_first_objects(stack: str, feature: str) -> dict[str, Manifest]:
    result: dict[str, Manifest] = {}
    for manifest in iter_objects(load_stack(stack), compute_case(stack, feature)):
        result.setdefault(manifest["kind"], manifest)
    return result


def _list_changed_fields(before: Manifest, after: Manifest) -> list[str]:
    """Return the fields of the specification that differ."""
    first, other = before.get("spec", {}), after.get("spec", {})
    return [field for field in {**first, **other} if first.get(field) != other.get(field)]


def _render_value(value: object) -> str:
    return f"`{json.dumps(value)}`"
