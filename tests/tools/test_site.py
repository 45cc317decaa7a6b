"""The site: it builds without a warning, and each of its links leads somewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.site_links import iter_problems

ROOT = Path(__file__).parents[2]
PAGE = '<a id="top"></a><a href="{}">there</a>'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site as `scripts/site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fresh-env", "--fail-on-warning", "--keep-going"]
    subprocess.run(
        [*command, "--quiet", "--doctree-dir", f"{folder}/doctrees", "docs", f"{folder}/html"],
        cwd=ROOT,
        check=True,
        timeout=120,
    )
    return folder / "html"


@pytest.mark.needs("processes")
def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    assert list(iter_problems(site)) == []


@pytest.mark.needs("processes")
def test_every_page_of_the_docs_is_in_the_site(site: Path) -> None:
    docs = ROOT / "docs"
    pages = [path.relative_to(docs).with_suffix(".html") for path in docs.rglob("*.md")]
    assert [str(page) for page in pages if not (site / page).is_file()] == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("#top", ""),
        ("page.html#top", ""),
        ("", ""),
        ("https://example.com/a#b", ""),
        ("mailto:somebody@example.com", ""),
        ("#bottom", "no such anchor"),
        ("page.html#bottom", "no such anchor"),
        ("other.html", "no such file"),
        ("../other.html", "no such file"),
        ("https://localhost", "no address of another site"),
        ("https://example.com/<branch>", "no address of another site"),
        ("ftp://example.com", "no address of another site"),
    ],
)
def test_a_link_that_leads_nowhere_is_a_problem(tmp_path: Path, link: str, problem: str) -> None:
    (tmp_path / "page.html").write_text(PAGE.format(link))
    assert list(iter_problems(tmp_path)) == ([f"page.html: {link}: {problem}"] if problem else [])


@pytest.mark.parametrize(
    "load",
    ['<script src="{}"></script>', '<link rel="stylesheet" href="{}">', '<img src="{}">'],
    ids=["script", "style", "image"],
)
def test_a_page_loads_nothing_from_elsewhere(tmp_path: Path, load: str) -> None:
    (tmp_path / "page.html").write_text(load.format("https://example.com/x"))
    assert list(iter_problems(tmp_path)) == ["page.html: https://example.com/x is loaded from elsewhere"]
