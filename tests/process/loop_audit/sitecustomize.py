"""Records what may block an event loop, in every Python process of a server.

Python imports this module at its start if its folder is in PYTHONPATH. Each event in a thread whose
event loop runs is a line of JSON in the file that GRAPHRT_LOOP_AUDIT names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import pairwise
from types import FrameType, ModuleType
from typing import Any

_EVENTS = frozenset({
    "open", "sqlite3.connect", "socket.getaddrinfo", "socket.gethostbyname",
    "subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system",
})  # fmt: skip
_HERE = os.path.abspath(__file__)
_ROOT = _HERE.removesuffix("tests/process/loop_audit/sitecustomize.py")
#: The module that this process runs.
_MODULE = next((after for word, after in pairwise(sys.orig_argv) if word == "-m"), "")


def _is_on_loop() -> bool:
    events = sys.modules.get("asyncio.events")
    get = getattr(events, "_get_running_loop", None)
    return get is not None and get() is not None


def _caller() -> str:
    """Return the function of the project that is being called, with its file."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_ROOT) and "/.venv/" not in path and path != _HERE:
            return f"{path.removeprefix(_ROOT)}:{frame.f_code.co_qualname}"
        frame = frame.f_back
    return ""


def _record(what: str, subject: object) -> None:
    line = {"module": _MODULE, "what": what, "subject": str(subject), "by": _caller()}
    os.write(_file, json.dumps(line).encode() + b"\n")


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS or not _is_on_loop():
        return
    subject = arguments[0] if arguments else ""
    if event == "open":
        if isinstance(subject, int):  # a descriptor that is open already
            return
        subject = os.fsdecode(subject)
    _record(event, subject)


class _Imports(MetaPathFinder):
    """Finds no module itself; records those that are executed, and patches OpenVINO's."""

    def __init__(self) -> None:
        self._is_asking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if _is_on_loop():
            _record("import", name)
        if name != "openvino" or self._is_asking:
            return None
        self._is_asking = True
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for method in ("compile_model", "read_model", "import_model"):
                setattr(module.Core, method, _recorded(method, getattr(module.Core, method)))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _recorded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*words: Any, **more: Any) -> Any:
        if _is_on_loop():
            _record(name, words[-1] if words else "")
        return method(*words, **more)

    return call


if "GRAPHRT_LOOP_AUDIT" in os.environ:
    _file = os.open(os.environ["GRAPHRT_LOOP_AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    sys.addaudithook(_hear)
    time.sleep = _recorded("time.sleep", time.sleep)
    sys.meta_path.insert(0, _Imports())
