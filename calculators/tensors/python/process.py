"""``python -m calculators.tensors.python.process``: one handler in a process of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Sequence

from calculators.kit.child_process.framing import Frame, Piece
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild, plain
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.handler import HandlerFileError, PythonHandler, first_line
from calculators.tensors.python.instance import HandlerError, HandlerSettings, HandlerTurn
from calculators.tensors.python.messages import (
    EndGenerator,
    Execute,
    GeneratorEnded,
    HandlerFailed,
    HandlerReady,
    Head,
    Next,
    UnsupportedPayloadError,
    Yielded,
    decode_question,
    encode,
    frame_of,
    packed,
    unpacked,
)

log = logging.getLogger("graphrt.python")


class HandlerProcess:
    """Loads a handler, then makes the calls that the server requests, one after the other."""

    def __init__(self, connection: ParentConnection) -> None:
        self._connection = connection
        # Any thread of the handler may log.
        self._sending = threading.Lock()
        self._failed = ""
        self._handler: PythonHandler | None = None

    def run(self) -> None:
        """Answer questions until the server sends `StopChild`.

        Raises:
            ParentGone: the server is gone.
        """
        while True:
            for frame in self._connection.receive(wait=True):
                question = decode_question(frame)
                if isinstance(question, HandlerSettings):
                    if not self._load(question):
                        return
                elif isinstance(question, StopChild):
                    self._stop()
                    return
                else:
                    self.send(*self._answer(question, frame))

    def send(self, *pieces: Piece) -> None:
        with self._sending:
            self._connection.send(*pieces)

    def _load(self, settings: HandlerSettings) -> bool:
        logging.basicConfig(handlers=[ServerLog(self)], level=settings.log_level, force=True)
        self._failed = f'the handler of node "{settings.node_name}" failed: '
        self.send(encode(LoadingPhase("initializing a handler", 0.2, 1.0)))
        try:
            self._handler = PythonHandler(settings)
        except HandlerFileError as error:
            self.send(encode(LoadFailed(plain(str(error)))))
            return False
        self.send(encode(HandlerReady()))
        return True

    def _answer(self, question: Execute | Next | EndGenerator, frame: Frame) -> Sequence[Piece]:
        handler, key = self._handler, question.key
        assert handler is not None, "it is loaded first"
        try:
            if isinstance(question, Execute):
                return self._gave(handler.execute(key, unpacked(frame, question.inputs)))
            if isinstance(question, Next):
                return self._gave(handler.next(key))
            handler.end(key)
            return [encode(GeneratorEnded())]
        except UnsupportedPayloadError as error:
            text = f"it gave {error}, which cannot leave its process"
            with contextlib.suppress(RequestError):  # logged where it was raised
                handler.end(key)
            return [encode(HandlerFailed.of(HandlerError(self._failed + text)))]
        except RequestError as error:
            return [encode(HandlerFailed.of(error))]
        except Exception as error:  # values that cannot be packed, too little memory
            log.exception("a call of the handler failed")
            return [encode(HandlerFailed.of(HandlerError(plain(self._failed + first_line(error)))))]

    def _gave(self, turn: HandlerTurn) -> Sequence[Piece]:
        heads: list[Head] = []
        pieces: list[Piece] = []
        for _, value in turn.outputs:
            head, data = packed(value)
            heads.append(head)
            pieces += data
        streams = [stream for stream, _ in turn.outputs]
        return frame_of(Yielded(streams, heads, turn.is_generating), pieces)

    def _stop(self) -> None:
        if self._handler is not None:
            try:
                self._handler.finalize()
            except RequestError:
                return  # logged where it was raised


class ServerLog(logging.Handler):
    """Sends log records to the server, which writes them to its own log."""

    def __init__(self, process: HandlerProcess) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = plain(self.format(record))
            self._process.send(encode(Log(record.levelno, plain(record.name), text)))
        except ParentGone:
            pass
        except Exception:
            self.handleError(record)


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:3])
    connection = ParentConnection(descriptor)
    # The output of handlers is for people.
    os.dup2(2, 1)
    with contextlib.suppress(ParentGone):
        die_with_parent(parent)
        HandlerProcess(connection).run()


if __name__ == "__main__":
    main()
