"""Errors that a runtime receives for a failed call (CNI specification 1.1, section 5, "Error").

Codes below 100 are the specification's: 1 version, 2 unsupported field, 3 unknown container, 4 environment, 5 input or
output, 6 not decodable, 7 invalid configuration, 11 try again later, 50 not available. The others are Trackbed's.
"""

import enum


class Code(enum.IntEnum):
    """The reason of a failed call."""

    VERSION = 1
    UNSUPPORTED_FIELD = 2
    UNKNOWN_CONTAINER = 3
    ENVIRONMENT = 4
    INPUT = 5
    DECODE = 6
    CONFIG = 7
    TRY_AGAIN = 11
    NOT_AVAILABLE = 50
    KERNEL = 100
    """The kernel refused an operation; everything was undone."""
    EXHAUSTED = 101
    """A rail has no free address on this node."""
    DIFFERS = 102
    """CHECK found that the pod differs from its attachment."""
    EXISTS = 104
    """The pod's namespace already has an interface with a rail's name."""
    JOURNAL = 103
    """The journal could not be written, so nothing was changed."""
    BUG = 110
    """The agent failed unexpectedly; its log has the traceback."""


class CniError(Exception):
    """A failed call: a code, a message that says what failed and where, and details that say what to do."""

    def __init__(self, code: Code, message: str, details: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
