"""Addresses in text, replaced by their pseudonyms in the form in which they stand there."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from trackbed.host.snapshot import forms
from trackbed.host.snapshot.pseudonyms import Pseudonyms

_MAC_BYTES, _GUID_BYTES, _IPOIB_BYTES = 6, 8, 20
_FULL_GROUPS = 7
"""Colons in an IPv6 address without `::`."""


class AddressText:
    """Replaces MACs, GUIDs and IP addresses."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        """Take the pseudonyms of one capture."""
        self._pseudonyms = pseudonyms

    def replace_addresses(self, text: str) -> str:
        """Replace the addresses in a text, in all their forms."""
        text = forms.MAC.sub(self._replace_separated_bytes, text)
        text = forms.NAME_OF_MAC.sub(self.replace_name_of_mac, text)
        text = forms.GUID.sub(self._replace_guid, text)
        text = forms.PLAIN_GUID.sub(self.replace_plain_guid, text)
        text = forms.IPV6.sub(self._replace_ipv6, text)
        return forms.IPV4.sub(self._replace_ipv4, text)

    def _replace_separated_bytes(self, match: re.Match[str]) -> str:
        raw = bytes.fromhex(match[0].replace(match[1], ""))
        if len(raw) == _MAC_BYTES:
            raw = self._pseudonyms.replace_mac(raw)
        elif len(raw) == _GUID_BYTES:
            raw = self._pseudonyms.replace_guid(raw)
        elif len(raw) == _IPOIB_BYTES:
            raw = raw[:12] + self._pseudonyms.replace_guid(raw[12:])
        return raw.hex(match[1])

    def replace_name_of_mac(self, match: re.Match[str]) -> str:
        """Replace the name of an interface that was made of its MAC."""
        return match[1] + self._pseudonyms.replace_mac(bytes.fromhex(match[2])).hex()

    def _replace_guid(self, match: re.Match[str]) -> str:
        return self._pseudonyms.replace_guid(bytes.fromhex(match[0].replace(":", ""))).hex(":", 2)

    def replace_plain_guid(self, match: re.Match[str]) -> str:
        """Replace a GUID without colons."""
        return match[1] + self._pseudonyms.replace_guid(bytes.fromhex(match[2])).hex()

    def _replace_ipv6(self, match: re.Match[str]) -> str:
        try:
            address = IPv6Address(match[0])
        except AddressValueError:
            return match[0]
        if forms.BYTES.fullmatch(match[0]):  # eight bytes of a GUID, which were replaced before
            return match[0]
        replaced = self._pseudonyms.replace_ipv6(address)
        if replaced == address:
            return match[0]
        is_full = match[0].count(":") == _FULL_GROUPS and len(match[0]) == len(address.exploded)
        return replaced.exploded if is_full else str(replaced)

    def replace_plain_ipv6(self, match: re.Match[str]) -> str:
        """Replace an IPv6 address of 32 digits, as in /proc/net/ipv6_route."""
        return self._pseudonyms.replace_ipv6(IPv6Address(bytes.fromhex(match[0]))).packed.hex()

    def _replace_ipv4(self, match: re.Match[str]) -> str:
        text, begin = match.string, match.start()
        is_version = text[begin - 1 : begin] == "-" and not forms.END_OF_IPV4.search(text, max(0, begin - 6), begin)
        if is_version or forms.VERSION.search(text, text.rfind("\n", 0, begin) + 1, begin):
            return match[0]
        try:
            return str(self._pseudonyms.replace_ipv4(IPv4Address(match[0])))
        except AddressValueError:
            return match[0]

    def replace_route(self, match: re.Match[str]) -> str:
        """Replace destination and gateway of a line of /proc/net/route, whose bytes stand in reverse order."""
        words = (
            self._pseudonyms.replace_ipv4(IPv4Address(bytes.fromhex(match[group])[::-1])).packed[::-1]
            for group in (2, 4)
        )
        destination, gateway = (word.hex().upper() for word in words)
        return f"{match[1]}{destination}{match[3]}{gateway}"
