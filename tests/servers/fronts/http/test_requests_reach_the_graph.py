"""Valid requests: the payload of the graph, and the answer made of its packets."""

from __future__ import annotations

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, request_bytes, serving


def test_a_unary_answer_is_the_packet(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            reply = await ask(front, chat_bytes(path="/v3/chat/completions?a=b", seed=1))
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["server"] == "graphrt"
        assert reply.json["echo"] == {"model": "echo", "seed": 1}
        [payload] = plane.payloads
        assert payload.uri == "/v3/chat/completions?a=b"
        assert payload.headers["content-type"] == "application/json"
        assert payload.headers["x-request-id"] == reply.headers["x-request-id"]
        assert payload.body == b'{"model": "echo", "seed": 1}'

    run(scenario())


@pytest.mark.parametrize(
    "path",
    ["/v1/completions", "/v3/v1/chat/completions", "/v3/embeddings", "/v1/a/b/", "/v3/x%2Fy"],
)
def test_everything_below_v1_and_v3_reaches_the_graph_that_the_body_names(
    run: Run, path: str
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes(path=path))
        assert (reply.status, reply.json["uri"]) == (200, path)

    run(scenario())


def test_a_stream_sends_packets_as_they_arrive_and_unchanged(run: Run) -> None:
    async def two_events(payload: HttpPayload, emit: Emit) -> None:
        emit("data: é\n\n")
        emit("")
        emit(b": raw\n\ndata: 2\n\n")
        emit(END)

    async def scenario() -> None:
        async with serving(FakeDataPlane(two=two_events)) as front, connected(front) as client:
            client.send(chat_bytes("two", stream=True))
            status, headers = await client.head()
            assert status == 200
            assert headers["content-type"] == "text/event-stream"
            assert headers["cache-control"] == "no-cache"
            assert headers["connection"] == "keep-alive"
            assert headers["x-accel-buffering"] == "no"
            assert [await client.chunk() for _ in range(4)] == [
                "data: é\n\n".encode(),
                b": raw\n\ndata: 2\n\n",
                END.encode(),
                b"",
            ]
            assert (await client.ask(chat_bytes())).status == 200  # the connection stays open

    run(scenario())


def test_an_http_1_0_client_gets_the_stream_until_the_end_of_the_connection(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes(stream=True, version="1.0"))
        assert "transfer-encoding" not in reply.headers
        assert reply.headers["connection"] == "close"
        assert reply.body.endswith(END.encode())

    run(scenario())


@pytest.mark.parametrize(
    ("path", "stream", "is_stream"),
    [
        ("/v3/chat/completions", True, True),
        ("/v3/responses", True, True),
        ("/v1/messages", True, True),
        ("/v3/embeddings", True, False),
        ("/v3/embeddings?x=completions", True, False),
        ("/v3/chat/completions", False, False),
        ("/v3/chat/completions", None, False),
    ],
)
def test_the_payload_says_whether_the_answer_is_a_stream(
    run: Run, path: str, stream: bool | None, is_stream: bool
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes(path=path, stream=stream))
        assert (reply.headers["content-type"] == "text/event-stream") is is_stream

    run(scenario())


def test_requests_sent_together_are_answered_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            client.send(b"".join(chat_bytes(seed=number) for number in range(5)))
            seeds = [(await client.reply()).json["echo"]["seed"] for _ in range(5)]
        assert seeds == [0, 1, 2, 3, 4]

    run(scenario())


def test_chunked_bodies_and_expect_100_are_accepted(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            client.send(
                b"POST /v3/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                b"Content-Type: application/json; charset=UTF-8\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            assert (await client.head())[0] == 100
            client.send(b'9\r\n{"model":\r\n7\r\n"echo"}\r\n0\r\n\r\n')
            assert (await client.reply()).json["echo"] == {"model": "echo"}

    run(scenario())


@pytest.mark.parametrize("name", ["abc", "A-b_c.9", "x" * 128])
def test_a_request_id_of_the_client_is_kept(run: Run, name: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            for data in (
                chat_bytes(headers={"X-Request-Id": name}),
                chat_bytes(headers={"X-Request-Id": name}, stream=True),
                chat_bytes("missing", headers={"X-Request-Id": name}),
            ):
                assert (await ask(front, data)).headers["x-request-id"] == name

    run(scenario())


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "é", "a\tb"])
def test_a_request_id_that_is_not_harmless_is_replaced(run: Run, name: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            given = (await ask(front, chat_bytes(headers={"X-Request-Id": name}))).headers
        assert len(given["x-request-id"]) == 32
        assert given["x-request-id"] != name

    run(scenario())


def test_models_are_listed_and_found_by_ids_with_slashes(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            for prefix in ("/v3/models", "/v1/models", "/v3/v1/models"):
                listed = (await ask(front, request_bytes("GET", prefix))).json
                assert listed["object"] == "list"
                assert [model["id"] for model in listed["data"]] == ["echo", "org/model:7b"]
                for spelt in ("org/model:7b", "org%2Fmodel%3A7b"):
                    model = (await ask(front, request_bytes("GET", f"{prefix}/{spelt}"))).json
                    assert model == {
                        "id": "org/model:7b",
                        "object": "model",
                        "created": 1_700_000_000,
                        "owned_by": "graphrt",
                    }
                missing = await ask(front, request_bytes("GET", f"{prefix}/org%252Fmodel:7b"))
                assert (missing.status, missing.error["code"]) == (404, "model_not_found")

    run(scenario())


def test_anthropics_clients_get_models_in_their_form(run: Run) -> None:
    async def scenario() -> None:
        headers = {"Anthropic-Version": "2023-06-01"}
        async with serving(FakeDataPlane()) as front:
            listed = (await ask(front, request_bytes("GET", "/v1/models", headers=headers))).json
            first = (
                await ask(front, request_bytes("GET", "/v1/models/echo", headers=headers))
            ).json
        assert [listed[name] for name in ("has_more", "first_id", "last_id")] == [
            False,
            "echo",
            "org/model:7b",
        ]
        assert listed["data"][0] == first
        assert (first["type"], first["display_name"]) == ("model", "echo")
        assert first["created_at"] == "2023-11-14T22:13:20Z"

    run(scenario())


def test_the_server_describes_itself(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            assert (await ask(front, request_bytes("GET", "/v2/health/live"))).status == 200
            assert (await ask(front, request_bytes("GET", "/v2/health/ready"))).status == 200
            about = (await ask(front, request_bytes("GET", "/v2"))).json
            assert about["name"] == "graphrt"
            assert about["version"]
            statuses = (await ask(front, request_bytes("GET", "/v1/config"))).json
            assert statuses == plane.statuses()
            plane.is_ready = False
            assert (await ask(front, request_bytes("GET", "/v2/health/live"))).status == 200
            unready = await ask(front, request_bytes("GET", "/v2/health/ready"))
            assert (unready.status, unready.json) == (503, {"error": "the server is not ready"})

    run(scenario())


def test_head_and_options_are_answered(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            client.send(request_bytes("HEAD", "/v3/models"))
            head = await client.reply(has_body=False)
            assert (head.status, int(head.headers["content-length"]) > 0) == (200, True)
            options = await client.ask(request_bytes("OPTIONS", "/v3/chat/completions"))
            assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
            assert "access-control-allow-origin" not in options.headers

    run(scenario())
