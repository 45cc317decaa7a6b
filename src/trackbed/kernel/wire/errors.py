"""Errors that keep a probe from being sent or its reply from being read. A missing reply is a result, not an error.

ProbeError
├── NotPermitted    this process may not open the socket (CAP_NET_RAW, CAP_NET_ADMIN): the result is "unknown"
├── NotAvailable    this kernel lacks what the probe needs: the result is "unknown"
└── MalformedFrame  a received frame violates its standard
"""


class ProbeError(Exception):
    """A probe could not be sent, or its reply could not be read."""


class NotPermitted(ProbeError):  # noqa: N818 - named for the result it leads to
    """The process lacks the capability that the probe's socket needs."""


class NotAvailable(ProbeError):  # noqa: N818 - as NotPermitted
    """The kernel was built without what the probe needs."""


class MalformedFrame(ProbeError):  # noqa: N818 - as NotPermitted
    """A received frame violates the standard that its module names."""
