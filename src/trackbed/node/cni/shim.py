#!/usr/bin/python3 -ISE
"""The program a runtime executes: hands the call to the agent, prints what it answers, exits as it says.

It decides nothing. Only modules that load at once are imported: a start costs 9 ms, `import json` would double that.

    to the agent    4 bytes length, then CNI_NAME=value NUL ... NUL, then standard input as it came
    from the agent  4 bytes length, 1 byte exit status, then what to print

Numbers are big-endian. Where no agent answers, the runtime is told to try again later (CNI specification, code 11).
`trackbed agent install-cni` writes SOCKET and the first line; no variable may choose who configures a runtime's pods.
"""

import _socket
import posix
import sys

SOCKET = b"/run/trackbed/agent.sock"
VERSIONS = (b"1.0.0", b"1.1.0")
TIMEOUT_SECONDS = 60
MAX_BYTES = 1 << 20  # the agent refuses what is longer


def main() -> tuple[int, bytes]:
    """The exit status and what to print."""
    config = _standard_input()
    version = next((known for known in VERSIONS if b'"%b"' % known in config), VERSIONS[-1])
    if posix.environ.get(b"CNI_COMMAND") == b"VERSION":
        return 0, b'{"cniVersion":"%b","supportedVersions":["%b"]}\n' % (version, b'","'.join(VERSIONS))
    try:
        return _ask(config)
    except OSError as error:
        why = (error.strerror or str(error)).encode()
    return 1, (
        b'{"cniVersion":"%b","code":11,"msg":"the Trackbed agent does not answer on %b: %b",'
        b'"details":"is it running? try `trackbed agent status`; a later DEL or ADD puts right what was begun"}\n'
        % (version, SOCKET, why)
    )


def _standard_input() -> bytes:
    read = b""
    while len(read) <= MAX_BYTES and (more := posix.read(0, 1 << 16)):
        read += more
    return read


def _ask(config: bytes) -> tuple[int, bytes]:
    names = [b"%b=%b\0" % (key, value) for key, value in posix.environ.items() if key.startswith(b"CNI_")]
    frame = b"".join(names) + b"\0" + config
    agent = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    limit = TIMEOUT_SECONDS.to_bytes(8, sys.byteorder) + bytes(8)  # struct timeval of socket(7)
    agent.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, limit)
    agent.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, limit)
    agent.connect(SOCKET)
    agent.sendall(len(frame).to_bytes(4, "big") + frame)
    head = _exactly(agent, 5)
    return head[4], _exactly(agent, int.from_bytes(head[:4], "big"))


def _exactly(agent: _socket.socket, count: int) -> bytes:
    read = agent.recv(count, _socket.MSG_WAITALL) if count else b""
    if len(read) != count:
        raise ConnectionError("it hung up half way")
    return read


if __name__ == "__main__":
    status, text = main()
    while text:
        text = text[posix.write(1, text) :]
    posix._exit(status)  # noqa: SLF001 - ends without tearing the interpreter down, 1 ms sooner
