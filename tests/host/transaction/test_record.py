"""The undo record: of the very state that was compared, and only of this version."""

import json
from pathlib import Path
from socket import AF_INET

import pytest

from tests.host.kinds.test_vfs import ports, wanted
from tests.host.places import Host
from tests.host.trees import grow
from trackbed.host.change import Comparison
from trackbed.host.kinds.view import View
from trackbed.host.setting import PROTOCOL
from trackbed.host.transaction import record
from trackbed.host.transaction.apply import apply
from trackbed.host.transaction.compare import compare_view, read_view
from trackbed.kernel.netlink.addresses import Address, build_add_address
from trackbed.kernel.netlink.links import build_set_link
from trackbed.kernel.netlink.routes import Route, build_add_route
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule

STEPS = frozenset({"vfs", "addresses", "routing", "qos"})
UNIT = "/etc/systemd/system/trackbed-boot.target"


def disturb(host: Host) -> None:
    """Change what apply is about to touch, as another program would."""
    port = host.index("eth0")
    host.send(build_set_link(port, up=True, mtu=1400))
    host.send(
        build_add_address(Address(port, AF_INET, 10 << 24 | 1, 24)),
        build_add_route(Route(AF_INET, 1000, 9 << 24, 8, oif=port, scope=253)),
        build_add_rule(PolicyRule(AF_INET, 1500, 1500, 9 << 24, 8, protocol=PROTOCOL)),
    )
    host.machine.write_sysctl("net/ipv4/conf/eth0/rp_filter", "1")
    grow(host.machine.root, {UNIT: "changed\n", "/sys/class/net/eth0/qos/trust": "changed\n"})


def test_the_record_is_of_the_state_that_was_compared(
    place: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host, settings = ports(place), wanted(steps=STEPS)
    grow(
        host.machine.root,
        {
            "/usr/lib/systemd/system/multi-user.target": "",
            UNIT: "an older one\n",
            "/sys/class/net/eth0/qos/trust": "pcp\n",
        },
    )
    view = read_view(host.machine, settings)
    record.save_record(tmp_path, record.build_record(view, (), compare_view(view).changes))

    def judge_and_disturb(view: View) -> Comparison:
        comparison = compare_view(view)
        monkeypatch.setattr("trackbed.host.transaction.apply.compare_view", compare_view)
        disturb(host)
        return comparison

    monkeypatch.setattr("trackbed.host.transaction.apply.compare_view", judge_and_disturb)
    apply(host.machine, settings, host.records)
    kept, expected = record.load_record(host.records), record.load_record(tmp_path)
    assert kept is not None
    assert expected is not None
    assert kept == expected._replace(finished=True)
    assert {"mtu", "up", "sysctl", "attribute", "address", "route", "vf_count"} <= kept.kept.keys()
    assert kept.files[UNIT] == b"an older one\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "Expecting value", id="empty"),
        pytest.param(b"\xff", "invalid start byte", id="no text"),
        pytest.param(b"[]", "expected dict, got list", id="no object"),
        pytest.param(b'{"boot": "x", "netns": 1}', "missing required field", id="too little"),
        pytest.param(
            json.dumps({"boot": "x", "netns": 1, "kept": {"lamp": {}}, "files": {}, "modes": {}, "commands": []}),
            "unknown kinds of setting: lamp",
            id="a kind of another version",
        ),
        pytest.param(
            json.dumps(
                {"boot": "x", "netns": 1, "kept": {"mtu": {"3": "1500"}}, "files": {}, "modes": {}, "commands": []}
            ),
            "expected int, got str",
            id="a value of another type",
        ),
    ],
)
def test_what_is_no_record_of_this_version_is_refused_with_what_to_do(
    tmp_path: Path, content: str | bytes, reason: str
) -> None:
    (tmp_path / record.FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"undo\.json is no undo record of this version \(.*{reason}") as caught:
        record.load_record(tmp_path)
    assert str(caught.value).endswith("move it away to go on")
