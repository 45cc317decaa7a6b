"""The choice of a pod's device on each rail, and the device ids that the kubelet knows.

macvlan    a place on the port: rail3-17 is the eighteenth; the number has no meaning, addresses are chosen elsewhere
sriov      a VF of the port: rail3-2 is VF 2
move       the port itself: rail3
"""

from collections.abc import Mapping

from trackbed.node.rails.attachment import PORT_ITSELF, Attachment
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.store import ExhaustedError, Slot, TakenError


def format_device_id(rail: int, number: int) -> str:
    """Return the id of one of several devices of a rail."""
    return f"rail{rail}-{number}"


def choose_ports(rails: Mapping[int, str], taken: Mapping[Slot, Attachment]) -> dict[int, int]:
    """Return PORT_ITSELF for each rail. Raises TakenError if a port is in a pod."""
    for rail in rails:
        if (holder := taken.get((rail, PORT_ITSELF))) is not None:
            raise TakenError(f"rail {rail}: the port is in pod {holder}")
    return dict.fromkeys(rails, PORT_ITSELF)


def choose_vfs(rails: Mapping[int, str], count: int, taken: Mapping[Slot, Attachment]) -> dict[int, int]:
    """Return a VF for each rail: the kubelet's choice, or where it made none ("") the first free one.

    Raises:
        TakenError: the VF that the kubelet chose is in another pod.
        ExhaustedError: all VFs of a rail are in pods.
    """
    return {rail: _choose_vf(rail, device, count, taken) for rail, device in rails.items()}


def _choose_vf(rail: int, device: str, count: int, taken: Mapping[Slot, Attachment]) -> int:
    if not device:
        free = next((vf for vf in range(count) if (rail, vf) not in taken), None)
        if free is None:
            raise ExhaustedError(rail, count, "VFs")
        return free
    vf = _parse_vf(rail, device, count)
    if (holder := taken.get((rail, vf))) is not None:
        raise TakenError(f"rail {rail}: VF {vf} is in pod {holder}")
    return vf


def _parse_vf(rail: int, device: str, count: int) -> int:
    """Return the VF in a device's id. Raises CniError where the kubelet allocated it under an earlier plan."""
    number = device.removeprefix(f"rail{rail}-")
    if not number.isdecimal() or int(number) >= count:
        message = f"rail {rail}: {device} is none of this node's {count} VFs"
        raise CniError(Code.CONFIG, message, "the plan has changed since the pod was admitted: delete the pod")
    return int(number)
