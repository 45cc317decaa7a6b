"""The report as HTML: one file with its styles and drawings, which loads nothing."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from trackbed_lab.report.page import build_page
from trackbed_lab.run_result import RunResult


def render_html(result: RunResult) -> str:
    """Render the report of a run."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("trackbed_lab.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(page=build_page(result))
