from pathlib import Path, PurePath

import pytest

from tools.import_graph import find_circles, measure_depth
from tools.measure import Source, iter_public, load_sources, main, measure

LAYERS = """
[[tool.importlinter.contracts]]
type = "layers"
containers = ["trackbed"]
layers = ["cli", "(fleet) | node", "host"]
"""
PORTS = {f"src/trackbed/{room}/a.py": "class Port: ..." for room in ("cli", "host")}


def measure_tree(root: Path, files: dict[str, str]) -> dict[str, str]:
    """Return the figures of a repository of rooms cli, fleet, node and host with the files."""
    rooms = {f"src/trackbed/{room}/__init__.py": "" for room in ("cli", "fleet", "node", "host")}
    for name, text in ({"pyproject.toml": LAYERS} | rooms | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return measure(root, load_sources(root))


@pytest.mark.parametrize(
    ("files", "label", "figure"),
    [
        pytest.param({}, "rooms", "4", id="rooms"),
        pytest.param({"src/trackbed/data/a.yaml": ""}, "rooms", "4", id="folder-without-python"),
        pytest.param({}, "layers, declared", "3", id="declared-layers"),
        pytest.param({"src/trackbed/cli/a.py": "import trackbed.host"}, "arrows up", "0", id="arrow-down"),
        pytest.param({"src/trackbed/host/a.py": "from trackbed import cli"}, "arrows up", "1", id="arrow-up"),
        pytest.param({"src/trackbed/node/a.py": "import trackbed.fleet"}, "arrows up", "1", id="arrow-in-a-layer"),
        pytest.param({"src/trackbed/host/a.py": "import trackbed.host"}, "arrows up", "0", id="arrow-in-a-room"),
        pytest.param(
            {"src/trackbed/host/a.py": "if TYPE_CHECKING:\n from trackbed.cli import b"},
            "arrows up",
            "1",
            id="arrow-for-types",
        ),
        pytest.param({"src/trackbed/host/a.py": "from ..cli import b"}, "arrows up", "1", id="relative-arrow"),
        pytest.param({"src/trackbed/host/a.py": "x = 1\ny = 1\n"}, "lines of the product", "2", id="lines"),
        pytest.param({"src/trackbed/cli/lab/a.py": "x = 1\n"}, "lines of the lab", "1", id="lab-in-the-command-line"),
        pytest.param({"src/trackbed/lab/a.py": ""}, "files of the lab", "1", id="lab-in-src"),
        pytest.param({"packages/trackbed-lab/src/trackbed_lab/a.py": ""}, "files of the lab", "1", id="lab-package"),
        pytest.param({"packages/trackbed-lab/src/trackbed_lab/a.py": ""}, "files of the product", "4", id="product"),
        pytest.param({"src/trackbed/a.py": "\n" * 34}, "files under 35 lines", "5", id="short-file"),
        pytest.param({"src/trackbed/a.py": "\n" * 35}, "files under 35 lines", "4", id="file-long-enough"),
        pytest.param({"src/trackbed/a.py": "def a():" + "\n x" * 39}, "functions over 40 lines", "0", id="40-lines"),
        pytest.param({"src/trackbed/a.py": "def a():" + "\n x" * 40}, "functions over 40 lines", "1", id="41-lines"),
        pytest.param({"src/trackbed/a.py": "if x:\n y = 1"}, "statements", "2", id="nested-statements"),
        pytest.param({"src/trackbed/lab/a.py": "x = 1"}, "statements", "0", id="statements-of-the-lab"),
        pytest.param({"src/trackbed/a.py": "own = port = 1"}, "banned among assigned", "50.0 %", id="banned"),
        pytest.param({"src/trackbed/a.py": "def f(own): port = 1"}, "banned among assigned", "0.0 %", id="parameter"),
        pytest.param({"src/trackbed/a.sh": "true\ntrue\n"}, "lines of shell", "2", id="shell"),
        pytest.param({"src/trackbed/lab/a.go": "package a\n"}, "lines of Go", "0", id="go-of-the-lab"),
        pytest.param(PORTS, "types of one name in several rooms", "1", id="type-of-two-rooms"),
        pytest.param(
            {f"src/trackbed/host/{name}.py": "class Port: ..." for name in "ab"},
            "types of one name in several rooms",
            "0",
            id="type-of-one-room",
        ),
    ],
)
def test_a_figure_counts(tmp_path: Path, files: dict[str, str], label: str, figure: str) -> None:
    assert measure_tree(tmp_path, files)[label] == figure


@pytest.mark.parametrize(
    ("source", "figures"),
    [
        pytest.param("", ["0", "0", "0"], id="no-circle"),
        pytest.param("from trackbed.host import a", ["1", "1", "1"], id="circle"),
        pytest.param("if TYPE_CHECKING:\n import trackbed.host.a", ["1", "1", "1"], id="circle-for-types"),
        pytest.param("def f():\n import trackbed.host.a", ["1", "0", "1"], id="circle-through-a-function"),
    ],
)
def test_a_circle_is_counted(tmp_path: Path, source: str, figures: list[str]) -> None:
    files = {"src/trackbed/host/a.py": "from trackbed.cli.b import x", "src/trackbed/cli/b.py": source}
    labels = ("circles between rooms", "circles between modules", "circles, imports in functions included")
    measured = measure_tree(tmp_path, files)
    assert [measured[label] for label in labels] == figures


@pytest.mark.parametrize(
    ("graph", "depth", "circles"),
    [
        pytest.param({}, 1, set(), id="empty"),
        pytest.param({"a": {"b", "c"}, "b": {"c"}}, 3, set(), id="longest-chain"),
        pytest.param({"a": {"b"}, "b": {"a", "c"}, "d": {"a"}}, 3, {"ab"}, id="a-circle-is-one-layer"),
        pytest.param({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, 1, {"ab", "cd"}, id="two-circles"),
    ],
)
def test_a_graph_has_depth_and_circles(graph: dict[str, set[str]], depth: int, circles: set[str]) -> None:
    assert (measure_depth(graph), find_circles(graph)) == (depth, set(map(frozenset, circles)))


@pytest.mark.parametrize(
    ("path", "source", "count"),
    [
        pytest.param("a.py", "class A:\n def f(self): ...\ndef g(): ...", 4, id="public"),
        pytest.param("a.py", "class _A:\n def f(self): ...\ndef _g(): ...", 1, id="private"),
        pytest.param("a.py", "def f():\n def g(): ...", 2, id="nested-function"),
        pytest.param("room/__init__.py", "", 1, id="package"),
        pytest.param("_room/a.py", "", 0, id="private-package"),
    ],
)
def test_what_is_public_needs_a_docstring(path: str, source: str, count: int) -> None:
    assert len(list(iter_public(Source("", PurePath(path), source)))) == count


def test_each_root_has_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure_tree(tmp_path / "a", {})
    measure_tree(tmp_path / "b", PORTS)
    assert main([str(tmp_path / "a"), str(tmp_path / "b"), "--names"]) == 0
    output = capsys.readouterr().out
    assert [line.split()[-2:] for line in output.splitlines() if line.startswith("types")] == [["0", "1"]]
    assert output.endswith("b define:\nPort: cli, host\n")
