"""The page of a proof as HTML: one file with its styles, which loads nothing and runs nothing."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from trackbed.prove.page.page import ProofPage


def render_html(page: ProofPage) -> str:
    """Render a page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("trackbed.prove.page").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(page=page, report=page.report)
