"""Signed repositories of packages, made with the programs that makers of packages use, and a root to install into."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trackbed.host.runner import ProgramResult

KEY = "/etc/trackbed/keys/maker.asc"


@contextmanager
def open_root(folder: Path) -> Iterator[Path]:
    """Yield a root folder with this machine's programs; all that is written to it is lost afterwards."""
    mounts: list[Path] = []

    def mount(kind: str, target: Path, options: str) -> None:
        target.mkdir(exist_ok=True)
        run("mount", "-t", kind, "trackbed-test", str(target), "-o", options)
        mounts.append(target)

    memory, root = folder / "memory", folder / "root"
    try:
        mount("tmpfs", memory, "size=512m")
        upper, work = memory / "upper", memory / "work"
        upper.mkdir()
        work.mkdir()
        mount("overlay", root, f"lowerdir=/,upperdir={upper},workdir={work}")
        mount("proc", root / "proc", "ro")
        mount("tmpfs", root / "dev", "size=1m")
        for name, minor in (("null", 3), ("zero", 5), ("random", 8), ("urandom", 9)):
            os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            (root / "dev" / name).chmod(0o666)  # apt verifies as user _apt
        for marker in (".dockerenv", "run/.containerenv", "run/systemd/container"):
            (root / marker).unlink(missing_ok=True)  # this machine may be a container, the root is a host
        yield root
    finally:
        for target in reversed(mounts):
            run("umount", str(target))


class RootPrograms:
    """The programs of a root folder; what was run stands in `ran`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[tuple[str, ...]] = []

    def has_program(self, program: str) -> bool:
        """Return whether the root has the program."""
        return any((self.root / folder / program).exists() for folder in ("usr/bin", "usr/sbin"))

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Run a program with the root as its root folder."""
        self.ran.append(tuple(argv))
        done = subprocess.run(
            ["chroot", str(self.root), *argv],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return ProgramResult(done.returncode, done.stdout)


def run(*argv: str, folder: Path | None = None, text: str = "") -> str:
    """Run a program; its output is returned."""
    done = subprocess.run(argv, cwd=folder, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
    return done.stdout


class Signer:
    """A key of a maker of packages."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "gnupg"
        self.home.mkdir(mode=0o700)
        self.gpg("--quick-gen-key", "--passphrase", "", "maker@example.com", "rsa2048", "sign", "never")

    def gpg(self, *words: str) -> str:
        """Run gpg with this key."""
        return run("gpg", "--homedir", str(self.home), "--batch", "--yes", "--quiet", *words)

    def export_to(self, root: Path) -> None:
        """Put the public key where the Fabric says."""
        place = root / KEY.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self.gpg("--armor", "--export", "maker@example.com"))

    def close(self) -> None:
        """End the agent that gpg has started."""
        run("gpgconf", "--homedir", str(self.home), "--kill", "all")


def build_deb(folder: Path, name: str, version: str, depends: str = "") -> None:
    """Build a package with one file."""
    tree = folder / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: maker <maker@example.com>\n"
    control += f"Depends: {depends}\n" if depends else ""
    (tree / "DEBIAN/control").write_text(f"{control}Description: a package\n")
    (tree / "usr/share/trackbed-test").mkdir(parents=True)
    (tree / f"usr/share/trackbed-test/{name}").write_text(f"{version}\n")
    run("dpkg-deb", "--build", "--root-owner-group", str(tree), str(folder / f"{name}_{version}_all.deb"))


def index_debs(folder: Path, signer: Signer) -> None:
    """Write and sign the indexes of a repository without suites (wiki.debian.org/DebianRepository/Format)."""
    entries = []
    for deb in sorted(folder.glob("*.deb")):
        raw = deb.read_bytes()
        fields = f"Filename: ./{deb.name}\nSize: {len(raw)}\nSHA256: {hashlib.sha256(raw).hexdigest()}\n"
        entries.append(run("dpkg-deb", "-f", str(deb)).rstrip("\n") + f"\n{fields}")
    packages = "\n".join(entries).encode()
    (folder / "Packages").write_bytes(packages)
    digest = hashlib.sha256(packages).hexdigest()
    date = "Sat, 01 Jan 2022 00:00:00 UTC"
    (folder / "Release").write_text(f"Date: {date}\nSHA256:\n {digest} {len(packages)} Packages\n")
    signer.gpg("--clearsign", "-o", str(folder / "InRelease"), str(folder / "Release"))


_SPEC = """\
Name: {name}
Version: {version}
Release: 1
Summary: a package
License: none
BuildArch: noarch
{requires}
%description
a package
%install
mkdir -p %{{buildroot}}/usr/share/trackbed-test
echo {version} >%{{buildroot}}/usr/share/trackbed-test/{name}
%files
/usr/share/trackbed-test/{name}
"""


def build_rpm(folder: Path, name: str, version: str, signer: Signer, requires: str = "") -> None:
    """Build and sign a package with one file."""
    spec = folder / f"{name}-{version}.spec"
    spec.write_text(_SPEC.format(name=name, version=version, requires=f"Requires: {requires}" if requires else ""))
    run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {folder}/build", "--define", f"_rpmdir {folder}", str(spec))
    rpm = folder / f"noarch/{name}-{version}-1.noarch.rpm"
    defines = ("_gpg_name maker@example.com", f"_gpg_path {signer.home}", "__gpg /usr/bin/gpg")
    run("rpmsign", *(word for define in defines for word in ("--define", define)), "--addsign", str(rpm))


def index_rpms(folder: Path) -> None:
    """Write the indexes of a dnf repository."""
    run("createrepo_c", "--quiet", str(folder))
