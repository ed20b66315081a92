"""Documents that requests name: files of the client, and documents on the web."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import openai
import pytest

from tests.process.http_client import CHAT
from tests.process.server_process import ServerProcess
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE
from tests.support.web_document import served

DEMO: Final = ROOT / "examples" / "models" / "demo"
SEEING: Final = ROOT / "examples" / "models" / "shapes_vlm"
TEXT: Final = b"Fourteen geese fly over the lake."
KEYS: Final = ("sk-first-key-0123456789", "sk-other-key-0123456789")
DATA: Final = "data:text/plain;base64," + base64.b64encode(TEXT).decode()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(TEXT) as url:
        yield url


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("documents")
    (folder / "keys").write_text("\n".join(KEYS))
    (folder / "keys").chmod(0o600)
    with ServerProcess(
        *("--batch_dir", "store", "--api_key_file", "keys"),
        *("--allowed_media_domains", "127.0.0.1", DEMO),
        cwd=folder,
    ) as running:
        yield running


def asked(server: ServerProcess, path: str, key: str = KEYS[0], **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {key}"}
    return server.client.ask("POST", path, {"model": "demo", "temperature": 0, **body}, headers)


def answered(server: ServerProcess, file: dict[str, Any], key: str = KEYS[0]) -> Any:
    """Return the answer to a question with a file, as chats write it."""
    messages = [{"role": "user", "content": [{"type": "file", "file": file}]}]
    return asked(server, CHAT, key, messages=messages, max_tokens=4)


def uploaded(server: ServerProcess, key: str = KEYS[0]) -> str:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key)
    file = client.files.create(file=("geese.txt", TEXT), purpose="user_data")
    assert file.purpose == "user_data"
    file_id: str = file.id
    return file_id


def test_named_documents_are_read_as_if_they_stood_in_the_request(
    server: ServerProcess, address: str
) -> None:
    held = answered(server, {"file_data": DATA, "filename": "geese.txt"}).json
    for named in ({"file_id": uploaded(server)}, {"file_url": address, "filename": "geese.txt"}):
        answer = answered(server, named).json
        assert answer["usage"]["prompt_tokens"] == held["usage"]["prompt_tokens"]
        assert answer["choices"][0]["message"] == held["choices"][0]["message"]


def test_all_apis_take_them(server: ServerProcess, address: str) -> None:
    part = {"type": "input_file", "file_id": uploaded(server)}
    reply = asked(server, "/v1/responses", input=[{"role": "user", "content": [part]}])
    assert reply.status == 200
    sources = (
        {"type": "url", "url": address},
        {"type": "file", "file_id": part["file_id"]},
        {"type": "text", "media_type": "text/plain", "data": TEXT.decode()},
    )
    counts = set()
    for source in sources:
        content = [{"type": "document", "source": source}]
        messages = [{"role": "user", "content": content}]
        reply = asked(server, "/v1/messages", messages=messages, max_tokens=4)
        counts.add(reply.json["usage"]["input_tokens"])
    assert len(counts) == 1


def test_what_a_client_may_not_read_is_refused_with_its_place(server: ServerProcess) -> None:
    place = "messages[0].content[0].file"
    reply = answered(server, {"file_id": uploaded(server)}, KEYS[1])
    assert (reply.status, reply.error["param"]) == (400, f"{place}.file_id")
    assert "no such file" in reply.error["message"]
    reply = answered(server, {"file_url": "http://127.0.0.2/x"})
    assert (reply.status, reply.error["param"]) == (400, f"{place}.file_url")
    assert "--allowed_media_domains" in reply.error["message"]


def test_a_server_without_files_says_so() -> None:
    with ServerProcess(DEMO) as server:
        reply = answered(server, {"file_id": "file-1"})
        assert (reply.status, "--batch_dir" in reply.error["message"]) == (400, True)
        reply = answered(server, {"file_url": "http://example.com/x"})
        assert "documents from the web are off" in reply.error["message"]


def test_images_may_be_uploaded_files(tmp_path: Path) -> None:
    picture = SEEING / "pictures" / "red_circle.png"
    held = base64.b64encode(picture.read_bytes()).decode()
    with ServerProcess("--batch_dir", tmp_path / "store", SEEING) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        file_id = client.files.create(file=picture, purpose="vision").id
        parts = (
            {"type": "input_image", "image_url": f"data:image/png;base64,{held}"},
            {"type": "input_image", "file_id": file_id, "detail": "auto"},
            {"type": "input_image", "file_id": file_id, "image_url": None},
        )
        said = [
            asked(server, "/v1/responses", model=SEEING.name, input=[{"role": "user", "content": [
                part, {"type": "input_text", "text": "What is this?"}]}]).json
            for part in parts
        ]  # fmt: skip
        assert len({reply["usage"]["input_tokens"] for reply in said}) == 1
        assert len({reply["output"][0]["content"][0]["text"] for reply in said}) == 1
        sources = (
            {"type": "base64", "media_type": "image/png", "data": held},
            {"type": "file", "file_id": file_id},
        )
        written = [
            asked(server, "/v1/messages", model=SEEING.name, max_tokens=8, messages=[{
                "role": "user", "content": [{"type": "image", "source": source}]}]).json
            for source in sources
        ]  # fmt: skip
        assert len({json.dumps([each["content"], each["usage"]]) for each in written}) == 1
        unknown = {"type": "input_image", "file_id": "file-unknown"}
        messages = [{"role": "user", "content": [unknown]}]
        reply = asked(server, "/v1/responses", model=SEEING.name, input=messages)
        assert (reply.status, reply.error["param"]) == (400, "input[0].content[0].file_id")


def line(number: int, file: dict[str, Any]) -> dict[str, Any]:
    """Return a line of a batch that asks about a file."""
    messages = [{"role": "user", "content": [{"type": "file", "file": file}]}]
    body = {"model": "demo", "temperature": 0, "max_tokens": 4, "messages": messages}
    return {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}


def prompt_tokens(result: dict[str, Any]) -> int:
    """Return the length of the prompt of a line's answer, or minus its status."""
    response = result["response"]
    if response["status_code"] != 200:
        return -int(response["status_code"])
    count: int = response["body"]["usage"]["prompt_tokens"]
    return count


def test_requests_of_batches_name_documents_of_their_client(
    server: ServerProcess, address: str
) -> None:
    file_id, others = uploaded(server), uploaded(server, KEYS[1])
    files: tuple[dict[str, Any], ...] = (
        {"file_data": DATA, "filename": "geese.txt"},
        {"file_id": file_id},
        {"file_url": address, "filename": "geese.txt"},
        {"file_id": others},
    )
    content = "".join(json.dumps(line(i, file)) + "\n" for i, file in enumerate(files))
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEYS[0])
    asked_for = client.files.create(file=("in.jsonl", content.encode()), purpose="batch")
    batch = client.batches.create(
        input_file_id=asked_for.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    until = time.monotonic() + PATIENCE
    while (found := client.batches.retrieve(batch.id)).status != "completed":
        assert time.monotonic() < until, found
        time.sleep(0.1)
    results = [
        json.loads(each)
        for name in (found.output_file_id, found.error_file_id)
        for each in client.files.content(name).text.splitlines()
    ]
    counts = {each["custom_id"]: prompt_tokens(each) for each in results}
    assert counts["0"] == counts["1"] == counts["2"] > 0
    assert counts["3"] == -400


def test_the_command_for_batches_fetches_documents_and_has_no_files(
    tmp_path: Path, address: str
) -> None:
    files = ({"file_data": DATA}, {"file_url": address}, {"file_id": "file-1"})
    content = "".join(json.dumps(line(i, file)) + "\n" for i, file in enumerate(files))
    (tmp_path / "in.jsonl").write_text(content)
    words = ("batch", "in.jsonl", str(DEMO), "--allowed_media_domains", "127.0.0.1")
    graphrt(*words, "--output", "out.jsonl", "--errors", "errors.jsonl", cwd=tmp_path)
    counts = [
        prompt_tokens(json.loads(each))
        for each in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    assert len(counts) == 2
    assert len(set(counts)) == 1
    (refused,) = map(json.loads, (tmp_path / "errors.jsonl").read_text().splitlines())
    assert "no such file" in refused["response"]["body"]["error"]["message"]
