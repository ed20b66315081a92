"""Callbacks for the disconnection of a client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger(__name__)


class Disconnection:
    """The part of a `ClientConnection` that all fronts share.

    Attributes:
        is_disconnected: True once the client has disconnected.
    """

    is_disconnected = False
    _callbacks: tuple[Callable[[], None], ...] = ()

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the client disconnects, or now if it already has."""
        if self.is_disconnected:
            callback()
        else:
            self._callbacks = (*self._callbacks, callback)

    def disconnect(self) -> None:
        """Mark the client as disconnected and run the callbacks. Later calls do nothing."""
        self.is_disconnected = True
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a disconnect callback failed")

    def forget(self) -> None:
        """Drop the callbacks: the request is over."""
        self._callbacks = ()
