"""Errors of an API server.

KubeError
  ConfigurationError   no kubeconfig, or one that cannot be used
  UnreachableError     no response, or not in time
  UnknownKindError     the server serves no such kind
  ApiRefusedError      the server refused a request: status, reason, message, and the object it is about
"""


class KubeError(Exception):
    """Base class of the errors below."""


class ConfigurationError(KubeError):
    """There is no kubeconfig, or it cannot be used."""


class UnreachableError(KubeError):
    """No server responds at the address, or not in time."""


class UnknownKindError(KubeError):
    """The server serves no such kind: its CRD is not installed."""


class ApiRefusedError(KubeError):
    """The server refused a request.

    `status` is the HTTP status, `reason` the API's reason (AlreadyExists, Invalid, ...), `subject` the object.
    """

    def __init__(self, status: int, reason: str, message: str, subject: str) -> None:
        self.status, self.reason, self.message, self.subject = status, reason, message, subject
        super().__init__(f"{subject}: {message} ({status} {reason})")
