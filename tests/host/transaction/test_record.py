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
from trackbed.host.transaction.compare import judge, observe
from trackbed.kernel.netlink.addresses import Address, add_address
from trackbed.kernel.netlink.links import set_link
from trackbed.kernel.netlink.routes import Route, add_route
from trackbed.kernel.netlink.rules import PolicyRule, add_rule

STEPS = frozenset({"vfs", "addresses", "routing", "qos"})
UNIT = "/etc/systemd/system/trackbed-boot.service"


def disturb(host: Host) -> None:
    """Change what apply is about to touch, as another program would."""
    port = host.index("eth0")
    host.send(set_link(port, up=True, mtu=1400))
    host.send(
        add_address(Address(port, AF_INET, 10 << 24 | 1, 24)),
        add_route(Route(AF_INET, 1000, 9 << 24, 8, oif=port, scope=253)),
        add_rule(PolicyRule(AF_INET, 1500, 1500, 9 << 24, 8, protocol=PROTOCOL)),
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
    view = observe(host.machine, settings)
    record.save(tmp_path, record.build_record(view, (), judge(view).changes))

    def judge_and_disturb(view: View) -> Comparison:
        comparison = judge(view)
        monkeypatch.setattr("trackbed.host.transaction.apply.judge", judge)
        disturb(host)
        return comparison

    monkeypatch.setattr("trackbed.host.transaction.apply.judge", judge_and_disturb)
    apply(host.machine, settings, host.records)
    kept, expected = record.load(host.records), record.load(tmp_path)
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
    ],
)
def test_what_is_no_record_of_this_version_is_refused_with_what_to_do(
    tmp_path: Path, content: str | bytes, reason: str
) -> None:
    (tmp_path / record.FILE).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"undo\.json is no undo record of this version \(.*{reason}") as caught:
        record.load(tmp_path)
    assert str(caught.value).endswith("move it away to go on")
