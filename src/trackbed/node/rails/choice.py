"""Which device of each rail a pod gets, and what the kubelet calls it.

macvlan    a place on the port: rail3-17 is the eighteenth; which one says nothing, addresses are chosen elsewhere
sriov      a VF of the port: rail3-2 is VF 2
move       the port itself: rail3
"""

from __future__ import annotations

from collections.abc import Mapping

from trackbed.node.rails.attachment import PORT_ITSELF, Attachment
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.store import ExhaustedError, Place, TakenError


def device_id(rail: int, number: int) -> str:
    """The name of one of several devices of a rail."""
    return f"rail{rail}-{number}"


def ports(rails: Mapping[int, str], taken: Mapping[Place, Attachment]) -> dict[int, int]:
    """The port of each rail itself. Raises TakenError: one is in a pod."""
    for rail in rails:
        if (holder := taken.get((rail, PORT_ITSELF))) is not None:
            raise TakenError(f"rail {rail}: the port is in pod {holder}")
    return dict.fromkeys(rails, PORT_ITSELF)


def vfs(rails: Mapping[int, str], count: int, taken: Mapping[Place, Attachment]) -> dict[int, int]:
    """A VF of each rail: the one that the kubelet gave, or where it gave none ("") the first that is free.

    Raises:
        TakenError: the VF that the kubelet gave is in another pod.
        ExhaustedError: all VFs of a rail are in pods.
    """
    return {rail: _given(rail, device, count, taken) for rail, device in rails.items()}


def _given(rail: int, device: str, count: int, taken: Mapping[Place, Attachment]) -> int:
    if not device:
        found = next((vf for vf in range(count) if (rail, vf) not in taken), None)
        if found is None:
            raise ExhaustedError(rail, count, "VFs")
        return found
    vf = _vf(rail, device, count)
    if (holder := taken.get((rail, vf))) is not None:
        raise TakenError(f"rail {rail}: VF {vf} is in pod {holder}")
    return vf


def _vf(rail: int, device: str, count: int) -> int:
    """The VF in a device's name. CniError if it has none: the kubelet gave it when the plan was another."""
    number = device.removeprefix(f"rail{rail}-")
    if not number.isdecimal() or int(number) >= count:
        message = f"rail {rail}: {device} is none of this node's {count} VFs"
        raise CniError(Code.CONFIG, message, "the plan has changed since the pod was admitted: delete the pod")
    return int(number)
