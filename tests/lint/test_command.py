"""trackbed lint as a user runs it."""

import json
import stat
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.lint import command
from trackbed.lint.catalogue import load_rules

_BAD = """apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: rail0}  # the first
spec: {subnet: 10.1.7.0/16}
"""
_NOTE = """apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {name: rail0}
spec: {cidr: 10.1.0.0/16, perNodeNetworkPrefix: 31, gatewayIndex: 1}
"""


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args], input=stdin)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "pool.yaml").write_text(_BAD)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "hidden.yaml").write_text(_BAD)
    (tmp_path / "README.md").write_text("# no manifest")
    return tmp_path


def test_a_mistake_is_printed_with_place_rule_and_fix(folder: Path) -> None:
    result = run(folder)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        str(folder / "deep" / "pool.yaml"),
        "  4:16  error    10.1.7.0/16 has host bits set; the range of that length is 10.1.0.0/16  [host-bits]",
        "      fix: Write the range's first address.",
        "",
        "1 error, 0 warnings, 0 notes",
    ]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(_BAD, 1, id="error"),
        pytest.param(_NOTE, 0, id="note"),
        pytest.param("", 2, id="nothing"),
        pytest.param(" \n\n", 2, id="blank"),
        pytest.param("a: [", 2, id="torn"),
    ],
)
def test_the_exit_status_says_what_was_found(text: str, status: int) -> None:
    assert run("-", stdin=text).exit_code == status


def test_a_torn_file_does_not_hide_the_others(folder: Path) -> None:
    (folder / "torn.yaml").write_text("kind: Pod\na: [\n")
    (folder / "deep.yaml").write_text("[" * 600 + "]" * 600)
    result = run(folder)
    assert result.exit_code == 2
    assert "torn.yaml:3:1: error: this is not YAML" in result.stderr
    assert "deep.yaml:1:42: error: this is nested more than 40 levels deep" in result.stderr
    assert "host-bits" in result.stdout


@pytest.mark.parametrize("raw", [b"[Server]\nport = 80\n", b"# \xa9 3GPP\na: b\n"], ids=["TOML", "Latin-1"])
def test_a_file_of_another_kind_is_a_note_in_a_folder_and_wrong_input_where_it_is_named(
    tmp_path: Path, raw: bytes
) -> None:
    (tmp_path / "config.yml").write_bytes(raw)
    (tmp_path / "note.yaml").write_text(_NOTE)
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "this is not YAML in UTF-8, and has no apiVersion and kind, so it was not checked" in result.stdout
    assert run(tmp_path, tmp_path / "config.yml").exit_code == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param([], "name files or folders", id="nothing"),
        pytest.param(["/no/such/file.yaml"], "cannot read /no/such/file.yaml", id="no-file"),
        pytest.param(["--explain", "host-bit"], "did you mean 'host-bits'", id="no-rule"),
        pytest.param(["-", "--crds", "/no/such/folder"], "is not a folder", id="no-crds"),
        pytest.param(["-", "--fix"], "cannot change standard input or a cluster", id="fix-stdin"),
    ],
)
def test_wrong_use_ends_with_two_and_says_what_to_do(args: list[str], message: str) -> None:
    result = run(*args, stdin="a: 1")
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_empty_folder_is_wrong_use(tmp_path: Path) -> None:
    assert "holds no file" in run(tmp_path).stderr


def test_a_folder_of_crds_adds_the_schemas(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_bytes(files("trackbed.lint").joinpath("schemas", "example.yaml").read_bytes())
    rail = "apiVersion: example.org/v1\nkind: Rail\nmetadata: {name: a}\nspec: {resource: {}, mtuu: 1}\n"
    result = CliRunner().invoke(command, ["-", "-o", "json"], input=rail, env={"TRACKBED_CRDS": str(tmp_path)})
    assert [problem["rule"] for problem in json.loads(result.stdout)] == ["unknown-field"]


def test_fix_writes_the_file_once_and_keeps_mode_and_comments(folder: Path) -> None:
    file = folder / "deep" / "pool.yaml"
    file.chmod(0o640)
    first = run(folder, "--fix")
    assert first.exit_code == 0
    assert "-spec: {subnet: 10.1.7.0/16}\n+spec: {subnet: 10.1.0.0/16}\n" in first.stderr
    assert file.read_text() == _BAD.replace("10.1.7.0", "10.1.0.0")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [entry.name for entry in file.parent.iterdir()] == ["pool.yaml"]
    before = file.stat().st_mtime_ns
    assert run(folder, "--fix").exit_code == 0
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("output_format", ["json", "sarif", "junit"])
def test_machine_output_is_all_that_stands_on_standard_output(output_format: str) -> None:
    result = run("-", "-o", output_format, stdin=_BAD)
    assert result.exit_code == 1
    assert result.stdout.startswith("<?xml" if output_format == "junit" else ("{" if output_format == "sarif" else "["))
    assert result.stderr == ""


def test_a_rule_is_explained_with_both_examples() -> None:
    result = run("--explain", "hca-prefix")
    assert result.exit_code == 0
    assert "--fix repairs it" in result.stdout
    assert result.stdout.count("NCCL_IB_HCA") >= 2


def test_rules_lists_every_rule() -> None:
    listed = run("--rules").stdout
    assert all(rule in listed for rule in load_rules())


def test_nothing_on_standard_input_is_no_pass() -> None:
    assert "standard input is empty; did the program before the pipe fail?" in run("-", stdin="").stderr
