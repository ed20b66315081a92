"""``python -m calculators.language.server_tools.function_process``: calls an author's Python
functions.

One call at a time: the server has several processes for parallel calls, and kills the process whose
call takes too long.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadFailed, Loading, Log, Stop
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.language.server_tools.call_limits import MAX_MESSAGE, cut_error, cut_output
from calculators.language.server_tools.functions import (
    FunctionError,
    FunctionTool,
    load_functions,
    result_text,
)
from calculators.language.server_tools.messages import (
    Call,
    LoadFunctions,
    Ready,
    Result,
    decode_question,
    encode,
    plain,
)
from calculators.language.server_tools.path_rules import PathRefused, PathRules

_LOGGER: Final = "graphrt.tools"
#: Characters that one call may print into the log; the rest up to `MAX_MESSAGE` is dropped.
_LOGGED: Final = 16 * 1024


class PrintedTooMuch(BaseException):
    """A call prints without end. No ``Exception``: the function must not go on."""


class FunctionProcess:
    """Loads the modules, then makes the calls that the server requests, one after the other."""

    def __init__(self, connection: ParentConnection) -> None:
        self._connection = connection
        self._tools: Mapping[str, FunctionTool] = {}
        self._max_output_bytes = 0

    def run(self) -> None:
        """Answer until the server sends `Stop`.

        Raises:
            ParentGone: the server is gone.
        """
        while True:
            for frame in self._connection.receive(wait=True):
                match decode_question(frame):
                    case LoadFunctions() as load:
                        if not self._load(load):
                            return
                    case Call() as call:
                        self._send(self._answer(call))
                    case Stop():
                        return
                    case _:
                        pass  # a call that is made cannot be interrupted

    def _load(self, load: LoadFunctions) -> bool:
        self._send(Loading("importing tools", 0.0, 1.0))
        sys.path.insert(0, load.directory)
        os.chdir(load.directory)
        self._max_output_bytes = load.max_output_bytes
        rules = PathRules(load.directory, load.allow_paths)
        try:
            with self._prints():
                found = load_functions(load.modules, rules)
        except (FunctionError, PrintedTooMuch) as error:
            if isinstance(error.__cause__, BaseException):
                self._log(logging.ERROR, "".join(traceback.format_exception(error.__cause__)))
            reason = str(error) or "importing the tools printed more than 1 MiB"
            self._send(LoadFailed(plain(reason)))
            return False
        self._tools = {tool.spec.name: tool for tool in found}
        self._send(Ready([tool.spec for tool in found]))
        return True

    def _answer(self, call: Call) -> Result:
        try:
            tool = self._tools.get(call.tool)
            if tool is None:
                raise FunctionError(f'there is no tool "{call.tool[:64]}"')
            with self._prints():
                text = result_text(tool.call(call.arguments))
            return Result(call.number, cut_output(text, self._max_output_bytes), None)
        except ParentGone:
            raise
        except PrintedTooMuch:
            error = "the tool printed more than 1 MiB"
        except msgspec.MsgspecError as refused:
            error = f"the arguments are wrong: {refused}"
        except (FunctionError, PathRefused) as refused:
            error = str(refused)
        except BaseException as raised:
            self._log(logging.WARNING, "".join(traceback.format_exception(raised)))
            error = (
                f"{type(raised).__name__}: {library_reason(raised)}"
                if str(raised)
                else (f"the tool raised {type(raised).__name__}")
            )
        return Result(call.number, "", cut_error(error))

    @contextlib.contextmanager
    def _prints(self) -> Iterator[None]:
        printed = PrintedText()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                yield
        finally:
            if text := printed.text.strip():
                self._log(logging.INFO, text)

    def _log(self, level: int, text: str) -> None:
        self._send(Log(level, _LOGGER, plain(text[:_LOGGED])))

    def _send(self, message: msgspec.Struct) -> None:
        self._connection.send(encode(message))


class PrintedText(io.TextIOBase):
    """Output of a function: the beginning is kept for the log, and too much ends the call."""

    def __init__(self) -> None:
        self.text = ""
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._length += len(text)
        if self._length > MAX_MESSAGE:
            raise PrintedTooMuch
        if len(self.text) < _LOGGED:
            self.text += text[: _LOGGED - len(self.text)]
        return len(text)


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:3])
    connection = ParentConnection(descriptor)
    faulthandler.enable(os.fdopen(os.dup(2), "w"))
    # Output of libraries and programs past Python cannot be bounded, so nobody reads it.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    with contextlib.suppress(ParentGone):
        die_with_parent(parent)
        FunctionProcess(connection).run()


if __name__ == "__main__":
    main()
