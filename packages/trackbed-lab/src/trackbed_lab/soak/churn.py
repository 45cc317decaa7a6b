"""Pods that come and go, as many a second as were asked for and the machine can do."""

import random
import threading
import time

from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.kernel.netlink import netns
from trackbed_lab.soak.faults import POD_FAULTS
from trackbed_lab.soak.faults.fault import NO_FAULT, PodFault
from trackbed_lab.soak.pods import SoakPod
from trackbed_lab.soak.site import Site, build_pod_object

PODS_A_SECOND = 20.0
WORKERS = 24
_FAULT_SHARE = 0.15
_CHECK_SHARE = 0.2
_MAX_LIFE_SECONDS = 1.0
_API_PAUSE_SECONDS = 2.0
"""Time without Pods after the API server did not answer; containers start meanwhile, as those of a static pod do."""
_END_SECONDS = 300.0
_DENIED = "denied the request"
"""Part of the message where a webhook has answered; a server that has just started refuses for reasons of its own."""
_RAIL_RESOURCE = "trackbed.dev/"


class Churn:
    """Threads that start pods and end them, until `stop`."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site = site
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._due = self._api_due = 0.0
        self._threads = [
            threading.Thread(target=self._run_pods, args=(random.Random(f"{seed}/{number}"),), daemon=True)  # noqa: S311 - to be repeated
            for number in range(WORKERS)
        ]

    def start(self) -> None:
        """Begin."""
        self._due = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the present pods end; a thread that does not end is a finding."""
        self._stopping.set()
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._site.record.report(f"a pod did not end within {_END_SECONDS:.0f} s")

    def _run_pods(self, chance: random.Random) -> None:
        while not self._stopping.wait(self._take_turn()):
            fault = chance.choice(POD_FAULTS) if chance.random() < _FAULT_SHARE else NO_FAULT
            pod = self._site.build_pod(chance, fault.mode)
            if pod is None:
                continue
            try:
                self._run_pod(pod, fault, chance)
            except Exception as error:  # noqa: BLE001 - one pod ends, the soak goes on and reports it
                pod.report(f"{type(error).__name__}: {error}")

    def _take_turn(self) -> float:
        """Return the seconds until the next pod is due."""
        with self._lock:
            now = time.monotonic()
            self._due = max(self._due, now - 1) + 1 / PODS_A_SECOND
            return max(0.0, self._due - now)

    def _run_pod(self, pod: SoakPod, fault: PodFault, chance: random.Random) -> None:
        created = self._create_object(pod)
        netns.create_netns(pod.netns)
        try:
            outcome = fault.add(pod, chance)
            if outcome is not None and outcome.code == 0:
                time.sleep(chance.uniform(0, _MAX_LIFE_SECONDS))
                if chance.random() < _CHECK_SHARE:
                    pod.check(outcome.result)
            fault.delete(pod, chance)
        finally:
            netns.delete_netns(pod.netns)
        if fault is not NO_FAULT:
            self._site.record.count(f"fault {fault.id}")
        self._site.return_rails(pod)
        if created:
            self._delete_object(pod)

    def _create_object(self, pod: SoakPod) -> bool:
        """Create the Pod on the API server, which has the webhook add its rails; return whether it exists."""
        assert self._site.api is not None  # noqa: S101 - the site is built
        if time.monotonic() < self._api_due:
            self._site.record.count("Pod without an API server")
            return False
        try:
            stored = self._site.api.create(build_pod_object(pod.name)).body
        except ApiRefusedError as error:
            self._site.record.count(f"Pod refused with {error.status}")
            if _DENIED in error.message:
                pod.report(f"the webhook refused it: {error}")
            return False
        except KubeError:
            self._api_due = time.monotonic() + _API_PAUSE_SECONDS
            self._site.record.count("Pod without an API server")
            return False
        self._site.record.count("Pod")
        if not any(name.startswith(_RAIL_RESOURCE) for name in stored["spec"]["containers"][0]["resources"]["limits"]):
            pod.report("the webhook added no rails")
        return True

    def _delete_object(self, pod: SoakPod) -> None:
        assert self._site.api is not None  # noqa: S101 - as above
        try:
            self._site.api.delete(build_pod_object(pod.name))
        except KubeError:
            self._site.record.count("Pod not deleted yet")
