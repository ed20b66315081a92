"""`HeadWatch`: ends a process whose cluster is lost; a front gives each request an error first.

Ray ends the process of a front by itself, 60 s after the head has died, and breaks its streams off.
So the front refuses and ends requests before that, as for SIGTERM. Then it ends its process without
the farewells that Ray would wait for, and its supervisor starts the next one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Final, Self

_log: Final = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
#: Seconds that a head may be away: one whose tables are in a Redis comes back.
AWAY_SECONDS: Final = 45.0
#: Seconds that requests have to end when the head is away for longer, and on a cluster that was
#: started here, which cannot come back.
DRAIN_SECONDS: Final = 5.0
OWN_DRAIN_SECONDS: Final = 10.0
#: Seconds for the errors of the requests that are left.
_ERROR_SECONDS: Final = 2.0


class HeadWatch:
    """Looks at a cluster in a thread; use it as a context manager around what needs it."""

    def __init__(
        self,
        is_lost: Callable[[], bool],
        abandon: Callable[[], None],
        address: str,
        *,
        is_own: bool,
        is_front: bool,
        away: float = AWAY_SECONDS,
    ) -> None:
        """
        Args:
            is_lost: looks whether the cluster is lost now; it may block for seconds.
            abandon: called before the end of the process, for what would outlive it.
            address: of the head, for the log.
            is_own: the cluster was started here.
            is_front: SIGTERM lets the process end its requests.
            away: seconds that the head of another cluster may be away.
        """
        self._is_lost = is_lost
        self._abandon = abandon
        self._address = address
        self._away = 0.0 if is_own else away
        self._is_front = is_front
        self._drain = OWN_DRAIN_SECONDS if is_own else DRAIN_SECONDS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch the head", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        lost_since: float | None = None
        while not self._stop.wait(_POLL_SECONDS):
            if not self._is_lost():
                if lost_since is not None:
                    _log.warning("the head of the Ray cluster %s is back", self._address)
                lost_since = None
                continue
            now = time.monotonic()
            if lost_since is None:
                lost_since = now
                _log.error(
                    "the Ray cluster %s is lost: this process ends in %g s",
                    self._address,
                    self._away + (self._drain if self._is_front else 0.0),
                )
            if now - lost_since >= self._away:
                self._end()
                return

    def _end(self) -> None:
        if self._is_front:
            os.kill(os.getpid(), signal.SIGTERM)
            if not self._stop.wait(self._drain):
                os.kill(os.getpid(), signal.SIGTERM)  # what is still in flight gets an error
                self._stop.wait(_ERROR_SECONDS)
        try:
            self._abandon()
            logging.shutdown()
        finally:
            os._exit(1)
