"""Check every link of a built site: `python -m tools.site_links FOLDER` prints what is wrong, and fails.

A link leads to a file of the site, and to an anchor that the file has. Nothing is loaded from elsewhere: the site works
from a folder. Links to other sites are not followed: only their form is checked.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src"}
_EXTERNAL = {"http", "https", "mailto"}


def main() -> int:
    """Print the problems of the site in the folder that the command line names; return the exit code."""
    problems = list(iter_problems(Path(sys.argv[1]).resolve()))
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


@dataclass
class _Page(HTMLParser):
    """The anchors, links and loads of one page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect from one tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in {"canonical", "alternate"}:
            self.loads.append(values.get("href", ""))
        if tag in _LOADS and _LOADS[tag] in values:
            self.loads.append(values[_LOADS[tag]])


def iter_problems(site: Path) -> Iterator[str]:
    """Yield what is wrong with a link or a load of any page below a folder."""
    pages = {path: _read_page(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no page"
    for path, page in pages.items():
        place = path.relative_to(site)
        yield from (f"{place}: {load} is loaded from elsewhere" for load in page.loads if _is_external(load))
        for link in dict.fromkeys([*page.links, *page.loads]):
            if problem := _find_problem(site, path, link, pages):
                yield f"{place}: {link}: {problem}"


def _read_page(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def _is_external(link: str) -> bool:
    return bool(urlsplit(link).netloc)


def _find_problem(site: Path, path: Path, link: str, pages: dict[Path, _Page]) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "" if _is_well_formed(link) else "no address of another site"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site) or not target.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and anchor not in pages.get(target, _Page()).anchors:
        return "no such anchor"
    return ""


def _is_well_formed(link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme in {"mailto", "data"}:
        return bool(parts.path)
    return parts.scheme in _EXTERNAL and "." in parts.netloc and not set(link) & set(" <>{}|\\")


if __name__ == "__main__":
    sys.exit(main())
