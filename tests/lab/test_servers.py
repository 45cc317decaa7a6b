"""On real kernels with real disks: power cuts while apply runs, and faults that doctor must name first."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from trackbed_lab.vm import lab
from trackbed_lab.vm.channel import ChannelError, execute_command, read_boot_id
from trackbed_lab.vm.faults import FAULTS

from tests.lab import servers
from tests.lab.power import cut_power
from tests.lab.servers import ALONE, OTHER, USUAL

pytestmark = [
    pytest.mark.nightly("emulated servers take a quarter of an hour"),
    pytest.mark.timeout(7000),
]

CUTS = 20
"""They take twenty minutes."""

_READ = """
import json, pathlib, sys
files = [pathlib.Path(name) for name in sys.argv[1:]]
print(json.dumps({str(one): one.read_text() for one in files if one.exists()}))
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.VmLab]:
    yield from servers.small(tmp_path_factory.mktemp("vm"))


@pytest.mark.support("NIC driver", "igb", "ran", "emulated servers with its NICs and VFs; power cuts within apply")
@pytest.mark.support("distribution", "Debian 12", "ran", "emulated servers with the root of a machine that has it")
@pytest.mark.slow
def test_power_may_be_cut_at_any_moment_of_apply(here: lab.VmLab) -> None:
    """Each time the host boots again, has no half file, and the next apply finishes the job."""
    texts = {name: servers.place(here, text, f"{name}.yaml") for name, text in (("usual", USUAL), ("other", OTHER))}
    took = servers.both(here, lambda node: _took(here, node, texts["usual"]))
    window = min(look for look, _ in took), max(work for _, work in took)
    problems: list[str] = []
    for cut in range(CUTS // len(here.servers)):
        wanted = texts["other" if cut % 2 == 0 else "usual"]
        problems += servers.both(here, lambda node, to=wanted: _cut(here, node, to, window))
    assert [problem for problem in problems if problem] == []
    assert len(problems) == CUTS


def _took(here: lab.VmLab, node: str, fabric: str) -> tuple[float, float]:
    """How long it takes until a change can be made, and until all are."""
    began = time.monotonic()
    removals = servers.count_removals(here, node, fabric)
    looked = time.monotonic()
    servers.answer(here, node, "apply", "-f", fabric, "--removals", removals, "--yes")
    return looked - began, time.monotonic() - looked


def _cut(here: lab.VmLab, node: str, fabric: str, window: tuple[float, float]) -> str:
    """Cut the power of a server within an apply; what is wrong afterwards, if anything."""
    channel = here.find_server(node).channel
    before, delay = read_boot_id(channel), random.uniform(0.7 * window[0], window[1])  # noqa: S311 - moments, not secrets
    removals = servers.count_removals(here, node, fabric)
    applying = threading.Thread(target=_ignored, args=(here, node, fabric, removals))
    applying.start()
    applying.join(delay)
    cut_power(Path(here.folder) / node)
    applying.join(60)
    lab.wait_until_up(here, {node: before}, servers.SECONDS, lambda _: None)
    paths = sorted({*servers.files(USUAL, node), *servers.files(OTHER, node)})
    contents = json.loads(execute_command(channel, [sys.executable, "-c", _READ, *paths], 60).output)
    whole = [servers.files(text, node) for text in (USUAL, OTHER)]
    half = [path for path, text in contents.items() if text not in {files.get(path) for files in whole}]
    servers.apply_fabric(here, node, fabric)
    left = servers.answer(here, node, "diff", "-f", fabric)["changes"]
    wrong = [change["what"] for change in left if not change.get("reboot")]
    return f"cut after {delay:.1f} s: half files {half}, left {wrong}" if half or wrong else ""


def _ignored(here: lab.VmLab, node: str, fabric: str, removals: str) -> None:
    with suppress(ChannelError):  # the power goes
        servers.trackbed(here, node, "apply", "-f", fabric, "--removals", removals, "--yes")


@pytest.mark.slow
def test_each_fault_is_named_first_and_a_mended_server_is_sound(here: lab.VmLab) -> None:
    for node, text in ALONE.items():
        servers.place(here, text, f"{node}.yaml")
    servers.both(here, lambda node: servers.apply_fabric(here, node, f"/run/own/{node}.yaml"))
    servers.both(here, lambda node: lab.reboot_server(here, node, servers.SECONDS))
    ids = [fault.id for fault in FAULTS]
    halves = {"node-0": ids[::2], "node-1": ids[1::2]}
    results = servers.both(here, lambda node: _tried(here, node, halves[node]))
    trials = [trial for result in results for trial in result]
    assert [t for t in trials if t["named"] != t["id"] or t["after"] or t["wrong"]] == []
    assert len(trials) == len(ids)


def _tried(here: lab.VmLab, node: str, ids: list[str]) -> list[dict[str, str]]:
    argv = [sys.executable, "-m", "trackbed_lab.vm.faults.inside", f"/run/own/{node}.yaml", node, "try", *ids]
    done = execute_command(here.find_server(node).channel, argv, 1500)
    return [json.loads(line) for line in done.output.decode().splitlines()]


@pytest.mark.slow
def test_a_server_that_panics_is_told_with_its_last_words(here: lab.VmLab) -> None:
    channel = here.find_server("node-1").channel
    with pytest.raises(ChannelError, match="node-1 went away while sh ran"):
        execute_command(channel, ["sh", "-c", "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger"], 60)
    with pytest.raises(lab.VmLabError, match=r"(?s)crashed.*Kernel panic - not syncing: sysrq triggered crash"):
        lab.wait_until_up(here, {"node-1": "no boot has this"}, 60, print)
