"""What identifies a machine goes, whatever form it has; what describes it stays."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.host.lspci import CAPTURES, read_capture
from trackbed.host.snapshot.identity import HOST_NAME, Identity
from trackbed.host.snapshot.pseudonyms import Pseudonyms
from trackbed.host.snapshot.snapshot import Snapshot

LSPCI = "h100-lspci-vvv.xz"
VPD = b"\x90\x10\x00SN\x0dMT2340J88735 \x78"
MACHINE_ID = "0123456789abcdef0123456789abcdef"
FILES = {
    HOST_NAME: b"acme-train17.dc1.acme.corp\n",
    "/etc/machine-id": MACHINE_ID.encode(),
    "/sys/class/net/rail0/address": b"b8:3f:d2:12:34:56\n",
    "/sys/class/net/rail0/device/vpd": VPD,
}


def build_identity(**files: bytes) -> Identity:
    return Identity(Snapshot(files=FILES | files), Pseudonyms(b"k" * 16))


IDENTITY = build_identity()

LOST = {
    "MAC": ("renamed from eth0, b8:3f:d2:12:34:56", "12:34:56"),
    "MAC with dashes, in capitals": ("macaddress: B8-3F-D2-12-34-56", "12-34-56"),
    "interface named after its MAC": ("DEVICE=enxb83fd2123456", "123456"),
    "GUID": ("b83f:d203:0012:3456", "0012:3456"),
    "GUID as a number": ("node_guid: 0xb83fd20300123456", "123456"),
    "address of IPoIB": ("80:00:00:48:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:12:34:56", "12:34:56"),
    "GID": ("fe80:0000:0000:0000:ba3f:d2ff:fe12:3456", "fe12:3456"),
    "IPv4": ("ip=10.8.3.17::10.8.3.1:255.255.255.0", "10.8.3"),
    "range of IPv4": ("10.8.3.5-10.8.3.9", "10.8.3"),
    "public IPv4": ("--node-ip=203.0.112.9", "203.0.112"),
    "IPv6": ("addresses: ['fd12:3456:789a::17/64']", "3456"),
    "global IPv6": ("via 2001:470:1f0b:9::1 dev eth0", "470"),
    "host name": ("kernel: acme-train17 kernel log", "acme"),
    "host name in full": ("search acme-train17.dc1.acme.corp", "acme"),
    "host name in capitals": ("ACME-TRAIN17", "ACME"),
    "name of another host of the series": ("nodes: acme-train18, acme-train203.dc1.acme.corp", "acme"),
    "domain": ("server ntp.dc1.acme.corp iburst", "acme"),
    "domain with any end": ("https://registry.acme-gpus.cluster1/v2/", "acme"),
    "registry": ('[plugins."cri".registry.mirrors."registry.example.com:5000"]', "example.com"),
    "UUID": ("root=UUID=6f9619ff-8b86-d011-b42d-00c04fc964ff", "6f9619ff"),
    "UUID of a pod in a cgroup": ("kubepods-pod6f9619ff_8b86_d011_b42d_00c04fc964ff.slice", "6f9619ff"),
    "machine id": (f"BOOT_ID={MACHINE_ID}", MACHINE_ID),
    "container id": (f"containerd-shim -id {MACHINE_ID * 2}", MACHINE_ID),
    "instance of a cloud": ("--provider-id=aws:///us-east-1a/i-0123456789abcdef0", "0123456789abcdef0"),
    "serial number that VPD has": ("NIC MT2340J88735 of rack 7", "MT2340J88735"),
    "serial number of lspci": ("\t\t\t[SN] Serial number: MT9999X00001   ", "MT9999X00001"),
    "vendor's field of lspci": ("\t\t\t[VU] Vendor specific: MT9999X00001MLNXS0D0F0 ", "MT9999X00001"),
    "serial number of PCI": ("Capabilities: [2f0 v1] Device Serial Number 98-51-03-ab-01-2d-b0-48", "2d-b0-48"),
    "serial number in the kernel's log": ("usb 1-1: SerialNumber: ABC1234X", "ABC1234X"),
    "service tag": ("Service Tag: 7XJ9K23", "7XJ9K23"),
    "home folder": ("ExecStart=/home/alice/run.sh", "alice"),
    "mail address": ("contact: alice@example.com", "alice"),
    "public key": ("- ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI alice@laptop", "alice"),
    "user": ("users:\n- name: x\n  gecos: Alice Example\n", "Alice"),
    "who built the kernel": ("Linux version 6.8.0 (alice@build7) (gcc 13)", "alice"),
    "killed process": ("Out of memory: Killed process 4711 (secret-app) total-vm:1kB", "secret-app"),
    "crashed process": ("[   12.345678] secret-app[4711]: segfault at 0 ip 0", "secret-app"),
    "stuck process": ("INFO: task secret-app:4711 blocked for more than 120 seconds.", "secret-app"),
    "audited process": ('audit: type=1400 pid=1 comm="secret-app"', "secret-app"),
    "volume": ("root=/dev/mapper/secretvg-root rd.lvm.lv=secretvg/root root=LABEL=secretvg", "secretvg"),
    "answer of a device plugin": ('{"AllocResp":"CgQKAkFCEgA=","DeviceIDs":{}}', "CgQKAkFCEgA"),
    "name of storage": ("rd.iscsi.initiator=iqn.1994-05.com.acme:a1b2", "acme"),
}


@pytest.mark.parametrize(("text", "lost"), LOST.values(), ids=LOST)
def test_what_identifies_goes(text: str, lost: str) -> None:
    redacted = IDENTITY.redact_text(text)
    assert lost.lower() not in redacted.lower()
    assert redacted.count("\n") == text.count("\n")
    assert not IDENTITY.reveals(redacted.encode())


KEPT = {
    "PCI addresses": "0000:18:00.0 mlx5_core 0000:18:00.1: firmware version: 28.41.1000",
    "times": "[   12.345678] Nov 22 23:35:42 started",
    "versions": "firmware-version: 218.0.219.13/pkg 21.80.16.5\nMLNX_OFED_LINUX-24.04-0.6.6.0\nv1.2.3.4",
    "kernel arguments": "BOOT_IMAGE=/vmlinuz-6.8.0-45-generic intel_iommu=on iommu=pt pci=realloc quiet",
    "names of software": '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\nimage = "nvcr.io/nvidia/x"',
    "names of Kubernetes": "apiVersion: kubelet.config.k8s.io/v1beta1\ntopologyManagerPolicy: none\n",
    "sysctls": "net.ipv4.conf.all.rp_filter = 2\nvm.overcommit_memory = 1\n",
    "files": "/usr/lib/libibverbs.so /lib/modules/x/kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko run.sh",
    "link": "rail0: <BROADCAST,UP> mtu 9000 qdisc mq state UP 400000Mb/s fe80::1 ::/0 0.0.0.0/0 255.255.255.0",
    "C++": "std::string::npos",
    "serial ports": "serial8250: ttyS0 at I/O 0x3f8 (irq = 4)\nconsole=ttyS0,115200",
    "part number": "\t\t\t[PN] Part number: MCX75310AAS-NEAT\n\t\t\t[VA] Vendor specific: MLX:MN=MLNX:CSKU=V2",
    "drivers": "mlx5_core 0000:18:00.0: INFO: task kworker/u8:1 CPU: 3 PID: 12 Comm: kworker/3:2",
    "memory": "218000000000-2180ffffffff : PCI Bus 0000:15",
    "matrix": "GPU0\t X \tNV18\tPIX\nNIC0: mlx5_0",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_describes_stays(text: str) -> None:
    assert IDENTITY.redact_text(text) == text


def test_equal_things_stay_equal_in_every_spelling() -> None:
    text = "b8:3f:d2:12:34:56 B8-3F-D2-12-34-56 enxb83fd2123456 acme-train17 acme-train17.dc1.acme.corp"
    colons, dashes, name, short, full = IDENTITY.redact_text(text).split()
    assert colons.replace(":", "") == dashes.replace("-", "") == name.removeprefix("enx")
    assert short == full == IDENTITY.alias


@pytest.mark.parametrize("name", ["localhost", "gpu-0", "node17", "ubuntu", "vm"])
def test_a_host_name_that_says_nothing_stays(name: str) -> None:
    identity = build_identity(**{HOST_NAME: name.encode()})
    text = f"{name}: ID=ubuntu vm.swappiness node17 GPU0"
    assert identity.redact_text(text) == text
    assert not identity.reveals(text.encode())


def test_files_of_sysfs_keep_words_that_look_like_the_host_name() -> None:
    identity = build_identity(**{HOST_NAME: b"normal"})
    assert identity.redact_file("/sys/devices/system/node/node0/type", b"Normal") == b"Normal"
    assert b"normal" not in identity.redact_file("/sys/class/infiniband/mlx5_0/node_desc", b"normal mlx5_0")
    assert identity.redact_path("sys/class/net/normal/mtu") == "sys/class/net/normal/mtu"


def test_routes_of_the_kernel_stay_routes() -> None:
    table = b"Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0103080A\t0003\neth0\t0003080A\t00000000\t0001\n"
    head, default, local = IDENTITY.redact_file("/proc/net/route", table).decode().splitlines()
    assert head == "Iface\tDestination\tGateway \tFlags"
    assert re.fullmatch(r"eth0\t00000000\t01[0-9A-F]{4}0A\t0003", default)
    assert local == f"eth0\t00{default.split()[2][2:]}\t00000000\t0001", "the gateway is in the network"
    ipv6 = f"{'0' * 32} 00 {'0' * 32} 00 fd12345600000000000000000000000a 00000400 00000001\n".encode()
    redacted = IDENTITY.redact_file("/proc/net/ipv6_route", ipv6)
    assert (redacted[:72], len(redacted)) == (ipv6[:72], len(ipv6))
    assert b"fd123456" not in redacted


def test_binary_files_and_versions_stay() -> None:
    for path, content in {
        "/sys/bus/pci/devices/0000:18:00.0/config": b"\xb3\x15\x21\x10",
        "/sys/class/infiniband/mlx5_0/fw_ver": b"28.41.10.5",
        "/etc/os-release": b"VERSION_ID=22.04 10.8.3.17",
        "/usr/lib/sysctl.d/50.conf": b"# see host.example.com",
    }.items():
        assert IDENTITY.redact_file(path, content) == content


def test_a_byte_zero_hides_nothing() -> None:
    assert b"10.8.3.17" not in IDENTITY.redact_file("/etc/some.conf", b"\0 10.8.3.17")
    assert b"alice" not in IDENTITY.redact_file("/proc/version", b"Linux version 6.8.0 (alice@build7)")


def test_names_go_from_paths_and_connections_lose_theirs() -> None:
    assert "acme" not in IDENTITY.redact_path("etc/netplan/50-acme-train17.yaml")
    connection = IDENTITY.redact_path("etc/NetworkManager/system-connections/Acme office.nmconnection")
    assert re.fullmatch(r"etc/NetworkManager/system-connections/[0-9a-f]{6}\.nmconnection", connection)
    assert "123456" not in IDENTITY.redact_path("sys/class/net/enxb83fd2123456")
    assert IDENTITY.redact_path("../../devices/pci0000:15/0000:18:00.0") == "../../devices/pci0000:15/0000:18:00.0"


@pytest.mark.skipif(not (CAPTURES / LSPCI).exists(), reason="the captures are not here")
@pytest.mark.may_skip("the captures are other people's and not part of the project (TRACKBED_SHARED)")
def test_of_a_real_machine_serial_numbers_go_and_nothing_else() -> None:
    text = read_capture(LSPCI)
    lines = list(zip(text.splitlines(), IDENTITY.redact_text(text).splitlines(), strict=True))
    changed = [old.strip() for old, new in lines if old != new]
    assert len(changed) > 100
    assert [line for line in changed if not re.match(r"\[(SN|V.)\]|.*Device Serial Number", line)] == []
    serials = re.findall(r"Serial number: (\S+)|Device Serial Number (\S+)", text)
    redacted = "\n".join(new for _, new in lines)
    assert [serial for both in serials for serial in both if serial and serial in redacted] == []


@pytest.mark.parametrize("token", ["ACME-TRAIN17", "b83fd2123456", MACHINE_ID, "mt2340j88735", "dc1.acme.corp"])
def test_what_remains_of_this_machine_is_noticed(token: str) -> None:
    assert IDENTITY.reveals(f"an odd_{token}-form".encode())
    assert not IDENTITY.reveals(b"nothing of it")


HOSTILE = {
    "colons": ":" * 200_000,
    "hex": "a" * 200_000,
    "groups": "aa:" * 70_000,
    "dots": "1." * 100_000,
    "labels": "a." * 100_000,
    "dashes": "a-" * 100_000,
    "mail": "a@" * 100_000,
    "options": "--node-name " * 20_000,
    "serial": "serial " * 30_000,
    "blanks": " " * 200_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_long(text: str) -> None:
    begun = time.process_time()
    IDENTITY.redact_text(text)
    assert time.process_time() - begun < 5


def test_broken_files_do_not_stop_it(tmp_path: Path) -> None:
    assert tmp_path.exists()
    identity = build_identity(
        **{HOST_NAME: b"\xff\xfe", "/sys/class/net/x/address": b"zz:", "/sys/class/net/x/device/vpd": b"\x90"}
    )
    assert identity.redact_file("/etc/x", b"\xff\xfe 10.8.3.17") != b"\xff\xfe 10.8.3.17"
