"""Namespaces of a lab's own, so that nothing of it can be left behind.

    caller ── fork ── keeper                unshares user (unless root), mount, network and pid namespaces, then waits
                        └── fork ── first   pid 1 of the new pid namespace; mounts /proc and a tmpfs; does the work

All network namespaces of the lab are pinned on that tmpfs, in that mount namespace. When `first` ends, however it ends,
the kernel kills every process of its pid namespace; with the last of them go the mount namespace, the pins and the
network namespaces. `first` dies with its keeper (PR_SET_PDEATHSIG), so killing either is enough.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
"""include/uapi/linux/sched.h."""
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
"""include/uapi/linux/mount.h."""
PR_SET_PDEATHSIG = 1
"""include/uapi/linux/prctl.h."""
_KINDS = ("user", "mnt", "net", "pid")

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """This machine does not let a lab have namespaces; the message says what to do."""


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def start_sandbox(work: Callable[[], int], folder: Path, log: Path | None = None) -> int:
    """Run `work` as pid 1 of a sandbox whose tmpfs is mounted at `folder`; returns the keeper's pid at once.

    The keeper ends with the status of `work`. With a `log` it outlives the caller and keeps nothing of its terminal
    and pipes; without, it dies with the caller. Must be called from a process with one thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    caller = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        _leave(log) if log else _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        alone = log is None and os.getppid() != caller  # it died before its death could be told
        _ending(lambda: 1 if alone else _keep(work, folder))
    return keeper


def _leave(log: Path) -> None:
    """Let go of the caller's session, terminal and pipes."""
    os.setsid()
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    os.close(said)
    os.close(nothing)


def _ending(body: Callable[[], int]) -> NoReturn:
    """Run the body of a forked process: it never returns into its parent's code."""
    status = 70
    try:
        status = body()
    except SandboxError as error:
        sys.stderr.write(f"trackbed: {error}\n")
        status = 2
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        status = 130  # as a shell says it
    except BaseException:  # noqa: BLE001 - told, then the process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _keep(work: Callable[[], int], folder: Path) -> int:
    unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)
    alive, held = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(held)
        _ending(lambda: _first(work, folder) if _follows(alive) else 1)
    os.close(alive)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else lambda *_: os.kill(first, signal.SIGKILL))
    _, status = os.waitpid(first, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1


def _follows(alive: int) -> bool:
    """Die with the parent, which holds the other end of `alive`; false if it is dead already.

    The signal is for deaths to come: a parent that died before it was asked for is noticed by its end of the pipe.
    """
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    dead, _, _ = select.select([alive], [], [], 0)
    os.close(alive)
    return not dead


def unshare(kinds: int) -> None:
    """Be in new namespaces of these kinds; who is not root is root of a user namespace for them. Raises SandboxError.

    Must be called from a process with one thread.
    """
    rootless = os.geteuid() != 0
    uid, gid = os.geteuid(), os.getegid()
    try:
        _call("unshare", kinds | (CLONE_NEWUSER if rootless else 0))
        if rootless:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise SandboxError(_refusal(error)) from error


def _refusal(error: OSError) -> str:
    hint = "run as root, or allow user namespaces"
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        hint = "run as root, or allow it: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return f"this machine does not allow namespaces for a lab ({error.strerror}); {hint}"


def _first(work: Callable[[], int], folder: Path) -> int:
    try:
        _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        _call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
        _call("mount", b"lab", os.fsencode(folder), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0755,size=256m")
    except OSError as error:
        raise SandboxError(f"cannot mount the lab's own /proc and files: {error.strerror}") from error
    return work()


def run_inside(keeper: int, body: Callable[[], int]) -> int:
    """Run `body` in a child of ours that has joined a sandbox; returns its status. OSError if the sandbox is gone."""
    first = find_first(keeper)
    opened = [(kind, os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)) for kind in _kinds(first)]
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _ending(lambda: _joined(opened, body))
    for _, descriptor in opened:
        os.close(descriptor)
    return _waited(child)


def _joined(opened: list[tuple[str, int]], body: Callable[[], int]) -> int:
    here = Path.cwd()
    for _, descriptor in opened:
        _call("setns", descriptor, 0)
    os.chdir(here)  # joining a mount namespace leads to its root
    alive, held = os.pipe()
    worker = os.fork()  # a new pid namespace holds for children only
    if worker == 0:
        os.close(held)
        _ending(lambda: body() if _follows(alive) else 1)
    os.close(alive)
    return _waited(worker)


def _waited(child: int) -> int:
    while True:
        try:
            _, status = os.waitpid(child, 0)
        except InterruptedError:
            continue
        except KeyboardInterrupt:
            continue  # the terminal has told the child, too
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code


def _kinds(first: int) -> list[str]:
    """The namespaces to join, user first; one that is our own already cannot be joined."""
    theirs, ours = Path(f"/proc/{first}/ns"), Path("/proc/self/ns")
    return [kind for kind in _KINDS if (theirs / kind).stat().st_ino != (ours / kind).stat().st_ino]


def find_first(keeper: int) -> int:
    """The pid, seen from here, of the process that holds the sandbox."""
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text(encoding="ascii").split()
    if not children:
        raise ProcessLookupError(f"process {keeper} holds no lab any more")
    return int(children[0])
