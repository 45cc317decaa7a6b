"""What a soak has counted and found, shared by its threads."""

import threading
from collections import Counter
from collections.abc import Callable

_MAX_FINDINGS = 50


class SoakRecord:
    """Counts by name, findings, and the addresses that pods hold. It is thread-safe."""

    def __init__(self, report_finding: Callable[[str], None] = lambda _: None) -> None:
        """`report_finding` is called with each finding that is kept, while a lock is held."""
        self._report_finding = report_finding
        self._lock = threading.Lock()
        self._holders: dict[tuple[str, str], str] = {}
        self.counts: Counter[str] = Counter()
        """Faults (`fault ID`), calls (`ADD`, `DEL`, `CHECK`), refusals (`ADD refused CODE`) and others."""
        self.findings: list[str] = []
        """At most _MAX_FINDINGS; the count `findings` has all."""

    def count(self, name: str) -> None:
        """Count an occurrence."""
        with self._lock:
            self.counts[name] += 1

    def report(self, finding: str) -> None:
        """Record something that must not be."""
        with self._lock:
            self._report(finding)

    def hold_addresses(self, pod: str, fabric: str, addresses: list[str]) -> None:
        """Record the addresses that a pod got; one that another pod holds is a finding."""
        with self._lock:
            for address in addresses:
                holder = self._holders.setdefault((fabric, address), pod)
                if holder != pod:
                    self._report(f"{address} was given to {pod} while {holder} held it")

    def release_addresses(self, pod: str) -> None:
        """Forget the addresses of a pod. Call it before the pod's DEL, which frees them at an unknown moment."""
        with self._lock:
            self._holders = {key: holder for key, holder in self._holders.items() if holder != pod}

    def _report(self, finding: str) -> None:
        self.counts["findings"] += 1
        if len(self.findings) < _MAX_FINDINGS:
            self.findings.append(finding)
            self._report_finding(finding)
