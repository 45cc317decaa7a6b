"""A site of simulated hosts, in one process and its children: `unshare -m python ground.py FOLDER HOSTS PORT SSHD`.

Each host is an address of loopback (127.77.H.L), a network namespace with two ports, and a tree with its files.
One real sshd answers at all addresses; what it starts is moved to the host of the address. Mounts and namespaces
lie in a mount namespace of their own, so that everything is gone with this process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link, list_links
from trackbed.kernel.netlink.sockets import Socket

LOGIN = """\
#!/bin/sh
# What sshd starts for every connection: the command that was asked for, on the host of the address it came to.
set -- $SSH_CONNECTION
host={folder}/hosts/$3
export TRACKBED_ROOT=$host/root
[ -e "$host/net" ] || exec sh -c "$SSH_ORIGINAL_COMMAND"
[ -x "$host/instead" ] && exec "$host/instead"
exec nsenter --net="$host/net" sh -c "$SSH_ORIGINAL_COMMAND"
"""

SSHD = """\
Port {port}
ListenAddress 0.0.0.0
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
PrintLastLog no
LogLevel ERROR
MaxStartups 1000
MaxSessions 1000
UseDNS no
ForceCommand {folder}/login
Subsystem sftp internal-sftp
"""


def mac(number: int, rail: int) -> str:
    """The MAC of a host's port."""
    return f"02:77:00:{number >> 8:02x}:{number & 255:02x}:{rail:02x}"


def address(number: int) -> str:
    """Where a host answers; the gateways have the numbers from 0xff00 on."""
    return f"127.77.{number >> 8}.{number & 255}"


def _host(folder: Path, number: int) -> None:
    place = folder / "hosts" / address(number)
    for part in ("root/etc/systemd", "root/var/lib/trackbed", "root/proc/sys/kernel/random"):
        (place / part).mkdir(parents=True)
    for netplan in ("usr/lib/systemd/system-generators/netplan", "etc/netplan/50-cloud-init.yaml"):
        (place / "root" / netplan).parent.mkdir(parents=True, exist_ok=True)
        (place / "root" / netplan).write_text("")
    (place / "root/.dockerenv").touch()
    (place / "root/proc/sys/kernel/random/boot_id").write_text(f"boot-of-{number}\n")
    netns.create_netns(place / "net")
    with Socket(netns=place / "net") as sock:
        for rail in range(2):
            sock.send([build_create_veth(VethEnd(f"eth{rail}", mac=mac(number, rail)), VethEnd(f"leaf{rail}"))])
        far = [link for link in list_links(sock) if not link.name.startswith("eth")]
        sock.send([build_set_link(link.index, up=True) for link in far])


def main() -> None:
    """Make everything, then be sshd."""
    folder, hosts, port, sshd = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.system("mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd")  # noqa: S605 - in our own mount namespace
    passwd = folder / "passwd"
    passwd.write_text(f"root:x:0:0:root:{folder}:/bin/sh\nsshd:x:999:65534::/run/sshd:/usr/sbin/nologin\n")
    os.system(f"mount --bind {passwd} /etc/passwd")  # noqa: S605 - as above
    for number in range(1, hosts + 1):
        _host(folder, number)
    full = folder / "hosts" / "full"
    if full.exists():
        where = folder / "hosts" / full.read_text() / "root/var/lib/trackbed"
        os.system(f"mount -t tmpfs -o size=8k tmpfs {where}; head -c 64k /dev/zero > {where}/filler 2>/dev/null")  # noqa: S605 - as above
    (folder / "login").write_text(LOGIN.format(folder=folder))
    (folder / "login").chmod(0o755)
    (folder / "sshd_config").write_text(SSHD.format(folder=folder, port=port))
    os.execv(sshd, [sshd, "-D", "-e", "-f", str(folder / "sshd_config")])  # noqa: S606 - a test's own sshd


if __name__ == "__main__":
    main()
