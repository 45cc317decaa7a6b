"""Charts by the `helm` program: it alone knows hooks, dependencies and releases of other people's charts."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

import msgspec

from trackbed.cluster.stacks.install.steps import Install

TIMEOUT = "15m"
_SECONDS = 20 * 60
_PENDING = "another operation"
"""What helm says where a release is pending: a helm that was killed leaves it so, and no other one goes on."""
_LAST = 5
"""Lines of helm's errors that are shown."""


class HelmError(Exception):
    """A chart could not be installed; the message has helm's own words, and what to do."""


@dataclass(frozen=True, slots=True)
class Helm:
    """Installs charts on the cluster of a kubeconfig."""

    kubeconfig: str | None = None
    context: str | None = None
    program: str = "helm"

    def install(self, step: Install) -> None:
        """Install or upgrade a chart; its values go by standard input. Raises HelmError."""
        if shutil.which(self.program) is None:
            raise HelmError(
                f"chart {step.release} needs the program {self.program}; install it, or say --skip {step.release}"
            )
        argv = [self.program, *self.words(step)]
        try:
            done = subprocess.run(  # noqa: S603 - helm, with words of ours
                argv, input=msgspec.json.encode(step.chart.values), capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise HelmError(f"chart {step.release}: helm did not end within {_SECONDS} s") from error
        if done.returncode:
            said = " / ".join(done.stderr.decode(errors="replace").strip().splitlines()[-_LAST:])
            raise HelmError(f"chart {step.release}: {said}; {_advice(said, step)}")

    def words(self, step: Install) -> list[str]:
        """Helm's words, without its name; JSON is YAML, so the values need no other form."""
        repository = step.source.repository or ""
        found = ["upgrade", "--install", step.release, step.reference, "--namespace", step.chart.namespace]
        found += ["--create-namespace", "--values", "-", "--timeout", TIMEOUT]
        found += ["--version", step.version] if step.version else []
        found += ["--repo", repository] if repository and not repository.startswith("oci:") else []
        found += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        return found + (["--kube-context", self.context] if self.context else [])


def _advice(said: str, step: Install) -> str:
    """What to do about helm's words."""
    where = f"{step.release} --namespace {step.chart.namespace}"
    if _PENDING in said:
        return f"helm was ended in the middle: `helm rollback {where}`, or `helm uninstall {where}` if it was the first"
    return f"`helm status {where}` says more"
