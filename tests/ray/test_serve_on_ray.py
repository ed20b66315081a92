"""A server whose graphs run in replicas on a Ray cluster, which it starts itself."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed (make ray)")

import numpy as np
import openai
import tritonclient.grpc
import tritonclient.utils

from tests.ray.cluster_site import (
    CHAT,
    TICK,
    Site,
    answers_kept,
    ask,
    grpc_address,
    in_threads,
    next_event,
    replicas_of,
    wait_until,
)
from tests.servers.cli.process import COMMAND, environment, graphrt
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE
from tests.support.web_document import served

DOCUMENT = b"Fourteen geese fly over the lake."
MEDIA = ("--allowed_media_domains", "127.0.0.1")
POUR = {"model": "probe", "do": "pour", "stream": True}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("cluster"))
    site.add_demo(min_replicas=2)
    site.add("probe", "First", min_replicas=2)
    site.add_doubling("double")
    site.add("sleepy", "First", min_replicas=0, downscale_delay_s=1)
    return site


@pytest.fixture(scope="module")
def serving(site: Site, own_cluster: None) -> Iterator[Serving]:
    words = ("config.json", "--on", "ray", "--port", "auto", *MEDIA)
    with Serving(site.folder, *words) as server:
        yield server.wait_until_serving()
        server.send_signal()
        assert server.end()[0] == 0


@pytest.fixture
def its_cluster(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further servers use the cluster of the first."""
    found = re.search(r"on the Ray cluster (\S+)", "".join(serving.log))
    assert found is not None
    monkeypatch.setenv("RAY_ADDRESS", found[1])


@pytest.fixture(scope="module")
def grpc_url(serving: Serving) -> str:
    return grpc_address(serving)


def state_of(serving: Serving, name: str) -> Any:
    return serving.get("/v1/config")[1][name]["model_version_status"][0]


# Requests -----------------------------------------------------------------------------------------


def test_openai_clients_get_answers_and_streams(serving: Serving) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{serving.port}/v3", api_key="none")
    message = {"role": "user", "content": "What is graphrt?"}
    whole = client.chat.completions.create(
        model="demo", messages=[message], max_tokens=30, temperature=0
    )
    assert whole.usage.completion_tokens > 3
    events = list(
        client.chat.completions.create(
            model="demo", messages=[message], max_tokens=30, temperature=0, stream=True
        )
    )
    assert len(events) > 3
    text = "".join(each.choices[0].delta.content or "" for each in events)
    assert text == whole.choices[0].message.content
    assert [each.id for each in client.models.list()] == [
        "demo", "probe", "sleepy",
    ]  # fmt: skip


def test_documents_are_fetched_by_the_replica(serving: Serving) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{serving.port}/v1", api_key="none")
    part: dict[str, Any] = {"type": "input_file", "filename": "geese.txt"}
    held = {"file_data": "data:text/plain;base64," + base64.b64encode(DOCUMENT).decode()}
    with served(DOCUMENT) as address:
        counts = {
            client.responses.create(
                model="demo",
                input=[{"role": "user", "content": [{**part, **form}]}],
                max_output_tokens=1,
            ).usage.input_tokens
            for form in (held, {"file_url": address})
        }
    assert len(counts) == 1
    part["file_id"] = "file-1"
    with pytest.raises(openai.BadRequestError, match="this server keeps no files"):
        client.responses.create(model="demo", input=[{"role": "user", "content": [part]}])


def test_errors_are_those_of_one_machine(serving: Serving) -> None:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{serving.port}/v3", api_key="none")
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="demo", messages=[])
    assert refused.value.body["param"] == "messages"
    assert "at least one message" in refused.value.body["message"]
    with pytest.raises(openai.NotFoundError, match='The model "dem" does not exist'):
        client.completions.create(model="dem", prompt="x")


def test_tritonclient_gets_answers_and_streams(grpc_url: str) -> None:
    with tritonclient.grpc.InferenceServerClient(grpc_url) as client:
        assert client.is_model_ready("demo")
        assert client.get_model_metadata("demo").versions == ["1"]
        prompt = tritonclient.grpc.InferInput("text_input", [1], "BYTES")
        prompt.set_data_from_numpy(np.array([b"What is graphrt?"], dtype=object))
        tokens = tritonclient.grpc.InferInput("max_tokens", [1], "INT32")
        tokens.set_data_from_numpy(np.array([8], dtype=np.int32))
        whole = client.infer("demo", [prompt, tokens], request_id="a")
        text = whole.as_numpy("text_output")[0]
        assert whole.get_response().id == "a"
        assert text

        answers: list[Any] = []
        has_answer = threading.Semaphore(0)

        def on_answer(result: Any, error: Any) -> None:
            answers.append(error or result.get_response().id)
            has_answer.release()

        client.start_stream(on_answer)
        for each in ("b", "c"):
            client.async_stream_infer("demo", [prompt, tokens], request_id=each)
        for _ in range(2):
            assert has_answer.acquire(timeout=PATIENCE)
        client.stop_stream()
        assert sorted(map(str, answers)) == ["b", "c"]


def test_a_plain_model_gets_large_tensors(grpc_url: str) -> None:
    matrix = np.arange(1500 * 1500, dtype=np.float32).reshape(1500, 1500)  # more than Ray's 4 MB
    with tritonclient.grpc.InferenceServerClient(grpc_url) as client:
        tensor = tritonclient.grpc.InferInput("x", [1500, 1500], "FP32")
        tensor.set_data_from_numpy(matrix)
        answer = client.infer("double", [tensor])
        assert np.array_equal(answer.as_numpy("y"), 2 * matrix)
        with pytest.raises(tritonclient.utils.InferenceServerException, match="no version"):
            client.infer("double", [tensor], model_version="7")


def test_requests_are_spread_over_the_replicas(serving: Serving) -> None:
    answers = [ask(serving, "probe") for _ in range(8)]
    assert {status for status, _ in answers} == {200}
    pids = sorted({answer["pid"] for _, answer in answers})
    assert pids == replicas_of("probe", serving.pid)
    assert len(pids) == 2


def test_metrics_count_requests_and_tokens(serving: Serving) -> None:
    with serving.request("GET", "/metrics") as response:
        text = response.read().decode()
    accepted = re.search(
        r'ovms_requests_accepted\{name="probe",api="V3",method="Unary",interface="REST"\} (\S+)',
        text,
    )
    assert accepted is not None
    assert float(accepted[1]) >= 8
    tokens = re.search(r'graphrt_llm_generated_tokens_total\{graph="demo".*?\} (\S+)', text)
    assert tokens is not None
    assert float(tokens[1]) > 10
    engines = re.findall(r'graphrt_llm_engine_up\{replica="(\w+)",graph="demo"', text)
    assert len(set(engines)) == 2


# Clients that leave, and those that do not read ---------------------------------------------------


def test_a_client_that_leaves_cancels_its_request(serving: Serving, tmp_path: Path) -> None:
    cancelled = tmp_path / "cancelled"
    asked = {
        "model": "probe",
        "do": "tick",
        "stream": True,
        "go": "/nowhere",
        "cancelled": str(cancelled),
    }
    with serving.request("POST", CHAT, asked) as response:
        assert next_event(response).isdigit()
    wait_until(cancelled.exists)


def test_a_slow_reader_holds_its_replica_back(serving: Serving, tmp_path: Path) -> None:
    held, events = tmp_path / "held", 2000
    asked = {**POUR, "events": events, "held": str(held)}
    with serving.request("POST", CHAT, asked) as response:
        next_event(response)
        # Buffers of sockets and the window take some events; the rest waits in the graph.
        wait_until(held.exists)
        assert int(held.read_text()) < events / 2
        seen = 1
        while (event := next_event(response)) != "[DONE]":
            assert event
            seen += 1
    assert seen == events


# Replicas that die --------------------------------------------------------------------------------


def test_each_stream_of_a_killed_replica_ends_with_one_error(
    serving: Serving, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    begun = threading.Semaphore(0)
    pids: list[int] = []

    def stream() -> tuple[int, list[str]]:
        asked = {**TICK, "go": str(go)}
        with serving.request("POST", CHAT, asked) as response:
            pid = int(next_event(response))
            pids.append(pid)
            begun.release()
            rest = []
            while event := next_event(response):
                rest.append(event)
            return pid, rest

    def kill_one() -> int:
        for _ in range(32):
            assert begun.acquire(timeout=PATIENCE)
        victim = pids[0]
        os.kill(victim, signal.SIGKILL)
        return victim

    killed: list[int] = []
    ended: list[Any] = []

    def kill_and_go() -> None:
        killed.append(kill_one())
        wait_until(lambda: ended)
        go.touch()

    def stream_and_note() -> tuple[int, list[str]]:
        found = stream()
        ended.append(found)
        return found

    killing = threading.Thread(target=kill_and_go)
    killing.start()
    results = in_threads(32, stream_and_note)
    killing.join()
    assert len({pid for pid, _ in results}) == 2
    for pid, rest in results:
        if pid == killed[0]:
            assert len(rest) == 2
            error = json.loads(rest[0])["error"]
            assert error["code"] == 503 or "gone" in error["message"]
            assert rest[1] == "[DONE]"
        else:
            assert rest == ["[DONE]"]
    # Another replica comes in its place.
    wait_until(lambda: len(set(replicas_of("probe", serving.pid)) - set(killed)) == 2)


def test_a_request_goes_on_elsewhere_if_nothing_was_sent(serving: Serving, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait_until(lambda: len(replicas_of("probe", serving.pid)) == 2)
    first = replicas_of("probe", serving.pid)[0]
    asked = {**TICK, "go": str(go), "silent_in": first}
    results: list[Any] = []

    def stream() -> list[str]:
        with serving.request("POST", CHAT, asked) as response:
            events = []
            while event := next_event(response):
                events.append(event)
            return events

    streams = threading.Thread(target=lambda: results.extend(in_threads(8, stream)))
    streams.start()
    in_flight = 'ovms_current_graphs{name="probe"} 8'

    def all_in_flight() -> bool:
        with serving.request("GET", "/metrics") as response:
            return in_flight in response.read().decode()

    wait_until(all_in_flight)
    time.sleep(0.5)  # what is in flight at the front has to reach a replica
    os.kill(first, signal.SIGKILL)
    go.touch()
    streams.join()
    assert all(each[-1] == "[DONE]" and "error" not in each[0] for each in results), results


# Updates ------------------------------------------------------------------------------------------


def test_an_update_fails_no_request(serving: Serving, site: Site) -> None:
    stop = threading.Event()
    answers: list[tuple[int, Any]] = []

    def keep_asking() -> None:
        while not stop.is_set():
            answers.append(ask(serving, "probe"))

    threads = [threading.Thread(target=keep_asking) for _ in range(4)]
    for each in threads:
        each.start()
    site.write_graph("probe", "Second")
    wait_until(lambda: answers and answers[-1][1].get("version") == "second")
    wait_until(lambda: len(replicas_of("probe", serving.pid)) == 2)
    stop.set()
    for each in threads:
        each.join()
    assert {status for status, _ in answers} == {200}
    assert {answer["version"] for _, answer in answers} == {"first", "second"}


def test_a_version_that_cannot_be_loaded_leaves_the_old_one(serving: Serving, site: Site) -> None:
    site.write_graph("probe", "Missing")

    def note() -> str:
        return str(state_of(serving, "probe")["status"]["error_message"])

    wait_until(lambda: "could not be loaded" in note())
    assert "Missing" in note()
    status, answer = ask(serving, "probe")
    assert (status, answer["version"]) == (200, "second")
    assert len(replicas_of("probe", serving.pid)) == 2
    site.write_graph("probe", "Second")


def test_none_becomes_one_for_a_request(serving: Serving) -> None:
    wait_until(lambda: not replicas_of("sleepy", serving.pid))
    assert state_of(serving, "sleepy")["state"] == "AVAILABLE"
    status, answer = ask(serving, "sleepy")
    assert status == 200
    assert answer["pid"] in replicas_of("sleepy", serving.pid)


# Refusals -----------------------------------------------------------------------------------------


def test_a_resource_that_no_node_has_is_named(serving: Serving, site: Site) -> None:
    site.add("greedy", "First", resources={"unicorn": 2})
    state = wait_until(
        lambda: (
            (found := serving.get("/v1/config")[1].get("greedy"))
            and (status := found["model_version_status"][0]["status"])["error_code"] != "OK"
            and status
        )
    )
    assert "needs 2 of the resource unicorn" in state["error_message"]
    status, answer = ask(serving, "greedy")
    assert status == 503
    assert "unicorn" in answer["error"]["message"] if isinstance(answer["error"], dict) else True


# Other fronts on the cluster ----------------------------------------------------------------------


def test_a_name_belongs_to_one_front(its_cluster: None, tmp_path: Path) -> None:
    other = Site(tmp_path)
    other.add("probe", "Second")
    other.add("alone", "Second")
    with Serving(tmp_path, "config.json", "--on", "ray") as second:
        second.wait_until_serving()
        error = state_of(second, "probe")["status"]["error_message"]
        assert 'the name "probe" is taken on this Ray cluster by another graphrt' in error
        assert ask(second, "alone")[1]["version"] == "second"
        second.send_signal()
        assert second.end()[0] == 0


def test_the_replicas_of_a_killed_front_are_taken_over(its_cluster: None, tmp_path: Path) -> None:
    cancelled = tmp_path / "cancelled"
    site = Site(tmp_path)
    site.add("lasting", "First")
    with Serving(tmp_path, "config.json", "--on", "ray") as first:
        first.wait_until_serving()
        replica = ask(first, "lasting")[1]["pid"]
        asked = {**TICK, "model": "lasting", "go": "/nowhere", "cancelled": str(cancelled)}
        with first.request("POST", CHAT, asked) as response:
            assert next_event(response) == str(replica)
            first.send_signal(signal.SIGKILL)
            wait_until(cancelled.exists)
    with Serving(tmp_path, "config.json", "--on", "ray") as second:
        second.wait_until_serving()
        assert ask(second, "lasting")[1]["pid"] == replica
        second.send_signal()
        assert second.end()[0] == 0


def test_another_scale_keeps_the_replicas(serving: Serving, site: Site) -> None:
    before = set(replicas_of("probe", serving.pid))
    assert len(before) == 2
    site.rescale("probe", min_replicas=3)
    wait_until(lambda: len(replicas_of("probe", serving.pid)) == 3)
    assert before < set(replicas_of("probe", serving.pid))
    assert ask(serving, "probe")[0] == 200


def test_fronts_of_one_config_share_its_replicas(
    serving: Serving, site: Site, its_cluster: None
) -> None:
    before = replicas_of("double", serving.pid)
    with Serving(site.folder, "config.json", "--on", "ray") as second:
        second.wait_until_serving()
        found = {ask(each, "probe")[1]["pid"] for each in (serving, second) * 6}
        assert found <= set(replicas_of("probe", serving.pid))
        # Each of them sees the change, and one deploys it.
        site.add("late", "First")
        wait_until(lambda: ask(serving, "late")[0] == ask(second, "late")[0] == 200)
        assert len(replicas_of("late", serving.pid)) == 1
        second.send_signal()
        assert second.end()[0] == 0
    assert ask(serving, "late")[0] == 200
    assert replicas_of("double", serving.pid) == before


def test_a_batch_runs_on_the_replicas_and_goes_on_after_a_kill(
    serving: Serving, site: Site, its_cluster: None
) -> None:
    folder, go = site.folder, site.folder / "go-on"
    ask_where = {"model": "probe", "do": "where"}
    bodies = [ask_where] * 300 + [{"model": "probe", "do": "wait", "go": str(go)}] * 4
    lines = [
        {"custom_id": str(place), "method": "POST", "url": CHAT, "body": body}
        for place, body in enumerate(bodies)
    ]
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nno JSON\n")
    words = ("batch", "lines.jsonl", "config.json", "--calculators", "calcs.py", "--on", "ray")
    output_file = folder / "lines.output.jsonl"

    first = subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env=environment(), stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: answers_kept(output_file) == 301)
    finally:
        first.kill()
        first.wait()
    go.touch()
    done = graphrt(*words, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "301 had an answer before" in done.stdout
    output = list(map(json.loads, output_file.read_text().splitlines()))
    assert [each["custom_id"] for each in output] == [str(place) for place in range(304)]
    used = {each["response"]["body"]["pid"] for each in output[:300]}
    assert used <= set(replicas_of("probe", serving.pid))
    assert len(used) > 1
    assert len((folder / "lines.error.jsonl").read_text().splitlines()) == 1
    assert ask(serving, "probe")[0] == 200


def test_a_batch_loses_nothing_when_a_replica_is_killed(
    serving: Serving, site: Site, its_cluster: None
) -> None:
    folder, go = site.folder, site.folder / "go-on-without"
    ask_where = {"model": "probe", "do": "where"}
    bodies = [ask_where] * 50 + [{"model": "probe", "do": "wait", "go": str(go)}] * 8
    lines = [
        {"custom_id": str(place), "method": "POST", "url": CHAT, "body": body}
        for place, body in enumerate(bodies + [ask_where] * 50)
    ]
    (folder / "more.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    words = ("batch", "more.jsonl", "config.json", "--calculators", "calcs.py", "--on", "ray")
    output_file = folder / "more.output.jsonl"
    with subprocess.Popen(
        [*COMMAND, *words, "--batch_width", "8"],
        cwd=folder, env=environment(), stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        wait_until(lambda: answers_kept(output_file) == 50)
        os.kill(replicas_of("probe", serving.pid)[0], signal.SIGKILL)
        go.touch()
        assert running.wait() == 0
    answers = list(map(json.loads, output_file.read_text().splitlines()))
    assert [each["custom_id"] for each in answers] == [str(place) for place in range(108)]
