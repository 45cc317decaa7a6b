"""Rungs: what each end runs, and how its output becomes a value, a failure, or no test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.prove.findings import ProofVerdict
from trackbed.prove.results import judge_reading
from trackbed.prove.rungs import GID, LADDER, PATH_RUNGS, RUNGS, gid, ping, rdma_cm, tcp_bw, write_bw, write_lat
from trackbed.prove.rungs.rung import PathEnd, ProbedPath, RungReading

SAMPLES = Path(__file__).with_name("perftest")
A = PathEnd("gpu1", 0, "rail0", "rail0", "10.0.0.1", 3)
B = PathEnd("gpu2", 0, "rail0", "rail0", "10.0.0.2", 5)
PATH = ProbedPath(A, B, 4200, 4096, 106)
ISOLATED = PATH._replace(b=B._replace(rail=1, rdma="rail1"), is_isolated=True)
ENDED = {"status": 0, "stdout": "", "stderr": ""}


def read_sample(name: str) -> dict[str, Any]:
    """Return the answer of a client that printed a sample."""
    return {**ENDED, "stderr": (SAMPLES / name).read_text()}


def build_pings(small: str = "answered", large: str = "answered", **report: Any) -> dict[str, Any]:
    """Return the answer of a node to a ping step; the large packet has the report."""
    return {"pings": [{"outcome": small, "rttMs": 0.1}, {"outcome": large, "rttMs": 0.2, **report}]}


def test_the_ladder_has_every_rung_once_from_the_wire_up() -> None:
    assert [name for name in RUNGS if name != GID] == list(PATH_RUNGS)
    assert [PATH_RUNGS[name].transport for name in RUNGS if name != GID] == ["ip", "ip", *4 * ["rdma"]]
    assert LADDER == ("ping", "gid", "rdma_cm", "write_bw", "write_lat")


def test_both_ends_ping_the_other_with_a_small_and_the_largest_packet() -> None:
    assert ping.build_steps(PATH)[1] == {
        "pings": [
            {"source": "10.0.0.2", "target": "10.0.0.1", "payloadBytes": 56},
            {"source": "10.0.0.2", "target": "10.0.0.1", "payloadBytes": 4172},
        ]
    }


PINGS: dict[str, tuple[ProbedPath, Any, Any, RungReading]] = {
    "both": (PATH, build_pings(), build_pings(), RungReading("measured", 0.2)),
    "small alone": (
        PATH,
        build_pings(),
        build_pings(large="too-large", mtuBytes=1500, by="10.0.0.9", reason="Message too long"),
        RungReading(
            "failed",
            None,
            "gpu2 to gpu1: 4200 bytes are lost and 84 arrive: an MTU on the path is too small"
            " (10.0.0.9: Message too long, MTU 1500)",
        ),
    ),
    "silent": (
        PATH,
        build_pings("silent", "silent"),
        build_pings(),
        RungReading("failed", None, "gpu1 to gpu2: no reply"),
    ),
    "isolated": (ISOLATED, build_pings("silent", "silent"), build_pings("silent", "silent"), RungReading("measured")),
    "not isolated": (
        ISOLATED,
        build_pings("silent", "silent"),
        build_pings("answered", "silent"),
        RungReading("failed", None, "gpu2 to gpu1 replies, and the Fabric isolates the rails"),
    ),
    "refused": (
        PATH,
        {"failure": "may not open a socket"},
        build_pings(),
        RungReading("not-tested", None, "it cannot ping: may not open a socket", "gpu1"),
    ),
    "garbled": (PATH, {"pings": [1]}, build_pings(), RungReading("unclear", None, "its answer cannot be read", "gpu1")),
}


@pytest.mark.parametrize(("path", "a", "b", "reading"), PINGS.values(), ids=PINGS)
def test_pings_of_both_ends_are_read(path: ProbedPath, a: Any, b: Any, reading: RungReading) -> None:
    assert ping.read(path, a, b) == reading


def test_rping_connects_from_and_to_the_planned_addresses() -> None:
    client, server = rdma_cm.build_steps(PATH)
    assert " ".join(client["argv"]) == "rping -c -a 10.0.0.2 -I 10.0.0.1 -p 18515 -C 3"
    assert " ".join(server["argv"]) == "rping -s -a 10.0.0.2 -p 18515 -C 3"
    assert (client["after"], server.get("after", 0)) == (1.0, 0)


FAILED = {"status": 1, "stdout": "", "stderr": "cma event RDMA_CM_EVENT_ADDR_ERROR, error -19\n"}
CONNECTIONS: dict[str, tuple[ProbedPath, Any, Any, RungReading]] = {
    "connected": (PATH, ENDED, ENDED, RungReading("measured")),
    "the server's status does not count": (PATH, ENDED, FAILED, RungReading("measured")),
    "failed": (
        PATH,
        FAILED,
        ENDED,
        RungReading(
            "failed",
            None,
            "gpu1 to gpu2: the client failed with status 1: cma event RDMA_CM_EVENT_ADDR_ERROR, error -19",
        ),
    ),
    "ended by us": (
        PATH,
        {**FAILED, "status": None, "stderr": ""},
        ENDED,
        RungReading("failed", None, "gpu1 to gpu2: the client did not end in time: it printed nothing"),
    ),
    "missing": (
        PATH,
        ENDED,
        {"missing": "rping"},
        RungReading(
            "not-tested",
            None,
            "it has no rping: install rdmacm-utils (Debian, Ubuntu) or librdmacm-utils (RHEL)",
            "gpu2",
        ),
    ),
    "isolated": (ISOLATED, FAILED, ENDED, RungReading("measured")),
    "not isolated": (
        ISOLATED,
        ENDED,
        ENDED,
        RungReading("failed", None, "gpu1 to gpu2 connects, and the Fabric isolates the rails"),
    ),
}


@pytest.mark.parametrize(("path", "a", "b", "reading"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_connections_are_read(path: ProbedPath, a: Any, b: Any, reading: RungReading) -> None:
    assert rdma_cm.read(path, a, b) == reading


def test_writes_have_their_unit_size_device_gid_and_traffic_class() -> None:
    client, server = write_bw.build_steps(PATH)
    common = "-m 4096 --tclass 106 -s 65536 -D 5 --report_gbits -b -q 32 --out_json --out_json_file=/dev/stderr"
    assert " ".join(client["argv"]) == f"ib_write_bw -d rail0 -F -x 3 {common} -p 19515 127.0.0.1"
    assert " ".join(server["argv"]) == f"ib_write_bw -d rail0 -F -x 5 {common} -p 18515"
    assert client["relay"] == {"port": 19515, "source": "10.0.0.1", "target": "10.0.0.2", "targetPort": 18515}


@pytest.mark.parametrize(
    ("rate", "source_port", "options"),
    [
        pytest.param(None, None, {"-q": "32"}, id="unknown"),
        pytest.param(400, None, {"-q": "32"}, id="400 Gb/s"),
        pytest.param(100, None, {"-q": "32", "-u": "15"}, id="100 Gb/s"),
        pytest.param(10, None, {"-q": "32", "-u": "18"}, id="10 Gb/s"),
        pytest.param(1.0, None, {"-q": "32", "-t": "17", "-Q": "1", "-u": "19"}, id="1 Gb/s, many flows"),
        pytest.param(1.0, 0xC000, {"-q": "1", "-u": "16"}, id="1 Gb/s, one flow"),
        pytest.param(0.0045, None, {"-s": "8192", "-q": "5", "-t": "4", "-Q": "1", "-u": "19"}, id="an emulated port"),
        pytest.param(0.0001, None, {"-s": "4096", "-q": "1", "-t": "1", "-Q": "1", "-u": "19"}, id="hardly any"),
    ],
)
def test_what_is_under_way_arrives_soon_and_is_not_sent_again_before(
    rate: float | None, source_port: int | None, options: dict[str, str]
) -> None:
    for step in write_bw.build_steps(PATH._replace(rate_gbps=rate, source_port=source_port)):
        argv = step["argv"]
        values = {name: argv[argv.index(name) + 1] for name in ("-s", "-q", "-t", "-Q", "-u") if name in argv}
        assert values == {"-s": "65536", **options}


def test_a_share_of_the_rate_is_sent_in_short_bursts_by_both_ends() -> None:
    steps = write_bw.build_steps(PATH._replace(rate_gbps=40.0, is_limited=True))
    for step in steps:
        assert " --rate_limit 40 --rate_units g --rate_limit_type SW --burst_size 8 " in " ".join(step["argv"])
    few = write_bw.build_steps(PATH._replace(rate_gbps=0.0045, is_limited=True))[0]["argv"]
    assert few[few.index("--burst_size") + 1] == few[few.index("-t") + 1] == "4"
    assert not any("--rate_limit" in step["argv"] for step in write_bw.build_steps(PATH._replace(rate_gbps=40.0)))


def test_a_single_flow_goes_one_way_with_the_flow_label_of_its_source_port() -> None:
    ports = (0xC000, 0xC001, 0xC007, 0xFFFF)
    clients = [write_bw.build_steps(PATH._replace(source_port=port))[0]["argv"] for port in ports]
    labels = [int(argv[argv.index("--flow_label") + 1]) for argv in clients]
    assert [(label & 0x3FFF ^ label >> 14) | 0xC000 for label in labels] == list(ports)  # as the kernel does
    assert 0 not in labels
    assert not any("-b" in argv for argv in clients)


def build_stream(received: object = 4e9, seconds: object = 4.0, segment: object = 8948) -> dict[str, object]:
    return {"receivedBytes": received, "seconds": seconds, "segmentBytes": segment}


UNREAD = RungReading("unclear", None, "its answer cannot be read", "gpu1")
STREAMS: dict[str, tuple[ProbedPath, Any, Any, RungReading]] = {
    "the slower way": (PATH, build_stream(), build_stream(2e9), RungReading("measured", 2e9 * 9038 / 8948 * 8e-9 / 4)),
    "IPv6": (
        PATH._replace(a=A._replace(address="fd00::1"), b=B._replace(address="fd00::2")),
        build_stream(),
        build_stream(),
        RungReading("measured", 4e9 * 9058 / 8948 * 8e-9 / 4),
    ),
    "a single flow": (
        PATH._replace(source_port=50000),
        build_stream(1e9),
        build_stream(),
        RungReading("measured", 4e9 * 9038 / 8948 * 8e-9 / 4),
    ),
    "refused": (
        PATH,
        {"failure": "[Errno 111] Connection refused"},
        build_stream(),
        RungReading("failed", None, "gpu2 to gpu1: [Errno 111] Connection refused"),
    ),
    "no time": (PATH, build_stream(seconds=0), build_stream(), UNREAD),
    "no number": (PATH, build_stream("many"), build_stream(), UNREAD),
    "nothing": (PATH, None, build_stream(), UNREAD),
}


@pytest.mark.parametrize(("path", "a", "b", "reading"), STREAMS.values(), ids=STREAMS)
def test_streams_are_read(path: ProbedPath, a: Any, b: Any, reading: RungReading) -> None:
    assert tcp_bw.read(path, a, b) == reading


def test_a_stream_starts_at_a_with_the_source_port_of_its_flow() -> None:
    client, server = tcp_bw.build_steps(PATH._replace(source_port=50000))
    assert client["stream"] == {
        "source": "10.0.0.1",
        "target": "10.0.0.2",
        "port": 18515,
        "listens": False,
        "sourcePort": 50000,
        "seconds": 5.0,
    }
    assert (server["stream"]["listens"], server["stream"]["sourcePort"]) == (True, 0)


def test_an_infiniband_port_has_no_gid_index() -> None:
    client, _ = write_lat.build_steps(PATH._replace(a=A._replace(gid_index=None)))
    assert "-x" not in client["argv"]


@pytest.mark.parametrize("name", ["bw.txt", "twice.txt", "bw-only.txt", "raw-qos.txt"])
def test_the_rate_of_one_direction_is_read_from_what_perftest_prints(name: str) -> None:
    assert write_bw.read(PATH, read_sample(name), ENDED) == RungReading("measured", 776.11 / 2)


def test_a_client_that_is_ended_after_its_result_has_measured() -> None:
    ended = {**read_sample("bw-6.06.txt"), "status": None}
    assert write_bw.read(PATH, ended, ENDED).state == "measured"
    cut = {**ended, "stderr": ended["stderr"].rpartition("}")[0]}
    assert write_bw.read(PATH, cut, ENDED).reason.startswith("gpu1 to gpu2: the client did not end in time: ")


@pytest.mark.parametrize(
    ("errors", "shown"), [("", "it had printed its result"), ("Couldn't close\n", "Couldn't close")]
)
def test_a_result_is_no_message_of_a_client_that_failed(errors: str, shown: str) -> None:
    failed = {**read_sample("bw-6.06.txt"), "status": 1}
    failed["stderr"] += errors
    assert write_bw.read(PATH, failed, ENDED).reason == f"gpu1 to gpu2: the client failed with status 1: {shown}"


@pytest.mark.parametrize("line", ["{", "}", "}\n{"])
@pytest.mark.parametrize("status", [None, 1])
def test_a_megabyte_of_braces_is_read_at_once(line: str, status: int | None) -> None:
    braces = {**ENDED, "status": status, "stderr": f"{line}\n" * (1 << 19)}
    assert write_bw.read(PATH, braces, ENDED).state in {"failed", "unclear"}  # a pattern takes an hour


def test_a_document_of_empty_lines_is_read_at_once() -> None:
    blank = {**ENDED, "stderr": "{test_info" + "\n" * 65_500 + "}"}
    assert write_bw.read(PATH, blank, ENDED).state == "unclear"  # a pattern that crosses lines takes minutes


def test_the_typical_latency_is_read() -> None:
    assert write_lat.read(PATH, read_sample("lat.txt"), ENDED) == RungReading("measured", 1.79)


def test_what_debian_12_prints_without_quotes_is_read() -> None:
    assert write_bw.read(PATH, read_sample("bw-6.06.txt"), ENDED) == RungReading("measured", 0.023950 / 2)
    assert write_lat.read(PATH, read_sample("lat-6.06.txt"), ENDED) == RungReading("measured", 2537.05)


WRONG = {
    "no JSON": ("(?s).*", "", "it printed no JSON; perftest 4.5 and newer does"),
    "cut": (r'(?s)"MsgRate.*', "}", "its JSON cannot be read: "),
    "another device": ('"rail0"', '"mlx5_0"', "its JSON has Device 'mlx5_0' instead of 'rail0'"),
    "one direction": (
        "Bidirectional_",
        "",
        "its JSON has test 'RDMA_Write_BW_Test' instead of 'RDMA_Write_Bidirectional_BW_Test'",
    ),
    "another size": ('"MsgSize": 65536', '"MsgSize": 2', "its JSON is of messages of 2 bytes instead of 65536"),
    "no number": ('"BW_average": 776.11', '"BW_average": nan', "its JSON has BW_average 'nan', which is no"),
    "not finite": ('"BW_average": 776.11', '"BW_average": 1e999', "its JSON has BW_average inf, which is no"),
    "zero": ('"BW_average": 776.11', '"BW_average": 0.00', "its JSON has BW_average 0.0, which is no measurement"),
    "a text": ('"BW_average": 776.11', '"BW_average": "776"', "its JSON has BW_average '776', which is no"),
}


@pytest.mark.parametrize(("old", "new", "reason"), WRONG.values(), ids=WRONG)
def test_output_that_is_not_as_requested_gives_no_value(old: str, new: str, reason: str) -> None:
    output = read_sample("bw.txt")
    reading = write_bw.read(PATH, {**output, "stderr": re.sub(old, new, output["stderr"], count=1)}, ENDED)
    assert (reading.state, reading.value) == ("unclear", None)
    assert (reading.node, reading.reason.startswith(f"ib_write_bw to gpu2: {reason}")) == ("gpu1", True)


KEYS = ["pings", "outcome", "status", "stdout", "missing", "failure", "rttMs", "mtuBytes", *build_stream()]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, JSON, st.sampled_from(list(PATH_RUNGS.values())), st.booleans())
def test_whatever_a_node_answers_is_read(a: object, b: object, rung: Any, isolated: bool) -> None:
    reading = rung.read(PATH._replace(is_isolated=isolated), a, b)
    assert reading.state in {"measured", "failed", "unclear", "not-tested"}
    assert judge_reading(rung, reading, (400.0, None), 1.0).verdict in get_args(ProofVerdict)


@pytest.mark.parametrize("levels", [1, 900, 990, 100_000])
def test_a_status_of_any_depth_is_one_that_is_not_known(levels: int) -> None:
    status: object = 1
    for _ in range(levels):
        status = [status]
    reason = write_bw.read(PATH, {**ENDED, "status": status}, ENDED).reason
    assert reason == "gpu1 to gpu2: the client failed with status unknown: it printed nothing"


def test_texts_of_a_node_are_shown_up_to_a_length() -> None:
    long = "A" * 900_000
    for answer in ({"missing": long}, {**ENDED, "status": 1, "stderr": long}, {**ENDED, "stderr": f"{long}test_info"}):
        assert len(write_bw.read(PATH, answer, ENDED).reason) < 300


def build_gids(gids: dict[int, str], types: dict[int, str]) -> dict[str, str]:
    port = "/sys/class/infiniband/rail0/ports/1"
    files = {f"{port}/gids/{index}": text for index, text in gids.items()}
    return files | {f"{port}/gid_attrs/types/{index}": text for index, text in types.items()}


ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"
GIDS: dict[str, tuple[dict[int, str], dict[int, str], gid.GidReading]] = {
    "v2": ({0: ZERO, 2: MAPPED, 3: MAPPED}, {2: "IB/RoCE v1", 3: "RoCE v2"}, gid.GidReading(3)),
    "v1 alone": (
        {2: MAPPED},
        {2: "IB/RoCE v1"},
        gid.GidReading(None, "rail0 has a GID of 10.0.0.1, but none of RoCE v2"),
    ),
    "none": ({0: ZERO, 1: "garbled"}, {}, gid.GidReading(None, "rail0 has no GID of 10.0.0.1")),
    "no device": (
        {},
        {},
        gid.GidReading(None, "it has no RDMA device rail0, or its GIDs cannot be read", is_unknown=True),
    ),
}


@pytest.mark.parametrize(("gids", "types", "reading"), GIDS.values(), ids=GIDS)
def test_the_gid_of_the_planned_address_is_found(
    gids: dict[int, str], types: dict[int, str], reading: gid.GidReading
) -> None:
    assert gid.find_gid(A, "ethernet", build_gids(gids, types)) == reading


def test_any_gid_but_zero_is_one_of_infiniband() -> None:
    files = build_gids({0: "fe80:0000:0000:0000:0002:c903:0000:0001", 1: ZERO}, {})
    assert gid.find_gid(A, "infiniband", files) == gid.GidReading(0)
