"""`trackbed apply` replaces the plan of a node while its agent runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.rails.node import FABRIC, Agent, Node, inside, planned
from tests.waiting import wait_until
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import encode_node
from trackbed.node.rails.client import read_status
from trackbed.node.rails.plan_file import PlanFile

WIDER = FABRIC.replace("ipv4NodePrefix: 27", "ipv4NodePrefix: 26")


def put(path: Path, content: bytes) -> None:
    """Replace a file as `trackbed apply` does."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def until(holds: Callable[[], bool]) -> None:
    wait_until(holds, "the agent goes by the other plan")


def read_free(node: Node) -> dict[str, int]:
    """How many addresses are free, by rail; none while the agent takes the other plan."""
    try:
        return dict(read_status(node.socket)["free"])
    except OSError:
        return {}


def free(node: Node) -> set[int]:
    """How many addresses of each rail are free."""
    return set(read_free(node).values())


@pytest.mark.needs("root")
def test_the_agent_takes_a_new_plan_and_its_pods_keep_what_they_have(node: Node, agent: Agent) -> None:
    before, after = node.pod(), node.pod()
    result = node.add(before)
    put(node.folder / "plan.json", encode_node(planned(WIDER)))
    until(lambda: free(node) not in ({27}, set()))
    assert "the plan has changed; taking the new one" in agent.log()
    assert (agent.process.poll(), len(read_status(node.socket)["attachments"])) == (None, 1)
    assert {address["address"].partition("/")[2] for address in node.add(after)["ips"]} == {"26"}
    assert node.add(before) == result
    node.delete(before)
    node.delete(after)
    assert not inside(before.path).rails
    assert free(node) == {60}


@pytest.mark.needs("root")
def test_a_plan_of_fewer_rails_is_taken_while_a_pod_has_the_others(node: Node, agent: Agent) -> None:
    before, after = node.pod(), node.pod()
    node.add(before)
    put(node.folder / "plan.json", encode_node(planned(FABRIC.replace("rails: 8", "rails: 4"))))
    until(lambda: len(read_free(node)) == 4)
    assert agent.process.poll() is None
    assert len(inside(before.path).rails) == 8
    assert len(node.add(after)["interfaces"]) == 4
    node.delete(before)
    node.delete(after)
    assert not inside(before.path).rails
    assert read_status(node.socket)["attachments"] == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    put(tmp_path / "plan.json", encode_node(planned()))
    return tmp_path / "plan.json"


def test_another_plan_is_a_change_and_the_same_once_more_is_none(place: Path) -> None:
    plan = PlanFile(place)
    assert not plan.has_changed()
    put(place, encode_node(planned()))
    assert not plan.has_changed()
    put(place, encode_node(planned(WIDER)))
    assert plan.has_changed()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "this is no node plan of Trackbed"),
        (encode_node(planned(node="gpu-2")), "is node gpu-2's, and this is gpu-1; the current plan is kept"),
        (None, "No such file or directory; the current plan is kept"),
    ],
)
def test_what_is_no_plan_of_this_node_changes_nothing_and_is_told_once(
    place: Path, content: bytes | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    plan = PlanFile(place)
    if content is None:
        place.unlink()
    else:
        put(place, content)
    assert not plan.has_changed()
    assert words in caplog.text
    log = caplog.text
    assert not plan.has_changed()
    assert content is None or caplog.text == log


def test_without_a_plan_there_is_nothing_to_begin_with(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PlanFile(tmp_path / "none.json")
    put(tmp_path / "plan.json", b"[]")
    with pytest.raises(SpecError):
        PlanFile(tmp_path / "plan.json")
