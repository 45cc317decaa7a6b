"""`trackbed prove`: options, budget and table; tests/fleet runs it on hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from click.testing import CliRunner, Result

from tests.prove.hosts import Hosts, build_plan
from trackbed.cli import cluster_session
from trackbed.cli import prove as prove_module
from trackbed.cli.main import cli
from trackbed.cli.prove import command
from trackbed.cli.prove_record import RecordOptions, record_proof
from trackbed.cli.prove_report import print_report, write_page
from trackbed.fabric.plan.plan import Plan
from trackbed.fleet.sheet_run import SheetCalls
from trackbed.prove.proof import Proof
from trackbed.prove.report import build_report
from trackbed.prove.rounds import PLANNERS
from trackbed.prove.rungs import RUNGS
from trackbed.prove.sheets import Sheet

FABRIC = Path(__file__).parents[2] / "examples" / "point-to-point.yaml"


def run(*words: str) -> Result:
    """Run the command on an example."""
    return CliRunner().invoke(cli, ["prove", "-f", str(FABRIC), *words])


def test_the_command_offers_every_mode_and_every_rung() -> None:
    options: dict[str, Any] = {option.name or "": option for option in command.params}
    assert set(options["mode"].type.choices) == set(PLANNERS)
    assert all(rung in options["rungs"].help for rung in RUNGS)


def test_a_budget_counts_rounds_tests_and_seconds_and_reaches_no_host() -> None:
    done = run("--nodes", "all", "--budget", "-o", "json")
    budget = json.loads(done.stdout)
    assert (done.exit_code, budget["mode"], budget["coverage"]) == (0, "screen", None)
    assert [rung["rounds"] for rung in budget["rungs"]] == [3, 0, 3, 3, 3]
    assert budget["seconds"] == sum(rung["seconds"] for rung in budget["rungs"])


def test_sheets_begin_later_in_pods_and_the_budget_says_so() -> None:
    on_hosts, in_pods = (
        json.loads(run("--nodes", "all", "--budget", "-o", "json", *words).stdout) for words in ([], ["--pods"])
    )
    later = 1 + in_pods["nodes"] / 100
    assert in_pods["seconds"] == pytest.approx(on_hosts["seconds"] + 4 * later)
    assert in_pods["mostSeconds"] == pytest.approx(on_hosts["mostSeconds"] + in_pods["mostSheets"] * later)


def test_the_budget_of_a_cover_tells_the_probability_of_a_link() -> None:
    done = run("--nodes", "all", "--mode", "cover", "--rungs", "write_bw", "--budget")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("each link between leaf and spine is hit with a probability of 99.9")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "all", "--rungs", "ping,gdi"], "no rung 'gdi'; did you mean 'gid'?"),
        (["--nodes", "nobody"], "has no node 'nobody'"),
        (["--nodes", "all", "--mode", "quick"], "'quick' is not one of"),
        ([], "Missing option '--nodes'"),
        (
            ["--nodes", "worker-gpu-0"],
            "--mode screen has nothing to test here: no rail has two ports; choose more nodes",
        ),
        (["--nodes", "worker-gpu-[0-1]", "--mode", "cover"], "the nodes of each rail are on one leaf, so no link"),
        (
            ["--nodes", "all", "--budget", "-o", "junit", "--to-cluster"],
            "--budget measures nothing; leave out --to-cluster, -o junit",
        ),
        (["--nodes", "all", "--taint"], "--taint goes with --to-cluster"),
        (["--nodes", "all", "--budget", "--taint"], "--taint goes with --to-cluster"),
        (["--nodes", "all", "--budget", "--report", "proof.html"], "--budget measures nothing"),
        (["--nodes", "all", "--share", "0"], "0.0 is not in the range 0.01<=x<=1"),
        (["--nodes", "all", "--share", "nan"], "it is no number; write 0.1 for a tenth"),
        (["--nodes", "all", "--rungs", ","], "--rungs names no rung; the ladder has ping"),
        (["--nodes", "all", "--share", "0.1", "--mode", "cover"], "--mode cover loads links by half of their rate"),
        (["--nodes", "all", "--share", "0.1", "--rungs", "ping,tcp_bw"], "rung tcp_bw sends as fast as it can"),
        (["--nodes", "all", "--share", "0.1", "--to-cluster"], "--to-cluster keeps whether nodes reach their rate"),
        (["--nodes", "all", "--rungs", "rdma_cm", "--to-cluster"], "--rungs has rdma_cm, which does not show that"),
        (
            ["--nodes", "all", "--rungs", "ping,write_lat,rdma_cm", "--to-cluster"],
            "--rungs has rdma_cm and write_lat, which do not show that; add write_bw to it",
        ),
        (["--nodes", "all", "--pods"], "name the image of the pods with --image"),
        (
            ["--nodes", "all", "--pods", "--image", "x", "--user", "root"],
            "--user, --ssh-config and --launch start workers",
        ),
        (["--nodes", "all", "--user", "root", "--launch", "srun -w %h"], "--user and --ssh-config are of SSH"),
        (["--nodes", "all", "--launch", "srun -w gpu1"], "it must say where %h, the node, belongs"),
        (["--nodes", "all", "--launch", "srun '%h"], "No closing quotation"),
        (["--nodes", "all", "--launch", "no-such-program %h"], "there is no program no-such-program here"),
        (["--nodes", "all", "--stack", "native"], "--stack is an option of --pods; add it"),
        (["--nodes", "all", "--pods", "--image", "x", "--stack", "bare-metal"], "gives no rails to pods"),
        (["--nodes", "all", "--pods", "--image", "x", "--kubeconfig", "/nowhere"], "/nowhere"),
    ],
    ids=[
        *("rung", "node", "mode", "no nodes", "one node", "one leaf"),
        *(
            "budget as JUnit",
            "taint alone",
            "taint of a budget",
            "page of a budget",
            "no share",
            "a share that is no number",
            "no rung",
            "a share of links",
            "a share of a stream",
            "a share for the cluster",
            "no rate for the cluster",
            "latency for the cluster",
            "no image",
            "both ways",
            "two ways on hosts",
            "launcher without a node",
            "launcher that is not closed",
            "no launcher",
            "not in pods",
            "no rails for pods",
            "no kubeconfig",
        ),
    ],
)
def test_wrong_use_is_refused(words: list[str], message: str) -> None:
    done = run(*words)
    assert (done.exit_code, message in done.output) == (2, True)


def test_the_table_has_culprits_first_then_counts_then_what_was_not_tested(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = Hosts(
        build_plan(12),
        small_mtu=[(f"n{number}", 0) for number in range(1, 5)],
        unreachable={"n12": "ssh does not reach it (No route to host)"},
    )
    proof = hosts.prove(rungs=("ping", "gid"))
    print_report(proof, build_report(proof), "table", [])
    lines = capsys.readouterr().out.splitlines()
    starts = [
        "Look at this first:",
        "  leaf leaf-u0-r0  (ping, IP)",
        "      saw: ",
        "      look: compare the switch's MTU",
    ]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=False)] == [True] * 4
    assert lines[4].split() == ["rung", "over", "planned", "pass", "warn", "fail", "unknown", "not-tested", "median"]
    assert lines[5].split()[:3] == ["ping", "IP", "36"]
    assert lines[7:9] == [
        "Not tested, or not to be judged:",
        "  8 not-tested (ping, gid): n12: ssh does not reach it (No route to host)",
    ]
    assert lines[-1].startswith("broken: 60 tests planned: ")


def test_the_table_shows_as_many_culprits_as_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    proof = Hosts(build_plan(4), small_mtu=[("n1", 0)]).prove(rungs=("ping",))
    report = build_report(proof)
    print_report(proof, report._replace(culprits=report.culprits[:1] * 23), "table", [])
    output = capsys.readouterr().out
    assert output.count("      saw: ") == 20
    assert "  and 3 more; -o json has all\n" in output


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = run("--nodes", "all", "--report", str(tmp_path / "missing" / "proof.html"))
    assert (done.exit_code, "name a place for the page with --report" in done.output) == (2, True)


def test_the_page_is_written_and_names_the_culprit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = Hosts(build_plan(12), gbps={("n3", 1): 200}).prove()
    write_page(tmp_path / "proof.html", proof, build_report(proof), "east", "screen over SSH")
    page = (tmp_path / "proof.html").read_text()
    assert "<title>Proof of east: broken: " in page
    assert "<h3>rail 1 of n3 " in page
    assert capsys.readouterr().err == f"report: {tmp_path}/proof.html\n"


def drive_hosts(plan: Plan, _: object, calls: SheetCalls) -> None:
    """Answer the sheets of a command as sound hosts would."""
    hosts, outputs = Hosts(plan), dict[int, object]()
    while sheet := calls.advance(outputs, {}):
        hosts.sheets.append(cast("Sheet", sheet))
        steps = [(node, step) for tests in sheet.rounds for node, numbered in tests.steps.items() for step in numbered]
        outputs = {step_id: hosts.answer(node, step) for node, (step_id, step) in steps}


@pytest.mark.parametrize(
    ("rungs", "unrecorded", "status"), [("ping", 0, 3), ("gid,write_bw", 3, 3), ("gid,write_bw", 0, 2)]
)
def test_a_page_that_cannot_be_written_costs_neither_the_record_nor_the_status(
    monkeypatch: pytest.MonkeyPatch, rungs: str, unrecorded: int, status: int
) -> None:
    recorded: list[Proof] = []

    def record(proof: Proof, *_: object) -> int:
        recorded.append(proof)
        return unrecorded

    monkeypatch.setattr(prove_module, "run_on_hosts", drive_hosts)
    monkeypatch.setattr(prove_module, "record_proof", record)
    monkeypatch.setattr(prove_module, "check_railnodes", lambda _: None)
    done = run("--nodes", "all", "--rungs", rungs, "--to-cluster", "--report", "/dev/full")
    assert (done.exit_code, len(recorded)) == (status, 1), done.output
    assert "cannot write /dev/full: No space left on device" in done.stderr


def test_a_cluster_that_is_away_takes_nothing_from_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_nothing(*_: object) -> NoReturn:
        raise SystemExit(3)

    monkeypatch.setattr(cluster_session, "open_cluster", open_nothing)
    proof = Hosts(build_plan(4)).prove()
    options = RecordOptions(record=True, taint=False, kubeconfig=None, context=None)
    assert record_proof(proof, build_report(proof), options) == 3


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"baselines": 1}', "[" * 100_000, '{"baselines": [{"median": "x"}]}']
)
def test_a_file_that_is_no_earlier_proof_is_refused_before_anything_runs(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    done = run("--nodes", "all", "--against", str(tmp_path / "other.json"))
    assert (done.exit_code, "name another file with --against" in done.output) == (2, True)
