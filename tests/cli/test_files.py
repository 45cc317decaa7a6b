"""Files that commands write: whole or not at all, and nowhere else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from trackbed.cli.files import OutputFile, write_files


def test_a_link_that_somebody_planted_beside_a_file_is_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "out"
    victim.write_text("kept")
    folder.mkdir()
    for name in (".a.new", ".a.trackbed", ".a.tmp", ".a."):
        (folder / name).symlink_to(victim)
    (folder / "a").symlink_to(victim)
    write_files(folder, [OutputFile("a", ["new"], 0o640)])
    assert victim.read_text() == "kept"
    assert ((folder / "a").read_text(), stat.S_IMODE((folder / "a").lstat().st_mode)) == ("new", 0o640)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(SystemExit):
        write_files(tmp_path, [OutputFile("a", ["new"])])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
