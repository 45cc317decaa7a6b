"""The reference page of `trackbed capture`: what it reads, what it leaves out, how to look into it."""

from collections.abc import Iterator

from trackbed.doctor.checks import READS
from trackbed.host.discover.wanted import WANTED
from trackbed.host.snapshot.capture import MAX_BYTES, MAX_OUTPUT_BYTES
from trackbed.host.snapshot.host_facts import GROUPS
from trackbed.host.snapshot.limited import PROGRAM_SECONDS, TOTAL_SECONDS
from trackbed.host.snapshot.secrets import KUBELET_DROP_INS, NEVER
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.snapshot.take import MAX_FILE_BYTES

_HEAD = f"""# trackbed capture: a machine in one file

    trackbed capture --to machine.tar.gz     on the machine, as root: others cannot read registers and the kernel's log

This archive is what to send when Trackbed is wrong about a machine, or to have a machine supported that nobody here
has. It is read back by `trackbed discover --root machine.tar.gz`; unpacked, by `trackbed diff` and `trackbed doctor
--root FOLDER --node NAME`. `capture` changes nothing and sends nothing. A program gets {PROGRAM_SECONDS} s and all
together {TOTAL_SECONDS} s; a file {MAX_FILE_BYTES >> 20} MiB, an output {MAX_OUTPUT_BYTES >> 20} MiB, and all files
together {MAX_BYTES >> 20} MiB before compression.

## What is replaced

| what | becomes |
|---|---|
| MAC | its vendor and last byte stay: `b8:3f:d2:12:34:56` is `b8:3f:d2:9c:e1:56`, the next one `b8:3f:d2:9c:e1:57` |
| GUID, GID, link-local address | those of the MAC that they were made of |
| IPv4, IPv6 | what shares a /8, /16 or /24 still does; loopback, link-local, multicast and masks stay |
| host name, and others of its series (`train-17`, `train-18`) | `host-` and six digits; common words (`gpu-0`) stay |
| other domains, hosts of URLs, registries | `name-`, six digits, `.example`; public ones (nvcr.io, k8s.io, ...) stay |
| UUIDs, machine id, ids of containers, pods and instances | others; equal ones stay equal |
| serial numbers, asset tags, all fields of VPD but the part number | `***`, `X` or zeros |
| passwords, keys, tokens, users, mail addresses, home folders | `***` |

Replacements depend on a key that is drawn for each capture and not kept: nothing leads back, and two captures of one
machine cannot be matched. A file in which the host name, a MAC, the machine id or a serial number remains is left out,
with a message.

`--identified` keeps names and addresses, for `init` and `diff` at your own site. Do not send such an archive.

## Look into it before you send it

    mkdir machine && tar xf machine.tar.gz -C machine
    grep -rniE 'my-company|my-host|my-domain' machine       # what you know and no program can know
    python3 -m json.tool machine/trackbed-capture.json      # output of programs; what was masked and left out

Names that you chose for interfaces, services and folders stay, and so do kernel arguments. To leave something out,
remove it from the folder and pack that again: `tar czf machine.tar.gz -C machine .`

## What never leaves a machine
"""


def render_capture_page() -> str:
    """Render the whole page."""
    return "".join((_HEAD, *_iter_never(), "\n## What is read\n", *_iter_groups()))


def _iter_never() -> Iterator[str]:
    yield "\nFiles with these names (`*` matches slashes, too), whatever asks for them:\n\n"
    yield ", ".join(f"`{pattern}`" for pattern in NEVER) + f"; but `{KUBELET_DROP_INS}` is read.\n"


def _iter_groups() -> Iterator[str]:
    yield "\n`{netdev}` and `{pci}` stand for each port; of processes, only daemons that a check looks for are read.\n"
    for name, wanted in {"NICs and GPUs, for discover": WANTED, "checks of doctor": READS, **GROUPS}.items():
        yield f"\n### {name[0].upper()}{name[1:]}\n\n"
        yield from _iter_rows(wanted)


def _iter_rows(wanted: Wanted) -> Iterator[str]:
    commands = tuple(" ".join(command) for command in wanted.commands)
    for title, entries in {
        "Files": wanted.files,
        "Links": wanted.links,
        "Names in folders": wanted.folders,
        "Programs": commands,
    }.items():
        if entries:
            yield f"- {title}: " + ", ".join(f"`{entry}`" for entry in entries) + "\n"
