"""Write every generated file: reference pages, golden files of the stacks, and files of the chart.

Run `python -m tools.docs` in the root of the repository; `scripts/docs` does.
"""

from collections.abc import Iterator
from pathlib import Path

from tools.pages import (
    capture_page,
    chart_page,
    editor_schema,
    fabric_page,
    faults_page,
    lint_page,
    stack_faults_page,
    stack_pages,
    support_page,
    troubleshooting_page,
)
from tools.pages.crds import iter_crds
from trackbed.cluster.stacks import MODULES
from trackbed.cluster.stacks.native.daemon import build_daemon_set
from trackbed.fabric.yaml_text import render_documents

_ROOT = Path(__file__).parents[1]
STACK_PAGES = _ROOT / "docs" / "reference" / "stacks"
_CHART_PAGE = "chart.md"
"""People write it, but for its tables."""
_COMMENT = "<!-- Written by scripts/docs; do not edit. -->\n\n"
GOLDEN = _ROOT / "tests" / "cluster" / "stacks" / "golden"


def iter_files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of every generated file; pages say to who edits them, and not to who reads them."""
    for path, text in _iter_texts():
        yield path, _COMMENT + text if path.suffix == ".md" and path.name != _CHART_PAGE else text


def _iter_texts() -> Iterator[tuple[Path, str]]:
    reference, chart = _ROOT / "docs" / "reference", _ROOT / "charts" / "trackbed" / "files"
    yield reference / "fabric.md", fabric_page.render_fabric_page()
    yield reference / "fabric.schema.json", editor_schema.render_editor_schema()
    yield reference / "lint.md", lint_page.render_lint_page()
    yield reference / "faults.md", faults_page.render_faults_page()
    yield reference / "stack-faults.md", stack_faults_page.render_stack_faults_page()
    yield reference / "messages.md", stack_faults_page.render_messages_page()
    yield reference / "capture.md", capture_page.render_capture_page()
    yield reference / "support.md", support_page.render_support_page()
    yield reference / _CHART_PAGE, chart_page.render_chart_page()
    yield reference.parent / "troubleshooting.md", troubleshooting_page.render_troubleshooting_page()
    yield chart / "crds.yaml", "".join(render_documents(iter_crds()))
    yield chart / "agent.yaml", "".join(render_documents([build_daemon_set("")]))
    for name in MODULES:
        yield GOLDEN / stack_pages.format_golden_name(name), stack_pages.render_golden(name)
    for page, text in stack_pages.iter_stack_pages():
        yield STACK_PAGES / page, text


def main() -> None:
    """Write every generated file."""
    for path, text in iter_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
