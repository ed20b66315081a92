"""A directory to serve from that holds an installed package with tasks, as another project has."""

from __future__ import annotations

from pathlib import Path

from tests.servers.cli.serving import looped
from tests.support.installed_package import install

TASKS = """\
from calculators.kit.requests.schema import record, ref, string
from calculators.kit.tasks import ErrorForm, Task, TaskEndpoint
from calculators.kit.tasks.operation import (
    FORM, JSON, Operation, TaskDescription, answer, media, paths_of,
)

SAYS = TaskEndpoint("/audio/says")
VOICES = TaskEndpoint("/audio/says/voices", methods=("GET",))
ECHOES = TaskEndpoint("/echoes", aliases=("/v2/echoes", "/echoes"), needs_model=False)
HEARS = TaskEndpoint("/audio/hears", takes_form=True)
TALKS = TaskEndpoint("/talks", methods=("GET",), is_socket=True)


def operation(endpoint, id, body=None, parameters=()):
    return Operation(
        method=endpoint.methods[0].lower(), paths=paths_of(endpoint), id=id, tag="Sound",
        summary="Sound", form=ErrorForm.OPENAI, runs_graph=True, body=body,
        parameters=parameters, answers={200: answer("It.", {JSON: media(string())})},
    )


def describe_say(model):
    members = {"model": string(), "say": string()}
    return TaskDescription((
        operation(SAYS, "says", {JSON: media(record(members))}),
        operation(VOICES, "voices", parameters=("Model",)),
        operation(ECHOES, "echoes", {JSON: media(ref("Saying"))}),
    ), {"Saying": record(members)})


def describe_hear(model):
    members = {"model": string(), "file": string(format="binary")}
    return TaskDescription((
        operation(HEARS, "hears", {FORM: media(record(members))}),
        operation(ECHOES, "echoes", {JSON: media(ref("Hearing"))}),
    ), {"Hearing": record(members)})


def describe_talk(model):
    return TaskDescription((operation(TALKS, "talks", parameters=("Model",)),), {})


class SoundTask(Task):
    def __init__(self, name, calculator, endpoints, describe):
        self.name = name
        self.calculator = calculator
        self.endpoints = endpoints
        self.described = describe

    def register(self, registry):
        from stranger_nodes import Hear, Say, Talk
        registry.register_calculator(Talk)
        registry.register_calculator(Say)
        registry.register_calculator(Hear)

    def serves(self, calculator):
        return calculator == self.calculator

    def describe(self, model):
        return self.described(model)

    def graph(self, options, model):
        return ""

    def example(self, model):
        return "/v3" + self.endpoints[0].path, {"model": model}


SAY = SoundTask("say", "Say", (SAYS, VOICES, ECHOES), describe_say)
HEAR = SoundTask("hear", "Hear", (HEARS, ECHOES), describe_hear)
TALK = SoundTask("talk", "Talk", (TALKS,), describe_talk)
OTHER = SoundTask("other", "Other", (TaskEndpoint("/echoes", streams=True),), describe_hear)
"""

NODES = """\
import asyncio
import json

from calculators.kit.requests.form_members import required_file
from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Calculator, CalculatorContext, Code, In, Out


class Say(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[int]("LOOPBACK")
    response = Out[object]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[int]("LOOPBACK")
    timestamp_offset = None

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            payload = cc.take(self.request)
            if payload.method == "GET" or payload.uri.endswith("echoes"):
                cc.emit(self.response, json.dumps(["say", payload.method, payload.uri]), at=0)
                return
            self.words = payload.parsed_json["say"].split()
            cc.emit(self.response, HttpAnswer(b"RIFF", "audio/wav", has_more=True), at=0)
            cc.emit(self.loopback, 0, at=0)
            return
        number = cc.get(self.again)
        if self.words[number] == "fail":
            raise ValueError("no")
        cc.emit(self.response, self.words[number].encode(), at=number + 1)
        if number + 1 < len(self.words):
            cc.emit(self.loopback, number + 1, at=number + 1)


class Talk(Calculator):
    # Says hello, repeats what it receives, and ends when asked to.

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[int]("LOOPBACK")
    response = Out[object]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[int]("LOOPBACK")
    timestamp_offset = None

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            self.payload = cc.take(self.request)
            if "refuse" in self.payload.uri:
                raise RequestError("not you", code=Code.PERMISSION_DENIED)
            hello = {"hello": self.payload.uri, "headers": dict(self.payload.headers)}
            cc.emit(self.response, json.dumps(hello), at=0)
            cc.emit(self.loopback, 0, at=0)
            return
        number = cc.get(self.again)
        message = await self.payload.messages.receive()
        if message is None:
            return
        if message == "end":
            cc.emit(self.response, "bye", at=number + 1)
            return
        if message == "fail":
            raise RequestError("enough of this", param="message")
        if message == "bug":
            raise ValueError("/a/path/that/nobody/sees")
        if message == "hang":
            await asyncio.Event().wait()
        if message == "much":
            for part in range(200):
                cc.emit(self.response, bytes(100_000), at=number + 1 + part)
            number += 200
        else:
            cc.emit(self.response, message, at=number + 1)
        cc.emit(self.loopback, number + 1, at=number + 1)


class Hear(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[object]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        payload = cc.take(self.request)
        if payload.form is None:
            cc.emit(self.response, json.dumps(["hear", payload.method, payload.uri]))
            return
        upload = required_file(payload.form, "file")
        cc.emit(self.response, HttpAnswer(upload.content[::-1], "text/plain; charset=utf-8"))
"""

SAY_GRAPH = looped("Say")
HEAR_GRAPH = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Hear"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
TALK_GRAPH = looped("Talk")
ENTRY_POINTS = """\
[graphrt.tasks]
say = stranger_tasks:SAY
hear = stranger_tasks:HEAR
other = stranger_tasks:OTHER
talk = stranger_tasks:TALK
"""


def make_task_site(folder: Path) -> Path:
    """Write the package, its graphs "say", "hear" and "talk", and a config; the config's path."""
    (folder / "stranger_tasks.py").write_text(TASKS)
    (folder / "stranger_nodes.py").write_text(NODES)
    install(folder, "stranger", ENTRY_POINTS)
    for name, text in (("say", SAY_GRAPH), ("hear", HEAR_GRAPH), ("talk", TALK_GRAPH)):
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(text)
    config = folder / "config.json"
    config.write_text(
        '{"model_config_list": [], "mediapipe_config_list": '
        '[{"name": "say"}, {"name": "hear"}, {"name": "talk"}]}'
    )
    return config
