"""Errors of requests to an API server.

KubeError
  ConfigurationError   no usable kubeconfig, or a failed login
  UnreachableError     no response, or not in time
  UnknownKindError     the server serves no such kind
  ApiRefusedError      the server refused a request; has status, reason, message, and the object or path
"""


class KubeError(Exception):
    """Base class of the errors below."""


class ConfigurationError(KubeError):
    """There is no usable kubeconfig, or logging in failed."""


class UnreachableError(KubeError):
    """The server did not respond in time, or the connection failed."""


class UnknownKindError(KubeError):
    """The server serves no such kind: its CRD is not installed."""


class ApiRefusedError(KubeError):
    """The server refused a request.

    `status` is the HTTP status, `reason` the API's reason (AlreadyExists, Invalid, ...), `target` the object or path.
    """

    def __init__(self, status: int, reason: str, message: str, target: str) -> None:
        self.status, self.reason, self.message, self.target = status, reason, message, target
        super().__init__(f"{target}: {message} ({status} {reason})")
