from pathlib import Path

import pytest

from tests.host.trees import AMD, ARM, INTEL, grow
from trackbed.host.kinds.arguments import (
    find_iommu_arguments,
    is_fulfilled,
    list_contradictions,
    remove_arguments,
    split_cmdline,
)
from trackbed.host.machine import Machine


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("ro quiet\n", ("ro", "quiet"), id="blanks part"),
        pytest.param('ro dyndbg="file a +p" x', ("ro", 'dyndbg="file a +p"', "x"), id="quotes keep together"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_a_command_line_is_split_as_the_kernel_does(line: str, words: tuple[str, ...]) -> None:
    assert split_cmdline(line) == words


@pytest.mark.parametrize(
    ("group", "line", "has"),
    [
        pytest.param("iommu=pt", "iommu=pt", True, id="there"),
        pytest.param("iommu=pt", "intel_iommu=on", False, id="not there"),
        pytest.param("intel_iommu=on", "intel_iommu=on,sm_on", True, id="in a list"),
        pytest.param("iommu=pt", "iommu=pt iommu=nopt", False, id="taken back later in a list"),
        pytest.param("pci=realloc", "pci=noaer pci=realloc,assign-busses", True, id="lists add up"),
        pytest.param("pci=realloc,noats", "pci=noats pci=realloc", True, id="each part of a list"),
        pytest.param("pci=realloc,noats", "pci=realloc", False, id="one part of a list"),
        pytest.param("isolcpus=4-7", "isolcpus=2 isolcpus=4-7", True, id="the last one wins"),
        pytest.param("isolcpus=4-7", "isolcpus=4-7 isolcpus=2", False, id="an earlier one does not"),
        pytest.param("nosmt", "ro nosmt", True, id="a bare word"),
        pytest.param("hugepagesz=1G hugepages=4", "hugepagesz=1G hugepages=4", True, id="huge pages"),
        pytest.param("hugepagesz=1G hugepages=4", "hugepages=4", False, id="huge pages of the default size"),
        pytest.param(
            "hugepagesz=2M hugepages=9",
            "default_hugepagesz=1G hugepagesz=2M hugepages=9 hugepagesz=1G hugepages=4",
            True,
            id="huge pages of two sizes",
        ),
    ],
)
def test_whether_a_command_line_has_an_argument(group: str, line: str, has: bool) -> None:
    assert is_fulfilled(group, split_cmdline(line)) is has


@pytest.mark.parametrize(
    ("group", "line", "wrong"),
    [
        pytest.param("intel_iommu=on", "intel_iommu=off", ("intel_iommu=off",), id="off"),
        pytest.param("intel_iommu=on", "intel_iommu=sm_on", (), id="something that adds up"),
        pytest.param("iommu=pt", "iommu=nopt", ("iommu=nopt",), id="the opposite"),
        pytest.param("isolcpus=4-7", "isolcpus=2", ("isolcpus=2",), id="another value"),
        pytest.param("isolcpus=4-7", "isolcpus=4-7", (), id="the same value"),
        pytest.param(
            "hugepagesz=1G hugepages=4", "hugepagesz=1G hugepages=8", ("hugepagesz=1G hugepages=8",), id="another count"
        ),
        pytest.param("hugepagesz=1G hugepages=4", "hugepagesz=2M hugepages=8", (), id="another size"),
    ],
)
def test_what_contradicts_an_argument(group: str, line: str, wrong: tuple[str, ...]) -> None:
    assert list_contradictions(group, split_cmdline(line)) == wrong


def test_our_arguments_are_the_last_of_their_kind() -> None:
    assert remove_arguments(("a", "b", "a", "c"), ("a", "x")) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("cpu", "words"),
    [
        pytest.param(INTEL, ("intel_iommu=on", "iommu=pt"), id="Intel"),
        pytest.param(AMD, ("iommu=pt",), id="AMD, whose IOMMU needs no argument"),
        pytest.param(ARM, ("iommu.passthrough=1",), id="Arm"),
        pytest.param("vendor_id\t: Nobody\n", None, id="unknown"),
    ],
)
def test_each_cpu_has_its_own_iommu_switch(tmp_path: Path, cpu: str, words: tuple[str, ...] | None) -> None:
    grow(tmp_path, {"/proc/cpuinfo": cpu})
    assert find_iommu_arguments(Machine(tmp_path)) == words


def test_without_cpuinfo_the_switch_is_not_known(tmp_path: Path) -> None:
    assert find_iommu_arguments(Machine(tmp_path)) is None
