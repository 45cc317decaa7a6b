"""Files with values that are filled in later."""

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: a, image: a}}], {}}}\n"


def _lint(text: str) -> list[tuple[str, int]]:
    documents, early = parse_manifests(text.encode(), "a.yaml")
    return [(problem.rule, problem.line) for problem in lint(index_documents(documents), index_crds(), early)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{{- if .Values.rails }}\nkind: Pod\n{{- end }}\n", id="lines-of-expressions"),
        pytest.param("apiVersion: v1\nkind: {{ .Values.kind }}\n  name: x\n", id="not-yaml-either-way"),
        pytest.param("{% for rail in rails %}\nkind: Pod\n{% endfor %}\n", id="jinja"),
    ],
)
def test_a_template_that_is_no_yaml_is_one_note(text: str) -> None:
    assert _lint(text) == [("template", 1)]


def test_a_template_with_expressions_as_values_is_checked_around_them() -> None:
    text = _POD.format("priority: {{ .Values.priority }}, nodeNames: x")
    assert _lint(text) == [("template", 1), ("unknown-field", 4)]


def test_a_bare_expression_is_no_duplicate_key() -> None:
    assert _lint("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{.Name}}\n  namespace: {{.Name}}\n") == [
        ("template", 1)
    ]


@pytest.mark.parametrize(
    "value",
    [
        "${PRIORITY}",
        "$PRIORITY",
        "<priority>",
        "...",
        "'{{ .Values.priority }}'",
        "__A_NUMBER__",
        "PLACEHOLDER_OF_A_NUMBER",
        "CHANGE_ME",
        "rail<N>",
        "rail{0..7}",
        "[[priority]]",
    ],
)
def test_all_values_that_are_filled_in_later_are_one_note(value: str) -> None:
    head = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: a}]\n"
    assert _lint(f"{head}  priority: {value}\n  activeDeadlineSeconds: {value}\n") == [("template", 6)]


@pytest.mark.parametrize("value", ["PORT", "MY_PRIORITY"])
def test_a_name_in_capitals_in_place_of_a_number_is_filled_in(value: str) -> None:
    assert _lint(_POD.format(f"priority: {value}")) == [("template", 4)]


def test_a_name_in_capitals_in_place_of_another_text_is_filled_in_if_it_has_several_words() -> None:
    volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: a}}\nspec: {{capacity: {{storage: {}}}}}\n"
    assert _lint(volume.format("FILESTORE_CAPACITY")) == [("template", 4)]
    assert _lint(volume.format("XXX")) == [("template", 4)]
    assert _lint(volume.format("BIG")) == [("bad-value", 4)]
    assert _lint(volume.replace("name: a", "name: NAME").format("BIG")) == [("template", 4)]


@pytest.mark.parametrize("value", ["your-redis-password", "Replace_this_with_base64", "enterYourSecret==", "KEY-ID"])
def test_words_that_tell_what_a_secret_needs_are_filled_in(value: str) -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{key: {}}}\n"
    assert _lint(text.format(f"'{value}'")) == [("template", 4)]
    assert _lint(text.format("'it-is-a-password'")) == [("bad-value", 4)]


def test_a_variable_of_a_shell_script_is_a_value() -> None:
    assert _lint(_POD.format("hostname: 'echo ${HOSTNAME} now', priority: 'echo ${HOSTNAME} now'")) == [
        ("wrong-type", 4)
    ]


@pytest.mark.parametrize("value", ["ref+op://Home/item/FIELD", "op://vault/item/field", "vault:secret/data/a#KEY"])
def test_a_secret_that_a_program_fetches_is_not_checked(value: str) -> None:
    text = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{key: {value!r}}}\n"
    assert [rule for rule, _ in _lint(text)] == ["template"]


def test_an_object_that_sops_encrypted_is_not_checked() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {key: 'ENC[AES256_GCM,data:x,type:str]'}\n"
    assert [rule for rule, _ in _lint(f"{text}sops: {{kms: [], mac: 'ENC[x]'}}\n")] == ["template"]
    assert {rule for rule, _ in _lint(f"{text}sops: {{kms: []}}\n")} == {"bad-value", "unknown-field"}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{{a}}" * 60 + "x", id="expressions-before-a-word"),
        pytest.param("{{" * 400_000, id="openings"),
        pytest.param("}}" + "{{" * 200_000 + "%}" + "{%" * 200_000, id="openings-after-endings"),
    ],
)
def test_a_line_that_was_written_to_cost_time_costs_none(line: str) -> None:
    assert [rule for rule, _ in _lint(f"'k: {line}'\n")] in (["template", "not-a-manifest"], ["not-a-manifest"])
    assert _lint(_POD.format(f"priority: '{line}'"))
