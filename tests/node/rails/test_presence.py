"""The runtime calls us as long as the agent serves, whoever else writes its configuration."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from trackbed.node.rails import presence
from trackbed.node.rails.chain import find_primary_network
from trackbed.node.rails.presence import CniFolders, keep_chained

SECONDS = 60.0
BRIDGE = {"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "bridge"}]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CniFolders:
    monkeypatch.setattr(presence, "CHECK_SECONDS", 0.01)
    for name in ("bin", "net.d"):
        (tmp_path / name).mkdir()
    return CniFolders(tmp_path / "bin", tmp_path / "net.d")


def types(path: Path) -> list[str]:
    return [entry["type"] for entry in json.loads(path.read_text())["plugins"]]


def while_staying(place: CniFolders, *steps: Callable[[], bool]) -> None:
    """Keep ourselves in the way until each step in turn is true, within SECONDS for all."""

    async def course() -> None:
        stop = asyncio.Event()
        staying = asyncio.create_task(keep_chained(place, Path("/run/agent.sock"), stop))
        async with asyncio.timeout(SECONDS):
            for step in steps:
                while not await asyncio.to_thread(step):
                    pass
        stop.set()
        await staying

    asyncio.run(course())


def test_what_another_program_writes_is_chained_again(place: CniFolders) -> None:
    path = place.networks / "10-lab.conflist"

    def written() -> bool:
        path.write_text(json.dumps(BRIDGE))
        return True

    def chained() -> bool:
        return types(path) == ["bridge", "trackbed"]

    while_staying(place, written, chained, written, chained)
    assert types(path) == ["bridge", "trackbed"], "it stays when the agent stops"


def test_the_executable_is_there_as_long_as_the_agent_serves_and_asks_it(place: CniFolders) -> None:
    program = place.programs / "trackbed"
    while_staying(place, program.exists)
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    assert "/run/agent.sock" in program.read_text()


def test_an_executable_that_another_program_removes_is_installed_again(
    place: CniFolders, caplog: pytest.LogCaptureFixture
) -> None:
    program = place.programs / "trackbed"

    def removed() -> bool:
        program.unlink()
        return True

    while_staying(place, program.exists, removed, program.exists)
    assert any("was removed by another program and is installed again" in entry.message for entry in caplog.records)


@pytest.mark.support(
    "runtime", "k3s", "refused", "its flannel: the agent says to start it with --flannel-backend=none and a network"
)
@pytest.mark.support("runtime", "OpenShift", "refused", "stack native: the agent says to take stack sriov-operator")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "has no network configuration yet: pods get no rails until it has; k3s has its own in "),
        ('{"type": "bridge"}', "has no list of plugins; name the .conflist of the primary network"),
        ("{", "is no JSON"),
    ],
)
def test_what_cannot_be_chained_is_told_once(
    place: CniFolders, caplog: pytest.LogCaptureFixture, content: str | None, words: str
) -> None:
    if content is not None:
        (place.networks / "10-x.conf").write_text(content)
    looked = iter(range(20))
    while_staying(place, lambda: bool(caplog.records), lambda: next(looked) > 10)
    assert [words in entry.message for entry in caplog.records] == [True]


def test_the_first_configuration_by_name_is_the_primary_networks(tmp_path: Path) -> None:
    assert find_primary_network(tmp_path / "nowhere") is None
    for name in ("99-last.conflist", "10-first.conflist", "05-none.txt", "00-multus.kubeconfig"):
        (tmp_path / name).touch()
    assert find_primary_network(tmp_path) == tmp_path / "10-first.conflist"
