"""The forms by which names, addresses and serial numbers are found in text."""

from __future__ import annotations

import re

_HEX = "[0-9A-Fa-f]"
_NOT_IN_HEX, _NOT_BEFORE_HEX = r"(?<![0-9A-Za-z:-])", r"(?![0-9A-Za-z:-])"

MAC = re.compile(rf"{_NOT_IN_HEX}{_HEX}{{2}}([:-])(?:{_HEX}{{2}}\1){{4,18}}{_HEX}{{2}}{_NOT_BEFORE_HEX}")
"""Bytes with : or - between. 6 are a MAC, 8 a GUID or a serial number of PCI, 20 an address of IPoIB."""
NAME_OF_MAC = re.compile(rf"(?<![0-9A-Za-z])(enx|wlx|ibx)({_HEX}{{12}})(?!{_HEX})")
"""systemd.net-naming-scheme(7): an interface named after its MAC."""
GUID = re.compile(rf"(?<![0-9A-Za-z:]){_HEX}{{4}}(?::{_HEX}{{4}}){{3}}(?![0-9A-Za-z:])")
"""A GUID as the kernel prints it."""
PLAIN_GUID = re.compile(rf"(?i)((?:guid|switch_?id|gid|wwn)[\"']?\s*[:=]?\s*[\"']?(?:0x)?)({_HEX}{{16}})(?!{_HEX})")
"""A GUID without colons, after a word that tells that it is one."""
UUID = re.compile(rf"(?:(?<=pod)|(?<!{_HEX})){_HEX}{{8}}(?:[-_]{_HEX}{{4}}){{3}}[-_]{_HEX}{{12}}(?!{_HEX})")
LONG_ID = re.compile(rf"(?:(?<=pod)|(?<!{_HEX}))(?:{_HEX}{{64}}|{_HEX}{{32}})(?!{_HEX})")
"""A machine id (machine-id(5)), or the id of a container or an image."""
INSTANCE = re.compile(r"(?<![\w-])((?:i|vol|eni)-)([0-9a-f]{8,17})(?![\w-])")
IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?![\w:])")
BYTES = re.compile(rf"{_HEX}{{2}}(?::{_HEX}{{2}})+")
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
END_OF_IPV4 = re.compile(r"\d\.\d{1,3}-$")
VERSION = re.compile(r"(?i)version|firmware|\bfw\b|\bpkg\b|\bofed\b")
"""What stands before a number of four parts that is no address."""

ALLOCATION = re.compile(r"(\"AllocResp\":\s*\")[^\"]*")
"""What a device plugin answered kubelet, in base64: variables, mounts, UUIDs of GPUs."""
SERIAL = re.compile(
    r"(?i)(\b(?:serial(?:[ _-]?(?:number|no))?|(?:asset|service)[ _-]?tag|chassis.?id)[\"']?[ \t]*[:= ][ \t]*[\"']?)"
    r"(?=[\w./-]*\d)([\w./-]{4,})"
)
VPD_LINE = re.compile(r"(?m)^([ \t]*\[(?:SN|V[1-9A-Z]|Y[0-9A-Z])\][^:\n]*:)(?!\s*MLX:).*$")
"""Fields of lspci's "Vital Product Data" that may identify a card."""
SSH_KEY = re.compile(r"\b((?:ssh|ecdsa|sk)-[\w@.-]+) AAAA[\w+/=]+(?:[ \t]+[^\s\"']+)?")
MAIL = re.compile(r"(?i)(?<![\w.+-])[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,}(?![\w-])")
HOME = re.compile(r"/home/[^/\s:\"',]+")
BUILDER = re.compile(r"\([\w.-]+@[\w.-]+\)")
"""Who built a kernel, in /proc/version."""
PROCESS = re.compile(r"(Killed process \d+ \(|\bcomm=\"?|\bComm: |\bINFO: task )(?!kworker|kubelet|systemd)[^\s:)\",]+")
CRASHED = re.compile(r"(?m)^((?:\[[ \d.]+\] )?)[^\s\[]+(?=\[\d+\]: segfault)")
"""Names of processes in the kernel's log: killed, stuck, or crashed."""
VOLUME = re.compile(r"(/dev/mapper/|\brd\.lvm\.(?:lv|vg)=|\brd\.luks\.name=|\bLABEL=)[^\s\"',]+")
"""Names that people gave to volumes."""
STORAGE = re.compile(r"(?i)\b(iqn|nqn|eui|naa)\.[^\s\"',\]]+")
PERSON = re.compile(
    r"(?im)^([ \t]*(?:-[ \t]+)?[\"']?(?:user(?:_?name)?|login|gecos|e-?mail|ssh_import_id|owner)[\"']?\s*[:=]\s*)"
    r"(?!root\s*$)\S.*$"
)
OPTION = re.compile(r"(--?(?:hostname-override|node-name|provider-id|cluster-name)[= ])[^\s\"']+")
URL_HOST = re.compile(r"(?i)\b((?:https?|tcp|grpc|nfs|ftp)://(?:[^\s/@\"']*@)?)([a-z0-9][\w.-]*)")
DOMAIN = re.compile(
    r"(?i)(?<![\w./-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+"
    r"(?:com|net|org|edu|gov|mil|int|io|ai|cloud|dev|local|lan|internal|intranet|corp|home|site|[a-z]{2})(?![\w-]|\.\w)"
)
PUBLIC_DOMAIN = re.compile(
    r"(?i)(?:^|\.)(?:k8s\.io|kubernetes\.io|cncf\.io|containerd\.io|docker\.(?:io|com)|quay\.io|ghcr\.io|gcr\.io|nvcr\.io"
    r"|(?:nvidia|mellanox|intel|amd|broadcom|github|ubuntu|canonical|redhat|suse|opensuse|debian|rancher|openshift)\.com"
    r"|(?:kernel|freedesktop|debian|fedoraproject|centos|rockylinux|opensuse|python|gnu)\.org|launchpad\.net"
    r"|trackbed\.dev|spidernet\.io|rancher\.io|k3s\.io|cri-o\.io|openshift\.io|cluster\.local|localhost)$"
)
"""Names of software, and of the registries that everybody uses."""
NO_COUNTRY = frozenset(
    ("so", "sh", "py", "ko", "md", "rs", "go", "js", "mk", "cc", "gz", "xz", "id", "ps", "rc", "ld", "la", "sd", "db")
)
"""Ends of file names and of other words that look like the domain of a country."""

PSEUDONYM = re.compile(r"(?:host-[0-9a-f]{6}|name-[0-9a-f]{6}\.example)")

GENERIC_NAMES = frozenset(
    (
        *("localhost", "host", "node", "server", "gpu", "cpu", "mem", "compute", "worker", "master", "linux", "ubuntu"),
        *("debian", "fedora", "rocky", "rhel", "centos", "suse", "sles", "dgx", "nvidia", "mlx", "net", "eth", "root"),
        *("none", "kubernetes", "trackbed", "rail", "container", "buildkitsandbox", "kernel", "main", "head", "login"),
        *(
            "storage",
            "admin",
            "test",
            "prod",
            "default",
            "system",
            "user",
            "name",
            "service",
            "debug",
            "kubelet",
            "control",
        ),
    )
)
"""Host names, without digits at the end, that say nothing and are words that mean something else."""
ROUTE_WORD = re.compile(r"(?m)^(\w\S*\s+)([0-9A-F]{8})(\s+)([0-9A-F]{8})(?=\s)")
"""Destination and gateway in /proc/net/route."""

MASK = "***"
MASKED = (
    (VPD_LINE, rf"\1 {MASK}"),
    (SERIAL, rf"\1{MASK}"),
    (SSH_KEY, rf"\1 {MASK}"),
    (MAIL, MASK),
    (BUILDER, f"({MASK})"),
    (HOME, f"/home/{MASK}"),
    (STORAGE, rf"\1.{MASK}"),
    (VOLUME, rf"\1{MASK}"),
    (PROCESS, rf"\1{MASK}"),
    (CRASHED, rf"\1{MASK}"),
    (PERSON, rf"\1{MASK}"),
    (OPTION, rf"\1{MASK}"),
    (ALLOCATION, rf"\1{MASK}"),
)
"""Forms of which nothing stays, and what takes their place."""
