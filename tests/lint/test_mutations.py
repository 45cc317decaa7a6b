"""Whatever a manifest holds, lint ends without an exception."""

from importlib.resources import files

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import count_examples
from trackbed.fabric.model.problems import SpecError
from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_TEXTS = [
    rule[example]
    for book in sorted(files("trackbed.lint").joinpath("rulebook").iterdir(), key=lambda book: book.name)
    for rule in yaml.load(book.read_text(), Loader=yaml.CSafeLoader)
    for example in ("bad", "good")
]
_SCHEMAS = index_crds()
_PIECES = st.sampled_from(
    (
        *("{{ .Values.a }}", "${A}", "[", "]", "{", "}", "null", "1e400", ".inf", ".nan", "-1", "\t", "&a ", "*a", '"'),
        *("<<: ", "...", "---\n", "- ", "? ", "!!binary ", "\u2028", "# trackbed: ignore", ": ", "\n", "  ", "9" * 25),
    )
)


@st.composite
def _mutate(draw: st.DrawFn) -> str:
    text: str = draw(st.sampled_from(_TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 3, 20]))
        text = text[:start] + draw(_PIECES | st.just("")) + text[start + length :]
    return text


@settings(max_examples=count_examples(150), deadline=None, derandomize=True)
@given(_mutate())
def test_lint_of_a_mutated_manifest_ends(text: str) -> None:
    try:
        documents, breaches = parse_manifests(text.encode(), "a.yaml")
    except SpecError:
        return
    for problem in lint(index_documents(documents), _SCHEMAS, breaches):
        assert problem.line >= 1
