"""`ClientIdentity`: the sender of a request, wherever clients take turns."""

from __future__ import annotations

from typing import Final, NamedTuple

#: The priority of a client whose key has none, and the highest one.
NORMAL_PRIORITY: Final = 10
HIGHEST_PRIORITY: Final = 100


class ClientIdentity(NamedTuple):
    """The sender of a request, for the scheduling of clients. It grants no rights.

    Attributes:
        name: the API key's digest if keys are required, else the peer's address; "" if unknown.
        connection: distinguishes connections of the same name.
        priority: its share where clients take turns: twice the priority has twice the share.
    """

    name: str
    connection: str = ""
    priority: int = NORMAL_PRIORITY


UNKNOWN_CLIENT: Final = ClientIdentity("")
