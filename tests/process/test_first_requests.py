"""First requests block no event loop of a server, whatever task or example they are for.

Every Python process of the server records what its event loops do that may block: files that are
opened, modules that are imported, processes that are started, pauses, models that are read or
compiled (`tests/process/loop_audit/`). The fronts and the workers may do what `ALLOWED` lists.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import pytest

from bench.cheapest_requests import (
    ROWS,
    Ask,
    chat,
    form,
    make_config,
    picture,
    pictured,
    post,
    spoken,
)
from protos.pool import message_class
from tests.calculators.speech.audio.sounds import tone, wav
from tests.servers.cli import process
from tests.servers.cli.serving import ECHO, Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

_AUDIT: Final = ROOT / "tests" / "process" / "loop_audit"
_GRAPHS: Final = ROOT / "examples" / "graphs"
#: What a server runs, and each of its workers.
_FRONTS: Final = ("servers.cli", "servers.cli.worker")
_HELLO: Final = [{"role": "user", "content": "Hello"}]


@dataclass(frozen=True)
class Event:
    """What a loop did. ``by``: the function of the project that did it."""

    what: str
    subject: str
    by: str


#: What may happen on the loop of a front or worker: event, subject and function, and why.
ALLOWED: Final = (
    # The kernel's memory, not a disk: it is how limits of control groups and the memory of
    # processes are read.
    ("open", r"/(proc|sys)/.*", r".*"),
    # `vfork` returns when the child has been made: 0.4 ms from a process of 300 MiB. A child
    # asks to be killed when the thread that made it ends, so it needs one that lasts.
    ("subprocess.Popen", r".*python.*", r".*/early_start\.py:start_module"),
    ("open", r"/dev/null", r".*/early_start\.py:start_module"),
    # Two modules of 350 lines, with the first chat: a millisecond.
    ("import|open", r".*\bpdf_(files|messages)\b.*", r".*/(\w*llm_calculator|pdf_files)\.py:.*"),
)


def _is_allowed(event: Event) -> bool:
    facts = (event.what, event.subject, event.by)
    return any(all(map(re.fullmatch, patterns, facts)) for patterns in ALLOWED)


#: A node that does all that a loop must not do.
_BLOCKING: Final = """\
import subprocess
import sys
import time
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Blocking(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        Path(__file__).read_bytes()
        time.sleep(0)
        subprocess.run([sys.executable, "-c", ""], check=True)
        import openvino

        try:
            openvino.Core().read_model("none.xml")
        except RuntimeError:
            cc.emit(self.response, b"{}")
"""
#: Graphs of language models that need no more than their folder.
_LANGUAGE: Final = (
    "adapters", "answer_cache", "judge", "moderation", "prompt_lookup", "redact",
    "router", "speculative", "stateful", "stateful_vision",
)  # fmt: skip
_OF_MODELS: Final = ("flowers", "image_classification", "object_detection")


def _of_tasks() -> list[Ask]:
    """Return requests to all endpoints of the models of `make_config`, to the page, to the rest."""
    tool = {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {
        "model": "demo", "messages": _HELLO, "max_tokens": 2}}  # fmt: skip
    pages = ("/", "/docs", "/openapi.json", "/metrics", "/v3/models", "/v1/config", "/v2",
             "/v2/models/demo", "/v2/models/flowers", "/v2/health/ready")  # fmt: skip
    small: list[Ask] = []
    for row in ROWS:
        if row.small not in small:
            small.append(row.small)
    return [
        *small,
        chat(max_tokens=4, stream=True),
        chat(max_tokens=4, logprobs=True),
        chat(max_tokens=4, tools=[tool]),
        post("/v3/completions", model="demo", prompt="Hello", max_tokens=3),
        post("/v3/completions", model="demo", prompt="Hello", max_tokens=3, echo=True, logprobs=1),
        post("/v3/messages/count_tokens", model="demo", messages=_HELLO),
        post("/v3/score", model="docs_ranker", text_1="a", text_2=["b"]),
        post("/v3/classify", model="guard", input="Hello"),
        spoken(wav(tone(1.0)), "/v3/audio/translations"),
        form("/v3/images/edits", picture(64), "image", model="tiny", prompt="a cat"),
        # Large enough for the second process.
        post("/v3/images/generations", model="tiny", prompt="a cat", size="256x256"),
        form("/v1/files", json.dumps(line).encode() + b"\n", purpose="batch"),
        *(Ask(path, method="GET") for path in pages),
        post("/v1/config/reload"),
        post("/v2/repository/index"),
    ]


def _of_tensors() -> list[Ask]:
    return [
        infer("arithmetic", ("left", "FP32", [1, 2]), ("right", "FP32", [1, 2]), weight=0.5),
        infer("sensor", ("temperature", "FP64", [280.0]), ("pressure", "FP64", [1e5])),
        infer("redact", ("text", "BYTES", ["my secret"])),
        infer("python_handler", ("scores", "FP32", [[0.5, 2.5, 1.0]])),
        infer("object_detection", ("image", "UINT8", np.zeros((8, 8, 3), int).tolist())),
        infer("image_classification", ("image", "UINT8", np.zeros((8, 8, 3), int).tolist())),
        infer("flowers", ("measurements", "FP32", [[1, 2, 3, 4]])),
        pictured(picture(64, "RGB")),
        chat(model="parrot"),
        chat(model="python_chat"),
    ]


def infer(model: str, *inputs: tuple[str, str, list[Any]], **parameters: float) -> Ask:
    tensors = [
        {"name": name, "datatype": kind, "shape": np.shape(data), "data": data}
        for name, kind, data in inputs
    ]
    return post(f"/v2/models/{model}/infer", inputs=tensors, parameters=parameters)


def infer_over_grpc(address: str) -> None:
    """Send one inference over gRPC, which is answered."""
    request = message_class("inference.ModelInferRequest")(
        model_name="flowers",
        inputs=[{"name": "measurements", "datatype": "FP32", "shape": [1, 4],
                 "contents": {"fp32_contents": [1, 2, 3, 4]}}],
    )  # fmt: skip
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        assert call(request.SerializeToString(), timeout=PATIENCE)


def example(name: str, **files: str) -> dict[str, str]:
    """Return the entry of an example; ``files`` stand beside its graph."""
    folder = _GRAPHS / name
    paths = {member: str(folder / file) for member, file in files.items()}
    return {"name": name, "base_path": str(folder), **paths}


def write_config(folder: Path, *graphs: dict[str, str], **members: str) -> Path:
    config = folder / "config.json"
    config.write_text(json.dumps({**members, "mediapipe_config_list": graphs}), "utf-8")
    return config


class Audited:
    """A server whose loops are recorded from its first request on."""

    def __init__(self, folder: Path, config: Path, *words: str | Path) -> None:
        self._record = folder / "events.jsonl"
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (_AUDIT, ROOT))),
            "GRAPHRT_LOOP_AUDIT": str(self._record),
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "environment", lambda: variables)
            self.server = Serving(ROOT, config, *words, calculators=(), is_forked=False)

    def __enter__(self) -> Audited:
        self.server.__enter__()
        try:
            self.server.wait_until_serving()
        except BaseException:
            self.server.__exit__(None, None, None)
            raise
        self._begin = len(self._lines())
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__(None, None, None)

    def _lines(self) -> list[str]:
        return self._record.read_text().splitlines() if self._record.exists() else []

    def refusal(self, ask: Ask) -> str:
        """Send a request; return what it is refused with, "" if it is answered."""
        address = ("127.0.0.1", self.server.port)
        with closing(HTTPConnection(*address, timeout=PATIENCE)) as connection:
            connection.request(ask.method, ask.path, ask.body or None, ask.headers("none"))
            with connection.getresponse() as answer:
                text = answer.read()
                return "" if answer.status == 200 else f"{ask.path}: {answer.status} {text[:500]!r}"

    def blocking(self) -> list[Event]:
        """Return what the loops of fronts and workers did since the start, and may not do."""
        seen = map(json.loads, self._lines()[self._begin :])
        events = [
            Event(each["what"], each["subject"], each["by"])
            for each in seen
            if each["module"] in _FRONTS
        ]
        return [event for event in events if not _is_allowed(event)]


def test_the_audit_hears_a_loop_that_blocks(tmp_path: Path) -> None:
    (tmp_path / "calcs.py").write_text(_BLOCKING)
    graph = tmp_path / "blocking"
    graph.mkdir()
    (graph / "graph.pbtxt").write_text(ECHO.replace("Echo", "Blocking"))
    config = write_config(tmp_path, {"name": "blocking", "base_path": str(graph)})
    with Audited(tmp_path, config, "--calculators", tmp_path / "calcs.py") as audited:
        assert audited.refusal(chat(model="blocking")) == ""
        heard = {event.what for event in audited.blocking()}
    assert heard >= {"open", "time.sleep", "subprocess.Popen", "import", "read_model"}


def test_first_requests_of_each_task_do_not_block(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    words = ("--batch_dir", tmp_path / "batches", "--port", "auto")
    with Audited(tmp_path, config, *words) as audited:
        grpc_address = re.search(r"grpc://(\S+)", "".join(audited.server.log))
        assert grpc_address is not None
        refused = list(filter(None, map(audited.refusal, _of_tasks())))
        infer_over_grpc(grpc_address[1])
        assert refused == []
        assert audited.blocking() == []


def test_first_requests_to_graphs_of_language_models_do_not_block(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    entries = [
        *map(example, ("agent", *_LANGUAGE)),
        example("guard", python_path="guard.py"),
        example("rag", python_path="nodes"),
        *({**example("long_context"), "name": name, "graph_path": f"{name}.pbtxt"}
          for name in ("shared", "bounded")),
    ]  # fmt: skip
    with Audited(tmp_path, write_config(tmp_path, *entries)) as audited:
        asks = [chat(model=each["name"], max_tokens=4) for each in entries]
        weather = [{"role": "user", "content": "What is the weather in Paris?"}]
        asks.append(chat(model="agent", messages=weather, max_tokens=60))
        assert list(filter(None, map(audited.refusal, asks))) == []
        assert audited.blocking() == []


@pytest.mark.parametrize("words", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_first_requests_to_graphs_of_tensors_do_not_block(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    config = write_config(
        tmp_path,
        example("arithmetic", python_path="arithmetic.py"),
        example("sensor", python_path="sensor.py"),
        *(example(name, subconfig="subconfig.json") for name in _OF_MODELS),
        example("python_handler"),
        example("python_chat"),
        {**example("own_calculators"), "name": "redact", "graph_path": "redact.pbtxt"},
        {**example("own_calculators"), "name": "parrot", "graph_path": "parrot.pbtxt"},
        python_path=str(_GRAPHS / "own_calculators" / "acme"),
    )
    with Audited(tmp_path, config, *words) as audited:
        # Connections go to one of the workers by chance.
        asks = [ask for ask in _of_tensors() for _ in range(1 if not words else 4)]
        assert list(filter(None, map(audited.refusal, asks))) == []
        assert audited.blocking() == []
