"""A port in front of a cluster's Ray Client port, which can hold back answers and be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Gate:
    """`address` is for cluster.yaml. Every byte passes until `hold_answers` or `cut`."""

    def __init__(self, backend: str) -> None:
        host, _, port = backend.rpartition(":")
        self._backend = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._answers = threading.Event()
        self._answers.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_answers(self) -> None:
        """Requests still arrive at the cluster; its answers do not come back."""
        self._answers.clear()

    def cut(self) -> None:
        """Ends every connection and refuses further ones, for good."""
        # Closing alone does not wake a thread that accepts or reads.
        for one in [self._server, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._answers.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                cluster = socket.create_connection(self._backend)
                self._open += [client, cluster]
                for source, target in ((client, cluster), (cluster, client)):
                    held = self._answers if source is cluster else None
                    threading.Thread(
                        target=_pass_on, args=(source, target, held), daemon=True
                    ).start()


def _pass_on(source: socket.socket, target: socket.socket, held: threading.Event | None) -> None:
    with contextlib.suppress(OSError):
        for some in _read(source):
            if held is not None:
                held.wait()
            target.sendall(some)
        target.shutdown(socket.SHUT_WR)


def _read(source: socket.socket) -> Iterator[bytes]:
    while some := source.recv(1 << 16):
        yield some
