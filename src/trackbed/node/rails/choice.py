"""The choice of a pod's device on each rail, and the device ids that the kubelet uses.

macvlan    a macvlan on the port: rail3-17 is the eighteenth; the number does not determine the address
sriov      a VF of the port: rail3-2 is VF 2
move       the port itself: rail3
"""

import re
from collections.abc import Mapping

from trackbed.node.rails.attachment import PORT_ITSELF, Attachment
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.store import ExhaustedError, Slot, TakenError, refuse_used_ports


def format_device_id(rail: int, device_number: int) -> str:
    """Return the kubelet's id of a device of a rail that has several."""
    return f"rail{rail}-{device_number}"


def is_device_id(device_id: str, rail: int) -> bool:
    """Return whether an id can be one of a device of this rail."""
    return re.fullmatch(rf"rail{rail}(-(0|[1-9][0-9]{{0,4}}))?", device_id) is not None


def choose_ports(rails: Mapping[int, str], used_devices: Mapping[Slot, Attachment]) -> dict[int, int]:
    """Return PORT_ITSELF for each rail. Raises TakenError if the port of a rail is in another pod."""
    refuse_used_ports(rails, used_devices)
    return dict.fromkeys(rails, PORT_ITSELF)


def choose_vfs(rails: Mapping[int, str], vf_count: int, used_devices: Mapping[Slot, Attachment]) -> dict[int, int]:
    """Return a VF for each rail: the kubelet's choice, or the first free VF if the kubelet chose none ("").

    Raises:
        TakenError: the VF that the kubelet chose is in another pod.
        ExhaustedError: all VFs of a rail are in pods.
    """
    return {rail: _choose_vf(rail, device, vf_count, used_devices) for rail, device in rails.items()}


def _choose_vf(rail: int, device_id: str, vf_count: int, used_devices: Mapping[Slot, Attachment]) -> int:
    if not device_id:
        free = next((vf for vf in range(vf_count) if (rail, vf) not in used_devices), None)
        if free is None:
            raise ExhaustedError(rail, vf_count, "VFs")
        return free
    vf = _parse_vf(rail, device_id, vf_count)
    if (holder := used_devices.get((rail, vf))) is not None:
        raise TakenError(f"rail {rail}: VF {vf} is in pod {holder}")
    return vf


def _parse_vf(rail: int, device_id: str, vf_count: int) -> int:
    """Return the VF number in a device id. Raises CniError if the id is from an earlier plan."""
    number = device_id.removeprefix(f"rail{rail}-")
    if not number.isdecimal() or int(number) >= vf_count:
        message = f"rail {rail}: {device_id} is none of this node's {vf_count} VFs"
        raise CniError(Code.CONFIG, message, "the plan has changed since the pod was admitted: delete the pod")
    return int(number)
