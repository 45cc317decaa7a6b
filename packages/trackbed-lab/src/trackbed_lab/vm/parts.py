"""What emulated servers are made of, fetched once from Debian's archive into a cache.

    $XDG_CACHE_HOME/trackbed/vm/KEY/
        qemu/        QEMU with every library it needs, run from there
        kernel/      the kernel and its modules
        tools/       programs that servers have beside those of this machine: kmod, rdma-core, perftest, ...
        initramfs    made here: busybox and the modules that mount the root
        made.json    versions

KEY is a hash of the wanted versions and of this machine's release. The folder appears whole or not at all.

QEMU 11.1 and Linux 7.2 are both needed. With QEMU 10.0 and Linux 7.2 VFs never come up; with Linux 6.12 soft-RoCE
listens in the first network namespace only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trackbed_lab.vm import apt, grub, initramfs

RELEASE = "trixie"
"""The Debian release whose backports have QEMU and the kernel."""

KERNEL = "7.2.12+deb13-amd64"
"""Archives drop old ones: where it is gone the newest of the same series is taken."""

TOOLS = (
    "systemd",
    "systemd-sysv",
    "udev",
    "dbus",
    "busybox-static",
    "kmod",
    "iproute2",
    "ethtool",
    "procps",
    "pciutils",
    "iputils-ping",
    "rdma-core",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "perftest",
    "runc",
)
"""Of this machine's own release, so that their libraries are those it has; what is installed already is left out."""

_QEMU = "qemu-system-x86"
_BACKPORTED = "src:qemu src:seabios src:linux"
_FORM = 7
"""Counted up when what is made here changes."""

_LOADED = ("virtio_net", "igb", "igbvf", "rdma_rxe", "ib_uverbs", "ib_umad", "rdma_ucm")
"""Modules that servers load at each boot, beside those of the first root."""


SCRIPTS = {
    "update-grub": grub.UPDATE_GRUB,
    "grub-mkconfig": grub.UPDATE_GRUB,
}
"""What takes the place of a boot loader's programs in a server."""


class PartsError(Exception):
    """The parts could not be put together; the message says which, and what to do."""


class PartVersions(msgspec.Struct, frozen=True):
    """What the cache holds."""

    kernel: str
    """Release of the kernel, 7.2.12+deb13-amd64."""
    qemu: str
    """Version of QEMU's package."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A whole cache folder."""

    folder: Path
    made: PartVersions

    @property
    def vmlinuz(self) -> Path:
        """The kernel."""
        return self.modules / "vmlinuz"

    @property
    def modules(self) -> Path:
        """Its modules: what is /usr/lib/modules/RELEASE in a server."""
        return self.folder / "kernel" / "usr/lib/modules" / self.made.kernel

    @property
    def initramfs(self) -> Path:
        """The first root."""
        return self.folder / "initramfs"

    @property
    def tools(self) -> Path:
        """Laid over this machine's root in every server."""
        return self.folder / "tools"

    def build_qemu_command(self) -> list[str]:
        """The words that start QEMU from the folder, without chroot: its own loader and libraries."""
        root = self.folder / "qemu"
        libraries = root / "usr/lib/x86_64-linux-gnu"
        return [
            *(str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)),
            str(root / "usr/bin/qemu-system-x86_64"),
            *("-L", str(root / "usr/share/qemu"), "-L", str(root / "usr/share/seabios")),
        ]

    @property
    def qemu_modules(self) -> Path:
        """For QEMU_MODULE_DIR."""
        return self.folder / "qemu/usr/lib/x86_64-linux-gnu/qemu"


def locate_cache() -> Path:
    """Where parts are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trackbed" / "vm"


def load_parts() -> Parts | None:
    """The parts, if they are there and whole."""
    folder = locate_cache() / _key()
    try:
        made = msgspec.json.decode((folder / "made.json").read_bytes(), type=PartVersions)
    except (OSError, msgspec.DecodeError):
        return None
    return Parts(folder, made)


def fetch_parts(say: Callable[[str], None]) -> Parts:
    """The parts, fetched if they are not there. Raises PartsError."""
    found = load_parts()
    if found is not None:
        return found
    folder = locate_cache() / _key()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = load_parts()
        return found if found is not None else _make(folder, say)


def _key() -> str:
    wanted = (str(_FORM), RELEASE, KERNEL, apt.read_codename(), *TOOLS, initramfs.SCRIPT, *SCRIPTS.values())
    return hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]


def _make(folder: Path, say: Callable[[str], None]) -> Parts:
    lacking = apt.find_missing_tools()
    if lacking:
        raise PartsError(f"fetching the parts needs {', '.join(lacking)}, of Debian; use a Debian machine")
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        fresh = Path(name) / "parts"
        fresh.mkdir()
        try:
            made = _fill(fresh, Path(name), say)
        except apt.AptError as error:
            raise PartsError(str(error)) from error
        (fresh / "made.json").write_bytes(msgspec.json.encode(made))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    return Parts(folder, made)


def _fill(fresh: Path, work: Path, say: Callable[[str], None]) -> PartVersions:
    own = apt.read_sources()
    mirror = apt.choose_mirror(own, apt.read_codename())
    say(f"fetching QEMU, a kernel and tools from {mirror}: once, some 220 MB")
    suites = (RELEASE, f"{RELEASE}-backports")
    sources = [apt.AptSource(mirror, suite) for suite in suites]
    fetcher = apt.prepare_apt(_folder(work, "newer"), sources, fresh=True, prefer=suites[1], packages=_BACKPORTED)
    fetcher.update()
    kernel = _kernel(fetcher, fresh / "kernel", work, say)
    version = _qemu(fetcher, fresh / "qemu")
    say("fetching tools")
    _tools(own, fresh / "tools", work)
    say("making the initramfs")
    made = PartVersions(kernel, version)
    modules = Parts(fresh, made).modules
    run_depmod(fresh / "tools", fresh / "kernel", kernel)
    unpack_modules(modules)
    run_depmod(fresh / "tools", fresh / "kernel", kernel)
    (fresh / "initramfs").write_bytes(initramfs.build_initramfs(find_program(fresh / "tools", "busybox"), modules))
    return made


def unpack_modules(modules: Path) -> None:
    """Unpack what every server loads, without signatures: an emulated processor takes seconds for both at each boot."""
    needs = initramfs.parse_dependencies((modules / "modules.dep").read_text())
    for name in initramfs.order_modules(needs, _LOADED):
        path = modules / name
        plain = initramfs.strip_signature(initramfs.decompress_module(path.read_bytes(), name))
        path.unlink()
        path.with_suffix("" if path.suffix == ".xz" else path.suffix).write_bytes(plain)


def _folder(work: Path, name: str) -> Path:
    (work / name).mkdir()
    return work / name


def _kernel(fetcher: apt.Apt, target: Path, work: Path, say: Callable[[str], None]) -> str:
    """Fetch and unpack a kernel; its release."""
    release = choose_kernel(fetcher.list_packages("linux-binary-"), KERNEL)
    if release is None:
        raise PartsError(f"{RELEASE}-backports has no kernel {KERNEL} and no other of its series")
    if release != KERNEL:
        say(f"kernel {KERNEL} is gone from the archive; taking {release}")
    for package in fetcher.fetch_only([f"linux-binary-{release}", f"linux-modules-{release}"], work / "kernel"):
        apt.unpack(package, target)
    return release


def choose_kernel(names: Sequence[str], wanted: str) -> str | None:
    """The wanted kernel if it is among packages linux-binary-RELEASE, else the newest with its first two numbers."""
    form = re.compile(r"linux-binary-((\d+)\.(\d+)\.(\d+)\+deb\d+-amd64)")
    found = [one for name in names if (one := form.fullmatch(name))]
    series = wanted.split(".")[:2]
    same = [one for one in found if [one[2], one[3]] == series]
    if any(one[1] == wanted for one in same):
        return wanted
    return max(same, key=lambda one: int(one[4]))[1] if same else None


def _qemu(fetcher: apt.Apt, target: Path) -> str:
    """Fetch and unpack QEMU; the version of its package."""
    packages = fetcher.fetch([_QEMU])
    for package in packages:
        apt.unpack(package, target)
    own = next((one.name for one in packages if one.name.startswith(f"{_QEMU}_")), None)
    if own is None:
        raise PartsError(f"{RELEASE}-backports has no {_QEMU}")
    return own.split("_")[1].replace("%3a", ":")


def _tools(own: Sequence[apt.AptSource], target: Path, work: Path) -> None:
    """Fetch and unpack what servers have beside this machine's own programs."""
    fetcher = apt.prepare_apt(_folder(work, "own"), own, fresh=False)
    fetcher.update()
    for package in fetcher.fetch(TOOLS):
        apt.unpack(package, target)
    merge_usr(target)
    for name, text in SCRIPTS.items():
        path = target / "usr/sbin" / name
        path.write_text(text)
        path.chmod(0o755)


def merge_usr(root: Path) -> None:
    """Move what lies in /bin, /sbin and /lib* below /usr, where these names lead on this machine too."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if (root / name).is_dir():
            shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(root / name)


def find_program(tools: Path, name: str) -> Path:
    """A program of the tools, else of this machine. Raises PartsError."""
    places = (tools / "usr/bin" / name, tools / "usr/sbin" / name)
    found = next((str(path) for path in places if path.exists()), None) or shutil.which(name)
    if found is None:
        raise PartsError(f"neither this machine nor the fetched packages have {name}")
    return Path(found)


def run_depmod(tools: Path, base: Path, kernel: str) -> None:
    """Write the modules' index, as the kernel's package does when it is installed. Raises PartsError."""
    link = tools / "depmod"
    link.symlink_to(find_program(tools, "kmod"))  # kmod is what it is called
    libraries = str(tools / "usr/lib/x86_64-linux-gnu")
    if not (base / "lib").exists():
        (base / "lib").symlink_to("usr/lib")  # older ones know no other place
    try:
        apt.run_tool([str(link), "-b", str(base), kernel], base, LD_LIBRARY_PATH=libraries)
    except apt.AptError as error:
        raise PartsError(str(error)) from error
    finally:
        link.unlink()
