"""`trackbed doctor --nodes`: eight hosts behind a real sshd, compared with each other."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.fleet.site import Site, site

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

HOSTS = 8


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Eight hosts, of which the seventh refuses connections and the fifth is a clone of the second."""
    with site(tmp_path_factory.mktemp("eight"), HOSTS, {7: "refused"}) as made:
        for number in range(1, HOSTS + 1):
            kernel = made.root(number) / "proc/sys/kernel"
            kernel.mkdir(parents=True, exist_ok=True)
            (kernel / "hostname").write_text(f"gpu{2 if number == 5 else number:03}\n")
        yield made


def test_a_name_on_two_hosts_is_named_first_with_both_ends(eight: Site) -> None:
    done = eight.trackbed("doctor", "--nodes", "gpu[001-006,008]", "-o", "json")
    first = json.loads(done.stdout)["first"]
    assert (done.returncode, first["id"]) == (1, "kubelet-duplicate-node-name")
    assert first["ends"] == [{"node": "gpu002"}, {"node": "gpu005"}]


def test_a_host_that_is_not_reached_is_unknown_and_hides_nothing_of_the_others(eight: Site) -> None:
    done = eight.trackbed("doctor", "--nodes", "gpu[001-008]", "-o", "json")
    document = json.loads(done.stdout)
    unread = next(finding for finding in document["findings"] if finding["id"] == "node-unread")
    assert (unread["verdict"], unread["ends"]) == ("unknown", [{"node": "gpu007"}])
    assert "Connection refused" in unread["evidence"]
    assert (done.returncode, document["first"]["id"]) == (1, "kubelet-duplicate-node-name")


def test_nodes_and_an_option_of_one_machine_are_refused(eight: Site) -> None:
    done = eight.trackbed("doctor", "--nodes", "all", "--node", "gpu001")
    assert (done.returncode, "--nodes names the machines" in done.stderr) == (2, True)
