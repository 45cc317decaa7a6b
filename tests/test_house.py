"""The rules of the house that are checked by a program rather than by a reader."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path, PurePath

import pytest

from tools.import_graph import build_modules, find_circles, read_imports
from trackbed import __version__

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
PROJECT = tomllib.loads(PYPROJECT)
PACKAGE = ROOT / "src" / "trackbed"
SOURCES = [path for folder in ("src", "packages") for path in sorted((ROOT / folder).glob("**/*.py"))]
ROOMS = [*(path.parent for path in PACKAGE.glob("*/__init__.py")), ROOT / "packages" / "trackbed-lab"]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(room / "README.md" for room in ROOMS)]


@cache
def parse_sources() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in SOURCES}


@pytest.mark.needs("processes")
@pytest.mark.parametrize("library", ["jinja2", "lightkube", "pydantic", "yaml"])
def test_asking_for_help_does_not_import(library: str) -> None:
    program = f"""
import sys
from trackbed.cli.main import main
sys.argv = ["trackbed", "--help"]
try:
    main()
finally:
    print("imported" if {library!r} in sys.modules else "left out")
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=30)
    assert done.stdout.startswith("Usage: ")
    assert done.stdout.endswith("left out\n")


@pytest.mark.needs("processes")
def test_the_module_and_the_command_are_one_program() -> None:
    by_module, by_command = (
        subprocess.run([*command, "--version"], check=True, capture_output=True, timeout=30).stdout
        for command in ([sys.executable, "-m", "trackbed"], [f"{sys.prefix}/bin/trackbed"])
    )
    assert by_module == by_command
    assert by_module.startswith(b"trackbed, version ")


@pytest.mark.needs("processes")
def test_every_import_goes_the_right_way() -> None:
    done = subprocess.run(
        [f"{sys.prefix}/bin/lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_stranger_finds_at_most_twelve_rooms_on_at_most_eight_layers() -> None:
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = {room for layer in layers for room in layer.split(" | ")}
    assert rooms == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(rooms) <= 12
    assert len(layers) <= 8


def test_every_room_says_what_it_is_for_in_10_to_40_lines() -> None:
    lengths = {room: len((room / "README.md").read_text().splitlines()) for room in ROOMS}
    assert {room.name: lines for room, lines in lengths.items() if not 10 <= lines <= 40} == {}


def test_every_room_of_the_product_has_its_tests_and_its_row() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = {room.name for room in ROOMS[:-1]}
    assert names <= {path.name for path in (ROOT / "tests").iterdir()}
    assert set(re.findall(r"\(\.\./src/trackbed/(\w+)/README\.md\)", page)) == names
    assert len(page.splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_cni_executable_needs_only_the_standard_library() -> None:
    imported = {name for path in (PACKAGE / "node" / "cni").glob("**/*.py") for name in _imported(path)}
    assert imported - set(sys.stdlib_module_names) == set()


def test_every_package_says_what_it_knows() -> None:
    silent = [
        str(path)
        for path in sorted(ROOT.glob("**/src/**/__init__.py"))
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_every_rule_switched_off_says_why() -> None:
    lint = PYPROJECT.partition("[tool.ruff.lint]")[2].partition("[tool.ruff.lint.flake8-type-checking]")[0]
    rules = re.findall(r'^ +"[A-Z]+[0-9]*",.*$', lint, re.MULTILINE)
    assert [rule for rule in rules if not re.search(r"# \S+ \S+", rule)] == []
    assert len(rules) > 1


def test_every_suppression_in_the_code_says_why() -> None:
    bare = re.compile(r"# (?:noqa|type: ignore)(?:: ?[A-Z0-9, ]+|\[[a-z-, ]+\])? *$")
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("src", "packages", "tests", "bench", "scripts")
        for path in sorted((ROOT / folder).glob("**/*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if bare.search(line)
    ]
    assert lines == []


def test_no_file_is_longer_than_600_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert {str(path): lines for path, lines in lengths.items() if lines > 600} == {}


def test_no_function_has_more_than_40_lines_of_body() -> None:
    """A signature and a docstring are not counted: a command's are its options and its help."""
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, tree in parse_sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _count_body_lines(node) > 40
    }
    assert long == set()


def test_no_pattern_begins_a_line_with_blanks_that_may_be_lines() -> None:
    r"""A pattern of lines that begins with `^\s*` starts at each of many empty lines, and runs over all that follow."""
    patterns = [
        f"{_relative(path)}:{node.lineno}"
        for path, tree in parse_sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.")
        if re.search(r"MULTILINE|\(\?[ims]*m", ast.unparse(node))
        if any(
            re.search(r"\^[(?:]*\\s[*+]", str(word.value)) for word in ast.walk(node) if isinstance(word, ast.Constant)
        )
    ]
    assert patterns == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports under TYPE_CHECKING and inside functions are imports."""
    imports = read_imports({_relative(path): tree for path, tree in parse_sources().items()})
    circles = find_circles(build_modules(imports, deferred=True))
    assert circles == set()


def test_a_changelog_fragment_is_one_sentence_named_by_issue_and_kind() -> None:
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    wrong = [
        path.name
        for path in fragments
        if not re.fullmatch(r"\d+(\.\d+)?\.(added|changed|fixed|removed)\.md", path.name)
        or not re.fullmatch(r"[^\n]+\.\n", path.read_text())
    ]
    assert wrong == []


def test_the_changelog_begins_with_the_version_that_all_parts_have() -> None:
    places = {
        "CHANGELOG.md": r"^## (\S+) \(",
        "packages/trackbed-lab/src/trackbed_lab/__init__.py": r'^__version__ = "(.+)"',
        "charts/trackbed/Chart.yaml": r"^appVersion: (.+)",
    }
    versions = {
        name: re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)[0] for name, pattern in places.items()
    }
    assert versions == dict.fromkeys(places, __version__)


def test_the_licence_of_the_lab_is_that_of_the_project() -> None:
    """A file, no link: an archive of the lab's sources has no folder above it."""
    licence = ROOT / "packages" / "trackbed-lab" / "LICENSE"
    assert not licence.is_symlink()
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_nobody_is_told_to_install_by_a_name_that_is_not_ours_on_the_package_index() -> None:
    named = re.compile(r"(?:pip|pipx|uv tool) install (?:-\S+ )*trackbed")
    assert [str(path) for path in (*PAGES, *SOURCES) if named.search(path.read_text())] == []
    assert "pip install . ./packages/trackbed-lab\n" in (ROOT / "README.md").read_text()


SKIPS = {
    "itself": "import pytest\ndef test(): pytest.skip('no wrench')\n",
    "marker": "import pytest\n@pytest.mark.skipif(True, reason='no wrench')\ndef test(): pass\n",
    "needs": "import pytest\n@pytest.mark.needs('wrench')\ndef test(): pass\n",
    "module": "import pytest\npytest.skip('no wrench', allow_module_level=True)\n",
}
EXCUSED = {
    "may_skip": "import pytest\n@pytest.mark.may_skip('why')\ndef test(): pytest.skip('no wrench')\n",
    "xfail": "import pytest\n@pytest.mark.xfail(reason='why')\ndef test(): assert False\n",
}


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return, for CI=true and CI=false, the summary pytest prints of the tests above under our conftest."""
    folder = tmp_path_factory.mktemp("skips")
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    for name, source in (SKIPS | EXCUSED).items():
        (folder / f"test_{name}.py").write_text(source)
    options = [
        "-c",
        "/dev/null",
        "--rootdir",
        str(folder),
        "-rA",
        "--no-fold-skipped",
        "--continue-on-collection-errors",
    ]
    return {
        ci: subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--import-mode=importlib", str(folder)],
            env={**os.environ, "CI": ci, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
        for ci in ("true", "false")
    }


@pytest.mark.needs("processes")
@pytest.mark.parametrize("name", SKIPS)
@pytest.mark.parametrize(("ci", "outcome"), [("true", "FAILED|ERROR"), ("false", "SKIPPED")])
def test_a_skip_is_a_failure_in_ci_only(summaries: dict[str, str], name: str, ci: str, outcome: str) -> None:
    assert re.search(rf"^({outcome}) .*test_{name}.py", summaries[ci], re.MULTILINE), summaries[ci]


@pytest.mark.needs("processes")
@pytest.mark.parametrize(("name", "outcome"), [("may_skip", "SKIPPED"), ("xfail", "XFAIL")])
def test_in_ci_a_reason_given_is_no_failure(summaries: dict[str, str], name: str, outcome: str) -> None:
    assert re.search(rf"^{outcome} .*test_{name}.py", summaries["true"], re.MULTILINE), summaries["true"]


def _imported(path: Path) -> set[str]:
    """Return the top-level names that a file imports from outside its own package."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in plain | froms}


def _count_body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines from the first statement that is no docstring to the end."""
    statements = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def _relative(path: Path) -> PurePath:
    """Return a source file's path below its source folder."""
    return PurePath(*path.parts[path.parts.index("src", len(ROOT.parts)) + 1 :])
