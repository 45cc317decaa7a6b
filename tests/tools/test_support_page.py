"""The table of what is supported says what the markers on tests say, and no more."""

from pathlib import Path

import pytest

from tools.pages.support_page import NOT_SHOWN, ROWS, iter_marks, render_page, render_support_page

_SUPPORT = '@pytest.mark.support("runtime", "CRI-O", "{how}", "a node")\n'
_TEST = "def test_it(): ...\n"


def _write(folder: Path, text: str) -> Path:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(text)
    return folder / "tests"


def test_every_thing_that_the_field_runs_has_a_row_without_an_empty_cell() -> None:
    lines = [line for line in render_support_page().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert [row for row in rows if len(row) != 4 or not all(row)] == []
    assert {row[0] for row in rows} == {*ROWS, *(name for names in ROWS.values() for name in names)}


def test_a_name_without_a_test_is_not_shown_yet() -> None:
    assert render_page([]).count(f"| {NOT_SHOWN} | {NOT_SHOWN} | none |") == sum(map(len, ROWS.values()))


@pytest.mark.parametrize(
    ("text", "row"),
    [
        pytest.param(
            _SUPPORT.format(how="modelled") + _TEST,
            "| CRI-O | modelled | a node | [test_it](../../tests/test_it.py) |",
            id="function",
        ),
        pytest.param(
            "pytestmark = " + _SUPPORT.format(how="refused")[1:] + _TEST,
            "| CRI-O | refused | a node | [test_it.py](../../tests/test_it.py) |",
            id="module",
        ),
        pytest.param(
            f"@pytest.mark.parametrize('a', [pytest.param(1, marks={_SUPPORT.format(how='modelled').strip()[1:]})])\n"
            + _TEST,
            "| CRI-O | modelled | a node | [test_it](../../tests/test_it.py) |",
            id="parameter",
        ),
        pytest.param(
            _SUPPORT.format(how="ran") + "@pytest.mark.needs('crio')\n" + _TEST,
            "| CRI-O | ran | a node | [test_it](../../tests/test_it.py) |",
            id="needs",
        ),
        pytest.param(
            "pytestmark = pytest.mark.may_skip('minutes')\n" + _SUPPORT.format(how="ran") + _TEST,
            "| CRI-O | ran | a node | [test_it](../../tests/test_it.py) |",
            id="module may skip",
        ),
        pytest.param(
            _SUPPORT.format(how="ran") + "def test_it(api_server): ...\n",
            "| CRI-O | ran | a node | [test_it](../../tests/test_it.py) |",
            id="fixture that starts a program",
        ),
    ],
)
def test_a_marker_becomes_a_row(tmp_path: Path, text: str, row: str) -> None:
    page = render_page(list(iter_marks(_write(tmp_path, text))))
    assert [line for line in page.splitlines() if line.startswith("| CRI-O |")] == [row]


def test_tests_that_show_one_thing_share_a_row_and_the_strongest_comes_first(tmp_path: Path) -> None:
    text = "".join(_SUPPORT.format(how="modelled") + f"def test_{name}(): ...\n" for name in ("a", "b"))
    text += _SUPPORT.format(how="ran").replace("a node", "b node") + "@pytest.mark.needs('crio')\n" + _TEST
    page = render_page(list(iter_marks(_write(tmp_path, text))))
    assert [line for line in page.splitlines() if line.startswith("| CRI-O |")] == [
        "| CRI-O | ran | b node | [test_it](../../tests/test_it.py) |",
        "| CRI-O | modelled | a node | [test_a](../../tests/test_it.py), [test_b](../../tests/test_it.py) |",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(_SUPPORT.format(how="ran") + _TEST, "is in the pure half", id="ran in the pure half"),
        pytest.param(
            "pytestmark = " + _SUPPORT.format(how="ran")[1:] + _TEST, "is in the pure half", id="ran in a pure module"
        ),
        pytest.param(_SUPPORT.format(how="works") + _TEST, "is none of ran, modelled, refused", id="unknown word"),
        pytest.param('@pytest.mark.support("runtime", "lxc", "ran", "x")\n' + _TEST, "no row 'lxc'", id="unknown name"),
        pytest.param('@pytest.mark.support("os", "CRI-O", "ran", "x")\n' + _TEST, "of kind 'os'", id="unknown kind"),
        pytest.param('@pytest.mark.support("runtime", "CRI-O", "ran")\n' + _TEST, "four plain strings", id="short"),
        pytest.param(_SUPPORT.format(how="").replace("a node", "") + _TEST, "four plain strings", id="empty cell"),
        pytest.param(
            '@pytest.mark.support("runtime", NAME, "ran", "x")\n' + _TEST, "four plain strings", id="computed"
        ),
    ],
)
def test_a_marker_that_says_too_much_or_too_little_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(iter_marks(_write(tmp_path, text)))
