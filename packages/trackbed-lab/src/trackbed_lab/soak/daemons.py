"""The programs under test: each has a log and a clock of its own, and is killed and started again."""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 20.0


@dataclass
class Daemon:
    """A program under test."""

    name: str
    argv: list[str]
    folder: Path
    """Folder of NAME.log and NAME.clock."""
    clock_library: Path
    """libfaketime, which lets the program read its time of day with the offset in NAME.clock."""
    expendable: bool
    """Whether it may be killed."""
    process: "subprocess.Popen[bytes] | None" = None
    stopped: bool = True
    """Whether it was stopped or killed on purpose."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def log(self) -> Path:
        """The file of its output."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Its process, 0 while it does not run."""
        return self.process.pid if self.process is not None and self.process.poll() is None else 0

    @property
    def has_died(self) -> bool:
        """Whether it has ended although nobody stopped it."""
        return not self.stopped and not self.pid

    def start(self) -> None:
        """Start the program unless it runs."""
        with self._lock:
            if self.pid:
                return
            self.set_clock("+0")
            with self.log.open("ab") as log:
                self.stopped = False
                self.process = subprocess.Popen(  # noqa: S603 - Trackbed itself
                    self.argv,
                    env=self.build_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def build_environment(self) -> dict[str, str]:
        """Return the environment in which the program reads the clock that `set_clock` sets."""
        return {
            **os.environ,
            "LD_PRELOAD": str(self.clock_library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # the kernel's monotonic clock never jumps
            "NO_FAKE_STAT": "1",
        }

    def set_clock(self, offset: str) -> None:
        """Let its time of day differ from this machine's: +0, +2h, -30s."""
        temporary = self._clock.with_suffix(".new")
        temporary.write_text(f"{offset}\n")
        temporary.replace(self._clock)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end, SIGKILL after STOP_SECONDS; return the exit status."""
        with self._lock:
            if self.process is None:
                return 0
            self.stopped = True
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            try:
                return self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                return self.process.wait()

    def read_log_end(self, lines: int = 3) -> str:
        """Return the last lines of its log."""
        text = self.log.read_text(errors="replace").strip() if self.log.exists() else ""
        return " / ".join(text.splitlines()[-lines:]) or "its log is empty"

    @property
    def _clock(self) -> Path:
        return self.folder / f"{self.name}.clock"
