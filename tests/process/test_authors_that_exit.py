"""Whatever an author's code raises ends its request: the server and its other models go on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.tensors.python.running import HTTP_HANDLER
from tests.process.http_client import CHAT, Reply
from tests.process.server_process import ServerProcess

AUTHORS: Final = '''\
import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator

from calculators.language import Delta, GenerationRequest, answers, on_deltas, on_request, on_text
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


class Odd(BaseException):
    pass


def fail(kind: str) -> None:
    match kind:
        case "exit":
            sys.exit("an author's secret")
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case "generator":
            raise GeneratorExit
        case "stop":
            raise StopIteration
        case "memory":
            raise MemoryError
        case "recursion":
            fail(kind)
        case "odd":
            raise Odd


class Node(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def asked(self, cc: CalculatorContext) -> str:
        return cc.get(self.request).parsed_json["kind"]


@calculator
class InProcess(Node):
    def process(self, cc: CalculatorContext) -> None:
        fail(self.asked(cc))
        cc.emit(self.response, "good")


@calculator
class InCoroutine(Node):
    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        fail(self.asked(cc))


@calculator
class InOpen(Node):
    def open(self, cc: CalculatorContext) -> None:
        fail(KIND.kind)

    def process(self, cc: CalculatorContext) -> None:
        pass


@calculator
class InInit(Node):
    def __init__(self) -> None:
        fail(KIND.kind)


class KIND:
    kind = ""


@calculator
class Remember(Node):
    def process(self, cc: CalculatorContext) -> None:
        KIND.kind = self.asked(cc)
        cc.emit(self.response, "good")


@calculator
class InClose(Node):
    def process(self, cc: CalculatorContext) -> None:
        self.kind = self.asked(cc)
        cc.emit(self.response, "good")

    def close(self, cc: CalculatorContext) -> None:
        fail(self.kind)


@calculator
class AfterAnError(Node):
    """Fails in ``close``, which ends a run that has failed."""

    def process(self, cc: CalculatorContext) -> None:
        self.kind = self.asked(cc)
        raise ValueError

    async def close(self, cc: CalculatorContext) -> None:
        fail(self.kind)


@calculator
class InTask(Node):
    """Fails in a task of its own, and waits for it."""

    async def process(self, cc: CalculatorContext) -> None:
        async def work() -> None:
            fail(self.asked(cc))

        await asyncio.create_task(work())


@calculator
class Aside(Node):
    """Fails in tasks and callbacks of its own that nobody waits for, and stops the loop."""

    async def process(self, cc: CalculatorContext) -> None:
        async def work() -> None:
            fail(self.asked(cc))

        loop = asyncio.get_running_loop()
        self.task = loop.create_task(work())
        kind = self.asked(cc)
        if kind != "cancelled":
            loop.call_soon(fail, kind)
        thread = threading.Thread(target=fail, args=("exit",))
        thread.start()
        loop.stop()
        await asyncio.sleep(0.01)
        cc.emit(self.response, "good")


@calculator
def in_function(payload: HttpPayload) -> str:
    fail(payload.parsed_json["kind"])
    return "good"


def kind_of(request: GenerationRequest) -> str:
    return request.last_text()


@answers
async def in_answers(request: GenerationRequest) -> AsyncIterator[str]:
    yield "words "
    fail(kind_of(request))


@answers
async def says(request: GenerationRequest) -> AsyncIterator[str]:
    yield kind_of(request)


@on_request
async def in_request(request: GenerationRequest) -> GenerationRequest:
    fail(kind_of(request))
    return request


@on_text
async def in_text(text: AsyncIterator[str]) -> AsyncIterator[str]:
    async for piece in text:
        fail(piece)
        yield piece


@on_text
class InFilter:
    def feed(self, text: str) -> str:
        fail(text)
        return text

    def finish(self) -> str:
        return ""


@on_deltas
async def in_deltas(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
    async for delta in deltas:
        if type(delta).__name__ == "Gained":
            fail(delta.events[0].text)
        yield delta
'''
NODE: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "HTTP_RESPONSE_PAYLOAD:output" EXTRA
node {
  name: "theirs" calculator: "NAME" PORTS
}
"""
OF_CLASS: Final = (
    'input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "HTTP_RESPONSE_PAYLOAD:output"'
)
LANGUAGE: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "REQUEST:read"
}
node {
  name: "ASKED" calculator: "REQUESTS"
  input_stream: "REQUEST:read" output_stream: "REQUEST:asked"
}
node {
  name: "SAID" calculator: "ANSWERS"
  input_stream: "REQUEST:asked" output_stream: "DELTAS:said"
}
node {
  name: "CHANGED" calculator: "TEXTS"
  input_stream: "DELTAS:said" output_stream: "DELTAS:last"
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:last" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
PASSING: Final = """

@on_request
async def passing(request: GenerationRequest) -> GenerationRequest:
    return request


@on_text
async def as_it_is(text: AsyncIterator[str]) -> AsyncIterator[str]:
    async for piece in text:
        yield piece
"""
HANDLER: Final = """\
import asyncio, sys

class OvmsPythonModel:
    def execute(self, inputs):
        kind = inputs[0].parsed_json["kind"]
        if kind == "exit":
            sys.exit(3)
        if kind != "good":
            raise {"interrupt": KeyboardInterrupt, "cancelled": asyncio.CancelledError,
                   "generator": GeneratorExit, "stop": StopIteration, "memory": MemoryError,
                   "recursion": RecursionError, "odd": BaseException}[kind]
        return "good"
"""
#: Modules that fail while a server loads them, each with its graph.
LOADING: Final = {
    "imported": "import sys\nsys.exit(0)\n",
    "interrupted": "raise KeyboardInterrupt\n",
    "contract": """\
import sys
from graph_runtime import Calculator, calculator


@calculator("contract")
class Contract(Calculator):
    @classmethod
    def contract(cls, cc):
        sys.exit(0)
""",
}
KINDS: Final = {
    "exit": "SystemExit",
    "interrupt": "KeyboardInterrupt",
    "cancelled": "CancelledError",
    "generator": "GeneratorExit",
    "stop": "StopIteration",
    "memory": "MemoryError",
    "recursion": "RecursionError",
    "odd": "Odd",
}
CLASSES: Final = ("InProcess", "InCoroutine", "InTask", "InClose", "AfterAnError", "in_pool")
LANGUAGES: Final = {
    "in_request": ("in_request", "says", "as_it_is"),
    "in_answers": ("passing", "in_answers", "as_it_is"),
    "in_text": ("passing", "says", "in_text"),
    "InFilter": ("passing", "says", "InFilter"),
    "in_deltas": ("passing", "says", "in_deltas"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "authors.py").write_text(AUTHORS + PASSING)
    graphs = {
        name: NODE.replace("NAME", name).replace("PORTS", OF_CLASS).replace("EXTRA", "")
        for name in (*CLASSES[:-1], "InOpen", "InInit", "Remember", "Aside")
    }
    graphs["in_pool"] = graphs["InProcess"] + "num_threads: 2\n"
    graphs["in_function"] = (
        NODE.replace("NAME", "in_function")
        .replace("PORTS", 'input_stream: "input" output_stream: "output"')
        .replace("EXTRA", "")
    )
    for name, (requests, answers, texts) in LANGUAGES.items():
        text = LANGUAGE.replace("REQUESTS", requests).replace("ANSWERS", answers)
        graphs[name] = text.replace("TEXTS", texts)
        for place, calculator in (("ASKED", requests), ("SAID", answers), ("CHANGED", texts)):
            own = "theirs" if calculator == name else place.lower()
            graphs[name] = graphs[name].replace(f'"{place}"', f'"{own}"')
    entries: list[dict[str, Any]] = [{"name": name} for name in graphs]
    graphs["handler"] = HTTP_HANDLER
    entries.append({"name": "handler"})
    for name in LOADING:
        graphs[name] = NODE.replace("NAME", name).replace("PORTS", OF_CLASS).replace("EXTRA", "")
        entries.append({"name": name, "python_path": f"{name}/module.py"})
    for name, text in graphs.items():
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(text)
    (folder / "handler" / "model.py").write_text(HANDLER)
    for name, text in LOADING.items():
        (folder / name / "module.py").write_text(text)
    config = folder / "config.json"
    listed = {"mediapipe_config_list": entries, "python_path": "authors.py"}
    config.write_text(json.dumps(listed))
    with ServerProcess(config) as server:
        yield server


@pytest.fixture(autouse=True)
def goes_on(server: ServerProcess) -> Iterator[None]:
    """After each test the same process answers."""
    pid = server.pid
    yield
    reply = server.client.post(CHAT, model="InProcess", kind="good")
    assert (reply.status, reply.body, server.pid) == (200, b"good", pid)
    assert server.is_ready()


def ask(server: ServerProcess, model: str, kind: str) -> Reply:
    messages = [{"role": "user", "content": kind}]
    return server.client.post(CHAT, model=model, kind=kind, messages=messages)


def raised_in(server: ServerProcess, since: int) -> str:
    """Return the log from a line on, once the failure of a node is in it."""
    server.wait_for_log("authors.py", since=since)
    return "".join(server.log[since:])


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_a_node_is_its_requests_error(server: ServerProcess, kind: str) -> None:
    for model in (*CLASSES, "in_function"):
        since = len(server.log)
        reply = ask(server, model, kind)
        assert reply.status == 500, (model, reply.body)
        assert reply.error["message"].startswith('internal error in node "theirs" (request ')
        assert b"secret" not in reply.body
        text = raised_in(server, since)
        assert 'node "theirs" failed' in text, model
        if model != "AfterAnError":
            assert KINDS[kind] in text, model
            assert ", in fail" in text, model


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_before_the_first_call_is_its_requests_error(
    server: ServerProcess, kind: str
) -> None:
    assert ask(server, "Remember", kind).body == b"good"
    for model in ("InOpen", "InInit"):
        since = len(server.log)
        reply = ask(server, model, "")
        assert reply.status == 500, (model, reply.body)
        assert reply.error["message"].startswith('internal error in node "theirs" (request ')
        assert KINDS[kind] in raised_in(server, since), model


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_a_language_node_is_its_requests_error(
    server: ServerProcess, kind: str
) -> None:
    for model in LANGUAGES:
        since = len(server.log)
        reply = ask(server, model, kind)
        assert reply.status == 500, (model, kind, reply.body)
        assert 'node "theirs"' in reply.error["message"], (model, reply.body)
        assert b"secret" not in reply.body
        assert KINDS[kind] in raised_in(server, since), model


@pytest.mark.parametrize("kind", ["exit", "interrupt", "odd", "cancelled"])
def test_tasks_callbacks_and_threads_of_a_node_stop_nothing(
    server: ServerProcess, kind: str
) -> None:
    since = len(server.log)
    assert ask(server, "Aside", kind).body == b"good"
    server.wait_for_log("code of an author stopped the event loop, which goes on", since=since)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_a_python_handler_is_its_requests_error(
    server: ServerProcess, kind: str
) -> None:
    reply = ask(server, "handler", kind)
    assert reply.status == 500, reply.body
    assert ask(server, "handler", "good").body == b"good"


def test_what_fails_to_load_is_reported_with_its_place(server: ServerProcess) -> None:
    status = server.client.get("/v1/config").json
    for name, reason in (
        ("imported", "SystemExit"),
        ("interrupted", "KeyboardInterrupt"),
        ("contract", 'its contract failed: SystemExit: 0 (node "theirs")'),
    ):
        (version,) = status[name]["model_version_status"]
        assert version["status"]["error_code"] == "FAILED_PRECONDITION"
        assert reason in version["status"]["error_message"], version
    log = "".join(server.log)
    assert "imported/module.py:2: SystemExit: 0" in log
    assert "interrupted/module.py:1: KeyboardInterrupt" in log
    assert "contract/module.py:9, in contract" in log


def test_ctrl_c_still_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "authors.py").write_text(AUTHORS)
    graph = NODE.replace("NAME", "InProcess").replace("PORTS", OF_CLASS).replace("EXTRA", "")
    (tmp_path / "graph.pbtxt").write_text(graph)
    entry = {"name": "one", "base_path": ".", "python_path": "authors.py"}
    (tmp_path / "config.json").write_text(json.dumps({"mediapipe_config_list": [entry]}))
    with ServerProcess(tmp_path / "config.json") as server:
        assert ask(server, "one", "interrupt").status == 500
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0
        assert "stopped" in server.log[-1]
