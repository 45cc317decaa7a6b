import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host.places import PORTS, Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import AMD, BLS, GRUB_DEFAULT, INTEL, everything_below, grow, grub_host, reboot, with_programs
from trackbed.host.change import Change, FileWrite
from trackbed.host.kinds.bootloader import GRUB_FILE, OTHER_FILE
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyError, apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.host.transaction.record import load_record, save_record

STEP = {"cmdline"}


def wanted(kernel: str = "{iommu: passthrough}") -> tuple[Setting, ...]:
    return iter_settings(node_plan(P2P, PORTS, spec=f"  kernel: {kernel}\n"), STEP)


def only(place: Host, kernel: str = "{iommu: passthrough}") -> Change:
    (change,) = compare(place.machine, wanted(kernel)).changes
    return change


@pytest.mark.support(
    "boot loader", "GRUB", "modelled", "its files read by a shell, grub.cfg rendered: apply, reboot, undo"
)
def test_arguments_are_written_for_the_boot_loader_and_stand_after_the_reboot(place: Host) -> None:
    host, runner = grub_host(place)
    done = apply(host.machine, wanted(), host.records)
    assert runner.ran == ["update-grub"]
    assert 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT intel_iommu=on iommu=pt"' in (
        host.machine.locate(GRUB_FILE).read_text()
    )
    (left,) = done.remaining.changes
    assert (left.reboot, left.have, left.operations) == (True, "set for the next boot, not yet now", ())
    assert left.advice == "reboot this host; GRUB will pass intel_iommu=on iommu=pt then"
    reboot(host.machine.root)
    assert compare(host.machine, wanted()).changes == ()
    assert "quiet splash intel_iommu=on iommu=pt" in host.machine.locate("/proc/cmdline").read_text()


def test_a_second_apply_runs_nothing(place: Host) -> None:
    host, runner = grub_host(place)
    apply(host.machine, wanted(), host.records)
    before = everything_below(host.machine.root)
    assert apply(host.machine, wanted(), host.records).changes == ()
    assert (runner.ran, everything_below(host.machine.root)) == (["update-grub"], before)


def test_undo_takes_our_arguments_away_again(place: Host) -> None:
    host, runner = grub_host(place)
    before = everything_below(host.machine.root)
    apply(host.machine, wanted(), host.records)
    assert everything_below(host.machine.root) != before
    assert undo(host.machine, host.records) == ()
    assert everything_below(host.machine.root) == before
    assert runner.ran == ["update-grub", "update-grub"]


def test_undo_after_the_reboot_takes_them_away_for_the_next(place: Host) -> None:
    host, runner = grub_host(place)
    before = everything_below(host.machine.root)
    apply(host.machine, wanted(), host.records)
    record = load_record(host.records)
    assert record is not None
    save_record(host.records, record._replace(boot="another boot"))
    assert undo(host.machine, host.records) == ()
    assert (everything_below(host.machine.root), len(runner.ran)) == (before, 2)


def test_what_is_to_be_done_is_shown_before(place: Host) -> None:
    host, runner = grub_host(place, cpu=AMD)
    change = only(host)
    assert (change.have, change.want) == ("lacks iommu=pt", "iommu=pt")
    assert change.advice == "apply runs: update-grub"
    assert runner.ran == []


def test_only_what_the_owner_has_not_set_already_is_added(place: Host) -> None:
    host, _ = grub_host(place, GRUB_DEFAULT.replace("quiet", "intel_iommu=on"))
    apply(host.machine, wanted(), host.records)
    assert 'DEFAULT iommu=pt"' in host.machine.locate(GRUB_FILE).read_text()


def test_an_argument_of_the_owner_that_says_otherwise_is_told_with_its_place(place: Host) -> None:
    host, runner = grub_host(place, GRUB_DEFAULT.replace("quiet", "intel_iommu=off"))
    change = only(host)
    assert change.have == "intel_iommu=off"
    assert "set by the owner of this machine, in /etc/default/grub:2; take it out there" in change.advice
    assert apply(host.machine, wanted(), host.records).changes == ()
    assert (runner.ran, host.machine.locate(GRUB_FILE).exists()) == ([], False)


def test_an_argument_that_was_only_typed_at_boot_is_shown_as_gone_with_the_next(place: Host) -> None:
    host, _ = grub_host(place)
    grow(host.machine.root, {"/proc/cmdline": "root=UUID=3f5a ro intel_iommu=on iommu=pt"})
    assert only(host).have == "lacks intel_iommu=on iommu=pt at the next boot"


def test_a_drop_in_that_update_grub_has_not_read_yet_is_read(place: Host) -> None:
    host, runner = grub_host(place)
    apply(host.machine, wanted(), host.records)
    grow(host.machine.root, {"/boot/grub/grub.cfg": "menuentry 'x' {\n\tlinux /vmlinuz ro\n}\n"})
    assert only(host).advice == "apply runs: update-grub"
    apply(host.machine, wanted(), host.records)
    assert runner.ran == ["update-grub"] * 2


def test_without_update_grub_the_command_is_told(place: Host) -> None:
    host, _ = grub_host(place)
    bare = Host(replace(host.machine, runner=None), host.far)
    (left,) = apply(bare.machine, wanted(), bare.records).remaining.changes
    assert bare.machine.locate(GRUB_FILE).is_file()
    assert left.advice == "run on this host, then apply again: update-grub"


def test_where_the_boot_loaders_program_fails_everything_is_put_back(place: Host) -> None:
    host, _ = grub_host(place)
    before = everything_below(host.machine.root)
    messages: list[str | None] = ["no space left", None]
    broken, _ = with_programs(host, update_grub=lambda _: messages.pop(0))
    with pytest.raises(ApplyError, match=r"update-grub failed with status 1: no space left; everything was put back"):
        apply(broken.machine, wanted(), host.records)
    assert everything_below(host.machine.root) == before


def test_another_plan_changes_our_arguments_and_none_takes_them_away(place: Host) -> None:
    host, _ = grub_host(place)
    apply(host.machine, wanted("{arguments: [nosmt, pci=realloc]}"), host.records)
    apply(host.machine, wanted("{arguments: [pci=realloc]}"), host.records)
    assert 'DEFAULT pci=realloc"' in host.machine.locate(GRUB_FILE).read_text()
    nothing = iter_settings(node_plan(P2P, PORTS))
    assert "old kernel arguments" in [change.subject for change in compare(host.machine, nothing).changes]
    apply(host.machine, nothing, host.records)
    assert not host.machine.locate(GRUB_FILE).exists()
    assert "pci=realloc" not in host.machine.locate("/boot/grub/grub.cfg").read_text()


ACS = "pci=config_acs=xx110x1@0000:10:00.0;xx0@0000:11:00.0"


def test_an_argument_with_a_semicolon_is_quoted_for_grub_and_stands_after_the_reboot(place: Host) -> None:
    host, runner = grub_host(place)
    settings = wanted(f"{{arguments: [nosmt, '{ACS}']}}")
    apply(host.machine, settings, host.records)
    assert f"DEFAULT nosmt '{ACS}'\"\n" in host.machine.locate(GRUB_FILE).read_text()
    assert f"nosmt '{ACS}'\n" in host.machine.locate("/boot/grub/grub.cfg").read_text()
    reboot(host.machine.root)
    grow(host.machine.root, {"/proc/cmdline": f"root=UUID=3f5a ro quiet splash nosmt {ACS}"})
    assert compare(host.machine, settings).changes == ()
    assert runner.ran == ["update-grub"]


def test_an_argument_that_another_program_quoted_for_grub_is_not_added_again(place: Host) -> None:
    quoted = ACS.replace("acs=", 'acs=\\"') + '\\"'
    host, _ = grub_host(place, GRUB_DEFAULT.replace("quiet", quoted))
    apply(host.machine, wanted(f"{{arguments: ['{ACS}']}}"), host.records)
    assert not host.machine.locate(GRUB_FILE).exists()


def test_an_argument_with_a_semicolon_is_left_to_a_person_where_grubby_writes_entries(place: Host) -> None:
    host, ran = bls_host(place)
    change = only(host, f"{{arguments: ['{ACS}']}}")
    assert "grubby writes ';' without the quotes" in change.advice
    assert (change.operations, ran) == ((), [])


def test_huge_pages_and_cpus_are_said_as_the_kernel_reads_them(place: Host) -> None:
    host, _ = grub_host(place)
    grow(host.machine.root, {"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n"})
    kernel = "{hugepages: [{size: 1G, count: 16}], isolatedCpus: 4-63}"
    apply(host.machine, wanted(kernel), host.records)
    assert (
        "default_hugepagesz=1G hugepagesz=1G hugepages=16 isolcpus=4-63 nohz_full=4-63 rcu_nocbs=4-63"
        in host.machine.locate("/boot/grub/grub.cfg").read_text()
    )
    reboot(host.machine.root)
    grow(host.machine.root, {"/proc/meminfo": "MemTotal:       16384000 kB\n"})
    change = only(host, kernel)
    assert (change.subject, change.have, change.want) == ("huge pages of 1048576 KiB", "0", "16")
    assert "could not set aside more at boot (MemTotal is 16384000 KiB)" in change.advice


def test_more_huge_pages_than_the_kernel_was_started_with_wait_for_a_reboot(place: Host) -> None:
    host, _ = grub_host(place)
    apply(host.machine, wanted("{hugepages: [{size: 2M, count: 8}]}"), host.records)
    reboot(host.machine.root)
    grow(host.machine.root, {"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "8\n"})
    settings = wanted("{hugepages: [{size: 2M, count: 16}]}")
    apply(host.machine, settings, host.records)
    changes = compare(host.machine, settings).changes
    assert [(change.subject, change.reboot) for change in changes] == [
        ("kernel arguments", True),
        ("huge pages of 2048 KiB", True),
    ]


def test_a_cut_between_our_file_and_the_boot_loader_is_mended_by_the_next_apply(place: Host) -> None:
    host, _ = grub_host(place)
    apply(host.machine, wanted("{hugepages: [{size: 2M, count: 16}]}"), host.records)
    ours = host.machine.locate(GRUB_FILE)
    ours.write_text(ours.read_text().replace("hugepages=16", "hugepages=8"))
    fewer = wanted("{hugepages: [{size: 2M, count: 8}]}")
    apply(host.machine, fewer, host.records)
    assert "hugepages=8" in host.machine.locate("/boot/grub/grub.cfg").read_text()
    assert [change.reboot for change in compare(host.machine, fewer).changes] == [True]


def bls_host(place: Host) -> tuple[Host, list[str]]:
    root, entry = place.machine.root, "/boot/loader/entries/3f5a-5.14.0-503.conf"
    grow(root, {entry: BLS, "/proc/cpuinfo": INTEL, "/proc/cmdline": "ro", "/etc/default/grub": GRUB_DEFAULT})
    grow(root, {"/boot/loader/entries/3f5a-0-rescue.conf": BLS, "/boot/grub2/grubenv": "# GRUB Environment Block\n"})

    def grubby(argv: Sequence[str]) -> None:
        place, (key, _, value) = root / entry.lstrip("/"), argv[1].partition("=")
        text = place.read_text()
        for word in value.split():
            text = (
                text.replace(f" {word}", "")
                if key == "--remove-args"
                else text.replace(" $tuned_p", f" {word} $tuned_p")
            )
        place.write_text(text)

    host, runner = with_programs(place, grubby=grubby)
    return host, runner.ran


@pytest.mark.support(
    "boot loader", "GRUB with BLS", "modelled", "a double of grubby that edits BLS entries: apply, undo"
)
@pytest.mark.support("distribution", "RHEL 9", "modelled", "kernel arguments: its boot entries and a double of grubby")
def test_grubby_is_told_and_untold_where_the_loader_has_entries(place: Host) -> None:
    host, ran = bls_host(place)
    before = everything_below(host.machine.root)
    (left,) = apply(host.machine, wanted(), host.records).remaining.changes
    assert left.reboot
    assert ran == ["grubby --update-kernel=ALL --args=intel_iommu=on iommu=pt"]
    assert "intel_iommu=on iommu=pt" in host.machine.locate(OTHER_FILE).read_text()
    assert undo(host.machine, host.records) == ()
    assert ran[1:] == ["grubby --update-kernel=ALL --remove-args=intel_iommu=on iommu=pt"]
    assert everything_below(host.machine.root) == before


def test_grubbys_command_is_told_where_it_cannot_be_run(place: Host) -> None:
    host, _ = bls_host(place)
    change = only(Host(replace(host.machine, runner=None), host.far))
    assert change.advice.endswith("grubby --update-kernel=ALL --args=intel_iommu=on iommu=pt")
    assert change.operations == ()


def test_huge_pages_of_two_sizes_are_left_to_a_person_where_grubby_would_mix_them_up(place: Host) -> None:
    host, ran = bls_host(place)
    grow(host.machine.root, {"/boot/loader/entries/3f5a-5.14.0-503.conf": BLS.replace("ro ", "ro hugepages=64 ")})
    changes = compare(host.machine, wanted("{hugepages: [{size: 1G, count: 4}]}")).changes
    assert "grubby cannot tell several hugepages= apart" in changes[0].advice
    assert (changes[0].operations, ran) == ((), [])


@pytest.mark.support(
    "boot loader", "systemd-boot", "modelled", "kernelstub: its configuration is read, its command shown"
)
def test_kernelstub_is_told(place: Host) -> None:
    grow(
        place.machine.root,
        {
            "/etc/kernelstub/configuration": '{"user": {"kernel_options": ["quiet", "iommu=pt"]}}',
            "/proc/cpuinfo": INTEL,
            "/proc/cmdline": "quiet iommu=pt",
        },
    )
    host, _ = with_programs(place, kernelstub=lambda _: None)
    assert only(host).advice == "apply runs: kernelstub --add-options intel_iommu=on"


@pytest.mark.support("boot loader", "systemd-boot", "refused", "add them to /etc/kernel/cmdline, and write the entries")
@pytest.mark.support("boot loader", "others", "refused", "named (ostree, extlinux, zipl, GRUB of SUSE), with advice")
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "a boot loader that Trackbed does not know, which Trackbed does not configure"),
        ({"/boot/efi/EFI/systemd/systemd-bootx64.efi": ""}, "by systemd-boot, .* add them to /etc/kernel/cmdline"),
        ({"/run/ostree-booted": "", "/boot/loader/entries/ostree-1.conf": BLS}, "by ostree, .* run rpm-ostree kargs"),
        ({"/boot/extlinux/extlinux.conf": ""}, "by extlinux"),
        ({"/etc/zipl.conf": ""}, "by zipl"),
        ({"/etc/default/grub": GRUB_DEFAULT}, "by GRUB without /etc/default/grub.d, .* grub2-mkconfig"),
        (
            {"/etc/default/grub": GRUB_DEFAULT, "/etc/default/grub.d/x.cfg": "", "/usr/sbin/grub2-mkconfig": "#! sh"},
            "by GRUB without /etc/default/grub.d",
        ),
    ],
    ids=["unknown", "systemd-boot", "ostree", "extlinux", "zipl", "suse", "folder-that-grub-does-not-read"],
)
def test_another_boot_loader_is_named_with_what_to_pass_and_where(
    place: Host, files: dict[str, str], message: str
) -> None:
    grow(place.machine.root, {"/proc/cmdline": "ro", "/proc/cpuinfo": INTEL} | files)
    change = only(place)
    assert (change.operations, change.have) == ((), "lacks intel_iommu=on iommu=pt")
    assert re.search(message, change.advice)
    assert "does not configure: intel_iommu=on iommu=pt; " in change.advice
    grow(place.machine.root, {"/proc/cmdline": "ro intel_iommu=on iommu=pt"})
    assert compare(place.machine, wanted()).changes == ()


def test_grub_whose_script_reads_drop_ins_gets_one_whatever_folders_there_are(place: Host) -> None:
    script = "for x in ${sysconfdir}/default/grub.d/*.cfg ; do\n"
    files = {"/etc/default/grub": GRUB_DEFAULT, "/usr/sbin/grub-mkconfig": script, "/proc/cmdline": "ro"}
    grow(place.machine.root, files | {"/proc/cpuinfo": INTEL})
    assert [operation.path for operation in only(place).operations if isinstance(operation, FileWrite)] == [GRUB_FILE]


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        pytest.param(Machine(Path("/"), Path("/proc/self/ns/net")), "network namespace of a host", id="namespace"),
        pytest.param(None, "this is a container", id="container"),
    ],
)
def test_a_machine_without_a_kernel_of_its_own_is_skipped(place: Host, machine: Machine | None, reason: str) -> None:
    if machine is None:
        grub_host(place)
        grow(place.machine.root, {"/.dockerenv": ""})
    (skipped,) = compare(machine or place.machine, wanted()).skipped
    assert reason in skipped.reason


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from tests.host.kinds.test_cmdline import wanted
from tests.host.trees import Scripted
from trackbed.host.transaction.apply import apply
from trackbed.host.machine import Machine

runner = Scripted({"update-grub": lambda _: os.kill(os.getpid(), signal.SIGKILL)})
apply(Machine(Path(sys.argv[1]), Path(sys.argv[2]), runner), wanted(), Path(sys.argv[3]))
"""


def test_a_kill_before_the_boot_loader_was_told_is_finished_by_the_next_apply_and_undone(place: Host) -> None:
    host, runner = grub_host(place)
    before = everything_below(host.machine.root)
    arguments = [str(host.machine.root), str(host.machine.netns), str(host.records)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3], timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert host.machine.locate(GRUB_FILE).is_file()
    (left,) = apply(host.machine, wanted(), host.records).remaining.changes
    assert left.reboot
    assert undo(host.machine, host.records) == ()
    assert everything_below(host.machine.root) == before
    assert runner.ran == ["update-grub"] * 2
