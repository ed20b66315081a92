"""`ChildPool`: the child processes that the workers of one server share.

The pool starts a child when a worker wants it, and another worker that wants the same gets the same
child. It does not start a child again by itself: each worker's `SupervisedProcess` wants it again
after its back-off, and the first one to do so starts it for all.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.owned_folder import OwnedFolder
from calculators.kit.child_process.shared_child import (
    FromWorker,
    KillShared,
    Release,
    SharedGone,
    SharedPhase,
    SharedUp,
    ToWorker,
    Want,
)

_STOP_SECONDS: Final = 2.0
_BACKLOG: Final = 128
_KIND: Final = "workers"
#: Tags of messages that may precede the one that says that a child is ready.
_WHILE_LOADING: Final = ("loading", "load_failed", "log")

#: Module, first message, environment and name; and the place among one worker's equal ones.
_Key = tuple[str, bytes, tuple[tuple[str, str], ...], str, int]


class _User:
    """One use of a child by one worker."""

    def __init__(self, worker: int, use: int, send: Callable[[ToWorker], None]) -> None:
        self.worker = worker
        self.use = use
        self.send = send


class _Shared:
    """One life of a child.

    Attributes:
        ready: its message when it had loaded; None before.
    """

    def __init__(self, key: _Key, path: str, child: ChildProcess) -> None:
        self.key = key
        self.path = path
        self.child = child
        self.users: list[_User] = []
        self.ready: bytes | None = None
        self.starting: asyncio.Task[None] | None = None
        self.stopping: asyncio.Task[None] | None = None


class ChildPool:
    """Starts, finds and stops shared children, on the running event loop."""

    def __init__(self) -> None:
        """Make the folder of the children's sockets, which only this user can open.

        Raises:
            OSError: there is no folder for temporary files.
        """
        self._folder = OwnedFolder(_KIND)
        self._children: dict[_Key, _Shared] = {}
        self._ending: set[_Shared] = set()
        self._started = 0

    @property
    def folder(self) -> str:
        """The path of the folder with the children's sockets."""
        return self._folder.path

    @property
    def pids(self) -> list[int]:
        """The ids of the running children."""
        return [each.child.pid for each in self._children.values() if each.ready is not None]

    def take(self, worker: int, message: FromWorker, send: Callable[[ToWorker], None]) -> None:
        """Handle a message of a worker; ``send`` sends to it."""
        match message:
            case Want():
                self._want(_User(worker, message.use, send), message)
            case Release(use=use):
                self._release(worker, use)
            case KillShared(use=use, reason=reason):
                for shared in self._children.values():
                    # Any worker may kill: each watches its own questions, and a child that hangs
                    # hangs for all (decision 0071).
                    if any((user.worker, user.use) == (worker, use) for user in shared.users):
                        shared.child.kill(reason)
                        return

    def forget(self, worker: int) -> None:
        """End all uses of a worker that has ended."""
        for shared in list(self._children.values()):
            for user in list(shared.users):
                if user.worker == worker:
                    self._release(worker, user.use)

    async def close(self) -> None:
        """Stop everything, and remove the folder."""
        for shared in list(self._children.values()):
            self._stop(shared)
        waiting = [each.stopping for each in self._ending if each.stopping is not None]
        await asyncio.gather(*waiting, return_exceptions=True)
        self._folder.remove()

    # Uses -----------------------------------------------------------------------------------------

    def _want(self, user: _User, want: Want) -> None:
        words = (want.module, want.load, tuple(sorted(want.environment.items())), want.name)
        place = 0
        # A worker that wants the same twice, as for two graphs, gets two.
        while self._is_used((*words, place), user.worker) or self._is_lost((*words, place)):
            place += 1
        # The first message is part of the key: it holds model and options, so workers share only
        # what they would have loaded alike (decision 0071).
        key = (*words, place)
        shared = self._children.get(key)
        if shared is None:
            shared = self._start(key, want)
        shared.users.append(user)
        if shared.ready is not None:
            user.send(SharedUp(user.use, shared.child.pid, shared.path, shared.ready))

    def _is_used(self, key: _Key, worker: int) -> bool:
        shared = self._children.get(key)
        return shared is not None and any(user.worker == worker for user in shared.users)

    def _is_lost(self, key: _Key) -> bool:
        """Return whether a cleaner of temporary files has removed a child's socket."""
        shared = self._children.get(key)
        return shared is not None and shared.ready is not None and not os.path.exists(shared.path)

    def _release(self, worker: int, use: int) -> None:
        for shared in self._children.values():
            for user in shared.users:
                if (user.worker, user.use) == (worker, use):
                    shared.users.remove(user)
                    # The model of a worker that reloads stays as long as another uses it.
                    if not shared.users:
                        self._stop(shared)
                    return

    # Lives ----------------------------------------------------------------------------------------

    def _start(self, key: _Key, want: Want) -> _Shared:
        self._started += 1
        try:
            # systemd-tmpfiles removes what was not used for days; running children keep their
            # connections and notice nothing.
            if not os.path.isdir(self.folder):  # removed by a cleaner of temporary files
                self._folder.remove()
                self._folder = OwnedFolder(_KIND)
        except OSError:
            pass  # `_spawn` tells the workers
        path = os.path.join(self.folder, str(self._started))
        child = ChildProcess(
            lambda frame: self._take_frame(shared, frame),
            lambda reason: self._gone(shared, reason),
            want.name,
        )
        shared = _Shared(key, path, child)
        self._children[key] = shared
        shared.starting = asyncio.create_task(self._spawn(shared, want))
        return shared

    async def _spawn(self, shared: _Shared, want: Want) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(shared.path)
                listener.listen(_BACKLOG)
                listener.setblocking(False)
                await shared.child.start(want.module, want.environment, listener)
        except OSError as error:
            self._gone(shared, f"it could not be started: {error.strerror or error}")
            return
        shared.child.send(want.load)

    def _take_frame(self, shared: _Shared, frame: Frame) -> None:
        if shared.ready is not None:
            # The pool stands in no request's way: frames go from worker to child directly (decision
            # 0071).
            return  # it talks to the workers now
        content: Any = msgspec.msgpack.decode(frame)
        if content[0] in _WHILE_LOADING:
            for user in shared.users:
                user.send(SharedPhase(user.use, shared.child.pid, bytes(frame)))
            return
        shared.ready = bytes(frame)
        for user in shared.users:
            user.send(SharedUp(user.use, shared.child.pid, shared.path, shared.ready))

    def _gone(self, shared: _Shared, reason: str) -> None:
        if self._children.get(shared.key) is shared:
            # Not restarted here: each worker's supervisor asks again after its back-off (decision
            # 0071).
            del self._children[shared.key]
        with suppress(OSError):
            os.unlink(shared.path)
        users, shared.users = shared.users, []
        for user in users:
            user.send(SharedGone(user.use, reason))

    def _stop(self, shared: _Shared) -> None:
        """Stop a child that no worker uses. The next one to want it starts another."""
        self._children.pop(shared.key, None)
        self._ending.add(shared)
        shared.stopping = asyncio.create_task(self._finish(shared))
        shared.stopping.add_done_callback(lambda _: self._ending.discard(shared))

    async def _finish(self, shared: _Shared) -> None:
        if shared.starting is not None:
            await asyncio.wait([shared.starting])
        if not shared.child.is_running:
            return
        shared.child.stop()
        try:
            await asyncio.wait_for(shared.child.wait(), _STOP_SECONDS)
        except TimeoutError:
            shared.child.kill("it did not stop in time")
            await shared.child.wait()
