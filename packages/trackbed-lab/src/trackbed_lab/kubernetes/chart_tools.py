"""The programs and files with which a user installs Trackbed's chart, and the names that the chart has here."""

from dataclasses import dataclass
from pathlib import Path

from trackbed_lab.processes import run_program
from trackbed_lab.vm.lab import VmLabError

NAMESPACE = "trackbed-system"
TIMEOUT_SECONDS = 300.0
_ATTEMPTS = 6
"""Attempts to apply a file: emulated servers that have much to do may take longer than a webhook's 10 s."""
_LATE = ("in the time allotted", "context deadline exceeded")


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs and files with which a user installs the chart."""

    helm: Path
    kubectl: Path
    chart: Path
    kubeconfig: Path
    folder: Path
    """Folder for files of this run."""

    def run(self, program: Path, *arguments: str) -> str:
        """Run a program and return its output. Raises VmLabError with its errors if it fails."""
        variables = {"KUBECONFIG": str(self.kubeconfig), "HELM_CACHE_HOME": str(self.folder / "helm")}
        process = run_program([str(program), *arguments], TIMEOUT_SECONDS, VmLabError, variables=variables)
        if process.returncode:
            raise VmLabError(f"{program.name} {arguments[0]}: {process.stderr.strip()}")
        return process.stdout

    def apply(self, file: Path) -> None:
        """Apply a file with kubectl, again if a webhook responds too late. Raises VmLabError."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self.run(self.kubectl, "apply", "-f", str(file))
            except VmLabError as error:
                if attempt == _ATTEMPTS or not any(text in str(error) for text in _LATE):
                    raise
            else:
                return
