"""The reference page of what Trackbed supports: a table made of the markers `support` on tests, read without a run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.lanes import PROGRAM_FIXTURES

_ROOT = Path(__file__).parents[2]
WORDS = ("ran", "modelled", "refused")
"""What a test can show, strongest first."""
NOT_SHOWN = "not shown yet"

ROWS = {
    "NIC driver": ("mlx5", "bnxt_en", "ice/irdma", "igb", "ionic", "efa"),
    "distribution": (
        *("Debian 11", "Debian 12", "Debian 13", "Ubuntu 22.04", "Ubuntu 24.04"),
        *("RHEL 8", "RHEL 9", "SLES 15", "DGX OS 6"),
    ),
    "network manager": ("netplan", "networkd", "NetworkManager", "ifupdown", "wicked"),
    "boot loader": ("GRUB", "GRUB with BLS", "systemd-boot", "others"),
    "runtime": ("containerd 1.7", "containerd 2", "CRI-O", "k3s", "RKE2", "kubeadm", "OpenShift"),
}
"""What the field runs, for each kind: a row without a test says so."""

_HEAD = f"""# What is supported, and how that is known

- **{WORDS[0]}**: a test runs the real program or the real kernel, where the table says
- **{WORDS[1]}**: a test runs against a model of it, whose rules cite their upstream source
- **{WORDS[2]}**: Trackbed refuses it and changes nothing; the table has the message
- **{NOT_SHOWN}**: no test shows it; it may work
"""


class Mark(NamedTuple):
    """A marker `support`, with the test that carries it and the line of that test."""

    kind: str
    name: str
    how: str
    where: str
    test: str
    line: int


def render_support_page() -> str:
    """Render the whole page from the tests of this repository."""
    return render_page(list(iter_marks(_ROOT / "tests")))


def render_page(marks: list[Mark]) -> str:
    """Render a table for each kind, with a row for each name and for each thing that a test shows of it."""
    return _HEAD + "".join(_render_table(kind, marks) for kind in ROWS)


def _render_table(kind: str, marks: list[Mark]) -> str:
    rows = "".join(
        row for name in ROWS[kind] for row in _iter_rows(name, [mark for mark in marks if mark.kind == kind])
    )
    return f"\n## {kind[0].upper()}{kind[1:]}s\n\n| {kind} | shown | where, or how | tests |\n|---|---|---|---|\n{rows}"


def _iter_rows(name: str, marks: list[Mark]) -> Iterator[str]:
    marks = sorted((mark for mark in marks if mark.name == name), key=lambda mark: (WORDS.index(mark.how), mark.where))
    if not marks:
        yield f"| {name} | {NOT_SHOWN} | {NOT_SHOWN} | none |\n"
    for (how, where), members in groupby(marks, key=lambda mark: (mark.how, mark.where)):
        tests = ", ".join(dict.fromkeys(_render_link(mark.test) for mark in members))
        yield f"| {name} | {how} | {where.replace('|', chr(92) + '|')} | {tests} |\n"


def _render_link(test: str) -> str:
    path, _, function = test.partition("::")
    return f"[{function or Path(path).name}](../../{path})"


def iter_marks(folder: Path) -> Iterator[Mark]:
    """Yield each marker `support` of the test files below a folder.

    Raises:
        ValueError: A marker is not four plain strings, has a kind, name or word that no table has, or says `ran` of a
            test that the pure half runs.
    """
    for path in sorted(folder.glob("**/test_*.py")):
        if ".support(" in (text := path.read_text()):
            yield from _iter_marks_of_file(path.relative_to(folder.parent), ast.parse(text))


def _iter_marks_of_file(path: Path, module: ast.Module) -> Iterator[Mark]:
    common = [node for node in module.body if isinstance(node, ast.Assign) and _assigns(node, "pytestmark")]
    tests = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    for test in tests:
        for call in _iter_calls("support", test.decorator_list):
            mark = _parse_mark(call, f"{path}::{test.name}")
            _refuse_pure(mark, test, [*test.decorator_list, *common])
            yield mark
    for call in _iter_calls("support", common):
        mark = _parse_mark(call, str(path))
        for test in tests:
            _refuse_pure(mark, test, [*test.decorator_list, *common])
        yield mark


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _iter_calls(marker: str, nodes: list[ast.expr] | list[ast.Assign] | list[ast.AST]) -> Iterator[ast.Call]:
    """Yield the calls `pytest.mark.MARKER(...)` within the nodes, also those of a parameter's `marks=`."""
    for node in nodes:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == marker:
                yield call


def _parse_mark(call: ast.Call, test: str) -> Mark:
    values = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    texts = [value for value in values if isinstance(value, str) and value]
    if len(texts) != len(call.args) or len(texts) != 4 or call.keywords:  # noqa: PLR2004 - kind, name, how, where
        raise ValueError(f"{test}, line {call.lineno}: support() takes four plain strings: kind, name, how, where")
    kind, name, how, where = texts
    if name not in ROWS.get(kind, ()):
        raise ValueError(f"{test}, line {call.lineno}: no row {name!r} of kind {kind!r}; ROWS of this page has them")
    if how not in WORDS:
        raise ValueError(f"{test}, line {call.lineno}: {how!r} is none of {', '.join(WORDS)}")
    return Mark(kind, name, how, where, test, call.lineno)


def _refuse_pure(mark: Mark, test: ast.FunctionDef, markers: list[ast.AST]) -> None:
    """Refuse `ran` on a test that needs no root, program, server or namespace: it shows texts only."""
    needs = any(True for name in ("needs", "may_skip", "nightly") for _ in _iter_calls(name, markers))
    fixtures = {argument.arg for argument in test.args.args}
    if mark.how == "ran" and not needs and fixtures.isdisjoint(PROGRAM_FIXTURES):
        raise ValueError(
            f"{mark.test}, line {mark.line}: `ran` needs the real program or kernel, and {test.name} is in the pure "
            "half of the tests; mark what it needs (`needs`, `may_skip`, `nightly`), or say `modelled`"
        )
