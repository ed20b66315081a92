"""Requests of multipart/form-data: they reach the graph parsed, or are refused with a reason."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from servers.access import Access, ApiKeys
from servers.fronts.body_room import SMALL, BodyRoom
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane, hang
from tests.servers.fronts.http.form_requests import (
    BOUNDARY,
    form,
    form_request,
    part,
    posted,
)
from tests.servers.fronts.http.http_client import (
    Reply,
    ask,
    chat_bytes,
    connected,
    request_bytes,
    serving,
)

MODEL = part("model", "heard")


async def heard(payload: HttpPayload, emit: Emit) -> None:
    """Answer with what the form has."""
    assert payload.form is not None
    assert payload.parsed_json is None
    assert payload.body == b""
    files = {
        name: [[each.filename, each.content_type, len(each.content)] for each in uploads]
        for name, uploads in payload.form.files.items()
    }
    emit(json.dumps({"fields": payload.form.fields, "files": files}))


async def count(payload: HttpPayload, emit: Emit) -> None:
    emit("data: 1\n\n")
    emit("data: [DONE]\n\n")


def asked(run: Run, request: bytes, **settings: Any) -> Reply:
    replies = []

    async def scenario() -> None:
        plane = FakeDataPlane(heard=heard, count=count)
        async with serving(plane, **settings) as front, connected(front) as client:
            reply = await client.ask(request)
            replies.append(reply)
            if reply.headers.get("connection") != "close":
                assert (await client.ask(chat_bytes())).status == 200
            assert (await ask(front, chat_bytes())).status == 200

    run(scenario())
    return replies[0]


def test_fields_and_files_reach_the_graph(run: Run) -> None:
    reply = asked(
        run,
        form_request(
            part("file", b"\0\r\n--x\r\n\xff" * 1000, file="é.wav", Content_Type="Audio/WAV; a=b"),
            part("timestamp_granularities[]", "word"),
            part("prompt", "grüße"),
            part("timestamp_granularities[]", "segment"),
            MODEL,  # its place does not matter
            part("empty", ""),
        ),
    )
    assert reply.status == 200
    assert reply.json == {
        "fields": {
            "timestamp_granularities[]": ["word", "segment"],
            "prompt": ["grüße"],
            "model": ["heard"],
            "empty": [""],
        },
        "files": {"file": [["é.wav", "audio/wav", 9000]]},
    }


def test_a_part_of_sound_is_a_file_even_without_a_name(run: Run) -> None:
    reply = asked(run, form_request(MODEL, part("file", b"\xff", Content_Type="audio/wav")))
    assert reply.json["files"] == {"file": [["", "audio/wav", 1]]}


def test_a_form_may_arrive_in_any_pieces(run: Run) -> None:
    request = form_request(MODEL, part("file", b"\r\n--" * 5, file="a"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(heard=heard)) as front, connected(front) as client:
            for at in range(0, len(request), 7):
                client.send(request[at : at + 7])
                await asyncio.sleep(0)
            reply = await client.reply()
            assert reply.json["files"] == {"file": [["a", "", 20]]}

    run(scenario())


def test_a_form_may_be_sent_in_chunks(run: Run) -> None:
    body = form(MODEL, part("file", b"x" * 1000, file="a"))
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    head = posted(b"", headers={"Transfer-Encoding": "chunked"})
    head = head.replace(b"Content-Length: 0\r\n", b"")
    assert asked(run, head + chunks).json["files"] == {"file": [["a", "", 1000]]}


def test_a_large_file_is_the_same_afterwards(run: Run) -> None:
    content = bytes(range(256)) * 4 * 4096
    got: list[bytes] = []

    async def keep(payload: HttpPayload, emit: Emit) -> None:
        assert payload.form is not None
        got.append(payload.form.files["file"][0].content)
        emit("{}")

    async def scenario() -> None:
        async with serving(FakeDataPlane(keep=keep)) as front:
            request = form_request(part("file", content, file="a"), part("model", "keep"))
            assert (await ask(front, request)).status == 200

    run(scenario())
    assert got == [content]


@pytest.mark.parametrize(
    ("body", "text", "param"),
    [
        (b"", "the body is empty", None),
        (b"model=heard", "does not begin with the boundary", None),
        (form(MODEL, boundary="another"), "does not begin with the boundary", None),
        (form(MODEL)[:-8], "the form breaks off in part 1", None),
        (form(MODEL, part("file", "abc", file="a"))[:-30], "the form breaks off in part 2", None),
        (form(MODEL)[:30], "the form breaks off in part 1", None),
        (form(b"Content-Disposition: form-data\r\n\r\nx"), "part 1 of the form has no name", None),
        (form(b"Content-Type: a/b\r\n\r\nx"), "part 1 has no Content-Disposition", None),
        (form(b"no header\r\n\r\nx"), "part 1 of the form is malformed", None),
        (form(MODEL, part("x" * 5000, "y")), "part 2 of the form has a header of more", None),
        (
            form(part("a", "b", **{f"X_{n}": "y" for n in range(20)})),
            "part 1 of the form has more than 8 headers",
            None,
        ),
        (form(*[MODEL] * 200), "the form has more than 128 parts", None),
        (
            form(MODEL, part("prompt", b"\xff")),
            'the field "prompt" of the form is not UTF-8',
            "prompt",
        ),
        (
            form(MODEL, part("prompt", "a", Content_Type="text/plain; charset=iso-8859-1")),
            'the field "prompt" of the form must be UTF-8',
            "prompt",
        ),
        (form(part("_charset_", "utf-16"), MODEL), "must be UTF-8", "_charset_"),
        (
            form(MODEL, part("file", "AA==", file="a", Content_Transfer_Encoding="base64")),
            "has a Content-Transfer-Encoding",
            "file",
        ),
        (form(part("file", "a", file="b")), "to call a graph, name it as model", None),
        (form(MODEL, MODEL), "the form has model 2 times", "model"),
        (form(part("model", "heard", file="a")), "must be a text of the form", "model"),
        (form(part("model", "")), "model must be the name of a model", "model"),
        (form(part("model", "gone")), "", None),
        (form(MODEL, part("timeout", "soon")), "timeout must be a number", "timeout"),
        (form(MODEL, part("timeout", "nan")), "timeout must be a number", "timeout"),
    ],
)
def test_bad_forms_are_refused_with_the_reason(
    run: Run, body: bytes, text: str, param: str | None
) -> None:
    reply = asked(run, posted(body))
    assert reply.status in (400, 404)
    assert text in reply.error["message"]
    if reply.status == 400:
        assert reply.error["param"] == param


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("multipart/form-data", "has no boundary"),
        ("multipart/form-data; boundary=", "has no boundary"),
        (f"multipart/form-data; boundary={'x' * 1000}", "too long"),
        ("multipart/form-data; boundary=é", "does not begin with the boundary"),
        (f"multipart/form-data; charset=utf-16; boundary={BOUNDARY}", "must be UTF-8"),
    ],
)
def test_bad_content_types_are_refused_with_the_reason(
    run: Run, content_type: str, text: str
) -> None:
    reply = asked(run, posted(form(MODEL), content_type=content_type))
    assert reply.status == 400
    assert text in reply.error["message"]


def test_a_quoted_boundary_and_another_case_are_understood(run: Run) -> None:
    content_type = f'Multipart/Form-Data; charset=UTF-8; Boundary="{BOUNDARY}"'
    assert asked(run, posted(form(MODEL), content_type=content_type)).status == 200


def test_lines_like_boundaries_are_refused(run: Run) -> None:
    likely = f"\r\n--{BOUNDARY}x".encode() * 1000
    reply = asked(run, form_request(MODEL, part("file", likely, file="a")))
    assert (reply.status, reply.error["message"]) == (400, "the form has more than 128 parts")


def test_blanks_after_a_boundary_are_refused(run: Run) -> None:
    body = form(MODEL).replace(b"--\r\n", b" " * 300_000, 1)
    assert asked(run, posted(body)).status == 400


@pytest.mark.parametrize("path", ["/v3/embeddings", "/v1/chat/completions"])
def test_endpoints_without_forms_refuse_them(run: Run, path: str) -> None:
    reply = asked(run, form_request(MODEL, path=path))
    assert reply.status == 415
    assert "application/json" in reply.error["message"]


def test_uploads_have_a_limit_of_their_own(run: Run) -> None:
    request = form_request(MODEL, part("file", b"x" * 3000, file="a"))
    assert asked(run, request, max_body_bytes=100).status == 200
    refused = asked(run, request, max_upload_bytes=3000)
    assert refused.status == 413
    assert "3000 bytes" in refused.error["message"]


def test_texts_have_a_limit_of_their_own(run: Run) -> None:
    texts = [part(f"t{number}", "x" * 300) for number in range(4)]
    files = [part("file", b"x" * 5000, file="a")]
    assert asked(run, form_request(MODEL, *texts, *files), max_form_text_bytes=1300).status == 200
    refused = asked(run, form_request(MODEL, *texts), max_form_text_bytes=1000)
    assert (refused.status, refused.error["param"]) == (413, "t3")


def test_a_compressed_form_is_refused(run: Run) -> None:
    reply = asked(run, form_request(MODEL, headers={"Content-Encoding": "gzip"}))
    assert reply.status == 400


@pytest.mark.parametrize(
    ("text", "is_stream"),
    [("true", True), ("True", True), ("false", False), ("null", False), (" ", False)],
)
def test_a_form_asks_for_events_where_paths_have_them(run: Run, text: str, is_stream: bool) -> None:
    fields = [part("model", "count"), part("stream", text)]
    reply = asked(run, form_request(*fields, path="/v3/x/completions"))
    media = "text/event-stream" if is_stream else "application/json"
    assert reply.headers["content-type"] == media


def test_a_bad_stream_is_refused(run: Run) -> None:
    fields = [part("model", "count"), part("stream", "perhaps")]
    reply = asked(run, form_request(*fields, path="/v3/x/completions"))
    assert (reply.status, reply.error["param"]) == (400, "stream")


def test_a_form_may_limit_its_time(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(hang=hang)) as front:
            request = form_request(part("model", "hang"), part("timeout", "0.05"))
            assert (await ask(front, request)).status == 504

    run(scenario())


@pytest.mark.parametrize("text", ["", "null"])
def test_a_time_that_is_null_is_no_limit(run: Run, text: str) -> None:
    fields = [part("model", "count"), part("timeout", text)]
    assert asked(run, form_request(*fields, path="/v3/x/completions")).status == 200


def test_a_page_of_another_site_may_not_send_a_form(run: Run) -> None:
    """Browsers send forms without a preflight request."""
    page = {"Origin": "https://page.example"}
    request = form_request(MODEL, headers=page)
    assert asked(run, request, hosts=("0.0.0.0",)).status == 403
    keys = Access(ApiKeys.of_text("key", "here"))
    with_key = form_request(MODEL, headers={**page, "Authorization": "Bearer key"})

    async def scenario() -> None:
        settings = {"hosts": ("0.0.0.0",), "allowed_origins": ("https://page.example",)}
        async with serving(FakeDataPlane(heard=heard), access=keys, **settings) as front:
            assert (await ask(front, with_key)).status == 200
            assert (await ask(front, request)).status == 401

    run(scenario())


def test_forms_have_room_among_all_bodies_until_the_graph_is_done_with_them(run: Run) -> None:
    room = BodyRoom(4 * SMALL)
    request = form_request(part("model", "slow"), part("file", b"x" * 3 * SMALL, file="a"))

    async def scenario() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(payload: HttpPayload, emit: Emit) -> None:
            begun.set()
            assert room.used > 3 * SMALL
            await go.wait()
            emit("{}")

        async with serving(FakeDataPlane(slow=slow), room=room) as front:
            async with connected(front) as client:
                client.send(request)
                await begun.wait()
                go.set()
                assert (await client.reply()).status == 200
            gc.collect()
            await asyncio.sleep(0)
            assert room.used == 0

    run(scenario())


def test_a_body_that_breaks_off_with_its_connection_does_no_harm(run: Run) -> None:
    request = form_request(MODEL, part("file", b"x" * 200_000, file="a"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(heard=heard)) as front:
            for at in (200, 400, 100_000):
                async with connected(front) as client:
                    client.send(request[:at])
                    await client.writer.drain()
                    client.abort()
            assert (await ask(front, request)).status == 200

    run(scenario())


def test_the_loop_has_its_turn_while_a_form_is_parsed(run: Run) -> None:
    request = form_request(MODEL, part("file", b"\r\n-" * (4 << 20), file="a"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(heard=heard)) as front:
            asking = asyncio.create_task(ask(front, request))
            answers = 0
            while not asking.done():
                assert (await ask(front, request_bytes("GET", "/health"))).status == 200
                answers += 1
            assert (await asking).status == 200
            assert answers > 1

    run(scenario())


@pytest.mark.parametrize("client", ["requests", "httpx"])
def test_usual_clients_forms_are_read(run: Run, client: str) -> None:
    library = pytest.importorskip(client)

    async def scenario() -> None:
        async with serving(FakeDataPlane(heard=heard)) as front:
            host, port = front.addresses[0]
            answer = await asyncio.to_thread(
                library.post,
                f"http://{host}:{port}/v3/listen",
                data={"model": "heard", "stream": "false"},
                files={"file": ("a b.wav", b"\0" * 100_000, "audio/wav")},
            )
            assert answer.json() == {
                "fields": {"model": ["heard"], "stream": ["false"]},
                "files": {"file": [["a b.wav", "audio/wav", 100_000]]},
            }

    run(scenario())
