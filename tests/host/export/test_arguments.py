import subprocess
from pathlib import Path

import pytest

from tests.host.export.fabrics import EVERYTHING, KERNEL, planned
from trackbed.host.export.arguments import CPUS, find_arguments, render_grub_file, render_line, render_script
from trackbed.host.kinds.arguments import IOMMU, find_iommu_arguments, split_cmdline
from trackbed.host.kinds.bootloader import GRUB_FILE, find_loader
from trackbed.host.kinds.kernel_arguments import Want
from trackbed.host.machine import Machine

pytestmark = pytest.mark.needs("processes")

INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\n"
CPUINFO = {"GenuineIntel": INTEL, "Arm": ARM} | {
    vendor: f"vendor_id\t: {vendor}\n" for vendor in ("AuthenticAMD", "HygonGenuine")
}
LOADERS = {
    "GRUB": (["etc/default/grub", "boot/grub/grub.cfg"], "update-grub", "update-grub"),
    "grubby": (["boot/loader/entries/a.conf"], "grubby", "grubby --update-kernel=ALL --args={}"),
    "kernelstub": (["etc/kernelstub/configuration"], "kernelstub", "kernelstub --add-options {}"),
}
WORDS = "default_hugepagesz=1G hugepagesz=1G hugepages=16 isolcpus=4-63 nohz_full=4-63 rcu_nocbs=4-63"
TWO_SIZES = "  kernel: {hugepages: [{size: 1G, count: 1}, {size: 2M, count: 2}]}\n"


def machine(root: Path, loader: str, cpuinfo: str) -> Machine:
    files, program, _ = LOADERS.get(loader, ([], "none", ""))
    for name in ("proc/cpuinfo", f"usr/sbin/{program}", *files):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "proc/cpuinfo").write_text(cpuinfo)
    fake = root / "usr/sbin" / program
    fake.write_text(f'#!/bin/sh\necho "{program} $*" | sed "s/ $//" >>{root}/calls\n')
    fake.chmod(0o755)
    return Machine(root)


def run(text: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run the script as if the machine's files lay below `root`."""
    for folder in ("/etc/", "/boot/", "/proc/"):
        text = text.replace(folder, f"{root}{folder}")
    path = f"{root}/usr/sbin:/usr/bin:/bin"
    command = ["/bin/sh", "-c", text]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, timeout=10, check=False)


def wanted(spec: str = EVERYTHING) -> Want:
    arguments = find_arguments(planned(spec=spec).nodes[0])
    assert arguments is not None
    return arguments


@pytest.mark.parametrize("vendor", IOMMU)
def test_each_vendors_iommu_is_switched_as_apply_does(tmp_path: Path, vendor: str) -> None:
    host = machine(tmp_path, "GRUB", CPUINFO[vendor])
    assert IOMMU[vendor] == find_iommu_arguments(host)
    assert run(render_script(wanted()), tmp_path).returncode == 0
    assert (tmp_path / GRUB_FILE.lstrip("/")).read_text() == render_grub_file(f"{' '.join(IOMMU[vendor])} {WORDS}")


@pytest.mark.parametrize("loader", LOADERS)
def test_each_boot_loader_gets_them_and_apply_finds_its_own_file(tmp_path: Path, loader: str) -> None:
    host = machine(tmp_path, loader, INTEL)
    words = render_line(wanted(), CPUS["intel"])
    for _ in range(2):
        done = run(render_script(wanted()), tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    boot_loader = find_loader(host)
    assert boot_loader is not None
    assert (boot_loader.name, boot_loader.ours) == (loader, split_cmdline(words))
    assert host.read(boot_loader.file) == (boot_loader.render(split_cmdline(words)) or "").strip()
    assert (tmp_path / "calls").read_text().splitlines() == [LOADERS[loader][2].format(words)] * 2


def test_an_argument_with_a_semicolon_is_quoted_for_grub_as_apply_does(tmp_path: Path) -> None:
    host = machine(tmp_path, "GRUB", INTEL)
    acs = "pci=config_acs=xx110x1@0000:10:00.0;xx0@0000:11:00.0"
    arguments = wanted(spec=f"  kernel: {{arguments: [nosmt, '{acs}']}}\n")
    assert run(render_script(arguments), tmp_path).returncode == 0
    text = (tmp_path / GRUB_FILE.lstrip("/")).read_text()
    assert text == render_grub_file(f"nosmt {acs}")
    loader = find_loader(host)
    assert loader is not None
    assert loader.ours == ("nosmt", acs)
    assert f"nosmt '{acs}'" in text


def test_where_no_iommu_is_wanted_nobody_asks_for_the_cpu(tmp_path: Path) -> None:
    machine(tmp_path, "GRUB", "nobody knows\n")
    without = wanted(spec=KERNEL)
    assert not without.iommu
    assert run(render_script(without), tmp_path).returncode == 0
    assert (tmp_path / GRUB_FILE.lstrip("/")).read_text() == render_grub_file(WORDS)


@pytest.mark.parametrize(
    ("loader", "cpuinfo", "spec", "message"),
    [
        ("GRUB", "nobody\n", EVERYTHING, "/proc/cpuinfo does not say whose CPU this is"),
        ("none", INTEL, EVERYTHING, f"pass by hand: intel_iommu=on iommu=pt {WORDS}"),
        ("grubby", INTEL, TWO_SIZES, "grubby cannot tell several hugepages= apart"),
    ],
    ids=["cpu", "loader", "huge pages"],
)
def test_what_cannot_be_done_is_said_and_fails(
    tmp_path: Path, loader: str, cpuinfo: str, spec: str, message: str
) -> None:
    machine(tmp_path, loader, cpuinfo)
    done = run(render_script(wanted(spec)), tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "calls").exists()


def test_a_plan_without_arguments_has_none() -> None:
    assert find_arguments(planned(spec="").nodes[0]) is None
