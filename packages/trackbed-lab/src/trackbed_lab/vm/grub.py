"""The boot loader of an emulated server: the next boot gets the kernel arguments of /boot/grub/grub.cfg.

As on a real server, /etc/default/grub and /etc/default/grub.d/*.cfg take effect only after `update-grub`, which
evaluates them in a shell in this order (grub-mkconfig(8)) and writes grub.cfg. QEMU loads the kernel itself, so
grub.cfg has one entry and no boot device.
"""

import shlex
from pathlib import Path

from trackbed_lab.vm import disk

DEFAULT = 'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n'
"""/etc/default/grub of a new server, as in Debian."""

UPDATE_GRUB = """#!/bin/sh
# Stand-in for GRUB's update-grub and grub-mkconfig -o FILE in an emulated server.
target=${ROOT:-}/boot/grub/grub.cfg
while [ $# -gt 0 ]; do
    case $1 in
        -o) target=$2; shift ;;
        --output=*) target=${1#--output=} ;;
    esac
    shift
done
set -e
. "${ROOT:-}/etc/default/grub"
for file in "${ROOT:-}"/etc/default/grub.d/*.cfg; do
    if [ -e "$file" ]; then . "$file"; fi
done
mkdir -p "$(dirname "$target")"
kernel=$(uname -r)
{
    echo "# Written by update-grub."
    echo "menuentry 'Linux $kernel' {"
    echo "    linux /boot/vmlinuz-$kernel ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
    echo "}"
} >"$target.new"
sync "$target.new" 2>/dev/null || sync
mv "$target.new" "$target"
echo "Generating grub configuration file ..." >&2
echo "done" >&2
"""

CONFIGURATION = "boot/grub/grub.cfg"


class GrubError(Exception):
    """The boot loader's configuration is invalid; a real server would not boot with it."""


def render_configuration(kernel: str) -> str:
    """Return the grub.cfg of a new server."""
    return f"menuentry 'Linux {kernel}' {{\n    linux /boot/vmlinuz-{kernel} ro quiet\n}}\n"


def parse_kernel_arguments(configuration: str) -> str:
    """Return the kernel arguments of the first entry. Raises GrubError."""
    for line in configuration.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise GrubError(f"{CONFIGURATION}: {line.strip()!r}: {error}") from error
        if words[:1] == ["linux"] and len(words) > 1:
            return " ".join(_quote(argument) for argument in words[2:])
    raise GrubError(f"{CONFIGURATION} has no line `linux KERNEL ARGUMENTS`")


def read_kernel_arguments(image: Path) -> str:
    """Return the kernel arguments for the next boot from this disk. Raises GrubError."""
    try:
        return parse_kernel_arguments(disk.read_file(image, CONFIGURATION))
    except disk.DiskError as error:
        raise GrubError(str(error)) from error


def _quote(argument: str) -> str:
    """Quote a value with spaces as the kernel parses it (admin-guide/kernel-parameters.rst)."""
    if not any(character.isspace() for character in argument):
        return argument
    name, equals, value = argument.partition("=")
    return f'{name}{equals}"{value}"' if equals else f'"{argument}"'
