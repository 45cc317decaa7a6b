"""Installation of charts by the `helm` program, which manages their hooks, dependencies and releases."""

import asyncio
import shutil
from dataclasses import dataclass

import msgspec

from trackbed.cluster.stacks.install.steps import InstallChart

TIMEOUT = "15m"
"""Value of helm's option --timeout."""
_TIMEOUT_SECONDS = 20 * 60
"""Time after which helm is terminated."""
_GRACE_SECONDS = 10.0
"""Time for a terminated helm to record that its release has failed; a killed helm leaves it pending."""
_PENDING_TEXT = "another operation"
"""Part of helm's error message about a pending release, which a killed helm leaves behind."""
_SHOWN_LINES = 5


class HelmError(Exception):
    """A chart could not be installed; the message contains helm's error and a remedy."""


@dataclass(frozen=True, slots=True)
class Helm:
    """Installs charts by `program` on the cluster of a kubeconfig."""

    kubeconfig: str | None = None
    context: str | None = None
    program: str = "helm"

    async def install(self, step: InstallChart) -> None:
        """Install or upgrade the chart of a step. Raises HelmError."""
        if shutil.which(self.program) is None:
            raise HelmError(
                f"chart {step.release_name} needs the program {self.program}; install it, "
                f"or say --skip {step.release_name}"
            )
        status, errors = await self._run_helm(step)
        if status:
            message = " / ".join(errors.decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:])
            raise HelmError(f"chart {step.release_name}: {message}; {_suggest_remedy(message, step)}")

    async def _run_helm(self, step: InstallChart) -> tuple[int | None, bytes]:
        """Run helm for a step; return its exit status and standard error. Cancellation terminates helm.

        Raises HelmError after the time limit.
        """
        process = await self._start_helm(step)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                _, errors = await process.communicate(msgspec.json.encode(step.chart.values))
        except TimeoutError as error:
            raise HelmError(f"chart {step.release_name}: helm did not end within {_TIMEOUT_SECONDS} s") from error
        finally:
            if process.returncode is None:
                await _terminate_process(process)
        return process.returncode, errors

    async def _start_helm(self, step: InstallChart) -> asyncio.subprocess.Process:
        """Start helm. asyncio kills a program whose start is cancelled, so it is started in full, then terminated."""
        pipe = asyncio.subprocess.PIPE
        arguments = self.build_arguments(step)
        start = asyncio.create_subprocess_exec(self.program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        task = asyncio.create_task(start)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await _terminate_process(await task)
            raise

    def build_arguments(self, step: InstallChart) -> list[str]:
        """Return helm's arguments for a step. Helm reads the chart's values from standard input."""
        repository = step.source.repository or ""
        arguments = [
            "upgrade",
            "--install",
            step.release_name,
            step.chart_reference,
            "--namespace",
            step.chart.namespace,
        ]
        arguments += ["--create-namespace", "--values", "-", "--timeout", TIMEOUT]
        arguments += ["--version", step.version] if step.version else []
        arguments += ["--repo", repository] if repository and not repository.startswith("oci:") else []
        arguments += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        return arguments + (["--kube-context", self.context] if self.context else [])


async def _terminate_process(process: asyncio.subprocess.Process) -> None:
    """Terminate a process, and kill it after _GRACE_SECONDS."""
    process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _suggest_remedy(message: str, step: InstallChart) -> str:
    where = f"{step.release_name} --namespace {step.chart.namespace}"
    if _PENDING_TEXT in message:
        return f"helm was ended in the middle: `helm rollback {where}`, or `helm uninstall {where}` if it was the first"
    return f"`helm status {where}` says more"
