"""`@endpoint` in a Python file that is served: every kind of answer, over real connections."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE

COUNTDOWN = """\
import asyncio
from collections.abc import AsyncIterator
from graphrt import endpoint

@endpoint("/v3/countdown")
async def countdown(start: int = 3) -> AsyncIterator[str]:
    for number in range(start, 0, -1):
        yield str(number)
        await asyncio.sleep(0)
"""

OTHERS = '''

import logging
from dataclasses import dataclass
from graphrt import FormFile, RequestError

log = logging.getLogger("shop")


@dataclass
class Order:
    item: str
    count: int = 1


@endpoint("/shop/{name}/orders")
async def order(name: str, order: Order) -> dict[str, object]:
    """Take an order.

    It is not kept.
    """
    return {"shop": name, "item": order.item, "count": order.count}


@endpoint("/v3/size")
async def size(file: FormFile, times: int = 1) -> int:
    return len(file.content) * times


@endpoint("/v3/reverse", methods=("POST",), content_type="application/x-reversed")
async def reverse(request) -> bytes:
    return request.body[::-1]


@endpoint("/v3/shout")
async def shout(messages: AsyncIterator[str], mark: str = "!") -> AsyncIterator[str]:
    async for message in messages:
        if message == "fail":
            raise ValueError("secret")
        yield message.upper() + mark


@endpoint("/v3/sums")
async def sums(orders: AsyncIterator[Order]) -> AsyncIterator[dict[str, int]]:
    total = 0
    async for order in orders:
        total += order.count
        yield {"total": total}


@endpoint("/v3/forever")
async def forever() -> AsyncIterator[str]:
    try:
        yield "first"
        await asyncio.Event().wait()
    finally:
        log.warning("forever was closed")


made = 0


@endpoint("/v3/flood")
async def flood() -> AsyncIterator[bytes]:
    global made
    for _ in range(2_000):
        made += 1
        yield bytes(65_536)


@endpoint("/v3/made")
async def made_so_far() -> int:
    return made


@endpoint("/v3/refused")
async def refused(after: int = 0) -> AsyncIterator[str]:
    for _ in range(after):
        yield "piece"
    raise RequestError("no more today", param="after")


@endpoint("/v3/broken")
async def broken(after: int = 0) -> AsyncIterator[bytes]:
    for _ in range(after):
        yield b"piece"
    raise ValueError("secret")


@endpoint("/v3/empty")
async def empty() -> AsyncIterator[str]:
    for each in ():
        yield each


@endpoint("/v3/things/{number}", methods=("GET",))
async def thing(number: int) -> int:
    return number


@endpoint("/v3/things/{number}", methods=("PUT", "DELETE"))
async def changed(number: int, note: str = "") -> list[object]:
    return [number, note]
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "shop.py").write_text(COUNTDOWN + OTHERS)
    with Serving(folder, "shop.py", calculators=()) as serving:
        yield serving.wait_until_serving()


def asked(
    server: Serving, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, str, bytes]:
    """Return status, content type and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        with connection.getresponse() as response:
            return response.status, response.headers["Content-Type"], response.read()


def error_of(answer: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(answer)["error"]
    return error


def test_six_lines_stream_events(server: Serving) -> None:
    events = b"data: 2\n\ndata: 1\n\n"
    for method, path, body in (
        ("GET", "/v3/countdown?start=2", b""),
        ("POST", "/v3/countdown", b'{"start": 2}'),
    ):
        answer = asked(server, method, path, body, Content_Type="application/json")
        assert answer == (200, "text/event-stream", events)
    assert asked(server, "POST", "/v3/countdown")[2].startswith(b"data: 3\n\n")


def test_json_of_a_dataclass(server: Serving) -> None:
    how: dict[str, Any] = {"Content_Type": "application/json"}
    status, kind, answer = asked(server, "POST", "/shop/x/orders", b'{"item": "x"}', **how)
    assert (status, kind) == (200, "application/json")
    assert json.loads(answer) == {"shop": "x", "item": "x", "count": 1}
    status, _, answer = asked(server, "POST", "/shop/x/orders", b'{"count": 1}', **how)
    assert (status, error_of(answer)["param"]) == (400, "item")
    assert asked(server, "POST", "/shop/x/orders", b"item", Content_Type="text/plain")[0] == 415
    assert asked(server, "POST", "/shop/x/orders", **how)[0] == 400


def test_a_form_with_a_file(server: Serving) -> None:
    form = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nabc\r\n'
        b'--b\r\nContent-Disposition: form-data; name="times"\r\n\r\n2\r\n--b--\r\n'
    )
    kind = "multipart/form-data; boundary=b"
    assert asked(server, "POST", "/v3/size", form, Content_Type=kind)[2] == b"6"
    status, _, answer = asked(server, "POST", "/v3/size", b"{}", Content_Type="application/json")
    assert (status, error_of(answer)["message"]) == (
        *(415, "the body must have the Content-Type multipart/form-data"),
    )


def test_bytes_in_and_out(server: Serving) -> None:
    answer = asked(server, "POST", "/v3/reverse", b"\x00\xffa", Content_Type="image/png")
    assert answer == (200, "application/x-reversed", b"a\xff\x00")


def talk(server: Serving, path: str, *messages: str) -> list[str | int | None]:
    """Send messages one by one; their answers, and the code of the server's close."""

    async def run() -> list[str | int | None]:
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://127.0.0.1:{server.port}{path}") as socket,
        ):
            got: list[str | int | None] = []
            for message in messages:
                await socket.send_str(message)
                answer = await socket.receive()
                if answer.type is not aiohttp.WSMsgType.TEXT:
                    return [*got, socket.close_code]
                got.append(answer.data)
            return got

    return asyncio.run(run())


def test_a_websocket_whose_client_speaks_first(server: Serving) -> None:
    assert talk(server, "/v3/shout?mark=%3F", "a", "é") == ["A?", "É?"]
    assert talk(server, "/v3/shout", "a", "fail") == ["A!", 1011]
    status, _, answer = asked(server, "GET", "/v3/shout")
    assert (status, error_of(answer)["message"]) == (426, "this path is a WebSocket's")


def test_messages_of_json(server: Serving) -> None:
    one, two = '{"item": "x", "count": 2}', '{"item": "y"}'
    assert talk(server, "/v3/sums", one, two, "no") == ['{"total":2}', '{"total":3}', 1008]


def test_a_client_that_goes_closes_the_generator(server: Serving) -> None:
    with server.request("GET", "/v3/forever") as response:
        assert response.readline() == b"data: first\n"
    server.wait_for("forever was closed")


def test_a_slow_client_holds_the_generator_back(server: Serving) -> None:
    with server.request("GET", "/v3/flood") as response:
        assert response.read(1) == b"\0"
        seen, same = 0, 0
        while same < 20:  # what is on its way to the client settles
            _, _, text = asked(server, "GET", "/v3/made")
            seen, same = int(text), same + 1 if int(text) == seen else 0
        assert seen < 2_000


def test_errors_are_those_of_other_paths(server: Serving) -> None:
    status, _, answer = asked(server, "GET", "/v3/refused")
    assert (status, error_of(answer)["message"]) == (400, "no more today")
    status, kind, answer = asked(server, "GET", "/v3/refused?after=1")
    piece, error, done, _ = answer.split(b"\n\n")
    assert (status, kind, piece, done) == (
        200,
        "text/event-stream",
        b"data: piece",
        b"data: [DONE]",
    )
    assert error_of(error.removeprefix(b"data: "))["param"] == "after"
    status, _, answer = asked(server, "GET", "/v3/broken")
    assert status == 500
    assert 'in node "broken"' in error_of(answer)["message"]
    assert b"secret" not in answer
    with pytest.raises(http.client.IncompleteRead):
        asked(server, "GET", "/v3/broken?after=1")


def test_a_stream_without_a_piece_is_empty(server: Serving) -> None:
    assert asked(server, "GET", "/v3/empty") == (200, "text/event-stream", b"")


def test_two_functions_share_a_path_by_method(server: Serving) -> None:
    assert asked(server, "GET", "/v3/things/5")[2] == b"5"
    assert asked(server, "DELETE", "/v3/things/5?note=x")[2] == b'[5,"x"]'
    body = b'{"note": "y"}'
    assert asked(server, "PUT", "/v3/things/5", body, Content_Type="application/json")[2] == (
        b'[5,"y"]'
    )
    with server.request("POST", "/v3/things/5", {}) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET, PUT, DELETE, HEAD, OPTIONS"
    with server.request("OPTIONS", "/v3/things/5") as response:
        assert response.headers["Allow"] == "GET, PUT, DELETE, HEAD, OPTIONS"
    assert asked(server, "HEAD", "/v3/things/5")[:2] == (200, "application/json")


def test_the_document_has_the_schema(server: Serving) -> None:
    _, document = server.get("/openapi.json")
    described = document["paths"]["/shop/{name}/orders"]["post"]
    assert (described["summary"], described["description"]) == ("Take an order.", "It is not kept.")
    (path, *_) = described["parameters"]
    assert (path["name"], path["in"], path["schema"]) == ("name", "path", {"type": "string"})
    body = described["requestBody"]["content"]["application/json"]["schema"]
    schema = document["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    assert schema["properties"]["count"] == {"type": "integer", "default": 1}
    assert schema["required"] == ["item"]
    query, *_ = document["paths"]["/v3/countdown"]["get"]["parameters"]
    assert (query["name"], query["in"], query["required"]) == ("start", "query", False)
    assert (
        "text/event-stream"
        in (document["paths"]["/v3/countdown"]["get"]["responses"]["200"]["content"])
    )
    ids = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))
    openapi = pytest.importorskip("openapi_spec_validator")
    openapi.validate(document)


def test_it_is_a_model_among_others(server: Serving) -> None:
    _, listed = server.get("/v3/models")
    (found,) = [each for each in listed["data"] if each["id"] == "countdown"]
    assert found["endpoints"] == ["/v3/countdown"]
    status, answer = server.post("/v3/other", {"model": "countdown"})
    assert (status, answer["error"]["message"]) == (
        *(404, "this model answers GET and POST /v3/countdown only"),
    )


def test_a_config_serves_the_endpoints_of_its_python_path(tmp_path: Path) -> None:
    (tmp_path / "countdown.py").write_text(COUNTDOWN)
    (tmp_path / "config.json").write_text('{"python_path": "countdown.py"}')
    with Serving(tmp_path, "config.json", calculators=()) as server:
        server.wait_until_serving()
        assert asked(server, "GET", "/v3/countdown?start=1")[2] == b"data: 1\n\n"


def test_edits_are_served_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "countdown.py"
    file.write_text(COUNTDOWN)
    with Serving(tmp_path, "countdown.py", calculators=()) as server:
        server.wait_until_serving()
        file.write_text(COUNTDOWN + "1 +\n")
        server.post("/v1/config/reload")
        assert asked(server, "GET", "/v3/countdown?start=1")[2] == b"data: 1\n\n"
        edited = COUNTDOWN.replace("str(number)", "str(-number)").replace("countdown", "up")
        file.write_text(edited + COUNTDOWN)
        assert server.post("/v1/config/reload")[0] == 201
        assert asked(server, "GET", "/v3/up?start=1")[2] == b"data: -1\n\n"
        assert asked(server, "GET", "/v3/countdown?start=1")[2] == b"data: 1\n\n"
        _, document = server.get("/openapi.json")
        assert "/v3/up" in document["paths"]
        file.write_text(edited)
        assert server.post("/v1/config/reload")[0] == 201
        assert asked(server, "GET", "/v3/countdown")[0] == 404
        _, document = server.get("/openapi.json")
        assert "/v3/countdown" not in document["paths"]


def test_a_graph_of_ones_own_may_have_an_endpoint_as_its_node(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "countdown.py").write_text(COUNTDOWN)
    (tmp_path / "graph.pbtxt").write_text(
        'input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "HTTP_RESPONSE_PAYLOAD:output" '
        'node { calculator: "countdown" input_stream: "HTTP_REQUEST_PAYLOAD:input" '
        'output_stream: "HTTP_RESPONSE_PAYLOAD:output" }'
    )
    (tmp_path / "config.json").write_text(
        '{"mediapipe_config_list": [{"name": "own", "base_path": ".", "python_path": "nodes"}]}'
    )
    with Serving(tmp_path, "config.json", calculators=()) as server:
        server.wait_until_serving()
        assert asked(server, "GET", "/v3/countdown?start=1")[2] == b"data: 1\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", 'none.py: nothing is served: no function in it has @endpoint("/v3/NAME")'),
        ("1 +\n", "none.py:1: SyntaxError: invalid syntax"),
        (
            COUNTDOWN + COUNTDOWN.replace("def countdown", "def other"),
            "other answers GET /v3/countdown, and so does countdown, which has it",
        ),
        (COUNTDOWN.replace(": int", ""), "start has no annotation"),
    ],
)
def test_a_file_that_serves_nothing_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "none.py").write_text(text)
    done = graphrt("serve", "none.py", "--rest_port", "auto", cwd=tmp_path)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "--calculators" not in done.stderr


def test_paths_of_authors_need_a_key_where_others_do(tmp_path: Path) -> None:
    (tmp_path / "countdown.py").write_text(COUNTDOWN.replace("/v3/countdown", "/countdown"))
    (tmp_path / "keys").write_text("secret\n")
    with Serving(tmp_path, "countdown.py", "--api_key_file", "keys", calculators=()) as server:
        server.wait_for("try:")
        server.wait_until_serving()
        assert asked(server, "GET", "/countdown")[0] == 401
        assert asked(server, "GET", "/countdown", Authorization="Bearer secret")[0] == 200


def test_an_importable_module_of_calculators_is_served_too(tmp_path: Path) -> None:
    (tmp_path / "own_paths").mkdir()
    (tmp_path / "own_paths" / "__init__.py").write_text("from own_paths import countdown\n")
    (tmp_path / "own_paths" / "countdown.py").write_text(COUNTDOWN)
    (tmp_path / "config.json").write_text('{"mediapipe_config_list": []}')
    calculators = ("--calculators", "own_paths")
    with Serving(tmp_path, "config.json", calculators=calculators) as server:
        server.wait_until_serving()
        assert asked(server, "GET", "/v3/countdown?start=1")[2] == b"data: 1\n\n"
