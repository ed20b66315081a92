"""The messages about child processes that several workers of one server share.

::

    worker -> pool   Want, then KillShared or Release
    pool -> worker   SharedPhase now and then, SharedUp, then SharedGone; or SharedGone alone

Every message names the use: a number that the worker has chosen for one life of one child. A
released use gets no further message.
"""

from __future__ import annotations

import msgspec


class Want(msgspec.Struct, frozen=True, tag="want", array_like=True):
    """Start a child, or use one that was started for the same words.

    Attributes:
        module: run with ``python -m``.
        load: the encoded first message to it.
        environment: variables for it, unless the environment has them.
        name: for logs.
    """

    use: int
    module: str
    load: bytes
    environment: dict[str, str]
    name: str


class Release(msgspec.Struct, frozen=True, tag="release", array_like=True):
    """The worker needs the child no longer; without a worker it is stopped."""

    use: int


class KillShared(msgspec.Struct, frozen=True, tag="kill", array_like=True):
    """Kill the child, for all workers; ``reason`` is logged."""

    use: int
    reason: str


class SharedPhase(msgspec.Struct, frozen=True, tag="phase", array_like=True):
    """A message of a child that is loading, as a frame; ``pid`` is the child's."""

    use: int
    pid: int
    frame: bytes


class SharedUp(msgspec.Struct, frozen=True, tag="up", array_like=True):
    """The child is ready: ``ready`` is its message, as a frame; connect to ``path``."""

    use: int
    pid: int
    path: str
    ready: bytes


class SharedGone(msgspec.Struct, frozen=True, tag="gone", array_like=True):
    """The child has ended; the use is over."""

    use: int
    reason: str


FromWorker = Want | Release | KillShared
ToWorker = SharedPhase | SharedUp | SharedGone
