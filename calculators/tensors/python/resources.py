"""`PythonResourceInitializer`: fills ``PYTHON_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from calculators.kit.child_process.framing import Piece
from calculators.kit.child_process.supervisor import LoadError, SupervisedProcess, unavailable
from calculators.kit.model_initializer import model_identity
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.handler import HandlerFileError, PythonHandler
from calculators.tensors.python.handler_options import CALCULATOR, OPTIONS_TYPE
from calculators.tensors.python.instance import HandlerSettings, HandlerTurn, Instance
from calculators.tensors.python.messages import (
    EndGenerator,
    Execute,
    HandlerFailed,
    HandlerReady,
    Head,
    Next,
    UnsupportedPayloadError,
    decode_answer,
    encode,
    frame_of,
    packed,
)
from calculators.tensors.python.python_node import LOOPBACK, RESPONSE_TAGS, PythonNode
from graph_runtime import (
    LoadProgress,
    NodePlan,
    NodeResource,
    ResourceError,
    ResourceSettings,
    find_options,
)
from graphrt_base.regular_file import read_regular_file
from protos import messages

T = TypeVar("T")


class HandlerThread:
    """Runs calls in order. It does not keep the process alive, because a handler may hang."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        # A thread per handler is OVMS's way, and one option away. With an endless loop in it, a
        # chat beside took 23 ms instead of 0.9 (decision 0026).
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call. It is skipped if its future is cancelled before its turn.

        The future takes any exception of the call, which must not raise `StopIteration`.
        """
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def end(self) -> None:
        """End the thread when all queued calls are done."""
        self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            # The result belongs to the waiter; an idle thread must not keep it alive.
            del item, future, call


class ThreadInstance:
    """A handler in one thread of its own, so that the event loop never waits for it.

    The thread shares the interpreter with the server: a handler that computes in plain Python
    slows everything down, and one that hangs cannot be ended. Made by `load_in_thread`.
    """

    #: A loaded handler can always work; a call that hangs blocks its own instance only.
    unavailable_reason = ""

    def __init__(self, node_name: str, handler: PythonHandler, thread: HandlerThread) -> None:
        self.handler = handler
        self._node_name = node_name
        self._thread = thread

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[HandlerTurn]:
        return asyncio.wrap_future(self._thread.submit(lambda: self.handler.execute(key, inputs)))

    def next(self, key: int) -> asyncio.Future[HandlerTurn]:
        return asyncio.wrap_future(self._thread.submit(lambda: self.handler.next(key)))

    def end(self, key: int) -> None:
        self._thread.submit(lambda: self.handler.end(key))

    def abandon(self) -> None:
        """Do nothing: a thread cannot be killed, so the call runs to its end."""

    async def close(self) -> None:
        done = asyncio.wrap_future(self._thread.submit(self.handler.finalize))
        finished, _ = await asyncio.wait((done,), timeout=FINALIZE_SECONDS)
        if finished:
            done.exception()  # logged where it was raised
        else:
            log.warning('node "%s": finalize takes too long; abandoned', self._node_name)
            done.cancel()
        self._thread.end()


async def load_in_thread(settings: HandlerSettings) -> ThreadInstance:
    """Load a handler in the thread that it will live in.

    Raises:
        HandlerFileError: the handler cannot be loaded; the traceback is logged.
    """
    thread = HandlerThread(f"graphrt-python-{settings.node_name}")
    try:
        handler = await asyncio.wrap_future(thread.submit(lambda: PythonHandler(settings)))
    except BaseException:
        thread.end()
        raise
    return ThreadInstance(settings.node_name, handler, thread)


log = logging.getLogger("graphrt.python")

#: Seconds that ``finalize`` may delay the unloading of a graph before the process is killed.
FINALIZE_SECONDS: Final = 5.0
#: A call has no time limit while a caller waits for it.
_NEVER: Final = 1e6


class _HandlerQuestion:
    """A question without an answer yet.

    ``answer`` is None for an `EndGenerator`, for which nobody waits.
    """

    __slots__ = ("answer", "is_abandoned")

    def __init__(self, answer: asyncio.Future[HandlerTurn] | None) -> None:
        self.answer = answer
        self.is_abandoned = answer is None


class ProcessInstance(SupervisedProcess[HandlerReady]):
    """A handler in a process, isolated from the server.

    When the process ends, the current call fails with UNAVAILABLE, all generators are lost, and the
    process is restarted. A process that spends more than ``grace_seconds`` on an abandoned call is
    killed.
    """

    def __init__(
        self,
        settings: HandlerSettings,
        *,
        name: str,
        grace_seconds: float,
        on_down: Callable[[ProcessInstance], None],
        on_back: Callable[[], None],
    ) -> None:
        """``name`` is for messages, such as ``handler of node "a"``."""
        self._node_name = settings.node_name
        self._grace_seconds = grace_seconds
        self._on_down = on_down
        self._on_back = on_back
        self._asked: deque[_HandlerQuestion] = deque()
        self._watched: _HandlerQuestion | None = None
        self._is_hung = False
        self._grace_timer: asyncio.TimerHandle | None = None
        super().__init__(
            name=name,
            module="calculators.tensors.python.process",
            load=settings,
            decode=decode_answer,
            ready=HandlerReady,
            hang_seconds=_NEVER,
            stop_seconds=FINALIZE_SECONDS,
        )

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[HandlerTurn]:
        heads: list[Head] = []
        pieces: list[Piece] = []
        try:
            for value in inputs:
                head, data = packed(value)
                heads.append(head)
                pieces += data
            frame = frame_of(Execute(key, heads), pieces)
        except UnsupportedPayloadError as error:
            answer: asyncio.Future[HandlerTurn] = asyncio.get_running_loop().create_future()
            answer.set_exception(
                RequestError(
                    f'the handler of node "{self._node_name}" runs in a process of its own, which '
                    f"takes tensors and HTTP requests, not {error}; with isolation: THREAD in the "
                    f"node's options it takes anything"
                )
            )
            return answer
        return self._ask(*frame)

    def next(self, key: int) -> asyncio.Future[HandlerTurn]:
        return self._ask(encode(Next(key)))

    def end(self, key: int) -> None:
        if self.unavailable_reason:
            return  # the generator was lost with its process
        self._asked.append(_HandlerQuestion(None))
        self.send(encode(EndGenerator(key)))
        self._watch_abandoned()

    def abandon(self) -> None:
        for asked in self._asked:
            asked.is_abandoned = True
        self._watch_abandoned()

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await super().close()
        if loop.time() - begin >= FINALIZE_SECONDS:
            log.warning('node "%s": finalize takes too long; its process was ended',
                        self._node_name)  # fmt: skip

    def _ask(self, *pieces: Piece) -> asyncio.Future[HandlerTurn]:
        answer: asyncio.Future[HandlerTurn] = asyncio.get_running_loop().create_future()
        self._asked.append(_HandlerQuestion(answer))
        self.send(*pieces)
        return answer

    def take(self, message: Any) -> None:
        if not self._asked:
            self.kill("it sent an answer without a question")
            return
        answer = self._asked.popleft().answer
        if answer is not None and isinstance(message, HandlerFailed):
            answer.set_exception(message.error)
        elif answer is not None:
            answer.set_result(message)
        self._watch_abandoned()

    def _watch_abandoned(self) -> None:
        """Limit the time of an abandoned call, from the moment it was abandoned."""
        head = self._asked[0] if self._asked else None
        wanted = head if head is not None and head.is_abandoned else None
        if wanted is self._watched:
            return
        self._watched = wanted
        if self._grace_timer is not None:
            self._grace_timer.cancel()
            self._grace_timer = None
        if wanted is not None:
            loop = asyncio.get_running_loop()
            self._grace_timer = loop.call_later(self._grace_seconds, self._kill_hung)

    def caused_end(self) -> bool:
        """Return whether a call ended the process, by a crash or by not ending."""
        return bool(self._asked) and (self.has_crashed or self._is_hung)

    def _kill_hung(self) -> None:
        self._is_hung = True
        self.kill("it did not end an abandoned call in time")

    def back(self) -> None:
        self._on_back()

    def down(self, reason: str) -> None:
        self._is_hung = False
        self._fail_all(f"the {self.name} ended before it answered: {reason}")
        self._on_down(self)

    def end_work(self) -> None:
        self._fail_all(self.unavailable_reason)

    def _fail_all(self, reason: str) -> None:
        open_, self._asked = self._asked, deque()
        self._watch_abandoned()
        for asked in open_:
            if asked.answer is not None:
                asked.answer.set_exception(unavailable(reason))


RESOURCES_TAG: Final = "PYTHON_NODE_RESOURCES"
#: Limit of instances: more threads or processes than this are of no use on any machine.
MAX_INSTANCES: Final = 256
#: Bytes of a handler's file; a larger one is not code.
_LARGEST_CODE: Final = 16 * 1024 * 1024


class PythonResourceInitializer:
    """Loads the handler instances of every `PythonExecutorCalculator` node."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        handler = _handler_settings(node, settings, _checked(node).handler_path)
        if not Path(handler.path).is_file():
            raise _handler_error(node, "no such file")
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> PythonNode:
        options = _checked(node)
        handler = _handler_settings(node, settings, options.handler_path)
        try:
            return await _loaded(handler, options, settings.progress)
        except (HandlerFileError, LoadError) as error:
            raise _handler_error(node, error) from error

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`. All that a handler may import or read counts, as
        far as it is beside its file."""
        options = _checked(node)
        handler = _handler_settings(node, settings, options.handler_path)
        path = Path(handler.path)
        try:
            code = hashlib.sha256(read_regular_file(path, _LARGEST_CODE)).hexdigest()
        except OSError:  # `make` says what is wrong
            return None
        folder = path.parent
        return model_identity(
            *(handler, options.SerializeToString(deterministic=True), code),
            paths=(folder, *folder.glob("*.py"), *folder.glob("*/*.py")),
        )

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: all options belong to its identity."""
        return resource


def _checked(node: NodePlan) -> Any:
    """Return the options of a node.

    Raises:
        ResourceError: an option is wrong; the text names node and field, and what would be right.
    """
    name = node.config.name
    options = find_options(node.config, OPTIONS_TYPE)
    if not options.handler_path:
        raise ResourceError(
            f'node "{name}": it has no handler_path; it needs node_options: {{ '
            "[type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: "
            '{ handler_path: "model.py" } }'
        )
    if not 1 <= options.instances <= MAX_INSTANCES:
        raise ResourceError(
            f'node "{name}": instances: {options.instances} is not from 1 to {MAX_INSTANCES}'
        )
    if not options.cancel_grace_seconds >= 0:
        raise ResourceError(
            f'node "{name}": cancel_grace_seconds: {options.cancel_grace_seconds} is not 0 or more'
        )
    return options


def _handler_error(node: NodePlan, reason: object) -> ResourceError:
    given = find_options(node.config, OPTIONS_TYPE).handler_path
    return ResourceError(f'node "{node.config.name}": handler_path "{given}": {reason}')


def _handler_settings(node: NodePlan, settings: ResourceSettings, given: str) -> HandlerSettings:
    path = (settings.directory / given).resolve()
    outputs = [
        (tag, stream)
        for (tag, _), stream in zip(node.outputs.keys, node.outputs.names, strict=True)
        if tag != LOOPBACK
    ]
    return HandlerSettings(
        node_name=node.config.name,
        path=str(path),
        input_names=_stream_names(node.config.input_stream),
        output_names=_stream_names(node.config.output_stream),
        base_path=str(path.parent),
        streams=[stream for _, stream in outputs],
        response=next((stream for tag, stream in outputs if tag in RESPONSE_TAGS), None),
        may_generate=node.outputs.has_tag(LOOPBACK),
        log_level=logging.getLogger().getEffectiveLevel(),
    )


async def _loaded(
    handler: HandlerSettings,
    options: messages.PythonExecutorCalculatorOptions,
    progress: LoadProgress,
) -> PythonNode:
    """Load all instances concurrently; if one fails, all are closed."""
    node = PythonNode(handler.node_name)
    # Decision 0026: a process of its own unless the author asks for a thread, as OVMS has it.
    is_thread = options.isolation == options.THREAD

    async def load(number: int, part: LoadProgress) -> None:
        instance: Instance
        if is_thread:
            part.begin("initializing a handler", 0.0)
            instance = await load_in_thread(handler)
        else:
            which = f" {number}" if options.instances > 1 else ""
            instance = process = ProcessInstance(
                handler,
                name=f'handler{which} of node "{handler.node_name}"',
                grace_seconds=options.cancel_grace_seconds,
                on_down=node.instance_ended,
                on_back=node.instance_is_back,
            )
            await process.start(part)
        part.finish()
        node.add(instance)

    parts = progress.split(*(1.0 for _ in range(options.instances)))
    loads = [asyncio.ensure_future(load(number, part)) for number, part in enumerate(parts, 1)]
    try:
        for failed in await asyncio.gather(*loads, return_exceptions=True):
            if failed is not None:
                raise failed
    except BaseException:
        await asyncio.wait(loads)
        await node.close()
        raise
    return node


def _stream_names(entries: Sequence[str]) -> list[str]:
    """Return names without tags, ``"TAG:name"`` -> "name", in the order of the graph."""
    return [entry.rpartition(":")[2] for entry in entries]
