"""`endpoint`: what signatures take and answer, and which functions are refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, MultipartForm
from calculators.kit.tasks import is_servers
from calculators.language import AuthorError, FormFile, RequestError, ServerSentEvent, endpoint
from calculators.language.mistakes import AuthorMistake
from graph_runtime import Calculator, Options, RunError, options
from graph_runtime.testing import CalculatorRunner
from servers.fronts.http.routes import FIXED, Endpoint, find_route


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    name: str
    count: int = 1


class Order(TypedDict):
    items: list[Item]
    note: NotRequired[str]


def answers_of(
    calculator: type[Calculator],
    uri: str,
    body: Any = None,
    *,
    method: str = "POST",
    form: MultipartForm | None = None,
) -> list[Any]:
    """Return the packets of the answer to a request."""
    raw = b"" if body is None else json.dumps(body).encode()
    runner = CalculatorRunner(calculator)
    payload = HttpPayload(uri, {}, raw, body, form=form, method=method)
    runner.push("HTTP_REQUEST_PAYLOAD", payload, at=0)
    runner.run()
    return list(runner.outputs["HTTP_RESPONSE_PAYLOAD"].values)


def answer_of(calculator: type[Calculator], uri: str, body: Any = None, **how: Any) -> Any:
    """Return the one answer of JSON."""
    (answer,) = answers_of(calculator, uri, body, **how)
    assert isinstance(answer, HttpAnswer)
    assert answer.content_type == "application/json"
    return json.loads(answer.body)


def refusal_of(
    calculator: type[Calculator], uri: str, body: Any = None, **how: Any
) -> RequestError:
    with pytest.raises(RunError) as raised:
        answers_of(calculator, uri, body, **how)
    cause = raised.value.errors[0].__cause__
    assert isinstance(cause, RequestError)
    return cause


def mistake_in(calculator: type[Calculator], uri: str, **how: Any) -> BaseException:
    """Return the author's mistake; it is raised at a line of this file, where it is yielded."""
    with pytest.raises(RunError) as raised:
        answers_of(calculator, uri, **how)
    cause = raised.value.errors[0].__cause__
    assert isinstance(cause, AuthorMistake)
    return cause


# What is taken --------------------------------------------------------------------------------


@endpoint("/t/scalars")
async def scalars(
    number: int,
    size: Annotated[float, msgspec.Meta(gt=0)] = 1.0,
    is_new: bool = False,
    colour: Colour = Colour.RED,
    word: Literal["a", "b"] = "a",
    many: list[int] = [],  # noqa: B006
    note: str | None = None,
) -> list[object]:
    return [number, size, is_new, colour, word, many, note]


def test_scalars_come_from_the_query_and_are_converted() -> None:
    uri = "/t/scalars?number=3&size=2.5&is_new=true&colour=blue&word=b&many=1&many=2&note=%C3%A9"
    assert answer_of(scalars, uri, method="GET") == [3, 2.5, True, "blue", "b", [1, 2], "é"]
    assert answer_of(scalars, "/t/scalars?number=3", method="GET") == [
        *(3, 1.0, False, "red", "a", [], None),
    ]


def test_scalars_are_members_of_a_posted_body_or_form() -> None:
    body = {"number": 3, "many": [1], "note": None}
    assert answer_of(scalars, "/t/scalars", body) == [3, 1.0, False, "red", "a", [1], None]
    form = MultipartForm({"number": ["4"], "many": ["5", "6"]})
    assert answer_of(scalars, "/t/scalars", form=form)[0] == 4
    assert answer_of(scalars, "/t/scalars", form=form)[5] == [5, 6]


@pytest.mark.parametrize(
    ("query", "body", "param", "text"),
    [
        ("", None, "number", "number is missing"),
        ("?number=x", None, "number", "number: expected int"),
        ("?number=1&number=2", None, "number", "number is given 2 times"),
        ("?number=1&size=0", None, "size", "size: expected float > 0.0"),
        ("?number=1&colour=green", None, "colour", "colour: 'green' is none of 'red', 'blue'"),
        ("?number=1&colur=red", None, "colur", 'Unknown member "colur". Did you mean "colour"?'),
        ("", {"numbr": 1}, "numbr", 'Unknown member "numbr". Did you mean "number"?'),
        ("?number=1&many=1&many=x", None, "many[1]", "many[1]: expected int"),
        ("", {}, "number", "number is missing"),
        ("", {"number": "1"}, "number", "number: expected int, got str"),
        ("", {"number": None}, "number", "number: expected int, got null"),
    ],
)
def test_what_does_not_fit_is_the_clients_error(
    query: str, body: Any, param: str, text: str
) -> None:
    method = "GET" if body is None else "POST"
    error = refusal_of(scalars, f"/t/scalars{query}", body, method=method)
    assert (error.message, error.param) == (text, param)


@endpoint("/t/shops/{shop}/orders")
async def ordered(shop: int, order: Order, is_express: bool = False) -> dict[str, object]:
    return {"shop": shop, "order": order, "is_express": is_express}


def test_one_parameter_takes_the_body_others_the_query_and_the_path() -> None:
    body = {"items": [{"name": "x", "other": 1}], "note": "n"}
    uri = "/t/shops/7/orders?is_express=1"
    assert answer_of(ordered, uri, body) == {
        "shop": 7,
        "order": {"items": [{"name": "x", "count": 1}], "note": "n"},
        "is_express": True,
    }
    assert ordered.endpoint.methods == ("POST",)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("uri", "body", "param"),
    [
        ("/t/shops/x/orders", {"items": []}, "shop"),
        ("/t/shops/1/orders", {}, "items"),
        ("/t/shops/1/orders", {"items": [{"name": "x"}, {"name": 5}]}, "items[1].name"),
        ("/t/shops/1/orders", {"items": [{}]}, "items[0].name"),
        ("/t/shops/1/orders", {"items": [], "nots": "x"}, "nots"),
        ("/t/shops/1/orders?is_expres=1", {"items": []}, "is_expres"),
        ("/t/shops/1/orders", [], None),
        ("/t/shops/1/orders", None, None),
    ],
)
def test_the_place_in_a_body_is_named(uri: str, body: Any, param: str | None) -> None:
    error = refusal_of(ordered, uri, body)
    assert error.param == param
    assert (param or "the body") in error.message


def test_another_path_or_method_is_not_found() -> None:
    for uri, method in (("/v3/completions", "POST"), ("/t/shops/1/orders", "GET")):
        error = refusal_of(ordered, uri, {}, method=method)
        assert error.message == "this model answers POST /t/shops/{shop}/orders only"


def test_uploads() -> None:
    @endpoint("/t/upload")
    async def uploaded(
        file: FormFile, more: list[FormFile], last: FormFile | None = None, times: int = 1
    ) -> list[object]:
        return [file.filename, [each.filename for each in more], last is None, times]

    def files(**given: int) -> MultipartForm:
        named = {name: [FormFile(name, "", b"x")] * many for name, many in given.items()}
        return MultipartForm({"times": ["2"]}, named)

    form = files(file=1, more=2)
    assert answer_of(uploaded, "/t/upload", form=form) == ["file", ["more", "more"], True, 2]
    error = refusal_of(uploaded, "/t/upload", form=files(file=2, more=1))
    assert error.message == "file is given 2 times"
    error = refusal_of(uploaded, "/t/upload", form=files(more=1))
    assert (error.message, error.param) == ("file is missing", "file")
    error = refusal_of(uploaded, "/t/upload", form=MultipartForm({"file": ["text"]}))
    assert "file must be a file" in error.message


def test_the_request_itself_and_options() -> None:
    @options("tests.endpoints.EchoOptions")
    @dataclass(frozen=True)
    class EchoOptions:
        mark: str = "!"

    namespace: dict[str, Any] = {"EchoOptions": EchoOptions, "Options": Options}

    async def echoed(request, how: EchoOptions) -> str:  # type: ignore[no-untyped-def]
        return str(request.body.decode() + how.mark)

    echoed.__globals__.update(namespace)
    assert answer_of(endpoint("/t/echo")(echoed), "/t/echo", "x") == '"x"!'


def test_models_of_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic")

    inner = pydantic.create_model("Inner", size=(int, ...))
    model = pydantic.create_model("Model", name=(str, ...), inner=(inner | None, None))

    async def modelled(model: Any) -> Any:
        return model

    modelled.__annotations__ = {"model": model, "return": model}
    made = endpoint("/t/model")(modelled)
    body = {"name": "x", "inner": {"size": 1}}
    assert answer_of(made, "/t/model", body) == body
    error = refusal_of(made, "/t/model", {"name": "x", "inner": {"size": "y"}})
    assert error.param == "inner.size"
    assert error.message.startswith("inner.size: input should be a valid integer")
    schemas = made.endpoint.description.schemas  # type: ignore[attr-defined]
    assert schemas["modelled.Inner"]["properties"]["size"]["type"] == "integer"


# How it is answered ---------------------------------------------------------------------------


def test_what_is_yielded_becomes_events() -> None:
    @endpoint("/t/events")
    async def told() -> AsyncIterator[object]:
        yield "one\ntwo\r\n\u2028"
        yield Item("x", 2)
        yield ServerSentEvent({"a": 1}, event="kind", id="5")

    first, *packets = answers_of(told, "/t/events", method="GET")
    assert (first.content_type, first.has_more, first.body) == ("text/event-stream", True, b"")
    assert packets == [
        "data: one\ndata: two\ndata: \u2028\n\n",
        'data: {"name":"x","count":2}\n\n',
        'event: kind\nid: 5\ndata: {"a":1}\n\n',
    ]


def test_bytes_become_chunks_of_a_content_type() -> None:
    @endpoint("/t/sound", content_type="audio/wav")
    async def sounded() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    first, *packets = answers_of(sounded, "/t/sound", method="GET")
    assert (first.content_type, packets) == ("audio/wav", [b"a", b"b"])


def test_whole_answers_have_the_type_of_the_signature() -> None:
    @endpoint("/t/text", content_type="text/plain")
    async def text() -> str:
        return "é"

    @endpoint("/t/bytes")
    async def raw() -> bytes:
        return b"\xff"

    @endpoint("/t/none")
    async def nothing() -> None:
        return

    (answer,) = answers_of(text, "/t/text", method="GET")
    assert (answer.content_type, answer.body) == ("text/plain", "é".encode())
    (answer,) = answers_of(raw, "/t/bytes", method="GET")
    assert (answer.content_type, answer.body) == ("application/octet-stream", b"\xff")
    assert answer_of(nothing, "/t/none", method="GET") is None


def test_what_does_not_fit_the_signature_is_the_authors_mistake() -> None:
    @endpoint("/t/forgot")
    async def forgot() -> dict[str, int]:
        return None  # type: ignore[return-value]

    @endpoint("/t/strange")
    async def strange() -> dict[str, object]:
        return {"x": object()}

    text = str(mistake_in(forgot, "/t/forgot", method="GET"))
    assert "test_endpoints.py:" in text
    assert "returned None, and its signature says dict[str, int]: `return` one" in text
    assert "an object in it" in str(mistake_in(strange, "/t/strange", method="GET"))


def test_a_wrong_yield_is_raised_at_its_line_and_closes_the_generator() -> None:
    closed: list[str] = []

    @endpoint("/t/wrong")
    async def wrong_yields() -> AsyncIterator[str]:
        try:
            yield "a"
            yield None  # type: ignore[misc]
        finally:
            closed.append("closed")

    mistake = mistake_in(wrong_yields, "/t/wrong", method="GET")
    frames = []
    trace = mistake.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "wrong_yields" in frames
    assert closed == ["closed"]


# What is refused ------------------------------------------------------------------------------


def _plain(start: int) -> int:
    return start


async def _bare(start) -> int:  # type: ignore[no-untyped-def]
    return 1


async def _no_result(start: int):  # type: ignore[no-untyped-def]
    return 1


async def _no_yield(start: int) -> AsyncIterator[str]:
    return  # type: ignore[return-value]


async def _no_piece(start: int):  # type: ignore[no-untyped-def]
    yield 1


async def _two_bodies(one: Item, two: Item) -> int:
    return 1


async def _form_and_body(file: FormFile, item: Item) -> int:
    return 1


async def _silent_socket(messages: AsyncIterator[str]) -> int:
    return 1


async def _strange_type(what: RequestError) -> int:
    return 1


async def _several(*items: int) -> int:
    return 1


async def _well(start: int = 1) -> int:
    return start


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_plain, "_plain is not an async function: write async def _plain"),
        (
            _bare,
            "start has no annotation, which says what it takes: write start: str",
        ),
        (_no_result, "the result has no annotation"),
        (_no_yield, "is declared to yield and has no `yield` in it"),
        (_no_piece, "_no_piece yields: say what, async def _no_piece(...) -> AsyncIterator[str]"),
        (_two_bodies, "both one and two take the body: make one dataclass of them"),
        (_form_and_body, "a form has uploads and texts, and no JSON for item"),
        (_silent_socket, "a WebSocket has messages and no body"),
        (_strange_type, "a value of JSON cannot become the type of what"),
        (_several, "the parameter items must have a name and a type"),
    ],
)
def test_a_function_that_cannot_answer_is_refused(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(AuthorError) as raised:
        endpoint("/t/refused")(function)
    assert text in str(raised.value)
    assert function.__name__ in str(raised.value)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("t/x", "is not a path to answer"),
        ("/t/x?y", "is not a path to answer"),
        ("/t/{a b}", "is not a path to answer"),
        ("/t/{other}", "{other} of the path /t/{other} needs a parameter other: str"),
        ("/metrics", "the path /metrics is the server's own"),
        ("/v2/models/x", "is the server's own"),
        ("/v3/chat/completions", "models answer the path /v3/chat/completions"),
    ],
)
def test_a_path_that_cannot_be_answered_is_refused(path: str, text: str) -> None:
    with pytest.raises(AuthorError) as raised:
        endpoint(path)(_well)
    assert text in str(raised.value)


def test_methods_and_a_missing_path_are_refused_with_the_call_that_was_meant() -> None:
    with pytest.raises(AuthorError, match=r'methods=\("POST",\)'):
        endpoint("/t/x", methods=("FETCH",))(_well)
    with pytest.raises(AuthorError, match=r'write|@endpoint\("/v3/_well"\)'):
        endpoint(_well)  # type: ignore[arg-type]


def test_the_servers_own_paths_are_known_to_authors() -> None:
    """Each path that the front answers itself is refused in an author's file."""
    for path in FIXED:
        assert is_servers(path), path
    below = (
        *("/v2/models/x/infer", "/v2/repository/models/x/load", "/page/x.js", "/v1/graphs/x"),
        *("/v1/requests/x", "/v1/calculators/x", "/v1/models/x", "/v3/v1/models/x", "/v1/files/x"),
        *("/v3/batches/x/cancel", "/v3/files"),
    )
    for path in below:
        assert is_servers(path), path
    route = find_route("/v3/countdown")
    assert route is not None
    assert route.endpoint is Endpoint.GRAPH
    assert not is_servers("/v3/countdown")
