"""Plain sockets, for requests that no HTTP library would ever send."""

from __future__ import annotations

import contextlib
import socket
import time


def connect(port: int, timeout: float = 20) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


def exchange(port: int, data: bytes, timeout: float = 20, end: bool = False) -> bytes:
    """Sends this and reads until the other side closes. `end`: signals that no more follows."""
    with connect(port, timeout) as connection:
        with contextlib.suppress(OSError):  # The other side has closed already.
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionResetError, socket.timeout):
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def status(answer: bytes) -> int | None:
    """The status code of an answer; None if the connection was just closed."""
    head = answer.split(b" ", 2)
    return int(head[1]) if len(head) > 2 and head[0].startswith(b"HTTP/") else None


def is_closed_within(connection: socket.socket, seconds: float) -> bool:
    """Whether the other side ends the connection in this time."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ConnectionResetError):
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            try:
                if not connection.recv(65536):
                    return True
            except socket.timeout:
                return False
        return False
    return True
