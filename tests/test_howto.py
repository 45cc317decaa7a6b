"""The how-tos are run: each block of commands that can be, in order, in a folder of its own.

A comment of HTML above a block says otherwise: `not run: REASON`, or `exit STATUS` for a block whose last command finds
something. Commands of blocks that are not run must exist, with their options.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from trackbed.cli.main import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- (.*?) -->\n)?```sh\n(.*?)```", re.DOTALL)
BLOCKS = {page.stem: BLOCK.findall(page.read_text()) for page in PAGES}
LAB = f"howto-{os.getpid()}"
"""Labs are named by their process: two runs of this test on one machine do not meet."""


@pytest.mark.needs("root")
@pytest.mark.parametrize("page", BLOCKS)
def test_every_command_of_a_how_to_does_what_the_page_says(tmp_path: Path, page: str) -> None:
    places = {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "EXAMPLES": str(ROOT / "examples")}
    try:
        for mark, block in BLOCKS[page]:
            if mark.startswith("not run"):
                continue
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.replace("--name practice", f"--name {LAB}")],
                cwd=tmp_path,
                env={**os.environ, **places},
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )
            assert done.returncode == int(mark.removeprefix("exit ") or 0), f"{block}\n{done.stdout}\n{done.stderr}"
    finally:
        if "--name practice" in "".join(block for _, block in BLOCKS[page]):
            subprocess.run([f"{sys.prefix}/bin/trackbed", "lab", "down", "--name", LAB], timeout=60, check=False)


def test_a_block_that_is_not_run_says_why() -> None:
    marks = [mark for blocks in BLOCKS.values() for mark, _ in blocks if mark]
    assert [mark for mark in marks if not re.fullmatch(r"not run: .{8,}|exit [123]", mark)] == []


def test_every_how_to_has_commands() -> None:
    assert [page for page, blocks in BLOCKS.items() if not blocks] == []
    assert len(BLOCKS) == 12


NOT_RUN = [
    line
    for blocks in BLOCKS.values()
    for mark, block in blocks
    if mark.startswith("not run")
    for line in block.splitlines()
    if re.match(r"(sudo )?trackbed ", line)
]


@pytest.mark.parametrize("line", NOT_RUN)
def test_a_command_that_is_not_run_exists_with_its_options(line: str) -> None:
    words = shlex.split(line.partition(">")[0])
    command: click.Command = cli
    context = click.Context(cli, info_name="trackbed")
    arguments = words[words.index("trackbed") + 1 :]
    while isinstance(command, click.Group) and arguments:
        inner = command.get_command(context, arguments[0])
        if inner is None:
            break
        command, arguments = inner, arguments[1:]
        context = click.Context(command, parent=context)
    assert command is not cli
    command.make_parser(context).parse_args(args=list(arguments))


@pytest.mark.parametrize("page", BLOCKS)
def test_a_page_that_writes_a_fabric_asks_for_an_empty_folder(page: str) -> None:
    text = next(path for path in PAGES if path.stem == page).read_text()
    assert (" >fabric.yaml" in text) <= ("Run the examples in an empty folder" in text)
