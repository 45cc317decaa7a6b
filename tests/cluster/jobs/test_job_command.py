"""`trackbed job` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from trackbed.cli.main import cli
from trackbed.cluster.jobs.kinds import KINDS

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-3]", ports: ["0000:18:00.0", "0000:20:00.0"]}]
  rails: 2
  addressing: {scheme: point-to-point, layout: spectrum-x-2tier}
  kubernetes: {namespace: ai}
  otherRanges: {docker: []}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: a # mine
spec:
  containers:
  - name: main
    image: i
    env:
    - name: NCCL_IB_GID_INDEX
      value: "3"
"""
HOST_DEVICE = ("--stack", "network-operator-hostdevice")


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    return path


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    return path


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["job", *(str(arg) for arg in args)], input=stdin)


def test_patch_prints_the_job_and_tells_what_was_kept(fabric: Path, pod: Path) -> None:
    result = run("patch", pod, "-f", fabric, *HOST_DEVICE)
    assert result.exit_code == 0
    assert "  name: a # mine\n" in result.stdout
    assert yaml.safe_load(result.stdout)["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/rail0": 1,
        "nvidia.com/rail1": 1,
    }
    kept, count = result.stderr.splitlines()
    assert kept.startswith("Pod a: spec.containers[0].env: extra: NCCL_IB_GID_INDEX=3; ")
    assert count.endswith(" added, 1 kept")
    assert pod.read_text() == POD


def test_patch_in_place_twice_is_once(fabric: Path, pod: Path) -> None:
    texts = []
    pod.chmod(0o640)
    for _ in range(2):
        result = run("patch", pod, "-f", fabric, *HOST_DEVICE, "--in-place")
        assert (result.exit_code, result.stdout) == (0, "")
        texts.append(pod.read_text())
    assert texts[0] == texts[1] != POD
    assert pod.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in pod.parent.iterdir() if path.name.startswith(".")] == []


def test_patch_reads_standard_input(fabric: Path, pod: Path) -> None:
    piped = run("patch", "-", "-f", fabric, *HOST_DEVICE, stdin=POD)
    assert piped.stdout == run("patch", pod, "-f", fabric, *HOST_DEVICE).stdout


def test_diff_ends_with_1_until_the_job_is_as_planned(fabric: Path, tmp_path: Path) -> None:
    text = POD.partition("    env:")[0]
    before = run("diff", "-", "-f", fabric, *HOST_DEVICE, stdin=text)
    assert before.exit_code == 1
    assert before.stdout.splitlines()[0].split() == ["job", "what", "breaks"]
    job = tmp_path / "good.yaml"
    job.write_text(run("patch", "-", "-f", fabric, *HOST_DEVICE, stdin=text).stdout)
    after = run("diff", job, "-f", fabric, *HOST_DEVICE)
    assert (after.exit_code, after.stdout) == (0, "Pod a: as planned\n")


def test_diff_as_json_says_the_same_as_the_table(fabric: Path, pod: Path) -> None:
    table = run("diff", pod, "-f", fabric, *HOST_DEVICE).stdout.splitlines()[1:]
    found = json.loads(run("diff", pod, "-f", fabric, *HOST_DEVICE, "-o", "json").stdout)
    assert [one["job"] for one in found] == ["Pod a"]
    assert len(found[0]["notes"]) == len(table)
    assert all(note["what"] in line for note, line in zip(found[0]["notes"], table, strict=True))


@pytest.mark.parametrize("kind", [*KINDS, "kueue"])
def test_new_writes_a_job_that_differs_in_nothing(fabric: Path, kind: str) -> None:
    written = run("new", kind, "-f", fabric, *HOST_DEVICE, "--image", "i", "--topology", "rack")
    assert (written.exit_code, written.stderr) == (0, "")
    named = [one["metadata"].get("namespace", "ai") for one in yaml.safe_load_all(written.stdout)]
    assert set(named) == {"ai"}
    compared = run("diff", "-", "-f", fabric, *HOST_DEVICE, stdin=written.stdout)
    assert compared.exit_code == (2 if kind == "kueue" else 0)


WRONG: dict[str, tuple[tuple[str, ...], str, str]] = {
    "no job": (
        ("patch", "-"),
        "kind: ConfigMap\napiVersion: v1\n",
        "trackbed: no job that can have rails; there are Pod",
    ),
    "another version": (("diff", "-"), "kind: MPIJob\napiVersion: kubeflow.org/v1\n", "there is kubeflow.org/v2beta1"),
    "not YAML": (("patch", "-"), "a: [", "<stdin>:2:1: error: this is not YAML"),
    "another shape": (("patch", "-"), "kind: Pod\napiVersion: v1\nspec: []\n", "Pod (without a name): spec: expected"),
    "no such file": (("patch", "nowhere.yaml"), "", "trackbed: cannot read nowhere.yaml: No such file"),
    "no such kind": (("new", "mpijobs", "--image", "i"), "", "no kind 'mpijobs'; did you mean 'mpijob'?"),
    "no image": (("new", "mpijob"), "", "trackbed: name an image with --image"),
    "too many nodes": (("new", "job", "--image", "i", "--nodes", "5"), "", "--nodes 5: fabric 'train' has 4"),
    "a queue for what has none": (("new", "daemonset", "--image", "i", "--queue", "q"), "", "leave the queue out"),
    "a bad name": (("new", "job", "--image", "i", "--name", "A_b"), "", "--name 'A_b': lower-case letters"),
}


@pytest.mark.parametrize(("args", "stdin", "told"), WRONG.values(), ids=WRONG)
def test_wrong_use_ends_with_2_and_says_what_to_do(fabric: Path, args: tuple[str, ...], stdin: str, told: str) -> None:
    result = run(*args, "-f", fabric, *HOST_DEVICE, stdin=stdin)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""


STACKS = {
    "unknown": ("hostdevice", "no stack 'hostdevice'"),
    "refuses the plan": ("network-operator-macvlan", "[stack-scheme]"),
    "gives no rails to pods": ("bare-metal", "stack bare-metal gives no rails to pods"),
}


@pytest.mark.parametrize(("stack", "told"), STACKS.values(), ids=STACKS)
def test_a_stack_that_cannot_be_had_ends_with_2(fabric: Path, pod: Path, stack: str, told: str) -> None:
    result = run("patch", pod, "-f", fabric, "--stack", stack)
    assert result.exit_code == 2
    assert told in result.stderr


def test_diff_wants_a_file_or_a_pod_and_not_both(fabric: Path, pod: Path) -> None:
    for args in ((), (str(pod), "--pod", "a/b")):
        result = run("diff", *args, "-f", fabric, *HOST_DEVICE)
        assert (result.exit_code, result.stderr) == (2, "trackbed: name either a FILE or a pod with --pod\n")


def test_a_kubeconfig_that_is_not_there_ends_with_2(fabric: Path, tmp_path: Path) -> None:
    result = run("diff", "--pod", "a/b", "-f", fabric, *HOST_DEVICE, "--kubeconfig", tmp_path / "none")
    assert result.exit_code == 2
    assert "no usable kubeconfig" in result.stderr


def test_fabric_and_job_cannot_both_be_standard_input() -> None:
    result = run("patch", "-", "-f", "-", *HOST_DEVICE, stdin=POD)
    assert result.exit_code == 2
    assert "cannot both come from standard input" in result.stderr


def test_a_file_that_cannot_be_written_keeps_what_it_held(fabric: Path, pod: Path) -> None:
    pod.with_name(f".{pod.name}.new").mkdir()
    result = run("patch", pod, "-f", fabric, *HOST_DEVICE, "--in-place")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
    assert pod.read_text() == POD


def test_help_names_every_kind() -> None:
    written = run("new", "--help").stdout
    assert [kind for kind in KINDS if kind not in written] == []
