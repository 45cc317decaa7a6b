from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster.jobs.wanteds import PLAIN
from trackbed.cluster.jobs.jobs import put_rails
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.round_trip import MAX_BYTES, File
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
    file = File(text.encode(), "x.yaml")
    put_rails(file.documents, PLAIN)
    return file.text()


def test_only_what_is_added_is_new_in_the_text() -> None:
    after = iter(_patched(POD).splitlines())
    assert [line for line in POD.splitlines() if line not in after] == []


def test_scalars_keep_their_meaning() -> None:
    for loader in (yaml.SafeLoader, yaml.BaseLoader):
        one, other = (yaml.load(text, loader)["spec"]["containers"][0]["odd"] for text in (POD, _patched(POD)))  # noqa: S506 - one of the two safe loaders
        assert one == other


WORDS = ["on", "no", "1e3", "0x1f", "null", "1:30", "2026-01-02", "12", "~", "=", "text", "a: b", "# x"]


@pytest.mark.parametrize("word", WORDS)
def test_text_that_is_added_is_text_to_every_reader(word: str) -> None:
    file = File(POD.encode(), "x.yaml")
    put_rails(file.documents, PodRequirements(Access(), (("A", word),), (("label", word),)))
    spec = yaml.safe_load(file.text())["spec"]
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
    "a directive": (b"%YAML 1.1\n---\na: 1\n", "bad-yaml"),
    "an unknown alias": (b"a: *b", "bad-yaml"),
    "a number that is none": (b"a: !!int x", "bad-yaml"),
    "half a number": (b"a: !!int 0x", "bad-yaml"),
    "a truth value that is none": (b"a: !!bool x", "bad-yaml"),
    "a set in a list": (b"- a: !!set\n  ? x\n", "bad-yaml"),
}


@pytest.mark.parametrize(("raw", "code"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_cannot_be_edited_is_refused_with_its_place(raw: bytes, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        File(raw, "x.yaml")
    assert {problem.code for problem in caught.value.problems} == {code}
    assert all(problem.place and problem.place.file == "x.yaml" for problem in caught.value.problems)
