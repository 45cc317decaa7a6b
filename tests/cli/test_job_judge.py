"""`trackbed job judge`, and the job whose log it reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.prove.nccl.logs import (
    END,
    HOSTS,
    RAILS,
    build_ports,
    build_ranks,
    build_report,
    build_result,
    compute_seconds,
)
from trackbed.cli.main import cli
from trackbed.cluster.jobs.program import ALL_REDUCE_BY_RAIL

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-3]", server: dgx-h100}]
  rails: 8
  rate: 400
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/13}
"""


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    return path


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["job", *(str(arg) for arg in args)], input=stdin)


def build_log(share: float, *lines: str) -> str:
    seconds = compute_seconds(share * RAILS * 400, ranks=2 * RAILS)
    return "\n".join([*build_ranks(), *lines, build_result(seconds), END])


@pytest.mark.parametrize(("share", "status"), [(0.97, 0), (0.8, 1), (2.0, 3)])
def test_the_exit_status_says_whether_the_rails_were_reached(fabric: Path, share: float, status: int) -> None:
    done = run("judge", "-", "-f", fabric, stdin=build_log(share))
    assert done.exit_code == status, done.output
    assert "NCCL_DEBUG=INFO" in done.stderr


def test_findings_are_told_as_json(fabric: Path) -> None:
    ports = build_ports(HOSTS[0], ["mlx5_0:1/RoCE"])
    done = run("judge", "-", "-f", fabric, "-o", "json", stdin=build_log(0.97, ports))
    rate, host = json.loads(done.stdout)
    assert (done.exit_code, rate["verdict"], rate["subject"], round(rate["gbps"])) == (1, "pass", "all rails", 3104)
    assert (host["verdict"], host["subject"], host["gbps"]) == ("fail", HOSTS[0], None)


def test_a_job_with_some_rails_is_judged_by_these(fabric: Path) -> None:
    seconds = compute_seconds(0.97 * 4 * 400, ranks=8)
    log = "\n".join([*build_ranks(gpus=4), build_result(seconds), END])
    assert run("judge", "-", "-f", fabric, "--rails", "0-3", stdin=log).exit_code == 0


@pytest.mark.parametrize(
    ("log", "status", "message"),
    [
        ("nothing", 3, "this is no log of nccl-tests"),
        ("\n".join(build_ranks()), 3, "16 ranks began"),
        ("h:1:1 [0] init.cc:9 NCCL WARN Cuda failure", 3, "NCCL warned: h: Cuda failure"),
        (build_result(0.01), 3, "give the log from its beginning"),
        ("# Collective test starting: alltoall_perf", 2, "a log of alltoall_perf"),
    ],
)
def test_a_log_that_cannot_be_judged_says_why(fabric: Path, log: str, status: int, message: str) -> None:
    done = run("judge", "-", "-f", fabric, stdin=log)
    assert (done.exit_code, message in done.stderr) == (status, True), done.output


def test_a_job_by_rail_splits_its_ranks_and_is_refused_where_it_cannot(fabric: Path) -> None:
    words = ("-f", fabric, "--image", "x", "--by-rail")
    done = run("new", "mpijob", *words)
    assert "NCCL_TESTS_SPLIT=MOD 8" in done.stdout, done.output
    assert "-I 1 -J report.json" in done.stdout
    for refused, message in (
        (("new", "pytorchjob", *words), "mpijob"),
        (("new", "mpijob", *words, "--rails", "0"), "GPU"),
    ):
        done = run(*refused)
        assert (done.exit_code, message in done.stderr) == (2, True), done.output


@pytest.mark.needs("processes", "sh", "sed")
def test_the_log_of_a_job_by_rail_names_the_slow_rail_and_has_no_environment(fabric: Path, tmp_path: Path) -> None:
    seconds = {rail: compute_seconds((0.5 if rail == 3 else 0.97) * 400, ranks=2) for rail in range(RAILS)}
    secret = ['TOKEN=a"],"nccl_version":1, hidden', "OTHER=hidden"]
    report = build_report(seconds).replace('"config"', f'"env":{json.dumps(secret)},"nccl_version":23100,"config"')
    table = "\n".join([*build_ranks(by_rail=True), build_result(seconds[3]), END])
    (tmp_path / "report").write_text(report)
    (tmp_path / "table").write_text(table + "\n")
    program = tmp_path / "all_reduce_perf"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/table\ncp {tmp_path}/report report.json\n")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OMPI_COMM_WORLD_RANK": "0", "TMPDIR": str(tmp_path)}
    log = subprocess.run(
        ALL_REDUCE_BY_RAIL, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "hidden" not in log
    done = run("judge", "-", "-f", fabric, "-o", "json", stdin=log)
    assert [finding["subject"] for finding in json.loads(done.stdout) if finding["verdict"] == "fail"] == ["rail 3"]
