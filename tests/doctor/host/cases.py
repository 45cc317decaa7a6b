"""The faults of a host that the tests of each step put into a sound view, in one form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.doctor.host import (
    sound_metal,
    sound_names,
    sound_rdma,
    sound_vfs,
    test_addresses,
    test_bios,
    test_cmdline,
    test_drivers,
    test_firmware,
    test_kubelet,
    test_limits,
    test_names,
    test_qos,
    test_rdma,
    test_runtime,
    test_vfs,
)
from tests.doctor.host.changing import change_host
from tests.doctor.host.sound_services import build_services_view, change_files
from trackbed.doctor.view import NodeView


class Case(NamedTuple):
    """A fault, a view without it, and the same view with it."""

    fault_id: str
    sound: NodeView
    faulty: NodeView


def iter_cases() -> Iterator[Case]:
    """Yield the cases of all steps."""
    for table in (test_bios.FAULTS, test_cmdline.FAULTS, test_drivers.FAULTS, test_firmware.FAULTS):
        for fault_id, _, alter in table:
            faulty = sound_metal.build_metal_view(alter(sound_metal.build_metal()))
            yield Case(fault_id, sound_metal.build_metal_view(), faulty)
    for faults, build in (
        (test_names.FAULTS, build_names),
        (test_rdma.FAULTS, build_rdma),
        (test_vfs.FAULTS, build_vfs),
    ):
        yield from (Case(fault_id, build(), change(build())) for fault_id, change in faults)
    services = (*test_runtime.FAULTS.values(), *test_kubelet.FAULTS.values())
    yield from (Case(fault_id, build_services_view(), change(build_services_view())) for fault_id, change in services)
    for fault_id, change in test_qos.FAULTS.values():
        yield Case(fault_id, test_qos.build_view(), change(test_qos.build_view()))
    for fault_id, files in test_limits.FAULTS.values():
        yield Case(fault_id, build_services_view(), build_services_view(change_files(files)))
    for fault_id, texts in test_addresses.FAULTS.values():
        sound = test_addresses.build_view()
        yield Case(fault_id, sound, change_host(files=texts)(sound))


def build_names() -> NodeView:
    """Return the sound view of step names."""
    return sound_names.build_view(sound_names.compute_names_plan().nodes[0])


def build_rdma() -> NodeView:
    """Return the sound view of step rdma."""
    return sound_rdma.build_view(sound_rdma.compute_rdma_plan().nodes[0])


def build_vfs() -> NodeView:
    """Return the sound view of step vfs."""
    return sound_vfs.build_view(sound_vfs.compute_vfs_plan().nodes[0])
