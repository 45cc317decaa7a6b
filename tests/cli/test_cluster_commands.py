"""`diff cluster` and `apply cluster` against a real API server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from trackbed_lab.kubernetes.blocking import connect

from tests.cli.json_page import check_document
from trackbed.cli.main import cli
from trackbed.cluster.rollout.applyset import PART_OF

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: rolled}
spec:
  nodes: [{hosts: "rolled-[0-1]", ports: [{pci: "0000:11:00.0"}, {pci: "0000:12:00.0"}]}]
  rails: 2
  addressing: {scheme: node-subnet, ipv4: 10.64.0.0/15, ipv4NodePrefix: 26}
"""


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    return str(path)


def run(command: str, *words: str, fabric: str, kubeconfig: Path) -> Result:
    where = ["-f", fabric, "--kubeconfig", str(kubeconfig), "--skip", "all"]
    return CliRunner().invoke(cli, [command, "cluster", *words, *where])


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_chart_that_no_stack_installs_cannot_be_skipped(command: str, fabric: str, tmp_path: Path) -> None:
    done = run(command, "native", "--skip", "nvidia-gpu-operator", fabric=fabric, kubeconfig=tmp_path / "none")
    assert done.exit_code == 2
    assert "no stack installs a chart 'nvidia-gpu-operator'; did you mean 'gpu-operator'?" in done.output


def test_a_missing_helm_is_told_before_anything_is_asked_or_changed(
    api_server: Path, fabric: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["apply", "cluster", "native", "-f", fabric, "--kubeconfig", str(api_server)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert re.search(r"chart (\S+) .* needs the program helm, .*; install it, or say --skip \1\n", done.stderr)


def serve(kubeconfig: Path, *, rails: int = 2) -> None:
    """What controllers and kubelets do where there are some: agents run, and nodes offer so many rails."""
    offered = {f"trackbed.dev/rail{rail}": "8" for rail in range(rails)}
    ready = {"type": "Ready", "status": "True"}
    with connect(str(kubeconfig)) as client:
        for number in range(2):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"rolled-{number}"}}
            client.apply(node, force=True)
            status = {"conditions": [ready], "allocatable": offered}
            client.apply({**node, "status": status}, subresource="/status", manager="kubelet", force=True)
        for daemon_set in client.list("apps/v1", "DaemonSet", "trackbed-system"):
            head = {"name": daemon_set["metadata"]["name"], "namespace": "trackbed-system"}
            counted: dict[str, int] = dict.fromkeys(
                ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"), 2
            )
            counted |= {"currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2}
            observed = {"observedGeneration": daemon_set["metadata"]["generation"], **counted}
            body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": head, "status": observed}
            client.apply(body, subresource="/status", manager="controller", force=True)


def test_a_stack_comes_is_left_alone_and_goes(api_server: Path, fabric: str) -> None:
    before = run("diff", "native", fabric=fabric, kubeconfig=api_server)
    assert before.exit_code == 1
    # whether another test has made the namespace already
    assert re.search(
        "created +DaemonSet trackbed-agent in trackbed-system(, once its namespace is there)?\n", before.stdout
    )
    first = run("apply", "native", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    assert first.exit_code == 1, first.output
    after = run("diff", "native", fabric=fabric, kubeconfig=api_server)
    assert (after.exit_code, after.stdout) == (0, "the cluster is as wanted\n")
    repeated = run("diff", "native", "-o", "json", fabric=fabric, kubeconfig=api_server)
    check_document("diff cluster native", json.loads(repeated.stdout))
    serve(api_server)
    again = run("apply", "native", "--yes", "-o", "json", fabric=fabric, kubeconfig=api_server)
    assert again.exit_code == 0, again.output
    check_document("apply cluster native", json.loads(again.stdout))
    assert {change["outcome"] for change in json.loads(again.stdout)["changes"]} == {"same"}
    gone = run("apply", "native", "--remove", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    assert gone.stdout.endswith("removed\n")
    with connect(str(api_server)) as client:
        assert not list(client.list("apps/v1", "DaemonSet", selector=PART_OF))


def test_a_stack_is_stuck_until_agents_serve_and_every_node_offers_its_rails(api_server: Path, fabric: str) -> None:
    apply = ("apply", "native", "--yes", "--wait", "0")
    first = run(*apply, fabric=fabric, kubeconfig=api_server)
    assert first.exit_code == 1
    assert "daemonset/trackbed-agent did not get to rolled-out in 0 s:\n" in first.stderr
    assert "what to do: `kubectl describe daemonset trackbed-agent --namespace trackbed-system` has" in first.stderr
    serve(api_server, rails=1)
    second = run(*apply, fabric=fabric, kubeconfig=api_server)
    assert second.exit_code == 1
    assert "  2 of 2 nodes offer no trackbed.dev/rail1: rolled-0, rolled-1\n" in second.stderr
    assert "  what to do: `trackbed doctor` on a node says why it does not offer a rail; then run" in second.stderr
    serve(api_server)
    assert run(*apply, fabric=fabric, kubeconfig=api_server).exit_code == 0
    run("apply", "native", "--remove", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)


def test_what_differs_is_shown_by_its_fields_before_anybody_is_asked(api_server: Path, fabric: str) -> None:
    run("apply", "native", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    serve(api_server)
    with connect(str(api_server)) as client:
        [daemon] = client.list("apps/v1", "DaemonSet", "trackbed-system")
        labels = {"app.kubernetes.io/name": "taken"}
        metadata = {"name": daemon["metadata"]["name"], "namespace": "trackbed-system", "labels": labels}
        taken = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata}
        client.apply(taken, manager="somebody", force=True)
    shown = run("apply", "native", fabric=fabric, kubeconfig=api_server)
    assert shown.exit_code == 2
    assert "conflict  DaemonSet trackbed-agent in trackbed-system" in shown.stdout
    assert "standard input is no terminal to confirm on; add --yes to apply" in shown.stderr
    forced = run("apply", "native", "--yes", "--force", fabric=fabric, kubeconfig=api_server)
    assert (forced.exit_code, "          .metadata.labels.app.kubernetes.io/name: taken -> " in forced.stdout) == (
        0,
        True,
    )
    run("apply", "native", "--remove", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)


def test_objects_of_another_fabric_are_refused_also_with_force_and_left_by_its_removal(
    api_server: Path, fabric: str
) -> None:
    run("apply", "native", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    second = Path(fabric).with_name("second.yaml")
    second.write_text(FABRIC.replace("{name: rolled}", "{name: second}"))
    shown = run("diff", "native", fabric=str(second), kubeconfig=api_server)
    line = "DaemonSet trackbed-agent in trackbed-system is part of trackbed-rolled-native in namespace "
    assert (shown.exit_code, f"          {line}" in shown.stdout) == (1, True)
    assert "refused   DaemonSet trackbed-agent in trackbed-system\n" in shown.stdout
    forced = run("apply", "native", "--yes", "--force", "--wait", "0", fabric=str(second), kubeconfig=api_server)
    assert forced.exit_code == 2
    assert "nothing was changed: objects belong to other ApplySets and are left alone, also with --f" in forced.stderr
    assert f"\n  {line}" in forced.stderr
    run("apply", "native", "--remove", "--yes", "--wait", "0", fabric=str(second), kubeconfig=api_server)
    with connect(str(api_server)) as client:
        assert len(list(client.list("apps/v1", "DaemonSet", "trackbed-system"))) == 1
    run("apply", "native", "--remove", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)


def test_the_last_run_is_undone_after_it_was_shown_and_asked_for(api_server: Path, fabric: str) -> None:
    def native(*words: str, of: str = fabric) -> Result:
        return run("apply", "native", *words, fabric=of, kubeconfig=api_server)

    nothing = native("--undo", "--yes", "--wait", "0")
    assert nothing.exit_code == 2
    assert "keeps no state from before the last run of trackbed-rolled-native; apply the" in nothing.stderr
    native("--yes", "--wait", "0")
    serve(api_server)
    assert native("--yes").exit_code == 0
    one_rail = Path(fabric).with_name("one.yaml")
    one_rail.write_text(FABRIC.replace("rails: 2", "rails: 1").replace(', {pci: "0000:12:00.0"}', ""))
    assert native("--yes", of=str(one_rail)).exit_code == 0
    shown = native("--undo")
    assert shown.exit_code == 2
    assert "changed   ValidatingAdmissionPolicy trackbed-rails\n" in shown.stdout
    assert "add --yes to apply" in shown.stderr
    assert native("--undo", "--yes", "--wait", "0").exit_code == 0
    assert run("diff", "native", fabric=fabric, kubeconfig=api_server).exit_code == 0
    again = native("--undo", "--yes", "--wait", "0")
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "the cluster is as wanted")
    both = native("--undo", "--remove")
    assert (both.exit_code, "use one of them" in both.stderr) == (2, True)
    native("--remove", "--yes", "--wait", "0")


def test_a_run_after_one_that_broke_off_says_where_undo_leads(api_server: Path, fabric: str) -> None:
    run("apply", "native", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    with connect(str(api_server)) as client:
        [daemon] = client.list("apps/v1", "DaemonSet", "trackbed-system")
        client.delete(daemon)
    again = run("apply", "native", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    assert "the last run was interrupted; --undo will restore the state before it\n" in again.stderr
    back = run("apply", "native", "--undo", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)
    assert (back.exit_code, back.stdout.endswith("removed\n")) == (0, True)
    run("apply", "native", "--remove", "--yes", "--wait", "0", fabric=fabric, kubeconfig=api_server)


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        pytest.param("kvm", "stack kvm puts nothing into a cluster", id="nothing to apply"),
        pytest.param("nativ", "no stack 'nativ'", id="no such stack"),
    ],
)
def test_a_stack_that_cannot_be_applied_is_told_so(api_server: Path, fabric: str, stack: str, message: str) -> None:
    done = run("apply", stack, "--yes", fabric=fabric, kubeconfig=api_server)
    assert (done.exit_code, message in done.stderr) == (2, True), done.output


def test_a_cluster_that_does_not_answer_is_unknown(tmp_path: Path, api_server: Path, fabric: str) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(api_server.read_text().replace("https://127.0.0.1:", "https://127.0.0.2:"))
    done = run("diff", "native", fabric=fabric, kubeconfig=nowhere)
    assert (done.exit_code, "trackbed: no answer from https://127.0.0.2:" in done.stderr) == (3, True)
