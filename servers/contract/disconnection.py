"""Telling those who want to know that a client has gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger(__name__)


class Disconnection:
    """The part of a `ClientConnection` that is the same in every front.

    Attributes:
        is_disconnected: has the client gone?
    """

    __slots__ = ("_callbacks", "is_disconnected")

    def __init__(self, *, is_disconnected: bool = False) -> None:
        self.is_disconnected = is_disconnected
        self._callbacks: list[Callable[[], None]] = []

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call it once, when the client goes; now if it has gone."""
        if self.is_disconnected:
            callback()
        else:
            self._callbacks.append(callback)

    def disconnect(self) -> None:
        """The client has gone: tell everybody, once."""
        self.is_disconnected = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a disconnect callback failed")

    def forget(self) -> None:
        """The request is over: what the client does from now on is no longer told."""
        self._callbacks.clear()
