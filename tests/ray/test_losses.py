"""A head, a raylet or a replica dies in the middle of a stream, a batch, an update.

The cluster of most tests is started by the command, so that what the test kills ends it for good.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed (make ray)")

from tests.ray.cluster_site import (
    CHAT,
    TICK,
    Site,
    answers_kept,
    ask,
    is_alive,
    next_event,
    replicas_of,
    wait_until,
)
from tests.ray.nodes import Nodes
from tests.servers.cli.process import COMMAND, environment, graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT


def processes_below(pid: int, name: str = "") -> list[int]:
    """Return the processes that a process started, and those of a program among them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += below
    return [each for each in found if not name or program_of(each) == name]


def program_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def is_of_cluster(pid: int) -> bool:
    """Return whether a process belongs to Ray; others are the server, and the tests' own."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return words.startswith(b"ray::") or b"site-packages/ray/" in words


def answer_of(serving: Serving) -> Any:
    """Ask; return the version that answered, or None while nothing listens or answers."""
    try:
        status, answer = ask(serving, "probe")
    except OSError:
        return None
    return answer["version"] if status == 200 else None


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.add("probe", "First", min_replicas=2)
    return site


@pytest.fixture
def serving(site: Site, own_cluster: None) -> Iterator[Serving]:
    with Serving(site.folder, "config.json", "--on", "ray") as server:
        yield server.wait_until_serving()
        server.send_signal()
        assert server.end()[0] == 0


@pytest.mark.parametrize("program", ["gcs_server", "raylet"])
def test_a_server_outlives_the_cluster_that_it_has_started(
    serving: Serving, site: Site, program: str
) -> None:
    before = processes_below(serving.pid)
    (victim,) = processes_below(serving.pid, program)
    with serving.request("POST", CHAT, {**TICK, "go": "/nowhere"}) as response:
        assert next_event(response).isdigit()
        site.write_graph("probe", "Second")  # an update has begun
        os.kill(victim, signal.SIGKILL)
        # One error, and the end of the stream.
        assert json.loads(next_event(response))["error"]["code"] == "service_unavailable"
        assert next_event(response) == "[DONE]"
        assert next_event(response) == ""
    # The same server, and the new version, without anybody's help.
    wait_until(lambda: answer_of(serving) == "second")
    wait_until(lambda: len(replicas_of("probe", serving.pid)) == 2)
    wait_until(lambda: not any(is_alive(pid) and is_of_cluster(pid) for pid in before))


def test_a_front_waits_for_the_head_of_another_cluster_and_connects_again(
    site: Site, own_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", python_path)
    with Nodes() as before:
        monkeypatch.setenv("RAY_ADDRESS", before.address)
        with Serving(site.folder, "config.json", "--on", "ray") as serving:
            serving.wait_until_serving()
            processes = processes_below(before.pid)
            (head,) = processes_below(before.pid, "gcs_server")
            with serving.request("POST", CHAT, {**TICK, "go": "/nowhere"}) as response:
                assert next_event(response).isdigit()
                os.kill(head, signal.SIGKILL)
                # It may come back, so requests go on.
                assert answer_of(serving) == "first"
                assert json.loads(next_event(response))["error"]["code"] == "service_unavailable"
                assert next_event(response) == "[DONE]"
            for each in (*processes, before.pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            with Nodes(int(before.address.rpartition(":")[2])) as after:
                assert after.address == before.address
                wait_until(lambda: answer_of(serving) == "first")
                serving.send_signal()
                assert serving.end()[0] == 0


def test_an_update_goes_on_when_replicas_die_in_it(serving: Serving, site: Site) -> None:
    old = replicas_of("probe", serving.pid)
    site.write_graph("probe", "Second")
    wait_until(lambda: set(replicas_of("probe", serving.pid)) - set(old))
    new = set(replicas_of("probe", serving.pid)) - set(old)
    statuses: list[int] = []
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            statuses.append(ask(serving, "probe")[0])

    asking = threading.Thread(target=keep_asking)
    asking.start()
    os.kill(old[0], signal.SIGKILL)
    os.kill(min(new), signal.SIGKILL)
    wait_until(lambda: answer_of(serving) == "second")
    wait_until(lambda: len(replicas_of("probe", serving.pid)) == 2)
    stop.set()
    asking.join()
    assert set(statuses) == {200}


def test_a_batch_that_loses_its_cluster_goes_on_from_there(site: Site, own_cluster: None) -> None:
    folder, go = site.folder, site.folder / "go"
    bodies = [{"model": "probe", "do": "where"}] * 50
    bodies += [{"model": "probe", "do": "wait", "go": str(go)}] * 4
    lines = [
        {"custom_id": str(place), "method": "POST", "url": CHAT, "body": body}
        for place, body in enumerate(bodies)
    ]
    (folder / "lines.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    words = ("batch", "lines.jsonl", "config.json", "--calculators", "calcs.py", "--on", "ray")
    output_file = folder / "lines.output.jsonl"
    with subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as running:
        wait_until(lambda: answers_kept(output_file) == 50)
        before = processes_below(running.pid)
        (head,) = processes_below(running.pid, "gcs_server")
        os.kill(head, signal.SIGKILL)
        _, said = running.communicate()
        assert running.returncode == 1
        assert "the same command goes on from here" in said
    wait_until(lambda: not any(map(is_alive, before)))
    go.touch()
    done = graphrt(*words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "50 had an answer before" in done.stdout
    answers = list(map(json.loads, output_file.read_text().splitlines()))
    assert [each["custom_id"] for each in answers] == [str(place) for place in range(54)]
