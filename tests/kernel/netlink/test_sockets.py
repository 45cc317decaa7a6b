from __future__ import annotations

import errno
import struct
import threading
from pathlib import Path

import pytest

from trackbed.kernel.netlink import codec, netns
from trackbed.kernel.netlink.codec import MalformedError, Message, ReceivedMessage
from trackbed.kernel.netlink.links import (
    VethEnd,
    build_create_bridge,
    build_create_veth,
    build_set_link,
    get_link,
    list_links,
)
from trackbed.kernel.netlink.sockets import (
    BatchError,
    Failure,
    OverrunError,
    ReplyTimeoutError,
    RequestError,
    Socket,
    _parse_failure,
)

NOOP = Message(1, 0, b"")
"""The kernel answers it only where an acknowledgement is asked for."""
ABSENT = build_set_link(4242, up=True)


def test_socket_lives_in_the_namespace_it_was_opened_in(here: int, there: int) -> None:
    with Socket(netns=here) as sock, Socket(netns=there) as other:
        sock.send([build_create_bridge("switch")])
        assert [link.name for link in list_links(sock)] == ["lo", "switch"]
        assert [link.name for link in list_links(other)] == ["lo"]


def test_socket_without_namespace_belongs_to_the_calling_thread(here: int) -> None:
    with netns.enter_netns(here):
        sock = Socket()
    with sock:
        assert [link.name for link in list_links(sock)] == ["lo"]


@pytest.mark.needs("namespaces")
def test_unknown_family_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="not supported"):
        Socket(31)


def test_missing_namespace_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Socket(netns=tmp_path / "gone")


def test_empty_batch_does_nothing(sock: Socket) -> None:
    sock.send([])


def test_batch_is_done_in_order(sock: Socket) -> None:
    sock.send(
        [
            build_create_veth(VethEnd("a", index=10), VethEnd("b", index=11)),
            build_set_link(10, name="c"),
            build_set_link(10, mtu=9000),
        ]
    )
    assert (get_link(sock, "c").index, get_link(sock, "c").mtu) == (10, 9000)


@pytest.mark.parametrize(
    ("batch", "failing"),
    [
        pytest.param((ABSENT, build_set_link(1, up=True)), (0,), id="first"),
        pytest.param((NOOP, ABSENT, build_set_link(1, up=True)), (1,), id="middle"),
        pytest.param((build_set_link(1, up=True), ABSENT), (1,), id="last"),
        pytest.param((ABSENT, build_set_link(1, up=True), ABSENT), (0, 2), id="first and last"),
    ],
)
def test_refused_messages_are_told_by_place_and_the_others_are_done(
    sock: Socket, batch: tuple[Message, ...], failing: tuple[int, ...]
) -> None:
    with pytest.raises(BatchError) as caught:
        sock.send(batch)
    assert [(failure.index, failure.errno) for failure in caught.value.failures] == [(n, errno.ENODEV) for n in failing]
    assert get_link(sock, "lo").is_up


def test_refusal_carries_the_kernels_own_words(sock: Socket) -> None:
    bad_mtu = build_set_link(10, mtu=17)
    with pytest.raises(BatchError) as caught:
        sock.send([build_create_veth(VethEnd("a", index=10), VethEnd("b")), bad_mtu, build_set_link(10, up=True)])
    assert caught.value.failures == (Failure(1, errno.EINVAL, "mtu less than device minimum"),)
    assert str(caught.value) == "message 1: Invalid argument (mtu less than device minimum)"


def test_batch_after_a_refused_one_starts_clean(sock: Socket) -> None:
    with pytest.raises(BatchError):
        sock.send([ABSENT, ABSENT])
    sock.send([build_set_link(1, up=True)])


def test_refused_request_has_errno(sock: Socket) -> None:
    with pytest.raises(RequestError) as caught:
        get_link(sock, "gone")
    assert caught.value.errno == errno.ENODEV


def test_refused_dump_has_errno_and_words(sock: Socket) -> None:
    with pytest.raises(RequestError) as caught:
        sock.dump(Message(18, 0, b"short"))
    assert (caught.value.errno, caught.value.text) == (errno.EINVAL, "Invalid header for link dump")


def test_silent_kernel_is_noticed_and_the_socket_still_works(here: int) -> None:
    with Socket(netns=here, timeout_seconds=0.05) as sock:
        with pytest.raises(ReplyTimeoutError, match=r"^the kernel did not answer within 0\.05 seconds$"):
            sock.dump(NOOP)
        assert [link.name for link in list_links(sock)] == ["lo"]


def test_lost_answers_are_noticed_and_the_socket_still_works(sock: Socket) -> None:
    with pytest.raises(OverrunError, match="replies were lost"):
        sock.send([ABSENT] * 16_000)
    with pytest.raises(BatchError):
        sock.send([build_set_link(1, up=True), ABSENT])
    assert get_link(sock, "lo").is_up


def test_batch_longer_than_the_send_buffer_is_an_error_of_the_system(sock: Socket) -> None:
    with pytest.raises(OSError, match="Message too long"):
        sock.send([NOOP] * 300_000)


def test_list_of_many_datagrams_is_whole(sock: Socket) -> None:
    sock.send([build_create_veth(VethEnd(f"a{n}"), VethEnd(f"b{n}")) for n in range(60)])
    assert len(list_links(sock)) == 121


def test_threads_with_sockets_of_their_own_do_not_disturb_each_other(here: int) -> None:
    done: list[int] = []

    def work(number: int) -> None:
        with Socket(netns=here) as sock:
            sock.send([build_create_bridge(f"switch{number}"), build_set_link(1, up=True)])
            done.append(get_link(sock, f"switch{number}").index)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(done)) == 4


REPEATED = struct.pack("=IHHII", 18, 16, 5, 1, 0)
"""The header of our message as an answer repeats it; its body was two bytes, "hi" and padding."""
WORDS = codec.pack_string(1, "no such thing")
CAPPED, WITH_WORDS = 0x100, 0x200


@pytest.mark.parametrize(
    ("kind", "flags", "body", "expected"),
    [
        pytest.param(codec.NLMSG_ERROR, 0, struct.pack("=i", 0) + REPEATED, None, id="acknowledged"),
        pytest.param(codec.NLMSG_DONE, 0, struct.pack("=i", 0), None, id="end of a list"),
        pytest.param(codec.NLMSG_DONE, 0, b"", None, id="end of a list, bare"),
        pytest.param(codec.NLMSG_ERROR, 0, struct.pack("=i", -17) + REPEATED, (17, ""), id="no words"),
        pytest.param(
            codec.NLMSG_ERROR,
            CAPPED | WITH_WORDS,
            struct.pack("=i", -22) + REPEATED + WORDS,
            (22, "no such thing"),
            id="words after the header",
        ),
        pytest.param(
            codec.NLMSG_ERROR,
            WITH_WORDS,
            struct.pack("=i", -22) + REPEATED + b"hi\0\0" + WORDS,
            (22, "no such thing"),
            id="words after the whole message",
        ),
        pytest.param(
            codec.NLMSG_DONE,
            WITH_WORDS,
            struct.pack("=i", -2) + WORDS,
            (2, "no such thing"),
            id="words at the end of a list",
        ),
    ],
)
def test_answer_is_read_as_the_kernel_lays_it_out(
    kind: int, flags: int, body: bytes, expected: tuple[int, str] | None
) -> None:
    failure = _parse_failure(ReceivedMessage(kind, flags, 1, memoryview(body)), 3)
    assert failure == (expected and Failure(3, *expected))


def test_error_without_errno_is_malformed() -> None:
    with pytest.raises(MalformedError, match=r"^an error message without errno$"):
        _parse_failure(ReceivedMessage(codec.NLMSG_ERROR, 0, 1, memoryview(b"\0\0")), 0)
