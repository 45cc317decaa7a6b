"""A host with a Debian release's own programs: its sshd, Python and iproute2, fetched from Debian's archive.

    $XDG_CACHE_HOME/trackbed/debian/bullseye    the packages, unpacked and not installed (135 MB)

The host has namespaces of its own (mounts, network, processes, host name), and all of them end with its first process.
Its management port has the other end in a namespace of the caller, who reaches it there by TCP.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from trackbed_lab.vm import apt

from tests.host.places import Host, host

ADDRESS, CLIENT = "192.0.2.2", "192.0.2.1"
"""Addresses of the management port and of its other end (RFC 5737)."""

_PACKAGES = ("base-files", "base-passwd", "bash", "coreutils", "dash", "iproute2", "openssh-server", "python3")
_NETWORK = f"""
for port in eth0 eth1; do  # the kernel gives a port its queue when it is up for the first time
    nsenter --net={{near}} ip link set $port up
    nsenter --net={{near}} ip link set $port down
done
nsenter --net={{near}} ip address add {ADDRESS}/24 dev mgmt0
nsenter --net={{far}} ip address add {CLIENT}/24 dev office0
"""
_START = """
mount --make-rprivate /
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount -t sysfs -o ro sysfs {root}/sys
mount -t tmpfs tmpfs {root}/run
mkdir -p {root}/run/sshd {root}/run/systemd/system {root}/etc/network {root}/etc/systemd/system/multi-user.target.wants
ln -sf /lib/systemd/system/networking.service {root}/etc/systemd/system/multi-user.target.wants/
echo 'source /etc/network/interfaces.d/*' >{root}/etc/network/interfaces
echo trackbed-test > {root}/run/systemd/container
touch {root}/dev/null && mount --bind /dev/null {root}/dev/null
echo {name} > /proc/sys/kernel/hostname
exec chroot {root} /usr/sbin/sshd -D -e -f /etc/ssh/test_config
"""
_SSHD_CONFIG = f"""\
ListenAddress {ADDRESS}
HostKey /etc/ssh/test_key
AuthorizedKeysFile /etc/ssh/test_user.pub
StrictModes no
UsePAM no
"""
_SSH_CONFIG = f"""\
Host {{name}}
HostName {ADDRESS}
User root
IdentityFile {{folder}}/key
IdentitiesOnly yes
UserKnownHostsFile {{folder}}/known_hosts
StrictHostKeyChecking yes
LogLevel ERROR
"""


@dataclass(frozen=True)
class DebianHost:
    """A running host; its folder holds ssh_config, and fabric.yaml is the caller's to write there."""

    folder: Path
    network: Host
    sshd: subprocess.Popen[str]

    def run_trackbed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Trackbed's where the management port's other end is."""
        words = (words[0], "-f", "fabric.yaml", *words[1:], "--ssh-config", str(self.folder / "ssh_config"))
        command = ["nsenter", f"--net={self.network.far}", sys.executable, "-m", "trackbed", *words]
        return subprocess.run(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run(self, script: str) -> str:
        """Run a script by the host's own shell and programs, and return its output."""
        inside = [
            "nsenter",
            f"--net={self.network.machine.netns}",
            "chroot",
            str(self.folder / "debian"),
            "/bin/sh",
            "-c",
        ]
        done = subprocess.run([*inside, script], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout


@contextmanager
def start_debian_host(folder: Path, release: str, name: str) -> Iterator[DebianHost]:
    """A host of this release and name that answers by ssh; skips where its packages cannot be had (fails in CI)."""
    root = folder / "debian"
    shutil.copytree(_find_packages(release), root, symlinks=True)
    _write_keys(folder, root, name)
    with host(folder) as network:
        subprocess.run(
            ["sh", "-ec", _NETWORK.format(near=network.machine.netns, far=network.far)], timeout=20, check=True
        )
        namespaces = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        script = _START.format(root=root, name=name)
        sshd = subprocess.Popen(
            ["nsenter", f"--net={network.machine.netns}", *namespaces, "sh", "-ec", script],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _wait_until_it_listens(sshd)
            yield DebianHost(folder, network, sshd)
        finally:
            sshd.kill()
            sshd.communicate(timeout=20)


def _wait_until_it_listens(sshd: subprocess.Popen[str]) -> None:
    """Read what sshd says, until it listens; it is silent afterwards."""
    lines = []
    for line in sshd.stderr or ():
        lines.append(line)
        if line.startswith("Server listening"):
            return
    pytest.fail(f"no sshd of Debian: {''.join(lines)}")


def _write_keys(folder: Path, root: Path, name: str) -> None:
    for key in (folder / "key", root / "etc/ssh/test_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=20)
    shutil.copy(folder / "key.pub", root / "etc/ssh/test_user.pub")
    (root / "etc/ssh/test_config").write_text(_SSHD_CONFIG)
    (folder / "known_hosts").write_text(f"{ADDRESS} {(root / 'etc/ssh/test_key.pub').read_text()}")
    (folder / "ssh_config").write_text(_SSH_CONFIG.format(folder=folder, name=name))


def _find_packages(release: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trackbed" / "debian"
    if not (cache / release).exists():
        cache.mkdir(parents=True, exist_ok=True)
        try:
            _fetch(cache, release)
        except apt.AptError as error:
            pytest.skip(f"no packages of Debian's {release} to fetch: {error}; TRACKBED_DEBIAN_MIRROR names a mirror")
    return cache / release


def _fetch(cache: Path, release: str) -> None:
    if missing := apt.find_missing_tools():
        raise apt.AptError(f"{', '.join(missing)} not found")
    mirror = apt.choose_mirror(apt.read_sources(), apt.read_codename())
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        archive = apt.prepare_apt(Path(scratch) / "apt", [apt.AptSource(mirror, release)], fresh=True)
        archive.update()
        unpacked = Path(scratch) / "unpacked"
        for package in archive.fetch(_PACKAGES):
            apt.unpack(package, unpacked)
        for name in ("passwd", "group"):  # as base-passwd does when it is installed
            shutil.copy(unpacked / f"usr/share/base-passwd/{name}.master", unpacked / "etc" / name)
        with (unpacked / "etc/passwd").open("a") as stream:
            stream.write("sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n")
        unpacked.rename(cache / release)
