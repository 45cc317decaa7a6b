"""Charts by the `helm` program: only helm knows hooks, dependencies and releases of upstream charts."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass

import msgspec

from trackbed.cluster.stacks.install.steps import Install

TIMEOUT = "15m"
_SECONDS = 20 * 60
_PENDING = "another operation"
"""In helm's error for a pending release: a killed helm leaves it so, and later runs refuse to go on."""
_SHOWN_LINES = 5


class HelmError(Exception):
    """A chart could not be installed; the message has helm's own words, and what to do."""


@dataclass(frozen=True, slots=True)
class Helm:
    """Installs charts on the cluster of a kubeconfig."""

    kubeconfig: str | None = None
    context: str | None = None
    program: str = "helm"

    async def install(self, step: Install) -> None:
        """Install or upgrade a chart, with its values on standard input. Raises HelmError."""
        if shutil.which(self.program) is None:
            raise HelmError(
                f"chart {step.release} needs the program {self.program}; install it, or say --skip {step.release}"
            )
        status, errors = await self._run(step)
        if status:
            message = " / ".join(errors.decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:])
            raise HelmError(f"chart {step.release}: {message}; {_advise(message, step)}")

    async def _run(self, step: Install) -> tuple[int | None, bytes]:
        """Run helm to its end; return its exit status and standard error. It is killed on cancellation."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            self.program, *self.build_arguments(step), stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            async with asyncio.timeout(_SECONDS):
                _, errors = await process.communicate(msgspec.json.encode(step.chart.values))
        except TimeoutError as error:
            raise HelmError(f"chart {step.release}: helm did not end within {_SECONDS} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode, errors

    def build_arguments(self, step: Install) -> list[str]:
        """Return helm's arguments; the values are JSON, which is YAML too."""
        repository = step.source.repository or ""
        arguments = ["upgrade", "--install", step.release, step.reference, "--namespace", step.chart.namespace]
        arguments += ["--create-namespace", "--values", "-", "--timeout", TIMEOUT]
        arguments += ["--version", step.version] if step.version else []
        arguments += ["--repo", repository] if repository and not repository.startswith("oci:") else []
        arguments += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        return arguments + (["--kube-context", self.context] if self.context else [])


def _advise(message: str, step: Install) -> str:
    """Return what to do about helm's error."""
    where = f"{step.release} --namespace {step.chart.namespace}"
    if _PENDING in message:
        return f"helm was ended in the middle: `helm rollback {where}`, or `helm uninstall {where}` if it was the first"
    return f"`helm status {where}` says more"
