"""Documents that requests name: files of the client, and documents on the web."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import openai
import pytest

from tests.process.http_client import CHAT
from tests.process.server_process import ServerProcess
from tests.support.checkout import ROOT

DEMO: Final = ROOT / "examples" / "models" / "demo"
TEXT: Final = b"Fourteen geese fly over the lake."
KEYS: Final = ("sk-first-key-0123456789", "sk-other-key-0123456789")
DATA: Final = "data:text/plain;base64," + base64.b64encode(TEXT).decode()


class _Documents(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(TEXT)))
        self.end_headers()
        self.wfile.write(TEXT)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Documents) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_address[1]}/geese.txt"
        site.shutdown()
        thread.join()


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
