"""The router that joins the rails of emulated servers: values in, frames out."""

from __future__ import annotations

import struct

from trackbed_lab.vm.router import Gateway, Router, build_arp_frame, build_gateway_mac, decrement_ttl

from trackbed.kernel.wire import arp as probe

GATEWAYS = [Gateway(10 << 24 | rail << 16 | 1, 10 << 24 | rail << 16, 16) for rail in range(2)]
A, B = b"\x02\0\0\0\0\x0a", b"\x02\0\0\0\0\x0b"
A_IP, B_IP = 10 << 24 | 16, 10 << 24 | 1 << 16 | 16


def packet(source: int, target: int, ttl: int = 64) -> bytes:
    head = struct.pack("!BBHHHBBHII", 0x45, 0, 28, 1, 0, ttl, 17, 0, source, target)
    return head[:10] + (~checksum(head) & 0xFFFF).to_bytes(2, "big") + head[12:] + b"datagram"


def checksum(header: bytes) -> int:
    """RFC 1071: of a whole header it is 0xFFFF."""
    total: int = sum(struct.unpack("!10H", header[:20]))
    return (total & 0xFFFF) + (total >> 16)


def sent(to: bytes, source: bytes, content: bytes) -> bytes:
    return to + source + b"\x08\x00" + content


def asked(router: Router, rail: int, mac: bytes, address: int) -> list[tuple[int, bytes]]:
    return list(router.handle_frame(rail, build_arp_frame(1, (mac, address), (bytes(6), GATEWAYS[rail].address))))


def test_who_asks_for_the_gateway_gets_its_mac_of_that_rail() -> None:
    [(rail, answer)] = asked(Router([[gateway] for gateway in GATEWAYS]), 1, B, B_IP)
    reply = probe.parse(answer[14:])
    assert (rail, answer[:6], reply.sender_mac, reply.sender) == (1, B, build_gateway_mac(1), GATEWAYS[1].address)


def test_a_packet_for_a_known_host_leaves_on_its_rail_one_hop_further() -> None:
    router = Router([[gateway] for gateway in GATEWAYS])
    asked(router, 1, B, B_IP)
    [(rail, frame)] = router.handle_frame(0, sent(build_gateway_mac(0), A, packet(A_IP, B_IP)))
    assert (rail, frame[:12], frame[14 + 8]) == (1, B + build_gateway_mac(1), 63)
    assert checksum(frame[14:]) == 0xFFFF


def test_a_packet_for_an_unknown_host_waits_until_it_answers() -> None:
    router = Router([[gateway] for gateway in GATEWAYS])
    [(rail, question)] = router.handle_frame(0, sent(build_gateway_mac(0), A, packet(A_IP, B_IP)))
    assert (rail, question[:6], probe.parse(question[14:]).target) == (1, b"\xff" * 6, B_IP)
    [(rail, frame)] = router.handle_frame(1, build_arp_frame(2, (B, B_IP), (build_gateway_mac(1), GATEWAYS[1].address)))
    assert (rail, frame[:6], frame[-8:]) == (1, B, b"datagram")


def test_what_goes_nowhere_is_dropped() -> None:
    router = Router([[gateway] for gateway in GATEWAYS])
    asked(router, 1, B, B_IP)
    gateway = build_gateway_mac(0)
    for frame in (
        b"short",
        sent(gateway, A, packet(A_IP, 11 << 24)),
        sent(gateway, A, packet(A_IP, B_IP, ttl=1)),
        sent(gateway, A, packet(A_IP, GATEWAYS[0].address)),
        sent(gateway, A, b"\x45"),
        sent(B, A, packet(A_IP, B_IP)),
    ):
        assert list(router.handle_frame(0, frame)) == []


def test_no_more_than_a_few_packets_wait_for_a_host() -> None:
    router = Router([[gateway] for gateway in GATEWAYS])
    for _ in range(40):
        list(router.handle_frame(0, sent(build_gateway_mac(0), A, packet(A_IP, B_IP))))
    assert len(list(router.handle_frame(1, build_arp_frame(2, (B, B_IP), (bytes(6), 0))))) == 16


def test_the_checksum_is_right_for_every_time_to_live() -> None:
    for ttl in range(2, 256):
        assert checksum(decrement_ttl(packet(A_IP, B_IP, ttl))) == 0xFFFF


def test_each_subnet_of_a_rail_has_its_gateway() -> None:
    """Scheme point-to-point: each server has a /31 of its own with the leaf."""
    first, second = (Gateway(base + 1, base, 31) for base in (10 << 24, (10 << 24) + 2))
    router = Router([[first, second]])
    for base, mac in ((first.base, A), (second.base, B)):
        request = build_arp_frame(1, (mac, base), (bytes(6), base + 1))
        [(rail, answer)] = router.handle_frame(0, request)
        assert (rail, answer[:6], probe.parse(answer[14:]).sender) == (0, mac, base + 1)
    [(rail, frame)] = router.handle_frame(0, sent(build_gateway_mac(0), A, packet(first.base, second.base)))
    assert (rail, frame[:6]) == (0, B)
