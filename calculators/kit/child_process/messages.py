"""The messages that all child processes share."""

from __future__ import annotations

from typing import TypeAlias

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


class ReaderLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message to a process that reads clients' files and has no model.

    Attributes:
        memory_limit: bytes that the process may grow by when it has started.
        model_path: unused; there is no model.
    """

    memory_limit: int
    model_path: str = ""


class ReaderReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The process can read files."""


class StopChild(msgspec.Struct, frozen=True, tag="stop", array_like=True):
    """End the process; running work is dropped."""


class Log(msgspec.Struct, frozen=True, tag="log", array_like=True):
    """A line of the child's log for the server's, at any time; ``level`` is one of ``logging``."""

    level: int
    logger: str
    text: str


#: What a process that reads files gets, and what it says, besides its questions and answers.
ToReader: TypeAlias = ReaderLoad | StopChild
FromReader: TypeAlias = ReaderReady | LoadingPhase | LoadFailed | Log


def plain(text: str) -> str:
    """Return the text without halves of surrogate pairs, which no message can hold."""
    return text.encode("utf-8", "replace").decode()
