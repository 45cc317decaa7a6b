"""Comments that accept problems."""

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint

_LABEL = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    rails: 8{}\n    gpus: 8\n"


def _lint(text: str) -> list[tuple[str, int]]:
    documents, early = parse_manifests(text.encode(), "a.yaml")
    return [(problem.rule, problem.line) for problem in lint(index_documents(documents), None, early)]


def test_a_comment_on_a_line_accepts_the_problem_of_this_line() -> None:
    text = _LABEL.format(" # trackbed: ignore text-expected our tool quotes it")
    assert _lint(text) == [("text-expected", 6)]


def test_a_comment_alone_accepts_the_problem_of_the_next_line() -> None:
    text = _LABEL.replace("    gpus", "    # trackbed: ignore text-expected quoted later\n\n    gpus").format("")
    assert _lint(text) == [("text-expected", 5)]


@pytest.mark.parametrize("head", ["", "# Ours.\n", "---\n"])
def test_a_comment_before_the_first_line_holds_for_the_file(head: str) -> None:
    comment = "# trackbed: ignore text-expected, duplicate-key our tool quotes them\n"
    assert _lint(head + comment + _LABEL.format("")) == []


def test_a_comment_at_a_block_holds_for_its_text() -> None:
    text = """apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: a}
spec:
  # trackbed: ignore cni-name-missing, cni-version Multus names it
  config: |
    {"type": "bridge",

     "cniVersion": "9"}
"""
    assert _lint(text) == []


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        pytest.param("ignore text-expected", ["text-expected", "ignore-incomplete"], id="no-reason"),
        pytest.param("ignore", ["text-expected", "ignore-incomplete"], id="no-rule"),
        pytest.param("ignore text-expecte why", ["text-expected", "ignore-incomplete"], id="no-such-rule"),
        pytest.param("ignore duplicate-key why", ["text-expected", "ignore-unused"], id="other-rule"),
    ],
)
def test_a_comment_that_accepts_nothing_is_told(comment: str, expected: list[str]) -> None:
    problems = _lint(_LABEL.format(f" # trackbed: {comment}"))
    assert sorted(rule for rule, line in problems if line == 5) == sorted(expected)
