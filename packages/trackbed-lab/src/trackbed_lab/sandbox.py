"""The namespaces of a lab, which the kernel removes with everything in them when the lab ends.

    caller ── fork ── keeper                unshares user (unless root), mount, network and PID namespaces, then waits
                        └── fork ── first   PID 1 of the new PID namespace; mounts /proc and a tmpfs; runs the work

All network namespaces of the lab are pinned on that tmpfs, in that mount namespace. When `first` ends for any reason,
the kernel kills every process of its PID namespace. With the last of them the mount namespace, the pins and the network
namespaces are removed. `first` is killed with its keeper (PR_SET_PDEATHSIG), so killing either is enough.
"""

import ctypes
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from trackbed.cli.ending import StopRequest

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
"""include/uapi/linux/sched.h."""
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
"""include/uapi/linux/mount.h."""
PR_SET_PDEATHSIG = 1
"""include/uapi/linux/prctl.h."""
_KINDS = ("user", "mnt", "net", "pid")

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """This machine does not allow a lab to create namespaces; the message says what to do."""


def _call_libc(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def start_sandbox(work: Callable[[], int], folder: Path, log: Path | None = None) -> int:
    """Run `work` as PID 1 of a sandbox whose tmpfs is mounted at `folder`; return the keeper's PID without waiting.

    The keeper exits with the status of `work`. With a `log` it outlives the caller, detached from its terminal and
    pipes; without, it is killed with the caller. The calling process must have one thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    caller = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        _detach_from_caller(log) if log else _call_libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        orphaned = log is None and os.getppid() != caller  # the caller ended before the prctl call
        _run_and_exit(lambda: 1 if orphaned else _run_keeper(work, folder))
    return keeper


def _detach_from_caller(log: Path) -> None:
    """Detach from the caller's session, terminal and pipes; write output to `log`."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(null)


def _run_and_exit(body: Callable[[], int]) -> NoReturn:
    """Run the body of a forked process, then exit with its status."""
    status = 70
    try:
        status = body()
    except SandboxError as error:
        sys.stderr.write(f"trackbed: {error}\n")
        status = 2
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:
        status = 130  # as a shell reports SIGINT
    except BaseException:  # noqa: BLE001 - printed before the process exits
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run_keeper(work: Callable[[], int], folder: Path) -> int:
    """Create the namespaces, fork `first` into them and return its status; SIGINT is ignored, SIGTERM kills `first`."""
    unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)
    lifeline, parent_end = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(parent_end)
        _run_and_exit(lambda: _run_first(work, folder) if _bind_to_parent(lifeline) else 1)
    os.close(lifeline)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else lambda *_: os.kill(first, signal.SIGKILL))
    _, status = os.waitpid(first, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1


def _bind_to_parent(lifeline: int) -> bool:
    """Let the kernel kill this process with its parent, which has the other end of `lifeline`.

    Return False if the parent has ended already: then no signal comes, and the pipe is closed.
    """
    _call_libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    closed, _, _ = select.select([lifeline], [], [], 0)
    os.close(lifeline)
    return not closed


def unshare(kinds: int) -> None:
    """Move this process to new namespaces of these kinds; an unprivileged user becomes root of a user namespace.

    The process must have one thread.

    Raises:
        SandboxError: this machine does not allow it.
    """
    rootless = os.geteuid() != 0
    uid, gid = os.geteuid(), os.getegid()
    try:
        _call_libc("unshare", kinds | (CLONE_NEWUSER if rootless else 0))
        if rootless:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise SandboxError(_explain_refusal(error)) from error


def _explain_refusal(error: OSError) -> str:
    hint = "run as root, or allow user namespaces"
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        hint = "run as root, or allow it: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return f"this machine does not allow namespaces for a lab ({error.strerror}); {hint}"


def _run_first(work: Callable[[], int], folder: Path) -> int:
    """Mount /proc and the lab's tmpfs, then run the work."""
    try:
        _call_libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        _call_libc("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
        mount_tmpfs(folder, "mode=0755,size=256m")
    except OSError as error:
        raise SandboxError(f"cannot mount the lab's own /proc and files: {error.strerror}") from error
    return work()


def mount_tmpfs(folder: Path, options: str) -> None:
    """Mount a tmpfs with the options of tmpfs(5) in the sandbox of this process."""
    _call_libc("mount", b"lab", os.fsencode(folder), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode())


def run_inside(keeper: int, body: Callable[[], int]) -> int:
    """Run `body` in a child process that has joined a sandbox; return its status.

    Raises:
        OSError: the sandbox has ended.
    """
    first = find_first_process(keeper)
    namespaces = [
        os.open(f"/proc/{first}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _list_namespaces_to_join(first)
    ]
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _run_and_exit(lambda: _join_and_run(namespaces, body))
    for descriptor in namespaces:
        os.close(descriptor)
    try:
        return _wait_for_child(child)
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)  # the kernel kills its child with it
        os.waitpid(child, 0)
        raise


def _join_and_run(namespaces: list[int], body: Callable[[], int]) -> int:
    folder = Path.cwd()
    for descriptor in namespaces:
        _call_libc("setns", descriptor, 0)
    os.chdir(folder)  # joining a mount namespace changes the folder to its root
    lifeline, parent_end = os.pipe()
    worker = os.fork()  # only children are in the joined PID namespace
    if worker == 0:
        os.close(parent_end)
        _run_and_exit(lambda: body() if _bind_to_parent(lifeline) else 1)
    os.close(lifeline)
    return _wait_for_child(worker)


def _wait_for_child(child: int) -> int:
    """Return the exit status of a child, 128 plus the number of a signal that killed it. Raises StopRequest."""
    while True:
        try:
            _, status = os.waitpid(child, 0)
        except InterruptedError:
            continue
        except StopRequest:
            raise
        except KeyboardInterrupt:
            continue  # the terminal has sent SIGINT to the child too
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code


def _list_namespaces_to_join(first: int) -> list[str]:
    """Return the kinds of namespaces to join, user first, without those that this process is in already."""
    target, current = Path(f"/proc/{first}/ns"), Path("/proc/self/ns")
    return [kind for kind in _KINDS if (target / kind).stat().st_ino != (current / kind).stat().st_ino]


def find_first_process(keeper: int) -> int:
    """Return the PID of the sandbox's first process, as seen from outside. Raises ProcessLookupError."""
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text(encoding="ascii").split()
    if not children:
        raise ProcessLookupError(f"process {keeper} holds no lab any more")
    return int(children[0])
