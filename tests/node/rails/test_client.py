"""The client of the agent's socket: an answer that is no status is an OSError."""

import socket
import threading
from pathlib import Path

import pytest

from trackbed.node.rails.client import read_status
from trackbed.node.rails.protocol import encode_answer


@pytest.mark.parametrize(
    ("exit_status", "text", "message"),
    [
        pytest.param(0, b"garbage", "the answer is not the status of an agent: JSON is malformed", id="no JSON"),
        pytest.param(
            0, b"[]", "the answer is not the status of an agent: Expected `object`, got `array`", id="no object"
        ),
        pytest.param(
            1, b'{"code":110,"msg":"no memory"}', 'the agent failed: {"code":110,"msg":"no memory"}', id="an error"
        ),
    ],
)
def test_an_answer_that_is_no_status_is_an_os_error(
    tmp_path: Path, exit_status: int, text: bytes, message: str
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(encode_answer(exit_status, text))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ConnectionError) as caught:
            read_status(tmp_path / "agent.sock")
        thread.join()
    assert message in str(caught.value)
