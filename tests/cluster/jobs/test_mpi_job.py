from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, VARIABLES, WANTED, build_params, template
from trackbed.cluster.jobs.kinds import KINDS
from trackbed.cluster.jobs.kinds.kind import JobContext, patch_job
from trackbed.cluster.jobs.note import Note

KIND = KINDS["mpijob"]
EXPORTS = [word for name, value in VARIABLES for word in ("-x", f"{name}={value}")]


def _job(launcher: dict[str, Any], **spec: Any) -> dict[str, Any]:
    roles = {"Launcher": {"template": {"spec": {"containers": [launcher]}}}, "Worker": {"template": template()}}
    return {"apiVersion": KIND.api_versions[0], "kind": "MPIJob", "spec": {"mpiReplicaSpecs": roles, **spec}}


def _launcher(job: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    return container


def _kept(job: dict[str, Any]) -> list[Note]:
    return [note for note in patch_job(KIND, job, JobContext(PLAIN)) if note.verdict != "missing"]


LINES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "in command": ({"command": ["mpirun", "-np", "2", "app"]}, ["mpirun", *EXPORTS, "-np", "2", "app"]),
    "in args": ({"command": ["bash"], "args": ["/usr/bin/mpiexec", "app"]}, ["/usr/bin/mpiexec", *EXPORTS, "app"]),
    "one is there": (
        {"command": ["mpirun", "-x", "NCCL_IB_TC=104", "app"]},
        ["mpirun", *EXPORTS[:4], "-x", "NCCL_IB_TC=104", "app"],
    ),
}


@pytest.mark.parametrize(("launcher", "line"), LINES.values(), ids=LINES)
def test_variables_stand_on_mpiruns_command_line(launcher: dict[str, Any], line: list[str]) -> None:
    job = _job(copy.deepcopy(launcher))
    assert _kept(job) == []
    assert _launcher(job)["args" if "args" in launcher else "command"] == line
    assert patch_job(KIND, job, JobContext(PLAIN)) == []


def test_the_launcher_gets_no_rails() -> None:
    job = _job({"command": ["mpirun", "app"]})
    patch_job(KIND, job, JobContext(PLAIN))
    assert job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"] == {
        "containers": [{"command": ["mpirun", *EXPORTS, "app"]}]
    }


def test_a_value_that_the_user_exports_stays_and_is_told() -> None:
    job = _job({"command": ["mpirun", "-x", "NCCL_IB_TC=0", "app"]})
    assert [note.difference for note in _kept(job)] == ["mpirun exports NCCL_IB_TC=0, the plan has '104'"]
    assert "NCCL_IB_TC=0" in _launcher(job)["command"]


EXPORTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the planned value": ({"env": [{"name": "NCCL_IB_TC", "value": "104"}]}, []),
    "another value": (
        {"env": [{"name": "NCCL_IB_TC", "value": "0"}]},
        ["mpirun exports NCCL_IB_TC=0, the plan has '104'"],
    ),
    "a value from elsewhere": ({"env": [{"name": "NCCL_IB_TC", "valueFrom": {"configMapKeyRef": {}}}]}, []),
    "perhaps a value": ({"envFrom": [{"configMapRef": {"name": "a"}}]}, []),
    "none": ({}, ["mpirun exports NCCL_IB_TC, which the launcher's env does not set, the plan has '104'"]),
}


@pytest.mark.parametrize(("fields", "kept"), EXPORTED.values(), ids=EXPORTED)
def test_a_variable_that_is_exported_by_name_has_the_launchers_value(fields: dict[str, Any], kept: list[str]) -> None:
    job = _job({"command": ["mpirun", "-x", "NCCL_IB_TC", "app"], **copy.deepcopy(fields)})
    assert [note.difference for note in _kept(job)] == kept


HARMFUL = {
    "exported by mpirun": ["mpirun", "-x", "NCCL_IB_DISABLE=1"],
    "in a script": ["sh", "-c", "NCCL_IB_DISABLE=1"],
}


@pytest.mark.parametrize("command", HARMFUL.values(), ids=HARMFUL)
def test_a_launcher_that_turns_rdma_off_is_told(command: list[str]) -> None:
    assert "ib-disabled" in {note.code for note in _kept(_job({"command": [*command]}))}


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a script": ({"command": ["sh", "-c", "mpirun -np 2 app"]}, {}),
    "Intel MPI": ({"command": ["mpirun", "app"]}, {"mpiImplementation": "Intel"}),
    "the image's own command": ({}, {}),
}


@pytest.mark.parametrize(("launcher", "spec"), OTHERS.values(), ids=OTHERS)
def test_a_command_that_cannot_be_edited_stays_and_what_to_add_is_told(
    launcher: dict[str, Any], spec: dict[str, Any]
) -> None:
    job = _job(copy.deepcopy(launcher), **spec)
    message = "export NCCL_IB_HCA==rail0:1:0,rail1:1:1 NCCL_SOCKET_IFNAME==eth0 NCCL_IB_TC=104"
    assert [note.difference.partition("; ")[2] for note in _kept(job)] == [message]
    assert _launcher(job) == launcher


def test_a_script_that_exports_all_is_content() -> None:
    exported = " ".join(f"-x {name}" for name, _ in VARIABLES)
    assert _kept(_job({"command": ["sh", "-c", f"mpirun {exported} app"]})) == []


def test_in_the_hosts_network_sshd_keeps_off_port_22() -> None:
    roles = KIND.build(build_params(WANTED["host network"]))[-1]["spec"]["mpiReplicaSpecs"]
    command = {role: roles[role]["template"]["spec"]["containers"][0]["command"] for role in roles}
    assert command["Worker"] == ["/usr/sbin/sshd", "-De", "-p", "2222"]
    assert command["Launcher"][command["Launcher"].index("plm_rsh_args") + 1] == "-p 2222"
