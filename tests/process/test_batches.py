"""Files and batches of a server, with OpenAI's own client."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.process.batch_site import PATH, computed, content_of, line, make_site
from tests.process.server_process import ServerProcess
from tests.servers.fronts.openapi.described import Described
from tests.support.conditions import wait_until
from tests.support.late_import import LateImport
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    import openai
else:
    openai = LateImport("openai", reason="the extra `clients` is not installed")

#: The worker as any other process: the lowest priority starves on a machine that runs tests.
NORMAL = ("--batch_priority", "normal")
WORDS = ("--calculators", "calcs.py", "work")
WORKER = "servers.cli.batch_worker"
KEYS = ("sk-first-key-0123456789", "sk-other-key-0123456789")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("batches")
    make_site(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    (folder / "keys").write_text("\n".join(KEYS))
    (folder / "keys").chmod(0o600)
    limits = ("--batch_file_size", "1M", "--batch_max_requests", "500")
    with ServerProcess(
        *(*WORDS, *NORMAL, *limits),
        *("--batch_dir", "store", "--api_key_file", "keys"),
        cwd=folder,
    ) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEYS[0])


@pytest.fixture
def other(server: ServerProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v3", api_key=KEYS[1])


def upload(client: openai.OpenAI, requests: list[Any]) -> str:
    content = content_of(requests)
    file_id: str = client.files.create(file=("in.jsonl", content), purpose="batch").id
    return file_id


def batch_of(client: openai.OpenAI, requests: list[Any], **members: Any) -> Any:
    # The client's types know the paths of OpenAI only.
    endpoint: Any = PATH
    return client.batches.create(
        input_file_id=upload(client, requests),
        endpoint=endpoint,
        completion_window="24h",
        **members,
    )


def finished(client: openai.OpenAI, batch_id: str) -> Any:
    begin = time.monotonic()
    while True:
        batch = client.batches.retrieve(batch_id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        assert time.monotonic() - begin < PATIENCE, batch
        time.sleep(0.05)


def lines_of(client: openai.OpenAI, file_id: str | None) -> list[Any]:
    if file_id is None:
        return []
    return [json.loads(each) for each in client.files.content(file_id).text.splitlines()]


def test_a_batch_is_answered(client: openai.OpenAI, folder: Path) -> None:
    deep = json.dumps(line(5)).replace('"work"', "[" * 1000 + "]" * 1000)
    requests = [line(1), "no json", line(2, wrong=True), line(3), line(4, model="none"), deep]
    made = batch_of(client, requests, metadata={"what": "test"})
    assert (made.status, made.object, made.endpoint) == ("validating", "batch", PATH)
    assert made.expires_at is not None
    assert made.expires_at - made.created_at == 24 * 3600
    batch = finished(client, made.id)
    assert batch.status == "completed"
    assert batch.metadata == {"what": "test"}
    assert batch.model == "work"
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (6, 2, 4)
    assert (batch.usage.input_tokens, batch.usage.output_tokens) == (6, 4)
    output = lines_of(client, batch.output_file_id)
    assert [each["custom_id"] for each in output] == ["r1", "r3"]
    for each in output:
        assert each["id"].startswith("batch_req_")
        assert each["error"] is None
        assert each["response"]["status_code"] == 200
        assert each["response"]["body"]["number"] == int(each["custom_id"][1:])
    errors = lines_of(client, batch.error_file_id)
    assert [(each["custom_id"], each["response"]["status_code"]) for each in errors] == [
        (None, 400),
        ("r2", 400),
        ("r4", 404),
        ("r5", 400),
    ]
    assert errors[1]["response"]["body"]["error"]["message"] == "this is wrong"


def test_a_full_disk_refuses_uploads_while_it_is_full(
    server: ServerProcess, client: openai.OpenAI, folder: Path
) -> None:
    content = b"\n" * 900_000
    with full_disk(server.pid, 500_000):
        asking = client.with_options(max_retries=0)
        with pytest.raises(
            openai.APIStatusError, match="the disk for files and batches is full"
        ) as raised:
            asking.files.create(file=("in.jsonl", content), purpose="batch")
        assert raised.value.status_code == 507
        assert list((folder / "store" / "uploads").iterdir()) == []
        assert client.models.list().data
    client.files.create(file=("in.jsonl", content), purpose="batch")


def test_a_full_disk_holds_a_batch_back_and_loses_nothing(
    server: ServerProcess, client: openai.OpenAI, folder: Path
) -> None:
    requests = [line(10_000 + each, until="room", padding=200_000) for each in range(40)]
    batch = batch_of(client, requests)
    wait_until(lambda: bool(client.batches.retrieve(batch.id).in_progress_at), "it begins")
    (worker,) = [pid for pid, name in server.children().items() if name == WORKER]
    with full_disk(worker, 2_000_000):
        (folder / "room").touch()
        server.wait_for_log("batches pause: the disk for files and batches is full")
        assert client.batches.retrieve(batch.id).status == "in_progress"
        assert client.models.list().data
    found = finished(client, batch.id)
    assert found.request_counts.completed == 40
    assert len(lines_of(client, found.output_file_id)) == 40
    assert Counter(each for each in computed(folder) if each >= 10_000) == Counter(
        range(10_000, 10_040)
    )


@contextmanager
def full_disk(pid: int, size: int) -> Iterator[None]:
    """Let a process write no byte of any file beyond ``size``, which it takes for a full disk."""
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def test_answers_fit_the_openapi_document(server: ServerProcess, client: openai.OpenAI) -> None:
    root = client.with_options(base_url=server.url)
    document: Any = root.get("/openapi.json", cast_to=object)
    described = Described(json.dumps(document).encode())
    batch = finished(client, batch_of(client, [line(1)], metadata={"a": "b"}).id)
    for path, real in (
        ("/v1/files", "/files"),
        ("/v1/files/{file_id}", f"/files/{batch.input_file_id}"),
        ("/v1/batches", "/batches"),
        ("/v1/batches/{batch_id}", f"/batches/{batch.id}"),
    ):
        found: Any = client.get(real, cast_to=object)
        schema = described.answer(path, "get", 200)["content"]["application/json"]["schema"]
        assert described.errors(schema, found, closed=True) == []


def test_files_are_uploaded_listed_and_deleted(client: openai.OpenAI) -> None:
    content = content_of([line(1)])
    file = client.files.create(
        file=("töst.jsonl", content),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert (file.object, file.bytes, file.filename) == ("file", len(content), "töst.jsonl")
    assert (file.purpose, file.status) == ("batch", "processed")
    assert file.expires_at == file.created_at + 3600
    assert client.files.retrieve(file.id) == file
    assert client.files.wait_for_processing(file.id) == file
    assert client.files.content(file.id).read() == content
    kept = client.files.create(file=("more.jsonl", content), purpose="batch")
    assert kept.expires_at == kept.created_at + 30 * 24 * 3600
    first = client.files.list(limit=1)
    assert [each.id for each in first.data] == [kept.id]
    assert first.has_more
    listed = [each.id for each in client.files.list(limit=1, order="asc")]
    assert listed[-2:] == [file.id, kept.id]
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)
    with pytest.raises(openai.NotFoundError):
        client.files.content(file.id)


def test_batches_are_listed_in_pages(client: openai.OpenAI) -> None:
    made = [batch_of(client, [line(1)]).id for _ in range(3)]
    listed = [each.id for each in client.batches.list(limit=2)]
    assert listed[:3] == made[::-1]
    page = client.batches.list(limit=2, after=made[-1])
    assert [each.id for each in page.data] == made[-2::-1][:2]


def test_a_batch_is_cancelled(client: openai.OpenAI) -> None:
    requests = [line(number, seconds=0 if number < 5 else 600) for number in range(60)]
    batch = batch_of(client, requests)
    begin = time.monotonic()
    while (counts := client.batches.retrieve(batch.id).request_counts) is None or (
        counts.completed < 5
    ):
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.05)
    with pytest.raises(openai.ConflictError, match="cancel the batch first"):
        client.files.delete(batch.input_file_id)
    assert client.batches.cancel(batch.id).status == "cancelling"
    batch = finished(client, batch.id)
    assert batch.status == "cancelled"
    assert len(lines_of(client, batch.output_file_id)) == 5
    errors = lines_of(client, batch.error_file_id)
    assert len(errors) == 55
    assert errors[0]["error"]["code"] == "batch_cancelled"
    assert client.batches.cancel(batch.id).status == "cancelled"


def test_a_batch_that_cannot_begin_fails(client: openai.OpenAI) -> None:
    batch = finished(client, batch_of(client, [line(1), line(2), line(1)]).id)
    assert batch.status == "failed"
    (error,) = batch.errors.data
    assert (error.code, error.line, error.param) == ("duplicate_custom_id", 3, "custom_id")
    with pytest.raises(openai.ConflictError, match="a batch that is failed cannot be cancelled"):
        client.batches.cancel(batch.id)
    many = finished(client, batch_of(client, [line(number) for number in range(501)]).id)
    assert many.errors.data[0].code == "too_many_requests"


def test_clients_have_their_own_files_and_batches(
    client: openai.OpenAI, other: openai.OpenAI
) -> None:
    batch = batch_of(client, [line(1)])
    assert other.batches.list().data == []
    assert other.files.list().data == []
    with pytest.raises(openai.NotFoundError):
        other.batches.retrieve(batch.id)
    with pytest.raises(openai.NotFoundError):
        other.batches.cancel(batch.id)
    with pytest.raises(openai.NotFoundError):
        other.files.content(batch.input_file_id)
    with pytest.raises(openai.NotFoundError):
        other.files.delete(batch.input_file_id)
    with pytest.raises(openai.BadRequestError, match="there is no such file"):
        other.batches.create(
            input_file_id=batch.input_file_id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
        )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"endpoint": "/v1/models"}, "no model answers POST at this path"),
        ({"endpoint": "chat"}, "no model answers POST at this path"),
        ({"endpoint": "/v1/batches"}, "no model answers POST at this path"),
        ({"endpoint": PATH + "?\0"}, "no model answers POST at this path"),
        ({"endpoint": PATH + "?a=b"}, "no model answers POST at this path"),
        ({"endpoint": PATH + "#a"}, "no model answers POST at this path"),
        ({"endpoint": PATH + "\r\nX: y"}, "no model answers POST at this path"),
        ({"endpoint": PATH + " x"}, "no model answers POST at this path"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a": 1}}, "strings as values"),
        ({"metadata": {"a": "x" * 513}}, "512 characters"),
        ({"metadata": {str(each): "" for each in range(17)}}, "more than 16 pairs"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "minimum 3600"),
        ({"input_file_id": None}, "input_file_id"),
        ({"metadat": {}}, "metadat"),
    ],
)
def test_a_bad_batch_is_refused(client: openai.OpenAI, changed: dict[str, Any], words: str) -> None:
    body = {
        "input_file_id": upload(client, [line(1)]),
        "endpoint": PATH,
        "completion_window": "24h",
        **changed,
    }
    with pytest.raises(openai.BadRequestError, match=words):
        client.post("/batches", body=body, cast_to=object)


def test_a_bad_upload_is_refused(client: openai.OpenAI) -> None:
    wrong: Any = "fine-tune"
    with pytest.raises(openai.BadRequestError, match="one of batch, user_data, assistants"):
        client.files.create(file=("in.jsonl", b"{}"), purpose=wrong)
    with pytest.raises(openai.APIStatusError, match="larger than 1048576 bytes") as raised:
        client.files.create(file=("in.jsonl", b"x" * 1_048_577), purpose="batch")
    assert raised.value.status_code == 413
    with pytest.raises(openai.BadRequestError, match=r"expires_after\.seconds"):
        client.files.create(
            file=("in.jsonl", b"{}"),
            purpose="batch",
            expires_after={"anchor": "created_at", "seconds": 5},
        )
    with pytest.raises(openai.APIStatusError, match="multipart/form-data"):
        client.post("/files", body={"purpose": "batch"}, cast_to=object)


def test_results_expire_when_the_batch_says_so(client: openai.OpenAI) -> None:
    expiry = {"anchor": "created_at", "seconds": 7200}
    batch = finished(client, batch_of(client, [line(1)], output_expires_after=expiry).id)
    file = client.files.retrieve(batch.output_file_id)
    assert (file.purpose, file.filename) == ("batch_output", f"{batch.id}_output.jsonl")
    assert file.expires_at == file.created_at + 7200


def test_metrics_count_what_batches_do(server: ServerProcess, client: openai.OpenAI) -> None:
    finished(client, batch_of(client, [line(1)]).id)

    def metrics() -> str:
        return str(client.with_options(base_url=server.url).get("/metrics", cast_to=str))

    wait_until(lambda: 'graphrt_batches{status="completed"} 0.0' not in metrics(), "counted")
    text = metrics()
    assert "graphrt_batch_worker 1.0" in text
    assert 'graphrt_batch_requests_total{outcome="completed"}' in text


def test_without_a_directory_there_are_no_batches(folder: Path) -> None:
    with ServerProcess(*WORDS, cwd=folder) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        with pytest.raises(openai.NotFoundError, match="--batch_dir"):
            client.files.list()
        document: Any = client.with_options(base_url=server.url).get(
            "/openapi.json", cast_to=object
        )
        assert "/v1/batches" not in document["paths"]


def test_a_directory_has_one_server(server: ServerProcess, folder: Path) -> None:
    from tests.servers.cli.process import graphrt

    words = (*WORDS, "--batch_dir", "store", "--rest_port", "auto")
    second = graphrt("serve", *words, cwd=folder)
    assert second.returncode == 1
    assert "--batch_dir: another process uses this directory of batches" in second.stderr


def test_a_large_file_is_never_in_memory(folder: Path) -> None:
    words = (*WORDS, "--batch_dir", "large")
    size = 200_000_000
    with ServerProcess(*words, cwd=folder) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        upload(client, [line(1)])
        before = most_memory(server.pid)
        file_id = send_large(server.port, size)
        assert client.files.retrieve(file_id).bytes == size
        with client.files.with_streaming_response.content(file_id) as content:
            assert sum(map(len, content.iter_bytes(1 << 20))) == size
        assert most_memory(server.pid) - before < 32_000_000
        assert [path.name for path in (folder / "large" / "uploads").iterdir()] == []


def send_large(port: int, size: int) -> str:
    """Upload a file of blank lines, made as it is sent; return its id."""
    head = (
        b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\n'
        b'Content-Disposition: form-data; name="file"; filename="large.jsonl"\r\n\r\n'
    )
    tail = b"\r\n--b--\r\n"
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.putrequest("POST", "/v1/files")
        connection.putheader("Content-Type", "multipart/form-data; boundary=b")
        connection.putheader("Content-Length", str(len(head) + size + len(tail)))
        connection.endheaders(head)
        for _ in range(size // 1_000_000):
            connection.send(b"\n" * 1_000_000)
        connection.send(tail)
        answer: dict[str, str] = json.loads(connection.getresponse().read())
    return answer["id"]


def most_memory(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line_of_peak,) = [each for each in status.splitlines() if each.startswith("VmHWM")]
    return int(line_of_peak.split()[1]) * 1024


def test_several_servers_on_one_port_share_a_directory(folder: Path) -> None:
    words = (*WORDS, *NORMAL, "--batch_dir", "shared", "--workers", "2")
    with ServerProcess(*words, cwd=folder) as server:
        # Without kept connections, so that both servers answer.
        for number in range(4):
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
            batch = finished(client, batch_of(client, [line(number)]).id)
            assert batch.status == "completed"
            client.close()


def test_a_batch_that_ends_the_worker_is_set_aside(folder: Path) -> None:
    end = signal.SIGKILL
    words = (*WORDS, *NORMAL, "--batch_dir", "deadly", "--api_key_file", "keys")
    with ServerProcess(*words, cwd=folder) as server:
        client, other = (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) for key in KEYS
        )
        deadly = batch_of(client, [line(1), line(2, kill=end), line(3)])
        sound = batch_of(other, [line(each) for each in range(4, 9)])
        batch = finished(client, deadly.id)
        assert batch.status == "failed"
        (error,) = batch.errors.data
        assert (error.code, error.line) == ("worker_ended", 2)
        assert "ended each time when it answered line 2" in error.message
        assert finished(other, sound.id).request_counts.completed == 5
        assert finished(client, batch_of(client, [line(9)]).id).status == "completed"
        assert f"signal {end.value}" in "".join(server.log)
