"""There and back on a real API server: what a run made goes, what it changed goes back, what it took away comes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import history, recorded_run
from trackbed.cluster.rollout.applyset import PART_OF, ApplySet, iter_members
from trackbed.cluster.rollout.options import RunOptions, StuckError
from trackbed.cluster.rollout.preview import iter_preview
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile, Step
from trackbed.cluster.stacks.stack import Wait

NAMESPACE = "runs"


class Interrupted(Exception):  # noqa: N818 - stands for whatever ends a run
    """A run is interrupted."""


OPTIONS = RunOptions("trackbed-test", wait_seconds=0)
FORCED = RunOptions("trackbed-test", wait_seconds=0, force=True)


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for body in blocking_client.list("v1", "ConfigMap", NAMESPACE):
            blocking_client.delete(body)
        yield blocking_client


@pytest.fixture
def of(request: pytest.FixtureRequest) -> ApplySet:
    """A set of the test's own."""
    return ApplySet(f"set-{abs(hash(request.node.name)) % 10**8}", NAMESPACE)


def config(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def maps(**data: str) -> list[Object]:
    """ConfigMaps by name, each with one value."""
    return [config(name, a=value) for name, value in data.items()]


def work(client: BlockingClient, of: ApplySet, options: RunOptions = OPTIONS) -> StackRun:
    return StackRun(client.dynamic, of, options, lambda _: None)


def there(
    client: BlockingClient,
    of: ApplySet,
    wanted: Iterable[Object],
    options: RunOptions = OPTIONS,
    gate: tuple[Wait, ...] = (),
) -> None:
    """A run with its record, as the command does it."""
    listed = list(wanted)
    packed = pack(client, of, options, [ApplyFile("", "x", listed)])
    forward(work(client, of, options), client, [ApplyFile("", "x", listed, gate)], packed)


def pack(client: BlockingClient, of: ApplySet, options: RunOptions, steps: Iterable[Step]) -> str:
    return client.run(recorded_run.pack_current_state(client.dynamic, of, options, steps))


def forward(run: StackRun, client: BlockingClient, steps: Iterable[Step], packed: str | None) -> None:
    client.run(recorded_run.apply_forward(run, steps, packed))


def latest(client: BlockingClient, of: ApplySet) -> history.RunRecord | None:
    return client.run(history.read_latest_record(client.dynamic, of))


def broken(client: BlockingClient, of: ApplySet, wanted: list[Object], after: int) -> None:
    """A run that breaks off after so many objects."""

    def some() -> Iterator[Object]:
        yield from wanted[:after]
        raise Interrupted

    packed = pack(client, of, OPTIONS, [ApplyFile("", "x", wanted)])
    with pytest.raises(Interrupted):
        forward(work(client, of), client, [ApplyFile("", "x", some())], packed)


def steps_back(client: BlockingClient, of: ApplySet) -> tuple[Step, ...]:
    record = latest(client, of)
    assert record is not None
    return recorded_run.build_undo_steps(record)


def back(client: BlockingClient, of: ApplySet) -> dict[str, str]:
    """The way back; what became of each object."""
    run = work(client, of, recorded_run.to_undo_options(OPTIONS))
    client.run(recorded_run.roll_back(run, steps_back(client, of)))
    return {change.what.split()[1]: change.outcome for change in run.changes}


def found(client: BlockingClient, of: ApplySet) -> dict[str, str]:
    """The ConfigMaps that are there, the set's parent aside."""
    listed = client.list("v1", "ConfigMap", NAMESPACE)
    return {body["metadata"]["name"]: body["data"]["a"] for body in listed if body["metadata"]["name"] != of.name}


def test_what_the_last_run_did_is_undone_and_nothing_of_others(client: BlockingClient, of: ApplySet) -> None:
    client.create(config("of-others", a="1"))
    there(client, of, maps(same="1", changed="1", gone="1"))
    there(client, of, maps(same="1", changed="2", made="1"))
    shown = {
        change.what.split()[1]: (change.outcome, change.fields)
        for change in client.collect(
            iter_preview(client.dynamic, of, recorded_run.to_undo_options(OPTIONS), steps_back(client, of))
        )
    }
    assert shown == {
        "same": ("same", ()),
        "changed": ("changed", (".data.a: 2 -> 1",)),
        "gone": ("created", ()),
        "made": ("removed", ()),
    }
    assert back(client, of) == {name: outcome for name, (outcome, _) in shown.items()}
    assert found(client, of) == {"of-others": "1", "same": "1", "changed": "1", "gone": "1"}
    assert {body["metadata"]["name"] for body in client.collect(iter_members(client.dynamic, of))} == {
        "same",
        "changed",
        "gone",
    }


def test_going_back_twice_is_going_back_once(client: BlockingClient, of: ApplySet) -> None:
    there(client, of, maps(one="1"))
    there(client, of, maps(one="2"))
    assert back(client, of) == {"one": "changed"}
    assert back(client, of) == {"one": "same"}


def test_a_run_that_broke_off_is_undone_and_so_is_the_one_that_completed_it(
    client: BlockingClient, of: ApplySet
) -> None:
    there(client, of, maps(one="1", two="1", three="1"))
    wanted = maps(one="2", two="2", four="2")
    broken(client, of, wanted, after=1)
    assert found(client, of) == {"one": "2", "two": "1", "three": "1"}
    assert back(client, of) == {"one": "changed", "two": "same", "three": "same"}
    broken(client, of, wanted, after=2)
    there(client, of, wanted)
    assert found(client, of) == {"one": "2", "two": "2", "four": "2"}
    back(client, of)
    assert found(client, of) == {"one": "1", "two": "1", "three": "1"}


def test_a_run_that_is_stuck_at_a_gate_is_undone(client: BlockingClient, of: ApplySet) -> None:
    there(client, of, maps(one="1"))
    with pytest.raises(StuckError):
        there(client, of, maps(one="2", two="2"), gate=(Wait("deployment/none", "condition=Available", NAMESPACE),))
    assert back(client, of) == {"one": "changed", "two": "removed"}


def test_a_way_back_that_broke_off_is_gone_to_its_end_later_also_after_another_run(
    client: BlockingClient, of: ApplySet
) -> None:
    there(client, of, maps(one="1", two="1"))
    there(client, of, maps(one="2", two="2"))
    record = latest(client, of)
    assert record is not None

    def some() -> Iterator[Object]:
        yield record.unpack_objects()[0]
        raise Interrupted

    with pytest.raises(Interrupted):
        client.run(
            recorded_run.roll_back(
                work(client, of, recorded_run.to_undo_options(OPTIONS)), (ApplyFile("", "x", some()),)
            )
        )
    assert sorted(found(client, of).values()) == ["1", "2"]
    there(client, of, maps(one="3", two="3"))
    back(client, of)
    assert found(client, of) == {"one": "1", "two": "1"}


def test_undoing_the_first_run_leaves_nothing_and_can_be_asked_for_again(client: BlockingClient, of: ApplySet) -> None:
    there(client, of, maps(one="1"))
    assert back(client, of) == {"one": "removed"}
    assert client.find("v1", "ConfigMap", of.name, NAMESPACE) is None
    assert back(client, of) == {}


def test_what_was_there_before_it_became_a_member_is_given_back_as_it_was(client: BlockingClient, of: ApplySet) -> None:
    theirs = config("theirs", a="theirs", b="kept")
    client.apply(theirs, manager="somebody")
    there(client, of, maps(theirs="ours"), FORCED)
    assert found(client, of) == {"theirs": "ours"}
    back(client, of)
    live = client.get("v1", "ConfigMap", "theirs", NAMESPACE)
    assert live["data"] == {"a": "theirs", "b": "kept"}
    assert PART_OF not in live["metadata"].get("labels", {})
    client.run(work(client, of).delete_members())
    assert found(client, of) == {"theirs": "theirs"}


def test_one_record_is_kept_and_runs_are_counted(client: BlockingClient, of: ApplySet) -> None:
    for value in ("1", "2", "3"):
        there(client, of, maps(one=value))
    record = latest(client, of)
    assert record is not None
    assert (record.revision, record.state) == (3, history.DONE)
    assert [body["data"] for body in record.unpack_objects()] == [{"a": "2"}]
    selector = f"trackbed.dev/set={of.id}"
    assert len(list(client.list("apps/v1", "ControllerRevision", NAMESPACE, selector=selector))) == 1


def test_a_run_that_changes_nothing_leaves_the_way_back_as_it_is(client: BlockingClient, of: ApplySet) -> None:
    there(client, of, maps(one="1"))
    there(client, of, maps(one="2"))
    forward(work(client, of), client, [ApplyFile("", "x", maps(one="2"))], None)
    back(client, of)
    forward(work(client, of), client, [ApplyFile("", "x", maps(one="1"))], None)
    record = latest(client, of)
    assert record is not None
    assert (record.revision, record.state) == (2, history.UNDONE)
    assert found(client, of) == {"one": "1"}


def test_what_is_too_large_is_not_kept_and_nothing_older_stands_for_it(client: BlockingClient, of: ApplySet) -> None:
    there(client, of, maps(one="1"))
    there(client, of, [config(f"large-{number}", a=secrets.token_hex(400_000)) for number in range(3)])
    packed = pack(client, of, OPTIONS, ())
    assert not history.is_record_storable(packed)
    forward(work(client, of), client, [ApplyFile("", "x", maps(one="3"))], packed)
    with pytest.raises(KubeError, match="was too large to be kept; apply the Fabric it came from"):
        steps_back(client, of)


def test_the_record_makes_the_sets_namespace_where_it_is_not_there_yet(client: BlockingClient) -> None:
    fresh = ApplySet("fresh", f"runs-{secrets.token_hex(4)}")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fresh.namespace}}
    inside = config("one", a="1")
    inside["metadata"]["namespace"] = fresh.namespace
    there(client, fresh, [space, inside])
    record = latest(client, fresh)
    assert record is not None
    assert record.unpack_objects() == ()


def test_taking_a_stack_away_forgets_the_way_back(client: BlockingClient, of: ApplySet) -> None:
    there(client, of, maps(one="1"))
    client.run(recorded_run.remove_stack(work(client, of)))
    assert latest(client, of) is None
    assert found(client, of) == {}
