"""What can go wrong with an API server.

KubeError
  ConfigurationError   no kubeconfig, or one that cannot be used
  UnreachableError     nobody answers, or not in time
  UnknownKindError     the server serves no such kind
  ApiRefusedError         the server said no: status, reason, message, and the object it is about
"""

from __future__ import annotations


class KubeError(Exception):
    """Anything below."""


class ConfigurationError(KubeError):
    """There is no kubeconfig, or it cannot be used."""


class UnreachableError(KubeError):
    """Nobody answers at the server's address, or not in time."""


class UnknownKindError(KubeError):
    """The server serves no such kind: its CRD is not installed."""


class ApiRefusedError(KubeError):
    """The server refused a request.

    `status` is the HTTP status, `reason` the API's word for it (AlreadyExists, Invalid, ...), `what` the object.
    """

    def __init__(self, status: int, reason: str, message: str, what: str) -> None:
        self.status, self.reason, self.message, self.what = status, reason, message, what
        super().__init__(f"{what}: {message} ({status} {reason})")
