"""The annotation trackbed.dev/rails on a real API server: what pods ask for afterwards, and what is refused, how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.stacks.admission import (
    RAILS,
    account,
    container,
    given_rails,
    install,
    namespace,
    pod,
    refusal,
)
from tests.cluster.stacks.fabric_of import FLAT, fabric
from tests.waiting import wait_until
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.stacks.native.annotation import build_policies

COUNT = 8
"""Rails of the fabric whose policies are in force, unless a test says otherwise."""


@pytest.fixture(scope="module")
def bare(cluster: BlockingClient) -> Iterator[BlockingClient]:
    """The API server, from which our policies are gone afterwards."""
    account(cluster, "default")
    yield cluster
    for manifest in build_policies(fabric(addressing=FLAT)):
        cluster.delete(manifest)


@pytest.fixture(scope="module")
def server(bare: BlockingClient) -> BlockingClient:
    """The API server with the policies of a fabric of eight rails."""
    install(bare, COUNT)
    return bare


TAKEN = {
    "all": list(range(COUNT)),
    "1": [0],
    "3": [0, 1, 2],
    "8": list(range(COUNT)),
    "0,2": [0, 2],
    "2,0": [0, 2],
    "7,3,5": [3, 5, 7],
    "0,1,2,3,4,5,6,7": list(range(COUNT)),
    "none": [],
}


@pytest.mark.parametrize(("value", "rails"), TAKEN.items(), ids=TAKEN)
def test_a_pod_asks_for_the_rails_that_its_annotation_names(
    server: BlockingClient, value: str, rails: list[int]
) -> None:
    assert given_rails(server, pod(value)) == ({"main": rails} if rails else {})


HOSTILE = {
    "nothing": "",
    "no rail": "0",
    "one too many": "9",
    "a leading zero": "08",
    "a sign": "+1",
    "below zero": "-1",
    "a fraction": "1.0",
    "a word": "every",
    "another case": "ALL",
    "blanks": "0, 2",
    "blank first": " 3",
    "a line's end": "3\n",
    "two lines": "all\n0,2",
    "a trailing comma": "2,",
    "a leading comma": ",2",
    "two commas": "0,,2",
    "commas only": ",,,",
    "one rail twice": "0,2,0",
    "a rail that is not there": "0,8",
    "a leading zero in a list": "0,02",
    "other digits": "\u0663",
    "other digits in a list": "0,\u0662",
    "a number too large for any integer": "9" * 30,
    "such a number in a list": "0," + "9" * 30,
    "a list too long": ",".join(["1"] * 50),
    "250 KB": "0," * 125_000 + "1",
    "250 KB of digits": "1" * 250_000,
    "terminal control": "\x1b[31m0,1",
    "a quote": "'] + [",
    "a NUL": "1\0",
    "another script": "всё",
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_any_other_value_is_refused_with_what_is_allowed(server: BlockingClient, value: str) -> None:
    message = refusal(server, pod(value))
    assert f"annotation {RAILS} is " in message
    assert message.endswith("(0,2): fabric train has rails 0 to 7")
    assert "how many from 1 to 8" in message
    assert len(message) < 400
    assert message.isprintable()


LISTS = st.lists(st.integers(0, COUNT + 1), max_size=4).map(lambda rails: ",".join(map(str, rails)))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(LISTS, st.text("0123789,-+ alnoe", max_size=6), st.text(max_size=10)))
def test_a_value_is_read_as_a_second_reader_reads_it(server: BlockingClient, value: str) -> None:
    rails = read(value)
    if rails is None:
        assert f"annotation {RAILS} is " in refusal(server, pod(value))
    else:
        assert given_rails(server, pod(value)) == ({"main": rails} if rails else {})


def read(value: str) -> list[int] | None:
    """The rails of a value, None for one that is wrong: the rules once more, in other words."""
    if value in {"all", "none"}:
        return list(range(COUNT)) if value == "all" else []
    parts = value.split(",")
    if any(part not in map(str, range(COUNT + 1)) for part in parts) or len(set(parts)) < len(parts):
        return None
    numbers = sorted(map(int, parts))
    if len(parts) == 1:
        return list(range(numbers[0])) or None
    return numbers if numbers[-1] < COUNT else None


GPU = container("gpu", nvidia__gpu="8")
CHOSEN = {
    "the one with GPUs": ([container("side"), GPU], "gpu"),
    "the first of two with GPUs": ([container("side"), GPU, container("more", nvidia__gpu="1")], "gpu"),
    "one with AMD's": ([container("side"), container("rocm", amd__gpu="8")], "rocm"),
    "one with a part of a GPU": ([container("side"), container("mig", **{"nvidia__mig-1g.10gb": "1"})], "mig"),
    "else the first": ([container("one"), container("two", cpu="4")], "one"),
}


@pytest.mark.parametrize(("containers", "name"), CHOSEN.values(), ids=CHOSEN)
def test_the_rails_go_to_one_container(server: BlockingClient, containers: list[dict[str, Any]], name: str) -> None:
    assert given_rails(server, pod("2", containers=containers)) == {name: [0, 1]}


def test_all_else_of_the_pod_stays(server: BlockingClient) -> None:
    main = GPU | {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "ports": [{"containerPort": 80}]}
    main["resources"] = {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8", "cpu": "4"}}
    plain = server.create(pod(containers=[main, container("side")]), dry_run=True).body["spec"]
    made = server.create(pod("1", containers=[main, container("side")]), dry_run=True).body["spec"]
    resources = made["containers"][0]["resources"]
    assert [resources[key].pop("trackbed.dev/rail0") for key in ("limits", "requests")] == ["1", "1"]
    assert _without_token(made) == _without_token(plain)


def _without_token(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod's spec without what is drawn by chance: the name of its token's volume."""
    text = str(spec)
    for volume in spec.get("volumes", ()):
        text = text.replace(volume["name"], "token")
    return {"text": text}


ASKING = {
    "by limit": {"containers": [container("main"), container("other", **{"trackbed.dev/rail3": "1"})]},
    "in an init container": {"initContainers": [container("first", **{"trackbed.dev/rail3": "1"})]},
}


@pytest.mark.parametrize("spec", ASKING.values(), ids=ASKING)
def test_a_pod_that_asks_for_a_rail_itself_is_left_alone(server: BlockingClient, spec: dict[str, Any]) -> None:
    assert list(given_rails(server, pod("all", **spec)).values()) == [[3]]
    assert list(given_rails(server, pod(namespace=f"ready-{COUNT}", **spec)).values()) == [[3]]


def test_a_pod_in_the_hosts_network_is_refused_rails(server: BlockingClient) -> None:
    assert "a pod with hostNetwork: true cannot get any" in refusal(server, pod("all", hostNetwork=True))
    assert refusal(server, pod("none", hostNetwork=True)) == ""
    assert given_rails(server, pod(namespace=f"ready-{COUNT}", hostNetwork=True)) == {}


def test_a_namespaces_default_is_for_pods_without_the_annotation(server: BlockingClient) -> None:
    server.apply(namespace("by-default", "0,2"), force=True)
    account(server, "by-default")
    assert given_rails(server, pod(namespace="by-default")) == {"main": [0, 2]}
    assert given_rails(server, pod("3", "by-default")) == {"main": [0, 1, 2]}
    assert given_rails(server, pod("none", "by-default")) == {}
    made = server.create(pod(namespace="by-default"), dry_run=True).body
    assert made["metadata"]["annotations"] == {RAILS: "0,2"}
    assert given_rails(server, pod()) == {}


@pytest.mark.parametrize("value", ["9", "all ", "0,0", ""])
def test_a_wrong_default_is_refused_at_the_namespace(server: BlockingClient, value: str) -> None:
    assert "fabric train has rails 0 to 7" in refusal(server, namespace("wrong", value))
    server.apply(namespace("once-right", "2"), force=True)
    with pytest.raises(ApiRefusedError, match="fabric train has rails 0 to 7"):
        server.apply(namespace("once-right", value), force=True)


def test_a_namespace_that_keeps_its_default_can_be_changed_when_the_fabric_has_shrunk(server: BlockingClient) -> None:
    server.apply(namespace("kept", "8"), force=True)
    account(server, "kept")
    install(server, 4)
    try:
        kept = namespace("kept", "8")
        kept["metadata"]["labels"] = {"changed": "yes"}
        assert server.apply(kept, force=True).body["metadata"]["labels"]["changed"] == "yes"
        assert "fabric train has rails 0 to 3" in refusal(server, pod(namespace="kept"))
    finally:
        install(server, COUNT)


def test_a_pod_that_no_policy_gave_its_rails_is_refused(server: BlockingClient) -> None:
    """As with an annotation that a webhook sets: policies are called before webhooks, and not again."""
    binding = next(
        manifest
        for manifest in build_policies(fabric(addressing=FLAT))
        if manifest["kind"] == "MutatingAdmissionPolicyBinding"
    )
    server.delete(binding)
    try:
        words = "asks for rails and none were given"
        wait_until(lambda: words in refusal(server, pod("all")), "the policy has gone")
        assert refusal(server, pod("none")) == ""
        assert refusal(server, pod("all", containers=[container("main", **{"trackbed.dev/rail3": "1"})])) == ""
        mirror = pod("all")
        mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "hash"
        assert "asks for rails" not in refusal(server, mirror)
    finally:
        install(server, COUNT)


@pytest.mark.parametrize("rails", [1, 2, 64])
def test_it_holds_for_the_smallest_and_the_largest_fabric(server: BlockingClient, rails: int) -> None:
    install(server, rails)
    try:
        every = ",".join(map(str, range(rails)))
        assert given_rails(server, pod(str(rails))) == {"main": list(range(rails))}
        assert (refusal(server, pod(every)) == "") is (rails > 1)
        assert f"fabric train has rail{' 0 only' if rails == 1 else f's 0 to {rails - 1}'}" in refusal(
            server, pod("65")
        )
    finally:
        install(server, COUNT)


FABRIC = "trackbed.dev/fabric"
OF_OTHERS = {
    "the pod's own word": (pod("2") | {"metadata": {"name": "job", "annotations": {RAILS: "2", FABRIC: "other"}}}, {}),
    "the pod's own word, by default": (
        {
            **pod(namespace="of-others"),
            "metadata": {"name": "job", "namespace": "of-others", "annotations": {FABRIC: "o"}},
        },
        {RAILS: "all"},
    ),
    "its namespace's word": (pod(namespace="of-others"), {RAILS: "all", FABRIC: "other"}),
}


@pytest.mark.parametrize(("item", "output"), OF_OTHERS.values(), ids=OF_OTHERS)
def test_pods_of_another_fabric_are_left_alone(
    server: BlockingClient, item: dict[str, Any], output: dict[str, str]
) -> None:
    space = namespace("of-others")
    space["metadata"]["annotations"] = output
    server.apply(space, force=True)
    account(server, "of-others")

    def is_left_alone() -> bool:
        made = server.create(item, dry_run=True).body
        rails = made["metadata"].get("annotations", {}).get(RAILS)
        return rails == item["metadata"]["annotations"].get(RAILS) and "trackbed.dev/rail" not in str(made["spec"])

    wait_until(is_left_alone, "the policy sees the namespace's word")  # an API server reads namespaces with a delay


def test_a_pod_that_names_this_fabric_in_a_namespace_of_another_gets_its_rails(server: BlockingClient) -> None:
    space = namespace("of-another")
    space["metadata"]["annotations"] = {FABRIC: "other"}
    server.apply(space, force=True)
    account(server, "of-another")
    item = pod("2", "of-another")
    item["metadata"]["annotations"][FABRIC] = "train"
    assert given_rails(server, item) == {"main": [0, 1]}
