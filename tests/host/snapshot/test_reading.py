"""Readings of hosts, and their documents: a host may send anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from trackbed.fabric.documents import DocumentError, to_document
from trackbed.host.machine import Machine
from trackbed.host.snapshot.reading import (
    MAX_ENTRIES,
    LldpReading,
    NetworkReading,
    NodeReading,
    ReadingRequest,
    build_reading_document,
    parse_reading,
    parse_request,
    read_host,
)
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.kernel.netlink.addresses import Address
from trackbed.kernel.netlink.dcb import App, Dcb, Pfc
from trackbed.kernel.netlink.routes import Route
from trackbed.kernel.netlink.rules import PolicyRule
from trackbed.kernel.netlink.vfs import Vf, VfListing
from trackbed.kernel.wire.lldp import Advertisement
from trackbed.kernel.wire.nftables import BaseChain

ADDRESS = Address(10, 2, 0x0A000001, 31, body=b"of the kernel")
NETWORK = NetworkReading(
    links=(),
    addresses=(ADDRESS,),
    routes=(Route(2, 254, hops=(1, 2), body=b"of the kernel"),),
    rules=(PolicyRule(2, 100, 1000),),
    vfs={"rail0": VfListing(8, (Vf(0, "02:00:00:00:00:01", trust=True),))},
    dcb={"rail0": Dcb(None, Pfc(8, frozenset({3})), (App(5, 26, 3),), (5,), 1)},
    sysctls={"net/ipv4/conf/all/rp_filter": "0"},
    chains=(BaseChain("inet", "filter", "input", "filter", "input", 0, "drop", 3),),
    moved=("rail1",),
    unread={"vfs rail1": "Operation not permitted"},
)
READING = NodeReading(
    Snapshot(files={"/etc/machine-id": b"1\n"}), NETWORK, LldpReading({"rail0": Advertisement("leaf0", "swp1")}), "", ""
)


def send(reading: NodeReading) -> Any:
    document: Any = msgspec.json.decode(msgspec.json.encode(build_reading_document(reading)))
    return document


def test_a_reading_is_the_same_after_the_way_but_for_the_messages_of_the_kernel() -> None:
    assert parse_reading(send(READING)) == READING
    assert "body" not in send(READING)["network"]["addresses"][0]


def test_a_request_is_the_same_after_the_way() -> None:
    request = ReadingRequest({"rail0": None, "rail1": "0000:18:00.0"}, Wanted(("/etc/*",)), 2000)
    assert parse_request(msgspec.json.decode(msgspec.json.encode(to_document(request)))) == request


def test_a_machine_whose_network_cannot_be_read_says_why(tmp_path: Path) -> None:
    request = ReadingRequest({"rail0": None}, Wanted(("/etc/machine-id",)), 2000)
    reading = read_host(Machine(tmp_path, unseen_reason="it is an archive"), request)
    assert (reading.network, reading.lldp) == (None, LldpReading({}))
    assert "it is an archive" in reading.failure


@pytest.mark.parametrize(
    "changed",
    [
        READING._replace(network=NETWORK._replace(addresses=(ADDRESS,) * (MAX_ENTRIES + 1))),
        READING._replace(
            network=NETWORK._replace(vfs={"rail0": VfListing(1, (Vf(0, ""),) * (MAX_ENTRIES + 1))}),
        ),
        READING._replace(lldp=LldpReading({"rail0": Advertisement("l" * 3000, "swp1")})),
    ],
    ids=["addresses", "vfs", "leaf"],
)
def test_a_reading_that_is_too_large_is_refused(changed: NodeReading) -> None:
    with pytest.raises(DocumentError):
        parse_reading(send(changed))


@pytest.mark.parametrize("part", ["snapshot", "network", "lldp"])
def test_a_reading_of_another_form_is_refused(part: str) -> None:
    with pytest.raises(DocumentError):
        parse_reading({**send(READING), part: [3]})
