"""`trackbed job` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    payload = json.loads(run("diff", pod, "-f", fabric, *HOST_DEVICE, "-o", "json").stdout)
    assert [item["job"] for item in payload] == ["Pod a"]
    assert len(payload[0]["notes"]) == len(table)
    assert all(note["what"] in line for note, line in zip(payload[0]["notes"], table, strict=True))


@pytest.mark.parametrize("kind", [*KINDS, "kueue"])
def test_new_writes_a_job_that_differs_in_nothing(fabric: Path, kind: str) -> None:
    written = run("new", kind, "-f", fabric, *HOST_DEVICE, "--image", "i", "--topology", "rack")
    assert (written.exit_code, written.stderr) == (0, "")
    named = [manifest["metadata"].get("namespace", "ai") for manifest in yaml.safe_load_all(written.stdout)]
    assert set(named) == {"ai"}
    compared = run("diff", "-", "-f", fabric, *HOST_DEVICE, stdin=written.stdout)
    assert compared.exit_code == (2 if kind == "kueue" else 0)


WRONG: dict[str, tuple[tuple[str, ...], str, str]] = {
    "no job": (
        ("patch", "-"),
        "kind: ConfigMap\napiVersion: v1\n",
        "trackbed: no job that can have rails; there are Pod",
    ),
    "another version": (
        ("diff", "-"),
        "kind: MPIJob\napiVersion: kubeflow.org/v1alpha1\n",
        "there is kubeflow.org/v2beta1",
    ),
    "not YAML": (("patch", "-"), "a: [", "<stdin>:2:1: error: this is not YAML"),
    "another shape": (("patch", "-"), "kind: Pod\napiVersion: v1\nspec: []\n", "Pod (without a name): spec: expected"),
    "no such file": (("patch", "nowhere.yaml"), "", "trackbed: cannot read nowhere.yaml: No such file"),
    "a proof of some rails": (
        ("new", "proof", "--image", "i", "--rails", "0"),
        "",
        "--rails is no option of kind proof, which takes all rails of all idle nodes",
    ),
    "a bad name of a proof": (("new", "proof", "--image", "i", "--name", "A_b"), "", "--name 'A_b': lower-case"),
    "a bad namespace": (
        ("new", "job", "--image", "i", "--namespace", "Foo_Bar"),
        "",
        "--namespace 'Foo_Bar': lower-case",
    ),
    "a bad namespace of a proof": (
        ("new", "proof", "--image", "i", "--namespace", "a\nb"),
        "",
        r"--namespace 'a\nb': lower-case",
    ),
    "a bad image of a proof": (("new", "proof", "--image", "a b"), "", "it must hold Trackbed, rping and perftest"),
    "a proof without an image": (("new", "proof"), "", "it must hold Trackbed, rping and perftest"),
    "no such kind": (("new", "mpijobs", "--image", "i"), "", "no kind 'mpijobs'; did you mean 'mpijob'?"),
    "no image": (("new", "mpijob"), "", "trackbed: name an image with --image"),
    "too many nodes": (("new", "job", "--image", "i", "--node-count", "5"), "", "--node-count 5: fabric 'train' has 4"),
    "a queue for what has none": (("new", "daemonset", "--image", "i", "--queue", "q"), "", "leave the queue out"),
    "CPU alone": (("new", "job", "--image", "i", "--cpu", "4"), "", "name --cpu and --memory together"),
    "huge pages alone": (("new", "job", "--image", "i", "--hugepages", "2Mi=1Gi"), "", "with --hugepages"),
    "memory that is no quantity": (
        ("new", "job", "--image", "i", "--cpu", "4", "--memory", "64GiB"),
        "",
        "--memory 64GiB: write a quantity",
    ),
    "huge pages that are no quantity": (
        ("new", "job", "--image", "i", "--cpu", "4", "--memory", "64Gi", "--hugepages", "2Mi=abc"),
        "",
        "--hugepages 2Mi=abc: write SIZE=QUANTITY",
    ),
    "no huge pages": (
        ("new", "job", "--image", "i", "--cpu", "4", "--memory", "64Gi", "--hugepages", "2Mi=0"),
        "",
        "--hugepages 2Mi=0: write SIZE=QUANTITY",
    ),
    "a bad queue": (("new", "job", "--image", "i", "--queue", "Bad_Queue!"), "", "--queue 'Bad_Queue!': lower-case"),
    "a long queue": (("new", "job", "--image", "i", "--queue", "a." * 32 + "a"), "", "63 at most"),
    "a variable of the plan": (
        ("new", "job", "--image", "i", "--nccl", "NCCL_IB_TC=1"),
        "",
        "--nccl: write NAME=VALUE",
    ),
    "a bad name": (("new", "job", "--image", "i", "--name", "A_b"), "", "--name 'A_b': lower-case letters"),
}


@pytest.mark.parametrize(("args", "stdin", "message"), WRONG.values(), ids=WRONG)
def test_wrong_use_ends_with_2_and_says_what_to_do(
    fabric: Path, args: tuple[str, ...], stdin: str, message: str
) -> None:
    result = run(*args, "-f", fabric, *HOST_DEVICE, stdin=stdin)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


STACKS = {
    "unknown": ("hostdevice", "no stack 'hostdevice'"),
    "refuses the plan": ("network-operator-macvlan", "[stack-scheme]"),
    "gives no rails to pods": ("bare-metal", "stack bare-metal gives no rails to pods"),
}


@pytest.mark.parametrize(("stack", "message"), STACKS.values(), ids=STACKS)
def test_a_stack_that_cannot_be_had_ends_with_2(fabric: Path, pod: Path, stack: str, message: str) -> None:
    result = run("patch", pod, "-f", fabric, "--stack", stack)
    assert result.exit_code == 2
    assert message in result.stderr


def test_diff_wants_a_file_or_a_pod_and_not_both(fabric: Path, pod: Path) -> None:
    for args in ((), (str(pod), "--pod", "a/b")):
        result = run("diff", *args, "-f", fabric, *HOST_DEVICE)
        assert (result.exit_code, result.stderr) == (2, "trackbed: name either a FILE or a pod with --pod\n")


MIXED = FABRIC.replace(
    'nodes: [{hosts: "gpu-[0-3]", ports: ["0000:18:00.0", "0000:20:00.0"]}]',
    'nodes: [{hosts: "gpu-[0-2]", ports: ["0000:18:00.0", "0000:20:00.0"]},'
    ' {hosts: gpu-3, ports: ["0000:18:00.0", null]}]',
)
WARNING = (
    "warning: a pod with rails 0-1 starts on 3 of 4 nodes, and never on 1 (1 with rails 0); --rails 0 fits all 4\n"
)


def test_on_a_mixed_fabric_a_job_takes_the_nodes_that_have_its_rails(fabric: Path) -> None:
    fabric.write_text(MIXED)
    whole = run("new", "job", "-f", fabric, *HOST_DEVICE, "--image", "i")
    assert (whole.stderr, whole.exit_code) == (WARNING, 0)
    assert "completions: 3\n" in whole.stdout
    some = run("new", "job", "-f", fabric, *HOST_DEVICE, "--image", "i", "--rails", "0")
    assert (some.stderr, "completions: 4\n" in some.stdout, "rail1" in some.stdout) == ("", True, False)
    wrong = run("new", "job", "-f", fabric, *HOST_DEVICE, "--image", "i", "--rails", "0,5")
    assert (wrong.exit_code, wrong.stderr) == (2, "trackbed: --rails 0,5: fabric 'train' has rails 0-1\n")


def test_a_rail_that_was_not_chosen_is_reported_where_a_job_has_it(fabric: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(run("new", "job", "-f", fabric, *HOST_DEVICE, "--image", "i").stdout)
    assert run("diff", job, "-f", fabric, *HOST_DEVICE, "--rails", "0,1").exit_code == 0
    fewer = run("diff", job, "-f", fabric, *HOST_DEVICE, "--rails", "0", "-o", "json")
    (entry,) = json.loads(fewer.stdout)
    assert fewer.exit_code == 1
    assert [note["what"] for note in entry["notes"] if note["code"] == "pod-rails-unused"] == [
        "this pod joins network rail1, which is not among its rails; remove it, or choose the rail",
        "this pod asks for nvidia.com/rail1, which is not among its rails; delete the resource, or choose the rail",
    ]


def containers(text: str) -> list[Any]:
    """The containers of the pods in a text."""
    pods = [manifest for manifest in yaml.safe_load_all(text) if manifest["kind"] == "Pod"]
    return [container for pod in pods for container in pod["spec"]["containers"]]


def test_new_pods_measure_over_two_nodes(fabric: Path) -> None:
    written = run("new", "pod", "-f", fabric, *HOST_DEVICE, "--image", "i")
    first, second = containers(written.stdout)
    assert [word for word in second["command"] if word.startswith(("--nnodes", "--node-rank", "--master-addr"))] == [
        "--nnodes=2",
        "--node-rank=1",
        "--master-addr=all-reduce-0.all-reduce",
    ]
    assert first["resources"] == second["resources"]
    alone = run("new", "job", "-f", fabric, *HOST_DEVICE, "--image", "i", "--node-count", "1")
    assert alone.stderr.startswith(
        "on one node the all-reduce stays on NVLink and uses no rail; take --node-count 2 or"
    )


def test_a_job_without_nvlink_is_on_one_node_and_uses_its_rails(fabric: Path) -> None:
    written = run("new", "pod", "-f", fabric, *HOST_DEVICE, "--image", "i", "--no-nvlink")
    [container] = containers(written.stdout)
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    off = {name: variables[name] for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NVLS_ENABLE")}
    assert off == {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    assert "NVLink" not in written.stderr
    for others in (("--node-count", "2"), ("--by-rail",)):
        refused = run("new", "mpijob", "-f", fabric, *HOST_DEVICE, "--image", "i", "--no-nvlink", *others)
        assert (refused.exit_code, "--no-nvlink is for an all-reduce on one node" in refused.stderr) == (2, True)


def test_new_jobs_state_cpu_memory_and_huge_pages_as_request_and_limit(fabric: Path) -> None:
    options = ("--cpu", "64", "--memory", "512Gi", "--hugepages", "2Mi=4Gi")
    container, _ = containers(run("new", "pod", "-f", fabric, *HOST_DEVICE, "--image", "i", *options).stdout)
    for section in ("limits", "requests"):
        stated = {name: container["resources"][section][name] for name in ("cpu", "memory", "hugepages-2Mi")}
        assert stated == {"cpu": "64", "memory": "512Gi", "hugepages-2Mi": "4Gi"}


def test_where_kubelet_pins_cpus_new_jobs_are_guaranteed(fabric: Path) -> None:
    fabric.write_text(FABRIC + "  kubelet: {reservedCpus: 0-3}\n")
    container, _ = containers(run("new", "pod", "-f", fabric, *HOST_DEVICE, "--image", "i").stdout)
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    assert (requests["cpu"], requests["memory"]) == (limits["cpu"], limits["memory"])
    assert requests["cpu"].isdecimal()


def test_options_of_nccl_reach_every_rank(fabric: Path) -> None:
    option = ("--nccl", "NCCL_IB_QPS_PER_CONNECTION=4")
    text = run("new", "mpijob", "-f", fabric, *HOST_DEVICE, "--image", "i", *option).stdout
    roles = yaml.safe_load(text)["spec"]["mpiReplicaSpecs"]
    launcher, worker = (roles[role]["template"]["spec"]["containers"][0] for role in ("Launcher", "Worker"))
    assert "NCCL_IB_QPS_PER_CONNECTION=4" in launcher["command"]
    assert {"name": "NCCL_IB_QPS_PER_CONNECTION", "value": "4"} in worker["env"]
    assert "NCCL_IB_QPS_PER_CONNECTION\n" in run("new", "--help").stdout


def test_the_stack_is_the_fabrics_unless_another_is_named(fabric: Path, pod: Path) -> None:
    fabric.write_text(FABRIC.replace("{namespace: ai}", "{namespace: ai, stack: network-operator-hostdevice}"))
    assert run("patch", pod, "-f", fabric).stdout == run("patch", pod, "-f", fabric, *HOST_DEVICE).stdout


def test_a_job_with_host_network_is_refused_with_its_place(fabric: Path, pod: Path) -> None:
    text = POD.replace("spec:\n", "spec:\n  hostNetwork: true\n")
    pod.write_text(text)
    refused = run("patch", pod, "-f", fabric, *HOST_DEVICE, "--in-place")
    assert (refused.exit_code, refused.stdout, pod.read_text()) == (2, "", text)
    assert refused.stderr.startswith("trackbed: Pod a: spec.hostNetwork: hostNetwork: true: the pod uses its node's")
    assert run("diff", pod, "-f", fabric, *HOST_DEVICE).exit_code == 1


def test_diff_names_the_role_of_the_pods(fabric: Path) -> None:
    template = "template: {spec: {containers: [{name: c}]}}"
    roles = f"{{Master: {{{template}}}, Worker: {{{template}}}}}"
    spec = f"{{pytorchReplicaSpecs: {roles}}}"
    job = f"{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {{name: t}}, spec: {spec}}}"
    lines = run("diff", "-", "-f", fabric, *HOST_DEVICE, stdin=job).stdout.splitlines()
    assert lines[0].split() == ["job", "role", "what", "breaks"]
    assert {line.split()[2] for line in lines[1:] if line.startswith("PyTorchJob")} == {"Master", "Worker"}


def test_a_kubeconfig_that_is_not_there_ends_with_2(fabric: Path, tmp_path: Path) -> None:
    result = run("diff", "--pod", "a/b", "-f", fabric, *HOST_DEVICE, "--kubeconfig", tmp_path / "none")
    assert result.exit_code == 2
    assert "no usable kubeconfig" in result.stderr


def test_fabric_and_job_cannot_both_be_standard_input() -> None:
    result = run("patch", "-", "-f", "-", *HOST_DEVICE, stdin=POD)
    assert result.exit_code == 2
    assert "cannot both come from standard input" in result.stderr


def test_a_file_that_cannot_be_written_keeps_what_it_held(fabric: Path, pod: Path) -> None:
    pod.with_name(f".{pod.name}.trackbed").mkdir()
    result = run("patch", pod, "-f", fabric, *HOST_DEVICE, "--in-place")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
    assert pod.read_text() == POD


def test_help_names_every_kind() -> None:
    written = run("new", "--help").stdout
    assert [kind for kind in KINDS if kind not in written] == []
