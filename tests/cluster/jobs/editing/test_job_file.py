from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.cluster.jobs.wanteds import PLAIN, lost
from trackbed.cluster.jobs.editing.job_file import MAX_BYTES, JobFile
from trackbed.cluster.jobs.jobs import inject_into_jobs
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.stacks.access import Access
from trackbed.fabric.model.problems import SpecError

POD = """\
apiVersion: v1
kind: Pod # what
metadata:
  name: "a"
spec:
  containers:
  # the only one
  - name: 'main'
    image: a:b
    command: [sh, -c, "a: b"]
    odd: [0o17, 010, 1e3, yes, null, 2026-01-02, 0x1F, "yes", '1']
"""


def _patched(text: str) -> str:
    file = JobFile(text.encode(), "x.yaml")
    inject_into_jobs(file.documents, PLAIN)
    return file.render()


def test_only_what_is_added_is_new_in_the_text() -> None:
    after = iter(_patched(POD).splitlines())
    assert [line for line in POD.splitlines() if line not in after] == []


def test_scalars_keep_their_meaning() -> None:
    for loader in (yaml.SafeLoader, yaml.BaseLoader):
        manifest, other = (yaml.load(text, loader)["spec"]["containers"][0]["odd"] for text in (POD, _patched(POD)))  # noqa: S506 - one of the two safe loaders
        assert manifest == other


WORDS = ["on", "no", "1e3", "0x1f", "null", "1:30", "2026-01-02", "12", "~", "=", "text", "a: b", "# x"]


@pytest.mark.parametrize("word", WORDS)
def test_text_that_is_added_is_text_to_every_reader(word: str) -> None:
    file = JobFile(POD.encode(), "x.yaml")
    inject_into_jobs(file.documents, PodRequirements(Access(), (("A", word),), (("label", word),)))
    spec = yaml.safe_load(file.render())["spec"]
    assert (spec["nodeSelector"]["label"], spec["containers"][0]["env"][0]["value"]) == (word, word)


OTHERS = {
    "another kind": "---\nkind:   ConfigMap\ndata:   {a:  b}   # odd   spacing\n",
    "a list": "---\n-   1\n-    2\n",
    "text": "--- some text\n",
    "nothing": "---\n",
    "a comment": "---\n# nothing here\n",
    "aliases": "---\na: &a {x:   1}\nb: *a\nc: {<<: *a}\n",
    "an end": "---\na:   1\n...\n",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_documents_that_are_no_jobs_stay_byte_for_byte(text: str) -> None:
    whole = f"# first\n{text}---\n{POD}"
    assert _patched(whole).startswith(f"# first\n{text}---\n")


def test_a_job_that_has_all_rails_stays_byte_for_byte() -> None:
    once = _patched(POD).replace("medium: Memory", "medium:   Memory")
    assert _patched(once) == once


@pytest.mark.parametrize(
    "lines", ["  containers:\n    - name: c\n      image: i\n", "  containers:\n  - name: c\n    image: i\n"]
)
def test_lists_keep_their_indent(lines: str) -> None:
    assert lines in _patched(f"apiVersion: v1\nkind: Pod\nspec:\n{lines}")


HEADS = ["--- # head\n", "---  \n", "--- !!map\n", "# head\n---\n", "\ufeff", "\n\n# head\n"]


@pytest.mark.parametrize("head", HEADS)
def test_a_document_may_begin_in_any_way(head: str) -> None:
    once = _patched(head + POD)
    assert ("# head" in once) == ("# head" in head)
    assert _patched(once) == once
    assert yaml.safe_load(once)["spec"]["volumes"]


UNTOUCHED = {
    "whitespace": "kind:   Pod\napiVersion: v1\nspec:\n    containers:\n      -   name:  c   # why\n\n\n",
    "CRLF": "kind: Pod\r\napiVersion: v1\r\nspec:\r\n  containers:\r\n  - name: c\r\n",
    "a byte order mark": "\ufeffkind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: c\n",
    "no last line end": "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: c",
    "escapes": (
        "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - args: [\"a\\n\\tb\\u00e9\", 'it''s', \"\\\n      x\"]\n"
    ),
    "block scalars": (
        "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - args:\n    - |+\n      a\n\n"
        "    - >-\n      b\n      c\n\n    - |2-\n        d\n"
    ),
    "comments": (
        "# a\nkind: Pod # b\napiVersion: v1\nspec: # c\n  # d\n"
        "  containers: # e\n    # f\n  - name: c # g\n  # h\n# i\n"
    ),
    "directives": "%YAML 1.2\n---\nkind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: c\n...\n",
    "tags": (
        "kind: !!str Pod\napiVersion: v1\nspec: !!map\n"
        "  containers: !!seq\n  - !!map\n    name: &n c\n    tty: !!bool true\n"
    ),
    "unicode": (
        "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: c # \u00e9\U0001f600\n    image: 'i' # \U0001f600\n"
    ),
}


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=UNTOUCHED)
def test_lines_are_only_added(text: str) -> None:
    patched = _patched(text)
    ends = "\r\n" if "\r\n" in text else "\n"
    after = iter(patched.split(ends))
    assert [line for line in text.removesuffix(ends).split(ends) if line not in after] == []
    assert patched.count("\n") == patched.count(ends)
    assert patched.endswith(ends) == text.endswith(ends)
    assert lost(list(yaml.safe_load_all(text)), list(yaml.safe_load_all(patched))) == []
    assert _patched(patched) == patched


COMMENTS_BELOW = {
    "an inner entry": "  workload:\n    cache:\n      size: 1\n          # other: 2\n\n        # more: 3\n",
    "an empty value": "  annotations:\n        # none: yet\n",
    "the end of the file": "  replicas: 1\n      # other: 2",
}


@pytest.mark.parametrize("text", COMMENTS_BELOW.values(), ids=COMMENTS_BELOW)
def test_comments_stay_comments_below_text_that_is_added(text: str) -> None:
    head = "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nspec:\n"
    job = f"{head}  template:\n    containers:\n    - name: c\n{text}"
    patched = _patched(job)
    after = iter(patched.split("\n"))
    assert [line for line in job.removesuffix("\n").split("\n") if line not in after] == []
    annotations = yaml.safe_load(patched)["spec"]["annotations"]
    assert "#" not in annotations["k8s.v1.cni.cncf.io/networks"]
    assert _patched(patched) == patched


CHANGED = {
    "an empty mapping": ("    resources: {}  # why\n", "    resources:  # why\n      limits:\n"),
    "an empty list": ("    env: []\n", "    env:\n    - name: NCCL_IB_HCA\n"),
    "a null": ("    env: ~\n", "    env:\n    - name: NCCL_IB_HCA\n"),
    "nothing": ("    env:\n    # none\n", "    env:\n    - name: NCCL_IB_HCA\n"),
    "a mapping in flow style": (
        "    resources: { limits: {a.b/c: 1} } # why\n",
        "    resources: { limits: {a.b/c: 1, nvidia.com/rail0: 1, nvidia.com/rail1: 1}, requests: ",
    ),
    "a list in quotes": (
        '    securityContext: {"capabilities": {"add": [ "SYS_NICE" ]}}\n',
        '    securityContext: {"capabilities": {"add": [ "SYS_NICE", "IPC_LOCK" ]}}\n',
    ),
    "flow style over several lines": (
        "    env: [\n      {name: a, value: b}, # one\n      {name: c} # two\n    ]\n",
        "      {name: c}, # two\n      {name: NCCL_IB_HCA, value: ",
    ),
    "a comma at the end": (
        "    env: [\n      {name: a},\n    ]\n",
        "    env: [\n      {name: a},\n      {name: NCCL_IB_HCA, value: ",
    ),
}


@pytest.mark.parametrize(("field", "expected"), CHANGED.values(), ids=CHANGED)
def test_a_collection_gains_members_in_its_own_style(field: str, expected: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: c\n{field}    image: i\n"
    patched = _patched(text)
    assert expected in patched
    assert lost(yaml.safe_load(text), yaml.safe_load(patched)) == []
    assert _patched(patched) == patched


POD_VALUES = yaml.safe_load(POD) | {"metadata": {"annotations": {"a": "\u00e9 \U0001f600"}, "labels": {}}}


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
def test_json_stays_json_and_keeps_its_layout(indent: int | str | None, ascii_only: bool) -> None:
    POD_VALUES["spec"]["containers"][0].pop("odd", None)
    text = json.dumps(POD_VALUES, indent=indent, ensure_ascii=ascii_only)
    patched = _patched(text)
    assert lost(json.loads(text), json.loads(patched)) == []
    assert json.dumps(json.loads(patched), indent=indent, ensure_ascii=ascii_only) == patched
    assert _patched(patched) == patched


SHARED = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher: &role
      template: &pod
        spec:
          containers: [{name: c, image: i, resources: &ask {limits: {cpu: 1}}}]
    Worker:
      <<: *role
      replicas: 2
"""


def test_rails_do_not_leak_through_aliases() -> None:
    roles: Any = yaml.safe_load(_patched(SHARED))["spec"]["mpiReplicaSpecs"]
    assert roles["Launcher"]["template"]["spec"] == {
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}}]
    }
    assert roles["Worker"]["replicas"] == 2
    worker = roles["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert worker == {"cpu": 1, "nvidia.com/rail0": 1, "nvidia.com/rail1": 1}


@pytest.mark.parametrize("header", ["|", ">", "|-", "|2", "|+"])
def test_a_block_scalar_at_the_end_of_a_file_gains_no_line_end(header: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - args:\n    - {header}\n      sleep"
    patched = _patched(text)
    assert lost(yaml.safe_load(text), yaml.safe_load(patched)) == []
    assert patched.endswith("fabric: train")
    assert _patched(patched) == patched


def test_a_block_scalar_added_at_the_end_of_a_file_without_a_line_end_has_one() -> None:
    head = "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\n"
    text = f"{head}spec:\n  template:\n    containers:\n    - name: c"
    patched = _patched(text)
    assert patched.startswith(text)
    assert yaml.safe_load(patched)["spec"]["annotations"]


ALIASES = {
    "roles that are alike": (
        "    Master: &role\n      template: {spec: {containers: [{name: c}]}}\n    Worker: *role\n",
        "    Worker: *role\n",
    ),
    "roles that merge": (
        (
            "    Master: &role\n      template: {spec: {containers: [{name: c}]}}\n"
            "    Worker:\n      <<: *role\n      replicas: 2\n"
        ),
        "    Worker:\n      <<: *role\n      replicas: 2\n",
    ),
    "a container beside": (
        "    Worker: {template: &t {spec: {containers: [&c {name: c, env: &e []}, {<<: *c, name: d}, {env: *e}]}}}\n",
        "{env: [], name: d}, {env: []}]",
    ),
    "a container in block style beside": (
        (
            "    Worker:\n      template:\n        spec:\n          containers:\n          - &c\n            name: c\n"
            f"{'':12}env: &e []\n          - <<: *c # beside\n            name: d\n"
            f"          - name: e\n{'':12}env: *e\n"
        ),
        "          - env: [] # beside\n            name: d\n          - name: e\n            env: []\n",
    ),
}


@pytest.mark.parametrize(("roles", "expected"), ALIASES.values(), ids=ALIASES)
def test_an_alias_is_kept_unless_its_value_differs(roles: str, expected: str) -> None:
    text = f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n{roles}"
    patched = _patched(text)
    assert expected in patched
    assert lost(yaml.safe_load(text), yaml.safe_load(patched)) == []
    assert _patched(patched) == patched


HOSTILE: dict[str, tuple[bytes, str]] = {
    "too large": (b"a" * (MAX_BYTES + 1), "too-large"),
    "not UTF-8": (b"a: \xff", "not-utf8"),
    "not YAML": (b"a: [", "bad-yaml"),
    "a tab": (b"a:\n\tb: 1", "tab"),
    "a key twice": (b"a: 1\na: 2", "duplicate-key"),
    "aliases that explode": (
        b"a0: &a0 [x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)),
        "too-large",
    ),
    "a cycle": (b"a: &a [*a]", "too-deep"),
    "deep nesting": (b"[" * 5000, "too-deep"),
    "aliases that grow": (
        b"a: &a [%s]\n" % b",".join([b"x"] * 5000) + b"".join(b"b%d: *a\n" % n for n in range(50)),
        "too-large",
    ),
    "a template": (b"a: {{ .Values.a }}\nb: {{- if .x }}\n", "template"),
    "an unknown alias": (b"a: *b", "bad-yaml"),
    "a number that is none": (b"a: !!int x", "bad-yaml"),
    "half a number": (b"a: !!int 0x", "bad-yaml"),
    "a truth value that is none": (b"a: !!bool x", "bad-yaml"),
}


@pytest.mark.parametrize(("raw", "code"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_cannot_be_edited_is_refused_with_its_place(raw: bytes, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        JobFile(raw, "x.yaml")
    assert {problem.code for problem in caught.value.problems} == {code}
    assert all(problem.place and problem.place.file == "x.yaml" for problem in caught.value.problems)


def test_a_text_of_empty_lines_costs_a_time_that_grows_as_it_does() -> None:
    script = "\n" * 50_000
    text = POD.replace('    command: [sh, -c, "a: b"]\n', f"    args:\n    - |\n      a\n{script}      b\n{script}")
    assert [line for line in _patched(text).splitlines() if line == "      b"] == ["      b"]
