"""`Scratch`: graphs that are not served, checked and run in child processes.

Calculators may import, compute and block, and they run with options that a client chose: none of
that may happen in the server. One child checks texts, as fast as people type; a text that takes it
longer than `QUICK_SECONDS` is begun again in a second child, for those, so that nobody's typing
waits for it. Each run has a child of its own, which ends with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.owned_folder import OwnedFolder
from graph_runtime import UnavailableError
from servers.page.scratch_messages import (
    Begin,
    Check,
    CheckedDraft,
    DraftCheck,
    DraftResult,
    DraftRun,
    Message,
    ScratchRun,
)

#: The program of the children, which stands above this room.
_MODULE: Final = "servers.cli.scratch"
#: Seconds for a run, and for its child to start and to end besides.
RUN_SECONDS: Final = 10.0
_START_SECONDS: Final = 20.0
#: Bytes that a run may take.
RUN_MEMORY: Final = 1 << 30
CHECK_SECONDS: Final = 10.0
QUICK_SECONDS: Final = 1.0
#: Bytes that a check, or the files of a run, may take.
CHECK_MEMORY: Final = 1 << 30
RUN_FILES: Final = 256 << 20
#: The child that checks ends after this time without a text.
IDLE_SECONDS: Final = 60.0
#: Texts that wait, and runs at a time.
MOST_WAITING: Final = 8
MOST_RUNS: Final = 2


@dataclass(frozen=True, slots=True)
class AuthorModules:
    """Calculators of the operator's own.

    Attributes:
        modules: names to import.
        paths: files and directories.
        version: changes when they are to be imported again.
    """

    modules: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()
    version: Hashable = None


class Scratch:
    """Checks and runs drafts of graphs. Belongs to one event loop; `close` ends its children."""

    def __init__(
        self,
        author_modules: Callable[[], AuthorModules] = AuthorModules,
        *,
        run_seconds: float = RUN_SECONDS,
        memory: int = RUN_MEMORY,
    ) -> None:
        """
        Args:
            author_modules: what the children import besides graphrt's own calculators.
            run_seconds: processor time, and time, of one run.
            memory: bytes of one run, beyond what an idle child has.
        """
        self._author_modules = author_modules
        self._run_seconds = run_seconds
        self._memory = memory
        self._quick = _Checker(author_modules, QUICK_SECONDS)
        self._slow = _Checker(author_modules, CHECK_SECONDS)
        self._runs: set[_Child] = set()

    async def check(self, body: DraftCheck) -> CheckedDraft:
        """Return the findings about a text, with its description and layout.

        Raises:
            UnavailableError: too many texts wait, or the child failed.
        """
        try:
            return await self._quick.check(body)
        except TimeoutError:
            pass
        try:
            return await self._slow.check(body)
        except TimeoutError:
            raise UnavailableError(
                f"the check took longer than {CHECK_SECONDS:g} s and was stopped"
            ) from None

    async def run(self, body: DraftRun) -> DraftResult:
        """Run a graph in a child of its own, with limits of time and memory.

        Raises:
            UnavailableError: too many runs go on, or the child cannot be started.
        """
        if len(self._runs) >= MOST_RUNS:
            raise UnavailableError("other graphs are being tried; try again in a few seconds")
        begin = Begin(
            *_imports(self._author_modules()),
            memory=self._memory,
            cpu_seconds=round(self._run_seconds) + 1,
            run_seconds=self._run_seconds,
            file_bytes=RUN_FILES,
        )
        async with self._child() as child:
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await child.start(begin)
            except TimeoutError:
                raise UnavailableError("the process for the run did not start in time") from None
            try:
                # The child ends its run by itself, so that its packets are not lost.
                async with asyncio.timeout(self._run_seconds + 2):
                    answer = await child.ask(ScratchRun(body))
            except TimeoutError:
                text = f"the run took longer than {self._run_seconds:g} s and was stopped"
                return DraftResult("stopped", text)
            except UnavailableError as error:
                hint = f"a run has {self._memory >> 20} MiB and {self._run_seconds:g} s"
                return DraftResult("stopped", str(error), hint)
        return msgspec.json.decode(answer, type=DraftResult)

    async def close(self) -> None:
        """End the children. Checks and runs in progress fail."""
        await self._quick.end()
        await self._slow.end()
        for child in tuple(self._runs):
            await child.end()

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[_Child]:
        child = _Child("graph that is tried")
        self._runs.add(child)
        try:
            yield child
        finally:
            self._runs.discard(child)
            await asyncio.shield(child.end())


def _imports(found: AuthorModules) -> tuple[list[str], list[str]]:
    return list(found.modules), [str(path) for path in found.paths]


class _Checker:
    """The child that checks texts, one after the other, while there are some."""

    def __init__(self, author_modules: Callable[[], AuthorModules], seconds: float) -> None:
        """``seconds``: of one text."""
        self._author_modules = author_modules
        self._seconds = seconds
        self._child: _Child | None = None
        self._version: Hashable = None
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None

    async def check(self, body: DraftCheck) -> CheckedDraft:
        """Return the findings about a text.

        Raises:
            TimeoutError: it took too long. The child has ended.
            UnavailableError: too many texts wait, or the child failed.
        """
        if self._waiting >= MOST_WAITING:
            raise UnavailableError("too many graphs wait to be checked; try again in a second")
        self._waiting += 1
        try:
            async with self._lock:
                child = await self._ready()
                try:
                    async with asyncio.timeout(self._seconds):
                        answer = await child.ask(Check(body))
                except BaseException:
                    # Its next answer would be the one to this text.
                    await self.end()
                    raise
                self._end_later()
                return msgspec.json.decode(answer, type=CheckedDraft)
        finally:
            self._waiting -= 1

    async def end(self) -> None:
        """End the child. A check in progress fails."""
        if self._idle is not None:
            self._idle.cancel()
        child, self._child = self._child, None
        if child is not None:
            await asyncio.shield(child.end())

    async def _ready(self) -> _Child:
        if self._idle is not None:
            self._idle.cancel()
        modules = self._author_modules()
        if self._child is not None and modules.version != self._version:
            await self.end()
        if self._child is None or self._child.is_over:
            child = _Child("check of graphs")
            self._child, self._version = child, modules.version
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await child.start(Begin(*_imports(modules), memory=CHECK_MEMORY))
            except BaseException as error:
                await self.end()
                if isinstance(error, TimeoutError):
                    raise UnavailableError("the process of checks did not start") from None
                raise
        return self._child

    def _end_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        if not self._lock.locked() and self._child is not None:
            self._child.kill()
            self._child = None


class _Child:
    """One child process, in a directory of its own: a question at a time."""

    def __init__(self, name: str) -> None:
        self._process = ChildProcess(self._take, self._over, name)
        self._answer: asyncio.Future[bytes] | None = None
        self._is_started = False
        #: Removed here, as the child may be killed at any time.
        self._folder: OwnedFolder | None = None
        self._removal: asyncio.Future[None] | None = None
        self.is_over = False

    async def start(self, begin: Begin) -> None:
        """Start the process and wait until it has imported everything."""
        try:
            self._folder = OwnedFolder("scratch")
            await self._process.start(_MODULE)
        except OSError as error:
            self.is_over = True
            raise UnavailableError("no process can be started for this") from error
        self._is_started = True
        await self.ask(msgspec.structs.replace(begin, folder=self._folder.path))

    async def ask(self, message: Message) -> bytes:
        """Return the bytes of the answer.

        Raises:
            UnavailableError: the process has ended; the text says how.
        """
        if self.is_over:
            raise UnavailableError("the process has ended")
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._process.send(msgspec.json.encode(message))
        found: bytes = await answer
        return found

    def kill(self) -> None:
        """End the process now, and those that it has started."""
        if self._is_started and not self.is_over:
            self._kill_group()
            self._process.kill("it is not needed any more")

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        if self._is_started:
            await self._process.wait()
        self._remove_folder()
        if self._removal is not None:
            await self._removal

    def _remove_folder(self) -> None:
        if self._folder is not None:
            loop = asyncio.get_running_loop()
            # A run may have written as many files as it liked.
            self._removal = loop.run_in_executor(None, self._folder.remove)
            self._folder = None

    def _take(self, frame: Frame) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(bytes(frame))

    def _over(self, reason: str) -> None:
        self.is_over = True
        self._kill_group()
        self._remove_folder()
        if self._answer is not None and not self._answer.done():
            with suppress(asyncio.InvalidStateError):
                self._answer.set_exception(UnavailableError(f"the process ended: {reason}"))
