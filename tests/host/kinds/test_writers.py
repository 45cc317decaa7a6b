"""Who else sets a value: files of sysctl and tuned, daemons, NetworkManager."""

from pathlib import Path

import pytest

from tests.host.places import PORTS, Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import grow
from trackbed.host.kinds.writers import find_connection_managers, find_daemons, find_sysctl_writers
from trackbed.host.machine import Machine
from trackbed.host.setting import HEAD
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.compare import read_view

KEY = "net/ipv4/conf/rail0/arp_ignore"
PROFILE = "/usr/lib/tuned/profiles/{}/tuned.conf"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/etc/sysctl.d/99-x.conf": "net.ipv4.conf.rail0.arp_ignore = 0\n"}, ["/etc/sysctl.d/99-x.conf sets it to 0"]),
        ({"/etc/sysctl.conf": "-net/ipv4/conf/*/arp_ignore=2\n"}, ["/etc/sysctl.conf sets it to 2"]),
        ({"/etc/sysctl.d/99-x.conf": "net.ipv4.conf.rail0.arp_ignore = 1\n"}, []),
        ({"/etc/sysctl.d/99-x.conf": "# net.ipv4.conf.rail0.arp_ignore = 0\nnet.ipv4.conf.rail1.arp_ignore = 0\n"}, []),
        ({"/etc/sysctl.d/90-trackbed.conf": f"{HEAD}net.ipv4.conf.rail0.arp_ignore = 0\n"}, []),
        (
            {"/etc/sysctl.d/a.conf": "#\n", "/usr/lib/sysctl.d/a.conf": "net.ipv4.conf.rail0.arp_ignore = 0\n"},
            [],
        ),
        (
            {
                "/etc/tuned/active_profile": "mine\n",
                "/etc/tuned/mine/tuned.conf": "[main]\ninclude=throughput\n[sysctl]\nvm.swappiness=10\n",
                PROFILE.format("throughput"): "[sysctl]\nnet.ipv4.conf.rail0.arp_ignore=0\n",
            },
            [f"tuned sets it to 0 ({PROFILE.format('throughput')})"],
        ),
        (
            {
                "/etc/tuned/active_profile": "mine\n",
                "/etc/tuned/mine/tuned.conf": "[main]\ninclude=mine\n[other]\nnet.ipv4.conf.rail0.arp_ignore=0\n",
            },
            [],
        ),
    ],
    ids=["sysctl.d", "wildcard", "as planned", "comment", "Trackbed's own", "overridden", "tuned", "a circle"],
)
def test_files_that_set_another_value_are_named(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    grow(tmp_path, files)
    assert list(find_sysctl_writers(Machine(tmp_path), KEY, "1")) == expected


def test_a_running_daemon_is_named_with_its_pid(tmp_path: Path) -> None:
    grow(tmp_path, {"/proc/812/comm": "lldpad\n", "/proc/813/comm": "sshd\n"})
    assert list(find_daemons(Machine(tmp_path), ("lldpad", "dcbd"))) == ["lldpad runs (PID 812)"]


def test_network_manager_is_named_only_for_ports_that_it_manages(place: Host) -> None:
    node = node_plan(P2P, PORTS)
    index = place.index("eth0")
    grow(place.machine.root, {f"/run/NetworkManager/devices/{index}": "[device]\nconnection-uuid=ab\n"})
    grow(place.machine.root, {f"/run/NetworkManager/devices/{place.index('eth1')}": "[device]\nmanaged=0\n"})
    view = read_view(place.machine, iter_settings(node))
    assert list(find_connection_managers(view, "rail0")) == [
        f"NetworkManager manages rail0 (/run/NetworkManager/devices/{index})"
    ]
    assert list(find_connection_managers(view, "rail1")) == []
