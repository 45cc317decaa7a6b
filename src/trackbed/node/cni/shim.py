#!/usr/bin/python3 -ISE
"""The CNI executable: forwards a runtime's call to the agent, prints its answer, and exits with its status.

It answers command VERSION itself. It imports only what loads fast: a start takes 9 ms, or 18 ms with `import json`.

    to the agent    4 bytes length, then CNI_NAME=value NUL ... NUL, then standard input unchanged
    from the agent  4 bytes length, 1 byte exit status, then the text to print

Numbers are big-endian. Without an agent, the runtime gets code 11, try again later (CNI specification). `trackbed agent
install-cni` writes SOCKET and the first line. No environment variable selects the socket, because the caller's
environment must not redirect the configuration of pods.
"""

import _socket
import posix
import sys

SOCKET = b"/run/trackbed/agent.sock"
VERSIONS = (b"0.3.0", b"0.3.1", b"0.4.0", b"1.0.0", b"1.1.0")
TIMEOUT_SECONDS = 60
MAX_BYTES = 1 << 20  # the agent refuses longer configurations


def main() -> tuple[int, bytes]:
    """Forward the call to the agent; return the exit status and the text to print."""
    config = _read_standard_input()
    version = next((version for version in VERSIONS if b'"%b"' % version in config), VERSIONS[-1])
    if posix.environ.get(b"CNI_COMMAND") == b"VERSION":
        return 0, b'{"cniVersion":"%b","supportedVersions":["%b"]}\n' % (version, b'","'.join(VERSIONS))
    try:
        return _call_agent(config)
    except OSError as error:
        reason = (error.strerror or str(error)).encode()
    return 1, (
        b'{"cniVersion":"%b","code":11,"msg":"the Trackbed agent does not answer on %b: %b",'
        b'"details":"is it running? try `trackbed agent status`; a later DEL or ADD puts right what was begun"}\n'
        % (version, SOCKET, reason)
    )


def _read_standard_input() -> bytes:
    content = b""
    while len(content) <= MAX_BYTES and (chunk := posix.read(0, 1 << 16)):
        content += chunk
    return content


def _call_agent(config: bytes) -> tuple[int, bytes]:
    names = [b"%b=%b\0" % (key, value) for key, value in posix.environ.items() if key.startswith(b"CNI_")]
    frame = b"".join(names) + b"\0" + config
    agent = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    timeout = TIMEOUT_SECONDS.to_bytes(8, sys.byteorder) + bytes(8)  # struct timeval of socket(7)
    agent.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, timeout)
    agent.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, timeout)
    agent.connect(SOCKET)
    agent.sendall(len(frame).to_bytes(4, "big") + frame)
    head = _receive_bytes(agent, 5)
    return head[4], _receive_bytes(agent, int.from_bytes(head[:4], "big"))


def _receive_bytes(agent: _socket.socket, byte_count: int) -> bytes:
    received = agent.recv(byte_count, _socket.MSG_WAITALL) if 0 < byte_count <= MAX_BYTES << 4 else b""
    if len(received) != byte_count:
        raise ConnectionError("it closed the connection half way, or has no end")
    return received


if __name__ == "__main__":
    status, text = main()
    while text:
        text = text[posix.write(1, text) :]
    posix._exit(status)  # noqa: SLF001 - ends without tearing the interpreter down, 1 ms sooner
