"""A disk that is full stops neither the server nor a request."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.batch_site import PATH, content_of, line, make_site
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ENGINE, ServerProcess
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.late_import import LateImport
from tests.support.small_disk import SmallDisk, small_disk

openai = LateImport("openai", reason="the extra `clients` is not installed")


def assert_answers(server: ServerProcess) -> None:
    reply = server.client.post(CHAT, messages=HELLO, max_tokens=3)
    assert reply.status == 200, reply.body


def test_a_log_that_cannot_grow_is_reported_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"

    def logged() -> int:
        return log.read_text().count("POST /v3/chat/completions")

    with ServerProcess(DEMO, "--log_path", log) as server:
        assert_answers(server)
        # A request's line is written after its response.
        wait_until(lambda: logged() == 1, "the first request's line")
        size = log.stat().st_size
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        for _ in range(3):
            assert_answers(server)
        said = "the log file cannot be written"
        wait_until(lambda: said in "".join(server.log), "the failure is reported")
        assert log.stat().st_size == size
        # There is room again.
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
        assert_answers(server)
        wait_until(lambda: logged() > 1, "further lines")
        assert "".join(server.log).count(said) == 1
        assert "Traceback" not in "".join(server.log)
        assert server.is_ready()


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    # A model whose compiled form can be read back: one request at a time.
    graph = ROOT / "examples" / "graphs" / "stateful"
    words = ("--model_name", "demo", "--model_path", graph, "--cache_dir", tmp_path / "cache")
    with ServerProcess(*words) as server:
        assert list((tmp_path / "cache").rglob("*.blob"))
        # The next engine inherits the limit, and has to compile its model again.
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        shutil.rmtree(tmp_path / "cache")
        engine = server.child(ENGINE)
        os.kill(engine, signal.SIGKILL)
        wait_until(lambda: not server.is_ready(), "unready")
        wait_until(server.is_ready, "ready again")
        assert_answers(server)
        assert server.child(ENGINE) != engine


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    yield from small_disk(tmp_path / "store", 2 << 20)


def test_a_batch_on_a_full_disk_loses_no_answer_and_ends_soon(
    disk: SmallDisk, tmp_path: Path
) -> None:
    words = (*make_site(tmp_path), "--batch_dir", "store", "--batch_priority", "normal")
    with ServerProcess(*words, cwd=tmp_path) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        requests = [line(number, padding=10_000) for number in range(400)]
        file = client.files.create(file=("in.jsonl", content_of(requests)), purpose="batch")
        endpoint: Any = PATH
        batch_id = client.batches.create(
            input_file_id=file.id, endpoint=endpoint, completion_window="24h"
        ).id
        server.wait_for_log("batches pause: the disk for files and batches is full")
        # The worker that ends meanwhile is not a loss either, and what it had committed stays.
        counts = client.batches.retrieve(batch_id).request_counts
        os.kill(server.child("servers.cli.batch_worker"), signal.SIGKILL)
        server.wait_for_log("it starts again in")
        with pytest.raises(openai.APIStatusError, match="is full") as caught:
            client.files.create(file=("in.jsonl", content_of(requests)), purpose="batch")
        assert caught.value.status_code == 507
        disk.resize(64 << 20)
        wait_until(lambda: client.batches.retrieve(batch_id).output_file_id, "the batch ends")
        batch = client.batches.retrieve(batch_id)
        assert batch.status == "completed"
        assert counts is not None
        assert batch.request_counts is not None
        assert 0 < counts.completed < batch.request_counts.completed == 400
        answers = client.files.content(str(batch.output_file_id)).text.splitlines()
        assert [json.loads(each)["custom_id"] for each in answers] == [
            f"r{number}" for number in range(400)
        ]


def test_a_server_starts_while_the_disk_of_its_batches_is_full(
    disk: SmallDisk, tmp_path: Path
) -> None:
    words = (*make_site(tmp_path), "--batch_dir", "store", "--batch_priority", "normal")
    disk.fill()
    with ServerProcess(*words, cwd=tmp_path) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        reply = server.client.post(PATH, model="work", number=1)
        assert reply.status == 200, reply.body
        with pytest.raises(openai.InternalServerError, match="files and batches cannot be served"):
            client.files.list()
        disk.empty()
        server.wait_for_log("the store of files and batches can be read again")
        assert client.files.list().data == []
