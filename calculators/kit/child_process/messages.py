"""The messages that all child processes share."""

from __future__ import annotations

import msgspec


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed", array_like=True):
    """The child could not load, and ends. ``reason`` may be shown to clients."""

    reason: str


class LoadingPhase(msgspec.Struct, frozen=True, tag="loading", array_like=True):
    """A phase of loading has begun; see `graph_runtime.LoadProgress.begin`.

    Attributes:
        phase: a few words, which clients may see.
        start, end: the fractions of the loading, from 0 to 1, before and after the phase.
        file_bytes: bytes of files that the process maps into its memory during the phase, by which
            its progress is measured; 0: it is not.
    """

    phase: str
    start: float
    end: float
    file_bytes: int = 0


class StopChild(msgspec.Struct, frozen=True, tag="stop", array_like=True):
    """End the process; running work is dropped."""


class Log(msgspec.Struct, frozen=True, tag="log", array_like=True):
    """A line of the child's log for the server's, at any time; ``level`` is one of ``logging``."""

    level: int
    logger: str
    text: str


def plain(text: str) -> str:
    """Return the text without halves of surrogate pairs, which no message can hold."""
    return text.encode("utf-8", "replace").decode()
