"""The parts of emulated servers (QEMU, kernel, tools), fetched once from Debian's archive into a cache.

    $XDG_CACHE_HOME/trackbed/vm/KEY/
        qemu/        QEMU with every library it needs, run from there
        kernel/      the kernel and its modules
        tools/       programs of the servers besides those of this machine: kmod, rdma-core, perftest, ...
        tools-NAME/  the same with a network manager
        initramfs    built here: busybox and the modules that mount the root
        made.json    versions

KEY is a hash of the required versions and of this machine's release. The folder is created atomically.

QEMU 11.1 and Linux 7.2 are both needed. With QEMU 10.0 and Linux 7.2 VFs never come up; with Linux 6.12 soft-RoCE
listens in the first network namespace only.
"""

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from trackbed_lab.vm import apt, grub, initramfs

RELEASE = "trixie"
"""The Debian release whose backports have QEMU and the kernel."""

KERNEL = "7.2.12+deb13-amd64"
"""Where the archive no longer has this kernel, the newest of the same series is used."""

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
"""Packages of this machine's own release, so that its libraries match; installed ones are not fetched."""

_QEMU = "qemu-system-x86"
_BACKPORTED = "src:qemu src:seabios src:linux"
_CACHE_VERSION = 7
"""Incremented when this module builds the parts differently."""

_LOADED = ("virtio_net", "igb", "igbvf", "rdma_rxe", "ib_uverbs", "ib_umad", "rdma_ucm")
"""Modules that servers load at each boot, besides those of the initramfs."""

SCRIPTS = {
    "update-grub": grub.UPDATE_GRUB,
    "grub-mkconfig": grub.UPDATE_GRUB,
}
"""Stand-ins for the boot loader's programs in a server."""


class PartsError(Exception):
    """The parts could not be fetched or built; the message says which, and what to do."""


class PartVersions(msgspec.Struct, frozen=True):
    """Versions of the cached parts."""

    kernel: str
    """Release of the kernel, such as 7.2.12+deb13-amd64."""
    qemu: str
    """Version of QEMU's package."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A complete cache folder."""

    folder: Path
    made: PartVersions
    tools_name: str = "tools"

    @property
    def vmlinuz(self) -> Path:
        """The kernel image."""
        return self.modules / "vmlinuz"

    @property
    def modules(self) -> Path:
        """The kernel's modules: /usr/lib/modules/RELEASE in a server."""
        return self.folder / "kernel" / "usr/lib/modules" / self.made.kernel

    @property
    def initramfs(self) -> Path:
        """The initramfs of every server."""
        return self.folder / "initramfs"

    @property
    def tools(self) -> Path:
        """The tools, which every server overlays on this machine's root."""
        return self.folder / self.tools_name

    def build_qemu_command(self) -> list[str]:
        """Return the command that starts QEMU from the folder with its own loader and libraries, without chroot."""
        root = self.folder / "qemu"
        libraries = root / "usr/lib/x86_64-linux-gnu"
        return [
            *(str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)),
            str(root / "usr/bin/qemu-system-x86_64"),
            *("-L", str(root / "usr/share/qemu"), "-L", str(root / "usr/share/seabios")),
        ]

    @property
    def qemu_modules(self) -> Path:
        """The value of QEMU_MODULE_DIR."""
        return self.folder / "qemu/usr/lib/x86_64-linux-gnu/qemu"


def locate_cache() -> Path:
    """Return the folder of all cached parts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trackbed" / "vm"


def load_parts() -> Parts | None:
    """Return the cached parts, or None."""
    folder = locate_cache() / _compute_key()
    try:
        made = msgspec.json.decode((folder / "made.json").read_bytes(), type=PartVersions)
    except (OSError, msgspec.DecodeError):
        return None
    return Parts(folder, made)


def fetch_parts(report: Callable[[str], None]) -> Parts:
    """Return the parts; fetch them if they are not cached. Raises PartsError."""
    parts = load_parts()
    if parts is not None:
        return parts
    folder = locate_cache() / _compute_key()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        parts = load_parts()
        return parts if parts is not None else _make_parts(folder, report)


def add_packages(parts: Parts, name: str, packages: Sequence[str], report: Callable[[str], None]) -> Parts:
    """Return the parts with further packages in their tools; fetch these if they are not cached. Raises PartsError."""
    if not packages:
        return parts
    added = replace(parts, tools_name=f"tools-{name}")
    with (parts.folder.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=parts.folder) as work:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if added.tools.exists():
            return added
        report(f"fetching {' '.join(packages)}")
        target = Path(work) / "target"
        try:
            _fetch_tools(apt.read_sources(), target, Path(work), (*TOOLS, *packages))
        except apt.AptError as error:
            raise PartsError(str(error)) from error
        target.rename(added.tools)
    return added


def _compute_key() -> str:
    inputs = (str(_CACHE_VERSION), RELEASE, KERNEL, apt.read_codename(), *TOOLS, initramfs.SCRIPT, *SCRIPTS.values())
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]


def _make_parts(folder: Path, report: Callable[[str], None]) -> Parts:
    """Build the parts in a temporary folder, then move it to `folder`."""
    missing = apt.find_missing_tools()
    if missing:
        raise PartsError(f"fetching the parts needs {', '.join(missing)}, of Debian; use a Debian machine")
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        target = Path(name) / "parts"
        target.mkdir()
        try:
            versions = _fetch_all_parts(target, Path(name), report)
        except apt.AptError as error:
            raise PartsError(str(error)) from error
        (target / "made.json").write_bytes(msgspec.json.encode(versions))
        shutil.rmtree(folder, ignore_errors=True)
        target.rename(folder)
    return Parts(folder, versions)


def _fetch_all_parts(target: Path, downloads: Path, report: Callable[[str], None]) -> PartVersions:
    """Fetch and build all parts below `target`; `downloads` is a temporary folder."""
    host_sources = apt.read_sources()
    mirror = apt.choose_mirror(host_sources, apt.read_codename())
    report(f"fetching QEMU, a kernel and tools from {mirror}: once, some 220 MB")
    suites = (RELEASE, f"{RELEASE}-backports")
    sources = [apt.AptSource(mirror, suite) for suite in suites]
    backports = apt.prepare_apt(
        _make_folder(downloads, "newer"), sources, fresh=True, prefer=suites[1], packages=_BACKPORTED
    )
    backports.update()
    kernel = _fetch_kernel(backports, target / "kernel", downloads, report)
    qemu = _fetch_qemu(backports, target / "qemu")
    report("fetching tools")
    _fetch_tools(host_sources, target / "tools", downloads, TOOLS)
    report("making the initramfs")
    versions = PartVersions(kernel, qemu)
    modules = Parts(target, versions).modules
    run_depmod(target / "tools", target / "kernel", kernel)
    unpack_modules(modules)
    run_depmod(target / "tools", target / "kernel", kernel)
    (target / "initramfs").write_bytes(initramfs.build_initramfs(find_program(target / "tools", "busybox"), modules))
    return versions


def unpack_modules(modules: Path) -> None:
    """Decompress the modules that every server loads and strip their signatures.

    Decompression and verification would take an emulated processor seconds at each boot.
    """
    dependencies = initramfs.parse_dependencies((modules / "modules.dep").read_text())
    for name in initramfs.order_modules(dependencies, _LOADED):
        path = modules / name
        content = initramfs.strip_signature(initramfs.decompress_module(path.read_bytes(), name))
        path.unlink()
        path.with_suffix("" if path.suffix == ".xz" else path.suffix).write_bytes(content)


def _make_folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def _fetch_kernel(fetcher: apt.Apt, target: Path, work: Path, report: Callable[[str], None]) -> str:
    """Fetch and unpack a kernel; return its release."""
    release = choose_kernel(fetcher.list_packages("linux-binary-"), KERNEL)
    if release is None:
        raise PartsError(f"{RELEASE}-backports has no kernel {KERNEL} and no other of its series")
    if release != KERNEL:
        report(f"kernel {KERNEL} is gone from the archive; taking {release}")
    for package in fetcher.fetch_without_dependencies(
        [f"linux-binary-{release}", f"linux-modules-{release}"], work / "kernel"
    ):
        apt.unpack(package, target)
    return release


def choose_kernel(names: Sequence[str], release: str) -> str | None:
    """Return `release` if there is a package linux-binary-RELEASE of it, else the newest of its series, else None.

    `names` are packages; a series is the first two numbers of a release.
    """
    pattern = re.compile(r"linux-binary-((\d+)\.(\d+)\.(\d+)\+deb\d+-amd64)")
    series = release.split(".")[:2]
    matches = [match for name in names if (match := pattern.fullmatch(name)) and [match[2], match[3]] == series]
    if any(match[1] == release for match in matches):
        return release
    return max(matches, key=lambda match: int(match[4]))[1] if matches else None


def _fetch_qemu(fetcher: apt.Apt, target: Path) -> str:
    """Fetch and unpack QEMU; return the version of its package."""
    packages = fetcher.fetch([_QEMU])
    for package in packages:
        apt.unpack(package, target)
    name = next((package.name for package in packages if package.name.startswith(f"{_QEMU}_")), None)
    if name is None:
        raise PartsError(f"{RELEASE}-backports has no {_QEMU}")
    return name.split("_")[1].replace("%3a", ":")


def _fetch_tools(sources: Sequence[apt.AptSource], target: Path, work: Path, packages: Sequence[str]) -> None:
    """Fetch and unpack packages of the servers and those that they depend on, besides those of this machine."""
    fetcher = apt.prepare_apt(_make_folder(work, "own"), sources, fresh=False)
    fetcher.update()
    for package in fetcher.fetch(packages):
        apt.unpack(package, target)
    merge_usr(target)
    for name, text in SCRIPTS.items():
        path = target / "usr/sbin" / name
        path.write_text(text)
        path.chmod(0o755)


def merge_usr(root: Path) -> None:
    """Move /bin, /sbin and /lib* below /usr, where they are symbolic links on this machine."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if (root / name).is_dir():
            shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(root / name)


def find_program(tools: Path, name: str) -> Path:
    """Return the path of a program in the tools, else on this machine. Raises PartsError."""
    candidates = (tools / "usr/bin" / name, tools / "usr/sbin" / name)
    program = next((str(path) for path in candidates if path.exists()), None) or shutil.which(name)
    if program is None:
        raise PartsError(f"neither this machine nor the fetched packages have {name}")
    return Path(program)


def run_depmod(tools: Path, base: Path, kernel: str) -> None:
    """Write modules.dep, as the installation of the kernel's package does. Raises PartsError."""
    link = tools / "depmod"
    link.symlink_to(find_program(tools, "kmod"))  # kmod runs the command that it is called as
    libraries = str(tools / "usr/lib/x86_64-linux-gnu")
    if not (base / "lib").exists():
        (base / "lib").symlink_to("usr/lib")  # older versions look only in /lib/modules
    try:
        apt.run_tool([str(link), "-b", str(base), kernel], base, LD_LIBRARY_PATH=libraries)
    except apt.AptError as error:
        raise PartsError(str(error)) from error
    finally:
        link.unlink()
