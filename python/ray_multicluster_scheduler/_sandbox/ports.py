"""Free ports, in blocks: a Ray head needs a dozen of its own, known before it starts."""

from __future__ import annotations

import contextlib
import random
import socket

#: Below the ephemeral range, so that no outgoing connection takes a port between the check and
#: the use, and above 23000-23999, where Ray Client servers listen.
FIRST, LAST = 24_000, 32_700
SIZE = 100


class Block:
    """Consecutive ports that no other block has while this one is open."""

    def __init__(self, first: int, claim: socket.socket) -> None:
        self.first = first
        # A listener on the last port, which Ray does not get. It shows others that the block is in
        # use, even before Ray listens.
        self._claim = claim

    @property
    def ports(self) -> range:
        """The usable ports."""
        return range(self.first, self.first + SIZE - 1)

    def close(self) -> None:
        self._claim.close()


def claim(wanted: int | None = None) -> Block:
    """The block that begins at `wanted` if it is free, or else any.

    Raises:
        OSError: there is none.
    """
    starts = list(range(FIRST, LAST - SIZE + 1, SIZE))
    # Not always the lowest: two that start at the same time seldom collide.
    random.shuffle(starts)
    for first in starts if wanted is None else [wanted, *starts]:
        listener = _listen(first + SIZE - 1)
        if listener is not None:
            block = Block(first, listener)
            if all(map(is_free, block.ports)):
                return block
            block.close()
    raise OSError(f"no {SIZE} free ports in a row between {FIRST} and {LAST} on 127.0.0.1")


def is_free(port: int) -> bool:
    listener = _listen(port)
    if listener is None:
        return False
    listener.close()
    return True


def _listen(port: int) -> socket.socket | None:
    listener = socket.socket()
    # As servers do: a port that is only in TIME_WAIT may be bound again.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with contextlib.suppress(OSError):
        listener.bind(("127.0.0.1", port))
        listener.listen()
        return listener
    listener.close()
    return None
