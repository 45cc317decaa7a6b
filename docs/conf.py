"""Configuration of the site: Sphinx with MyST and Furo. `scripts/site` builds it; every warning is an error.

A link of a page to a file outside of docs/, or to one that is no page, becomes a link to the repository. One text
serves the site and readers of the repository.
"""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

_DOCS = Path(__file__).parent
_ROOT = _DOCS.parent
_URLS = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
_REPOSITORY = _URLS.get("Source", "https://github.com/trackbed/trackbed")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")

project = "Trackbed"
author = "The Trackbed authors"
extensions = ["myst_parser"]
exclude_patterns = ["extending/*.patch"]
nitpicky = True
language = "en"
highlight_language = "text"  # a block without a language is output, or a file of no known syntax
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

smartquotes = False  # text is copied: "--" stays two dashes, and quotes stay straight

html_theme = "furo"
html_title = "Trackbed"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7ab8ff", "color-brand-content": "#7ab8ff"},
}


def link_to_repository(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001 - an event passes all three
    """Replace, in a page's text, links to files that are no pages of the site."""
    folder = (_DOCS / page).parent

    def replace(link: re.Match[str]) -> str:
        path = (folder / link[1]).resolve()
        if path.is_relative_to(_DOCS) and path.suffix in {".md", ".svg", ".json"}:
            return link[0]
        kind = "tree" if path.is_dir() else "blob"
        return f"]({_REPOSITORY}/{kind}/main/{path.relative_to(_ROOT)}{link[2] or ''})"

    source[0] = _LINK.sub(replace, source[0])


def give_captions_a_level(
    app: Sphinx,  # noqa: ARG001 - as above
    page: str,  # noqa: ARG001 - as above
    template: str,  # noqa: ARG001 - as above
    context: dict[str, object],
    tree: object,  # noqa: ARG001 - as above
) -> None:
    """Complete the headings in the list of pages: without a level no screen reader can place them."""
    pages = str(context.get("furo_navigation_tree", ""))
    context["furo_navigation_tree"] = pages.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> None:
    """Register the functions of both events."""
    app.connect("source-read", link_to_repository)
    app.connect("html-page-context", give_captions_a_level, priority=900)
