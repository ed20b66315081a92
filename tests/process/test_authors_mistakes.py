"""A wrong value that an author puts into a packet is the node's error, with the call that was
meant in the log, and never the client's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import ServerProcess
from tests.process.test_authors_that_exit import LANGUAGE, PASSING
from tests.support.checkout import ROOT

REQUESTS: Final = """\
from collections.abc import AsyncIterator
from dataclasses import replace

from calculators.language import *
from calculators.language.generation_request import *
from calculators.images.media.image import ImageReference
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@answers
async def says(request: GenerationRequest) -> AsyncIterator[str]:
    yield "good"
"""
#: The body of a node on requests, and what the log says of it.
ON_REQUESTS: Final = {
    "a_list": ("return request.with_messages([*request.messages])", r"with_messages\({"),
    "no_role": ('return request.with_messages({"content": "x"})', '"role", which is a text'),
    "no_content": (
        'return request.with_messages({"role": "user", "content": 5})',
        'an int as its "content"',
    ),
    "half_a_pair": (
        'return request.with_messages({"role": "user", "content": "\\ud800"})',
        "not Unicode",
    ),
    "an_object": (
        'return request.with_messages({"role": "user", "content": "x", "at": object()})',
        "an object in it, which JSON has no form for",
    ),
    "no_text": ("return request.with_system(None)", r'is None, no text: request.with_system\("Be'),
    "sampling": ("return request.with_sampling(stop={1})", r"stop has a set in it.*max_tokens=100"),
    "hot": (
        'return request.with_sampling(temperature="hot")',
        r'"temperature": expected a number, .*request.with_sampling\(max_tokens=100\)',
    ),
    "too_hot": ("return request.with_sampling(temperature=5)", '"temperature"'),
    "no_limit": ('return request.with_sampling(max_tokens="5")', '"max_tokens": expected'),
    "stop_number": ("return request.with_sampling(stop=[1])", r'"stop\[0\]": expected a string'),
    "stop_empty": ('return request.with_sampling(stop=["a", ""])', r'"stop\[1\]": an empty'),
    "stop_many": ('return request.with_sampling(stop=["a"] * 99)', '"stop": 99 strings'),
    "stop_ids": ('return request.with_sampling(stop_token_ids=["x"])', r'"stop_token_ids\[0\]"'),
    "no_tokens": ("return request.with_sampling(max_tokens=0)", '"max_tokens": 0 is below'),
    "least": ("return request.with_sampling(max_tokens=2, min_tokens=3)", '"min_tokens": 3'),
    "beams": ("return replace(request.with_sampling(best_of=2), n=3)", '"n": 3 is above best_of'),
    "no_answers": ("return replace(request, n=0)", "n of a request is 0, below 1"),
    "ids": (
        'return replace(request, api=Api.COMPLETIONS, messages=(), prompts=((1, "x"),))',
        "prompts of a request has a str",
    ),
    "top": ("return request.with_sampling(top_logprobs=3)", '"top_logprobs": 3 needs logprobs'),
    "formed": (
        'return request.with_sampling(response_format={"type": "json_schema"})',
        '"response_format',
    ),
    "form_number": ("return replace(request, form=StructuredOutput(5, 'x'))", "form of a request"),
    "arguments": (
        'return replace(request, template=TemplateArguments({"a": object()}))',
        "template of a request has an object in it",
    ),
    "picture": ("return replace(request, images=[ImageReference(5, 'x')])", "images of a request"),
    "echoed": ('return replace(request, echo={"a": object()})', "echo of a request has an object"),
    "half_a_name": (r'return request.answered_by("\ud800")', "answer_model of .* not Unicode"),
    "calls": ("return replace(request, max_tool_calls=-1)", "max_tool_calls of a request is -1"),
    "no_prompts": ("return replace(request, api=Api.COMPLETIONS)", "prompts of a request is empty"),
    "misspelt": ("return request.with_sampling(temprature=1)", "temperature"),
    "replaced": ('return replace(request, sampling={"top_p": "x"})', r'"top_p": .*with_sampling\('),
    "in_place": (
        'request.messages[-1]["content"] = "x"; return request',
        r"cannot be changed in place.*request.with_messages\(",
    ),
    "in_a_list": (
        'made = request.with_messages({"role": "user", "content": [{"type": "text"}]})\n'
        '    made.messages[0]["content"].append({})',
        "cannot be changed in place",
    ),
    "sampled_in_place": ('request.sampling["seed"] = 1', "cannot be changed in place"),
    "texts": ('return replace(request, messages=("x",))', "messages of a request has a str"),
    "images": ('return replace(request, images=["x"])', "images of a request has a str: .*Image"),
    "tools": ('return replace(request, tools="none")', "tools of a request has a str: .*NO_TOOLS"),
    "refused": ('return request.refused("no")', r"request.refused\(Refusal\("),
    "answered": ("return request.answered_by(None)", r"request.answered_by\("),
    "count": ("return replace(request, n='2')", "n of a request has a str"),
    "nothing": ("pass", r"nothing \(.*authors.py:\d+\) returned None, no request: .*`return req"),
    "set_limit": (
        "request.max_tokens = 5",
        r"Return a changed one: request.with_sampling\(max_tokens=...\)",
    ),
    "set_field": ("request.messages = ()", r"request.messages = \.\.\. is not possible"),
}
#: The body of a node before a model, for a value that only the model can refuse, and what the log
#: says of it.
BEFORE_A_MODEL: Final = {
    "n": ("return replace(request, n=17)", '"n": 17 is above the maximum 16'),
    "beams_of_graph": ("return request.with_sampling(best_of=21)", '"best_of": 21 is above'),
    "role": (
        'return request.with_messages({"role": "wizard", "content": "x"})',
        'a message of the role "wizard"',
    ),
    "expression": (
        'return request.with_sampling(response_format={"type": "regex", "pattern": "(?<=a)b"})',
        '"response_format.pattern": no text matches',
    ),
    "schema": (
        'return replace(request, form=StructuredOutput({"type": "json_schema", "json_schema": '
        '{"type": "none"}, "path": "form"}, "form"))',
        '"form.type": the string "none"',
    ),
    "draft": ("return request.with_sampling(num_assistant_tokens=5)", "without a draft model"),
    "tool": (
        'return replace(request, tools=Tools([{"type": "function", "function": '
        '{"name": "a", "parameters": {"type": "none"}}}], "required"))',
        r'"tools\[0\].function.parameters.type": the string "none"',
    ),
    "picture": (
        'return replace(request, images=(ImageReference("data:,", "messages[0]"),))',
        "does not read images",
    ),
    "ids": (
        "return replace(request, api=Api.COMPLETIONS, messages=(), prompts=((1, 99999),))",
        "token id 99999 is not in the vocabulary",
    ),
}
#: Nodes whose values a model takes, or which set none of those that it refuses.
BLAMELESS: Final = {
    "system": 'return request.with_system("Be polite.")',
    "as_it_is": "return request",
    "long_answer": "return request.with_sampling(max_tokens=99999)",
    "long_prompt": 'return request.with_system("ab " * 5000)',
}
MODEL: Final = f"""\
input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {{
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "REQUEST:read"
}}
node {{
  name: "theirs" calculator: "before_a_model"
  input_stream: "REQUEST:read" output_stream: "REQUEST:set"
}}
node {{
  name: "ours" calculator: "OfClass"
  input_stream: "REQUEST:set" output_stream: "REQUEST:asked"
}}
node {{
  name: "model" calculator: "LLMCalculator"
  input_stream: "REQUEST:asked" input_stream: "LOOPBACK:loopback"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback" output_stream: "DELTAS:said"
  node_options {{ [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{
    models_path: "{ROOT / "examples" / "models" / "demo"}"
  }} }}
}}
node {{
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:said" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}}
"""
OF_CLASS: Final = """

@calculator
class OfClass(Calculator):
    request = In[GenerationRequest]("REQUEST")
    changed = Out[GenerationRequest]("REQUEST")

    def process(self, cc: CalculatorContext) -> None:
        request = cc.get(self.request)
        if request.last_text() == "by a class":
            request = replace(request, n=17)
        cc.emit(self.changed, request)
"""
#: The body of a node that answers.
ANSWERS: Final = {
    "yields_none": ('yield "begun "; yield None', "yields None, no text: `yield"),
    "yields_number": ("yield 5", "yields an int, no text"),
    "event_number": ("yield Content(5)", "Content has an int, no text"),
    "wrong_reason": ('yield Finished(0, "stop")', r"a str as its reason: Finished\(0, FinishReas"),
    "wrong_item": ("yield Deltas(('x',))", r"a str stands among the items of Deltas: Gained\(0"),
    "wrong_event": ('yield Gained(0, ("x",))', "a str stands among the events of Gained"),
    "bare_event": ('yield Gained(0, Content("x"))', "a Content, no events"),
}
#: The body of a node on texts.
TEXTS: Final = {
    "text_none": ("async for piece in text: yield None", "yields None, no text: `yield text`"),
    "text_bytes": ("async for piece in text: yield piece.encode()", "yields a bytes, no text"),
}
#: The body of a node on all items.
ITEMS: Final = {
    "item_text": ("async for item in deltas: yield 'x'", "a str stands among the items of Deltas"),
    "item_none": ("async for item in deltas: yield None", "it yields None, no item of Deltas"),
    "item_choice": (
        "async for item in deltas:\n"
        "        yield Gained(7, (Content('x'),)) if isinstance(item, Gained) else item",
        "Gained of choice 7, which is not open",
    ),
}
FILTER: Final = """

@on_text
class filter_number:
    def feed(self, text: str) -> str:
        return 5

    def finish(self) -> str:
        return ""
"""
#: Decorator, signature and bodies of nodes by the place where they stand in the graph.
KINDS: Final = (
    ("REQUESTS", "on_request", "request: GenerationRequest) -> GenerationRequest", ON_REQUESTS),
    ("ANSWERS", "answers", "request: GenerationRequest) -> AsyncIterator[str]", ANSWERS),
    ("TEXTS", "on_text", "text: AsyncIterator[str]) -> AsyncIterator[str]", TEXTS),
    ("TEXTS", "on_deltas", "deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]", ITEMS),
)
LINES: Final = {
    **{name: text for _, _, _, nodes in KINDS for name, (_, text) in nodes.items()},
    "filter_number": r"feed \(.*authors.py:\d+\) returned an int, no text",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("site")
    text = REQUESTS + PASSING + FILTER
    entries: list[dict[str, Any]] = []
    places = {"filter_number": "TEXTS"}
    for place, decorator, signature, nodes in KINDS:
        for name, (body, _) in nodes.items():
            text += f"\n\n@{decorator}\nasync def {name}({signature}:\n    {body}\n"
            places[name] = place
    for name, place in places.items():
        stand = {"REQUESTS": "passing", "ANSWERS": "says", "TEXTS": "as_it_is", place: name}
        graph = LANGUAGE
        for each, calculator in stand.items():
            graph = graph.replace(each, calculator)
        own = {"REQUESTS": "ASKED", "ANSWERS": "SAID", "TEXTS": "CHANGED"}[place]
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(graph.replace(f'"{own}"', '"theirs"'))
        entries.append({"name": name})
    text += "\n\n@on_request\nasync def before_a_model(request: GenerationRequest) -> "
    text += "GenerationRequest:\n    match request.last_text():\n"
    bodies = {name: body for name, (body, _) in BEFORE_A_MODEL.items()} | BLAMELESS
    for name, body in bodies.items():
        text += f"        case {name!r}:\n            {body}\n"
    text += "        case _:\n            return request\n" + OF_CLASS
    (folder / "before_a_model").mkdir()
    (folder / "before_a_model" / "graph.pbtxt").write_text(MODEL)
    entries.append({"name": "before_a_model"})
    (folder / "authors.py").write_text(text)
    listed = {"mediapipe_config_list": entries, "python_path": "authors.py"}
    (folder / "config.json").write_text(json.dumps(listed))
    with ServerProcess(folder / "config.json") as server:
        yield server


@pytest.mark.parametrize("name", LINES)
def test_a_wrong_value_is_the_nodes_error(server: ServerProcess, name: str) -> None:
    since = len(server.log)
    reply = server.client.post(CHAT, model=name, messages=HELLO)
    assert reply.status == 500, reply.body
    assert 'node "theirs"' in reply.error["message"]
    assert b"authors.py" not in reply.body
    server.wait_for_log(f"model='{name}'", since=since)
    log = "".join(server.log[since:])
    assert re.search(LINES[name], log, re.S), log
    assert re.search(r'authors\.py(", line |:)\d+', log), log


@pytest.mark.parametrize("name", BEFORE_A_MODEL)
def test_a_value_that_only_the_model_refuses_is_the_nodes_error(
    server: ServerProcess, name: str
) -> None:
    since = len(server.log)
    asked = [{"role": "user", "content": name}]
    reply = server.client.post(CHAT, model="before_a_model", messages=asked, max_tokens=3)
    assert reply.status == 500, reply.body
    assert 'node "theirs"' in reply.error["message"]
    server.wait_for_log("model='before_a_model'", since=since)
    log = "".join(server.log[since:])
    assert re.search(BEFORE_A_MODEL[name][1], log, re.S), log
    assert re.search(r"before_a_model \(.*authors\.py:\d+\) set a value", log), log


@pytest.mark.parametrize(
    ("text", "members", "param"),
    [
        ("system", {"n": 17}, "n"),
        ("role", {"best_of": 21}, "best_of"),
        ("system", {"messages": [{"role": "wizard", "content": "system"}]}, "messages[0].role"),
        ("as_it_is", {"max_tokens": 99999}, "messages"),
        ("long_prompt", {}, "messages"),
        ("system", {"response_format": {"type": "regex", "pattern": "("}}, "response_format"),
    ],
)
def test_a_clients_value_stays_the_clients_error_beside_a_node(
    server: ServerProcess, text: str, members: dict[str, Any], param: str
) -> None:
    asked = {"messages": [{"role": "user", "content": text}], "max_tokens": 3, **members}
    reply = server.client.post(CHAT, model="before_a_model", **asked)
    assert reply.status == 400, reply.body
    assert reply.error["param"].startswith(param)


def test_a_value_that_a_class_set_is_no_error_of_the_client(server: ServerProcess) -> None:
    """It does not say its name, so the error has that of the model's node."""
    since = len(server.log)
    asked = [{"role": "user", "content": "by a class"}]
    reply = server.client.post(CHAT, model="before_a_model", messages=asked)
    assert reply.status == 500, reply.body
    assert 'node "model"' in reply.error["message"]
    server.wait_for_log('a node before "model" set a value', since=since)


def test_a_nodes_limit_of_an_answer_is_lowered_to_the_room_that_a_prompt_leaves(
    server: ServerProcess,
) -> None:
    asked = [{"role": "user", "content": "long_answer"}]
    reply = server.client.post(CHAT, model="before_a_model", messages=asked)
    assert reply.status == 200, reply.body


def test_the_names_of_the_table_are_all_tried() -> None:
    assert len(LINES) == 1 + len(ON_REQUESTS) + len(ANSWERS) + len(TEXTS) + len(ITEMS)


def test_a_class_fails_where_it_makes_the_packet(tmp_path: Path) -> None:
    from calculators.language import Content, Deltas, Gained, request_for
    from calculators.language.mistakes import AuthorMistake

    with pytest.raises(AuthorMistake, match="a Content stands among the items"):
        Deltas((Content("x"),))  # type: ignore[arg-type]
    with pytest.raises(AuthorMistake, match="None as its choice"):
        Deltas((Gained(None, ()),))  # type: ignore[arg-type]
    request = request_for("Hello")
    assert request.with_messages(*request.messages) == request
    with pytest.raises(AuthorMistake, match="the argument 2 of with_messages"):
        request.with_messages(*request.messages, None)  # type: ignore[arg-type]
