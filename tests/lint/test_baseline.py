"""Baselines of `trackbed lint`."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.lint import command

_BAD = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    rails: 8\n"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "a.yaml"
    file.write_text(_BAD)
    return file


def _run(manifest: Path, *options: str) -> Result:
    return CliRunner().invoke(command, [str(manifest), "--baseline", str(manifest.parent / "known.json"), *options])


def test_a_problem_of_the_baseline_is_not_reported_on_whatever_line(manifest: Path) -> None:
    assert _run(manifest, "--update-baseline").exit_code == 0
    manifest.write_text("# moved\n\n" + _BAD)
    assert _run(manifest).exit_code == 0


def test_a_new_problem_is_reported_beside_a_baseline(manifest: Path) -> None:
    _run(manifest, "--update-baseline")
    manifest.write_text(_BAD + "    gpus: 8\n")
    result = _run(manifest)
    assert result.exit_code == 1
    assert "gpus" in result.stdout
    assert "rails" not in result.stdout


def test_a_baseline_names_no_line_and_files_relative_to_itself(manifest: Path) -> None:
    _run(manifest, "--update-baseline")
    text = (manifest.parent / "known.json").read_text()
    assert '"file": "a.yaml"' in text
    assert "line" not in text


def test_the_number_of_accepted_problems_is_printed(manifest: Path) -> None:
    assert "known.json: 1 problem accepted\n" in _run(manifest, "--update-baseline").stderr


def test_a_mended_problem_is_told(manifest: Path) -> None:
    _run(manifest, "--update-baseline")
    manifest.write_text(_BAD.replace("8", '"8"'))
    assert "1 problem of" in _run(manifest).stderr
    assert "gone" in _run(manifest).stderr


@pytest.mark.parametrize("content", [None, "{", '{"version": 1}', "[]"])
def test_a_baseline_that_cannot_be_read_is_refused(manifest: Path, content: str | None) -> None:
    if content is not None:
        (manifest.parent / "known.json").write_text(content)
    result = _run(manifest)
    assert result.exit_code == 2
    assert "--update-baseline" in result.stderr


def test_update_baseline_needs_a_file(manifest: Path) -> None:
    result = CliRunner().invoke(command, [str(manifest), "--update-baseline"])
    assert result.exit_code == 2
    assert "--baseline FILE" in result.stderr
