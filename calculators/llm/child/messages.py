"""The messages that every child of ours shares."""

from __future__ import annotations

import msgspec


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed", array_like=True):
    """The child cannot do its work and ends. ``reason`` has no internals."""

    reason: str


class Stop(msgspec.Struct, frozen=True, tag="stop", array_like=True):
    """End the process; what is running is dropped."""
