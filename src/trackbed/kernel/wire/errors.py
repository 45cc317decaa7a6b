"""What can keep a probe from being asked at all; an answer that is missing is a result, not an error.

ProbeError
├── NotPermitted    this process may not open the socket (CAP_NET_RAW, CAP_NET_ADMIN): the answer is "unknown"
├── NotAvailable    this kernel lacks what the probe needs: the answer is "unknown"
└── MalformedFrame  bytes from the network are not what the standard says
"""


class ProbeError(Exception):
    """A probe could not be asked, or its answer could not be read."""


class NotPermitted(ProbeError):  # noqa: N818 - reads as the answer it leads to, as PermissionError's kin do
    """The process lacks the capability that the probe's socket needs."""


class NotAvailable(ProbeError):  # noqa: N818 - as NotPermitted
    """The kernel was built without what the probe needs."""


class MalformedFrame(ProbeError):  # noqa: N818 - as NotPermitted
    """A received frame breaks the standard that its module names."""
