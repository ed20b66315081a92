"""The wall clock may step back, or jump, at any time: no wait and no limit depends on it."""

from __future__ import annotations

import http.client
import json
import os
import signal
from contextlib import closing
from pathlib import Path

from tests.process.batch_site import PATH, content_of, line, make_site
from tests.process.http_client import CHAT, HELLO
from tests.process.long_streams import in_flight
from tests.process.server_process import DEMO, ENGINE, ServerProcess
from tests.process.stream_law import read_stream
from tests.support.conditions import wait_until
from tests.support.late_import import LateImport
from tests.support.patience import PATIENCE

openai = LateImport("openai", reason="the extra `clients` is not installed")

_IN_AN_HOUR = {"anchor": "created_at", "seconds": 3600}
#: Steps an hour back each time it is read.
_CLOCK = """\
import itertools
import time

_now, _asked = time.time, itertools.count()
time.time = lambda: _now() - 3600 * next(_asked)
"""


def test_requests_restarts_and_the_stop_work(tmp_path: Path) -> None:
    clock = tmp_path / "clock.py"
    clock.write_text(_CLOCK)
    with ServerProcess("--calculators", clock, "--request_timeout", "60", DEMO) as server:
        with closing(
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        ) as kept:
            created = []
            for _ in range(3):  # on one connection
                body = json.dumps({"model": "demo", "messages": HELLO, "max_tokens": 3})
                kept.request("POST", CHAT, body, {"Content-Type": "application/json"})
                with kept.getresponse() as response:
                    assert response.status == 200
                    created.append(json.loads(response.read())["created"])
        assert created[0] > created[1] > created[2], "the clock does step back"
        with in_flight(server.client, 1) as (stream,):
            os.kill(server.child(ENGINE), signal.SIGKILL)
            assert read_stream(stream.body()).error is not None
        wait_until(server.is_ready, "ready again")
        with in_flight(server.client, 2, max_tokens=300) as streams:
            server.send_signal()
            for stream in streams:
                assert read_stream(stream.body()).finish_reason == "length"
        assert server.wait() == 0


#: Is off by the seconds that a file says.
_JUMPING = """\
import time
from pathlib import Path

_now, _file = time.time, Path(%r)
time.time = lambda: _now() + float(_file.read_text())
"""


def test_jumps_of_days_end_neither_answers_nor_batches(tmp_path: Path) -> None:
    (tmp_path / "jump").write_text("0")
    (tmp_path / "jumping.py").write_text(_JUMPING % str(tmp_path / "jump"))
    words = (*make_site(tmp_path), "--calculators", "jumping.py", "--batch_dir", "store")
    opened = tmp_path / "opened"
    with (
        ServerProcess(*words, cwd=tmp_path) as server,
        openai.OpenAI(
            base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE
        ) as client,
    ):
        requests = [line(0), line(1, until=str(opened)), line(2)]
        file = client.files.create(
            file=("in.jsonl", content_of(requests)), purpose="batch", expires_after=_IN_AN_HOUR
        )
        batch = client.batches.create(input_file_id=file.id, endpoint=PATH, completion_window="24h")

        def has_begun() -> bool:
            counts = client.batches.retrieve(batch.id).request_counts
            return counts is not None and counts.completed > 0

        wait_until(has_begun, "the batch has begun")
        for days in (2, -2, 3650):
            moved = tmp_path / "moved"
            moved.write_text(str(days * 86400))
            moved.rename(tmp_path / "jump")
            assert server.client.post(PATH, model="work", number=7).status == 200
            assert server.client.get("/metrics").status == 200
            assert client.batches.retrieve(batch.id).status == "in_progress"
            assert client.files.retrieve(file.id).id == file.id
        opened.touch()
        wait_until(lambda: client.batches.retrieve(batch.id).status == "completed", "completed")
        server.send_signal()
        assert server.wait() == 0
