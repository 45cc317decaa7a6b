"""A pod's namespace ends before its DEL, or in the midst of its ADD.

Only with macvlan: a port of the lab is a veth, which the kernel deletes with its namespace; a NIC's port it returns.
"""

import random

from trackbed.kernel.netlink import netns
from trackbed.node.rails.errors import Code
from trackbed_lab.soak.faults.doubled_requests import call_both
from trackbed_lab.soak.faults.fault import PodFault
from trackbed_lab.soak.pods import CniOutcome, SoakPod


def _vanish_then_delete(pod: SoakPod, chance: random.Random) -> None:
    pod.record.release_addresses(pod.name)
    netns.delete_netns(pod.netns)
    pod.delete(chance.choice([None, ""]))


def _vanish_during_add(pod: SoakPod, chance: random.Random) -> None:
    def vanish() -> CniOutcome:
        netns.delete_netns(pod.netns)
        return CniOutcome(0, "", {})

    outcome, _ = call_both(lambda: pod.call("ADD"), vanish, chance)
    if outcome.code == Code.BUG:
        pod.report(f"ADD while its namespace ended: {outcome.message}")


FAULTS = (
    PodFault("netns-vanished", delete=_vanish_then_delete, mode="macvlan"),
    PodFault("netns-vanished-during-add", add=_vanish_during_add, mode="macvlan"),
)
