"""Messages to the service manager that has started the server: systemd's notification protocol.

Source: ``sd_notify(3)``. A unit of ``Type=notify`` is up when the server answers requests.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

#: Everything is loaded, or has failed.
READY: Final = "READY=1"
#: Requests in flight are finished, and no new ones are accepted.
STOPPING: Final = "STOPPING=1"

_ADDRESS: Final = "NOTIFY_SOCKET"

_log: Final = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send a state to the service manager, if there is one. A failure is logged."""
    address = os.environ.get(_ADDRESS)
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # in the abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("the service manager cannot be notified of %s: %s", state, error.strerror)
