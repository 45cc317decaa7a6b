import json
from typing import Any

import pytest

from trackbed.node.rails import protocol
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.protocol import VERSIONS, RailRequest

ENV = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "net1"}
CONFIG = {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed"}
COMMANDS = "ADD, DEL, CHECK, GC, STATUS, VERSION"
NAME_RULE = "it must be 1 to 255 letters, digits, '_', '.' or '-', a letter or digit first"
IFNAME_RULE = "it must have 1 to 15 bytes without '/', ':' and blanks"
NETNS_RULE = "it must be the absolute path of the container's network namespace"
RAILS_RULE = "it must be a list of different rail numbers, or left out for all rails"

BAD_ENVIRONMENT: dict[str, tuple[dict[str, str], str]] = {
    "no command": ({"CNI_COMMAND": ""}, f'CNI_COMMAND is ""; it must be one of {COMMANDS}'),
    "unknown command": ({"CNI_COMMAND": "add"}, f'CNI_COMMAND is "add"; it must be one of {COMMANDS}'),
    "no container": ({"CNI_CONTAINERID": ""}, f'CNI_CONTAINERID is ""; {NAME_RULE}'),
    "container climbs": ({"CNI_CONTAINERID": "../etc"}, f'CNI_CONTAINERID is "../etc"; {NAME_RULE}'),
    "container begins with a dash": ({"CNI_CONTAINERID": "-rf"}, f'CNI_CONTAINERID is "-rf"; {NAME_RULE}'),
    "container ends with a newline": ({"CNI_CONTAINERID": "a\n"}, f'CNI_CONTAINERID is "a\\n"; {NAME_RULE}'),
    "container is long": ({"CNI_CONTAINERID": "a" * 256}, f'CNI_CONTAINERID is "{"a" * 56}...; {NAME_RULE}'),
    "no interface": ({"CNI_IFNAME": ""}, f'CNI_IFNAME is ""; {IFNAME_RULE}'),
    "interface of 16 bytes": ({"CNI_IFNAME": "n" * 16}, f'CNI_IFNAME is "{"n" * 16}"; {IFNAME_RULE}'),
    "interface of 8 letters in 16 bytes": ({"CNI_IFNAME": "ü" * 8}, f'CNI_IFNAME is "{"ü" * 8}"; {IFNAME_RULE}'),
    "interface is a path": ({"CNI_IFNAME": "a/b"}, f'CNI_IFNAME is "a/b"; {IFNAME_RULE}'),
    "interface is ..": ({"CNI_IFNAME": ".."}, f'CNI_IFNAME is ".."; {IFNAME_RULE}'),
    "interface with a blank": ({"CNI_IFNAME": "a b"}, f'CNI_IFNAME is "a b"; {IFNAME_RULE}'),
    "no namespace": ({"CNI_NETNS": ""}, f'CNI_NETNS is ""; {NETNS_RULE}'),
    "relative namespace": ({"CNI_NETNS": "netns/a"}, f'CNI_NETNS is "netns/a"; {NETNS_RULE}'),
}

BAD_CONFIG: dict[str, tuple[dict[str, Any], Code, str]] = {
    "old version": (
        {"cniVersion": "0.2.0"},
        Code.VERSION,
        f'cniVersion "0.2.0" is not supported; Trackbed speaks {", ".join(VERSIONS)}',
    ),
    "no version": (
        {"cniVersion": None},
        Code.VERSION,
        f"cniVersion null is not supported; Trackbed speaks {', '.join(VERSIONS)}",
    ),
    "no name": ({"name": ""}, Code.CONFIG, "name is \"\"; it must be 1 to 255 letters, digits, '_', '.' or '-'"),
    "name is a number": ({"name": 7}, Code.CONFIG, "name is 7; it must be 1 to 255 letters, digits, '_', '.' or '-'"),
    "prevResult is a list": (
        {"prevResult": []},
        Code.CONFIG,
        "prevResult is []; it must be the result of the plugin before",
    ),
    "prevResult has odd ips": (
        {"prevResult": {"ips": ["10.0.0.1"]}},
        Code.CONFIG,
        'prevResult.ips is ["10.0.0.1"]; it must be a list of objects',
    ),
}

BAD_WISH: dict[str, tuple[dict[str, Any], Code, str]] = {
    "unknown mode": (
        {"mode": "bridge"},
        Code.CONFIG,
        'mode is "bridge"; it must be one of macvlan, sriov, move, or left out',
    ),
    "rails is a number": ({"rails": 8}, Code.CONFIG, f"rails is 8; {RAILS_RULE}"),
    "rails is empty": ({"rails": []}, Code.CONFIG, f"rails is []; {RAILS_RULE}"),
    "rails as names": ({"rails": ["rail0"]}, Code.CONFIG, f'rails is ["rail0"]; {RAILS_RULE}'),
    "rails twice": ({"rails": [1, 1]}, Code.CONFIG, f"rails is [1,1]; {RAILS_RULE}"),
    "rails negative": ({"rails": [-1]}, Code.CONFIG, f"rails is [-1]; {RAILS_RULE}"),
    "rails true": ({"rails": [True]}, Code.CONFIG, f"rails is [true]; {RAILS_RULE}"),
    "a misspelt field": (
        {"rail": [1]},
        Code.UNSUPPORTED_FIELD,
        "rail: [1] is no field of Trackbed; did you mean 'rails'?",
    ),
    "an ipam of its own": (
        {"ipam": {"type": "host-local"}},
        Code.UNSUPPORTED_FIELD,
        'ipam: {"type":"host-local"} is no field of Trackbed; Trackbed knows mode and rails',
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_ENVIRONMENT.values(), ids=BAD_ENVIRONMENT)
def test_a_bad_environment_is_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(CniError) as caught:
        protocol.parse_request(ENV | change, json.dumps(CONFIG).encode())
    assert (caught.value.code, caught.value.message) == (Code.ENVIRONMENT, message)


@pytest.mark.parametrize(("change", "code", "message"), BAD_CONFIG.values(), ids=BAD_CONFIG)
def test_a_bad_configuration_is_refused(change: dict[str, Any], code: Code, message: str) -> None:
    with pytest.raises(CniError) as caught:
        protocol.parse_request(ENV, json.dumps(CONFIG | change).encode())
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(("change", "code", "message"), BAD_WISH.values(), ids=BAD_WISH)
def test_a_wish_that_is_none_of_ours_is_refused(change: dict[str, Any], code: Code, message: str) -> None:
    with pytest.raises(CniError) as caught:
        protocol.parse_rail_request(CONFIG | change)
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b'{"a":1}x', b"[" * 100_000], ids=["empty", "cut", "bytes", "tail", "deep"]
)
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(CniError, match="the network configuration is no JSON: ") as caught:
        protocol.parse_request(ENV, raw)
    assert caught.value.code is Code.DECODE


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"rails"'])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(CniError, match="the network configuration is no object but "):
        protocol.parse_request(ENV, raw)


@pytest.mark.parametrize("change", [{"mode": "bridge"}, {"rails": 8}, {"nonsense": 1}])
def test_a_delete_does_not_mind_what_only_an_add_needs(change: dict[str, Any]) -> None:
    request = protocol.parse_request(
        ENV | {"CNI_COMMAND": "DEL", "CNI_NETNS": ""}, json.dumps(CONFIG | change).encode()
    )
    assert (request.key, request.netns) == (("c1", "net1"), "")


def test_fields_of_the_specification_are_let_through() -> None:
    fields: dict[str, Any] = {
        "capabilities": {},
        "runtimeConfig": {},
        "args": {},
        "cni.dev/attachments": [],
        "prevResult": {},
    }
    assert protocol.parse_rail_request(CONFIG | fields | {"mode": "move", "rails": [3, 1]}) == RailRequest(
        "move", (1, 3)
    )


@pytest.mark.parametrize("listed", [None, {}, ["c1"], [{"containerID": "c1"}], [{"containerID": 1, "ifname": "a"}]])
def test_a_collection_without_a_proper_list_removes_nothing(listed: object) -> None:
    with pytest.raises(CniError, match=r"cni\.dev/valid-attachments"):
        protocol.parse_valid_attachments(CONFIG | {"cni.dev/valid-attachments": listed})


def test_a_collection_without_any_list_leaves_all_alone() -> None:
    assert protocol.parse_valid_attachments(CONFIG) is None
    assert protocol.parse_valid_attachments(CONFIG | {"cni.dev/valid-attachments": []}) == frozenset()


def test_a_frame_is_taken_apart_as_it_was_put_together() -> None:
    assert protocol.split_request(b"CNI_A=1\0CNI_B=\0\0{}\0\0") == ({"CNI_A": "1", "CNI_B": ""}, b"{}\0\0")
    assert protocol.split_request(b"\0{}") == ({"": ""}, b"{}")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", Code.INPUT),
        (b"CNI_A=1", Code.INPUT),
        (b"A=\xff\0\0{}", Code.ENVIRONMENT),
        (b"\0" + b"x" * 1048577, Code.INPUT),
    ],
    ids=["empty", "no end", "not UTF-8", "too long"],
)
def test_a_malformed_frame_is_refused(body: bytes, code: Code) -> None:
    with pytest.raises(CniError) as caught:
        protocol.split_request(body)
    assert caught.value.code is code
