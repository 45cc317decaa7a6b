"""Findings that are no faults of the catalogue: something was not read or not understood, so nothing is known of it."""

from typing import NamedTuple


class Unjudged(NamedTuple):
    """What such a finding means; its verdict is unknown, and doctor exits with 3 if nothing is known to be broken."""

    id: str
    title: str
    """The expected state."""
    cause: str
    fix: str


UNREADABLE = Unjudged(
    "input-unreadable",
    "what this step needs can be read",
    "A file, a program's output or a listing of the kernel could not be read, so checks that need it did not decide.",
    "Run doctor as root, or see why this cannot be read.",
)
UNREAD = Unjudged(
    "node-unread",
    "every node was read",
    "Nothing was read of these nodes, so what they share with others is not known.",
    "Log in by ssh and mend that, or capture the node again; the other findings are of the nodes that were read.",
)
PSEUDONYMOUS = Unjudged(
    "capture-pseudonymous",
    "every capture has the names and addresses of its host",
    "Names, addresses and GUIDs in these captures are pseudonyms, different ones in each.",
    "Run `trackbed capture --identified` on these hosts, and keep those archives at your site.",
)
REPEATED = Unjudged(
    "capture-repeated",
    "every host was captured once",
    "Two captures are of one host, and only the first was compared with others.",
    "Leave one of them out; if they should be of two hosts, capture both again with --identified.",
)
FAILED_CHECK = Unjudged(
    "check-failed",
    "what the host shows is understood by every check",
    "A check met something that it does not understand; the others went on.",
    "Look at what the host shows for this step; please report it as a defect of Trackbed with the log.",
)
UNJUDGED = {kind.id: kind for kind in (UNREADABLE, UNREAD, PSEUDONYMOUS, REPEATED, FAILED_CHECK)}
"""All of them by id."""
