"""The messages that all child processes share."""

from __future__ import annotations

import msgspec


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed", array_like=True):
    """The child could not load, and ends. ``reason`` may be shown to clients."""

    reason: str


class Stop(msgspec.Struct, frozen=True, tag="stop", array_like=True):
    """End the process; running work is dropped."""


class Log(msgspec.Struct, frozen=True, tag="log", array_like=True):
    """A line of the child's log for the server's, at any time; ``level`` is one of ``logging``."""

    level: int
    logger: str
    text: str
