"""`graphrt run --text` and ``--chat``: a graph with a language model, asked at the command line."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.servers.cli.process import COMMAND, environment, graphrt, lines
from tests.support.checkout import ROOT

DEMO = ROOT / "examples" / "models" / "demo"
#: Nodes that answer without a model.
CALCULATORS = '''\
import asyncio

from calculators.language import (
    Deltas, Failed, Finished, FinishReason, GenerationRequest, RequestError, call, delta_packets,
)
from graph_runtime import Calculator, CalculatorContext, Code, In, Out, calculator


class Answering(Calculator):
    request = In[GenerationRequest]("REQUEST")
    deltas = Out[Deltas]("DELTAS")
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        for time, packet in enumerate(self.answer(cc.get(self.request))):
            cc.emit(self.deltas, packet, at=time)


@calculator
class Parrot(Answering):
    """Says how many messages there are, and the last one."""

    def answer(self, request):
        print("a print of the author")
        said = f"{len(request.messages)}: {request.last_text()}"
        return delta_packets(said[:2], said[2:], request=request)


@calculator
class Caller(Answering):
    def answer(self, request):
        found = call("find", {"word": "x"})
        return delta_packets("Look.", found, finish="tool_calls", request=request)


@calculator
class Failing(Answering):
    def answer(self, request):
        error = RequestError("the engine is full", code=Code.RESOURCE_EXHAUSTED)
        return [*delta_packets("half", finish=None, request=request), Deltas((Failed(error),))]


@calculator
class Disorderly(Answering):
    def answer(self, request):
        return [Deltas((Finished(0, FinishReason.STOP),))]


@calculator
class Endless(Calculator):
    request = In[GenerationRequest]("REQUEST")
    deltas = Out[Deltas]("DELTAS")

    async def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.deltas, delta_packets("begun", finish=None)[0])
        cc.flush()
        await asyncio.Event().wait()
'''
GRAPH = """\
input_stream: "REQUEST:request"
output_stream: "DELTAS:deltas"
node {{
  name: "node" calculator: "{}" input_stream: "REQUEST:request" output_stream: "DELTAS:deltas"
}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "calcs.py").write_text(CALCULATORS)
    return tmp_path


def run(
    place: Path, calculator: str, *words: str, feed: str = ""
) -> subprocess.CompletedProcess[str]:
    (place / "graph.pbtxt").write_text(GRAPH.format(calculator))
    arguments = ["--calculators", "calcs.py", *words]
    return graphrt("run", "graph.pbtxt", *arguments, cwd=place, feed=feed)


def test_the_answer_to_a_text_is_printed_as_text(place: Path) -> None:
    done = run(place, "Parrot", "--text", "Hello")
    assert (done.returncode, done.stdout) == (0, "1: Hello\n")
    assert done.stderr == "a print of the author\n"


def test_each_line_goes_on_with_the_conversation(place: Path) -> None:
    done = run(place, "Parrot", "--chat", feed="one\n\ntwo\nthree")
    assert (done.returncode, done.stdout) == (0, "1: one\n3: two\n5: three\n")


def test_deltas_are_json_lines(place: Path) -> None:
    done = run(place, "Parrot", "--text", "Hello", "--deltas")
    assert done.returncode == 0
    begun, first, second, finished, ended = lines(done.stdout)
    assert begun == {
        "stream": "deltas",
        "kind": "begun",
        "choices": 1,
        "usage": {"prompt_tokens": 1, "completion_tokens": 0},
    }
    assert [each["events"] for each in (first, second)] == [
        [{"kind": "content", "text": "1:"}],
        [{"kind": "content", "text": " Hello"}],
    ]
    assert (finished["kind"], finished["reason"]) == ("finished", "stop")
    assert ended["usage"]["completion_tokens"] == 2


def test_a_call_of_a_tool_is_a_line(place: Path) -> None:
    done = run(place, "Caller", "--text", "Hello")
    assert (done.returncode, done.stdout) == (0, 'Look.\nfind({"word": "x"})\n')


def test_a_failed_answer_is_an_error_behind_its_text(place: Path) -> None:
    done = run(place, "Failing", "--text", "Hello")
    assert (done.returncode, done.stdout) == (1, "half\n")
    assert done.stderr == "error: the engine is full\n"
    done = run(place, "Failing", "--text", "Hello", "--deltas")
    assert done.returncode == 1
    failed = lines(done.stdout)[-1]
    assert failed["kind"] == "failed"
    assert failed["error"]["code"] == "RESOURCE_EXHAUSTED"


def test_items_in_an_order_that_no_answer_has_are_told_with_the_node(place: Path) -> None:
    done = run(place, "Disorderly", "--text", "Hello")
    assert done.returncode == 1
    assert done.stderr == 'error: Finished of node "node": it comes before Begun\n'


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--deltas"], 2, "--deltas needs --text or --chat"),
        (["--text", "x", "--feed", "-"], 2, "--feed is exclusive with --text and --chat"),
        (["--text", "x", "--chat"], 2, "not allowed with argument"),
    ],
)
def test_flags_that_do_not_go_together(
    place: Path, words: list[str], status: int, message: str
) -> None:
    done = run(place, "Parrot", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


def test_a_graph_without_a_model_is_refused(place: Path) -> None:
    (place / "graph.pbtxt").write_text('input_stream: "in"')
    done = graphrt("run", "graph.pbtxt", "--text", "x", cwd=place)
    assert done.returncode == 1
    assert "graph.pbtxt: it takes no requests to a language model" in done.stderr


def test_ctrl_c_cancels_the_generation(place: Path) -> None:
    (place / "graph.pbtxt").write_text(GRAPH.format("Endless"))
    words = ["run", "graph.pbtxt", "--calculators", "calcs.py", "--text", "x"]
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == "begun"
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130


THREE_NODES = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "REQUEST:request"
}
node {
  name: "model" calculator: "LLMCalculator"
  input_stream: "REQUEST:request" output_stream: "DELTAS:deltas"
  input_stream: "LOOPBACK:loopback" output_stream: "LOOPBACK:loopback"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "%s" }
  }
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def test_a_model_among_other_nodes_shows_its_deltas(tmp_path: Path) -> None:
    graph = tmp_path / "graph.pbtxt"
    graph.write_text(THREE_NODES % DEMO)
    text = graphrt("run", graph, "--text", "What is the capital of France?")
    assert (text.returncode, text.stderr) == (0, "")
    shown = graphrt("run", graph, "--text", "What is the capital of France?", "--deltas")
    items = lines(shown.stdout)
    assert {item["stream"] for item in items} == {"deltas"}
    kinds = [item["kind"] for item in items if item["kind"] != "gained"]
    assert kinds == ["submitted", "begun", "finished", "ended"]
    gained = [item for item in items if item["kind"] == "gained"]
    said = "".join(event["text"] for item in gained for event in item["events"])
    assert text.stdout.strip() == said.strip()


def test_the_graph_of_a_served_model_answers_over_its_http_ports() -> None:
    done = graphrt("run", DEMO / "graph.pbtxt", "--text", "What is the capital of France?")
    assert done.returncode == 0
    assert done.stdout.strip()
    assert "data:" not in done.stdout
    done = graphrt("run", DEMO / "graph.pbtxt", "--text", "x", "--deltas")
    assert done.returncode == 1
    assert "no stream of deltas leads to its answer" in done.stderr
    assert json.dumps("x") not in done.stdout
