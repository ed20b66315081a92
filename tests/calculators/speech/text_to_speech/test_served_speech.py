"""The speech endpoints of a real server over HTTP, and the openai client."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import soundfile

from tests.calculators.speech.text_to_speech.tone_model import (
    RATE,
    expected,
    graph,
    make_model,
    make_voice,
    seconds,
)
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site
from tests.servers.fronts.openapi.described import Described

DESCRIBED: Final = Described()
SENTENCES: Final = ("Hello there.", "How are you?", "I am fine, thanks!")
TEXT: Final = " ".join(SENTENCES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    make_site(directory)
    make_model(directory / "tones")
    make_voice(directory / "tones" / "voices" / "alloy.bin", 0.5)
    return directory


@pytest.fixture(scope="module")
def serving(site: Path) -> Iterator[Serving]:
    with Serving(site, "--model_name", "tones", "--model_path", "tones", is_forked=False) as server:
        yield server.wait_until_serving()


def speak(
    serving: Serving, path: str = "/v3/audio/speech", **body: Any
) -> tuple[int, dict[str, str], bytes]:
    with serving.request("POST", path, {"model": "tones", **body}) as response:
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()


def test_a_directory_is_recognized_and_served(serving: Serving) -> None:
    log = "".join(serving.log)
    assert "tones: OpenVINO model, served as text2speech" in log
    assert "/v3/audio/speech" in log  # the request to try out
    for path in ("/v3/audio/speech", "/v1/audio/speech", "/v3/v1/audio/speech"):
        status, headers, data = speak(serving, path, input=TEXT, voice="alloy")
        assert (status, headers["content-type"]) == (200, "audio/wav")
        assert int(headers["content-length"]) == len(data)
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
        wanted = np.concatenate([expected(sentence, 0.5) for sentence in SENTENCES])
        assert rate == RATE
        np.testing.assert_allclose(samples, wanted, atol=2e-3)


def test_voices_are_listed(serving: Serving) -> None:
    for path in ("/v3/audio/voices", "/v1/audio/voices?model=tones"):
        status, answer = serving.get(path)
        assert status == 200
        assert [each["id"] for each in answer["voices"]] == ["default", "alloy"]
    _, models = serving.get("/v3/models")
    assert [(each["task"], each["voices"]) for each in models["data"]] == [
        ("text2speech", ["default", "alloy"])
    ]


def test_answers_are_as_the_document_says(serving: Serving) -> None:
    for path, method, body in DESCRIBED.examples():
        if path.endswith("/audio/speech"):
            assert DESCRIBED.request_errors(path, body) == []
            status, headers, _ = speak(serving, path, **{**body, "model": "tones"})
            answer = DESCRIBED.answer(path, method, status)
            assert headers["content-type"] in answer["content"]
    status, voices = serving.get("/v3/audio/voices")
    text = json.dumps(voices).encode()
    DESCRIBED.check_answer("/v3/audio/voices", "get", status, "application/json", text)


def test_parts_arrive_one_by_one(serving: Serving) -> None:
    body = {"model": "tones", "input": TEXT, "stream_format": "audio", "voice": "alloy"}
    with serving.request("POST", "/v3/audio/speech", body) as response:
        assert response.getheader("Transfer-Encoding") == "chunked"
        assert response.getheader("Content-Type") == "audio/wav"
        data = response.read()
    samples, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    assert len(samples) / RATE == pytest.approx(seconds(*SENTENCES))


def test_events_are_openais(serving: Serving) -> None:
    status, headers, data = speak(serving, input=TEXT, stream_format="sse", response_format="wav")
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    *deltas, done = [
        json.loads(event.removeprefix("data: "))
        for event in data.decode().split("\n\n")
        if event and event != "data: [DONE]"
    ]
    file = b"".join(base64.b64decode(each["audio"]) for each in deltas)
    assert soundfile.info(io.BytesIO(file)).samplerate == RATE
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["input_tokens"] == len(TEXT)


HOSTILE: Final[list[tuple[Any, int, str | None]]] = [
    ({}, 400, "input"),
    ({"input": ""}, 400, "input"),
    ({"input": " "}, 400, "input"),
    ({"input": []}, 400, "input"),
    ({"input": {"a": 1}}, 400, "input"),
    ({"input": "a" * 5_000_000}, 400, "input"),
    ({"input": "a" * 10_000_000}, 413, None),
    ({"input": "a", "speed": 1e308}, 400, "speed"),
    ({"input": "a", "speed": -1}, 400, "speed"),
    ({"input": "a", "voice": "../../etc/passwd"}, 400, "voice"),
    ({"input": "a", "voice": []}, 400, "voice"),
    ({"input": "a", "response_format": "exe"}, 400, "response_format"),
    ({"input": "a", "instructions": "loud"}, 400, "instructions"),
    ({"input": "\0"}, 400, "input"),
    ({"input": "\0\0a" * 1000}, 200, None),
    ({"input": "\U0001f600" * 1000}, 200, None),
    ({"input": "x" * 16_000}, 200, None),
    ({"input": "<|endoftext|><pad></s>"}, 200, None),
]


@pytest.mark.parametrize(("body", "wanted", "param"), HOSTILE)
def test_the_next_request_is_answered_after_a_hostile_one(
    serving: Serving, body: dict[str, Any], wanted: int, param: str | None
) -> None:
    status, _, data = speak(serving, **body)
    assert status == wanted, data[:500]
    if param is not None:
        error = json.loads(data)["error"]
        assert error["param"] == param
        assert "/" not in error["message"].replace("../../etc/passwd", "")
    assert speak(serving, input="Hello.")[0] == 200


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux's /proc")
def test_the_model_is_in_a_process_of_its_own_which_may_die(serving: Serving) -> None:
    maps = Path(f"/proc/{serving.pid}/maps").read_text(encoding="utf-8")
    assert "libopenvino" not in maps
    (child,) = speech_processes(serving.pid)
    os.kill(child, signal.SIGKILL)
    assert speak(serving, input="Hello.")[0] == 200


def speech_processes(parent: int) -> list[int]:
    found = []
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"text_to_speech.process" in words:
            found.append(int(child))
    return found


def test_sound_is_counted(serving: Serving) -> None:
    def made() -> float:
        with serving.request("GET", "/metrics") as response:
            lines = response.read().decode().splitlines()
        (line,) = [each for each in lines if each.startswith("graphrt_tts_sound_seconds_total{")]
        return float(line.split()[-1])

    before = made()
    assert speak(serving, input=TEXT)[0] == 200
    assert made() - before == pytest.approx(seconds(*SENTENCES))


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm", None])
@pytest.mark.parametrize("streams", [False, True])
def test_the_openai_client_gets_each_format(
    serving: Serving, tmp_path: Path, name: str | None, streams: bool
) -> None:
    openai = pytest.importorskip("openai", reason="needs the extra clients")
    if name == "aac":
        pytest.importorskip("av", reason="needs the extra av")
    members: dict[str, Any] = {"model": "tones", "voice": "alloy", "input": TEXT}
    if name is not None:
        members["response_format"] = name
    file = tmp_path / "speech"
    with openai.OpenAI(base_url=f"http://127.0.0.1:{serving.port}/v3", api_key="none") as client:
        if streams:
            with client.audio.speech.with_streaming_response.create(**members) as response:
                response.stream_to_file(file)
        else:
            client.audio.speech.create(**members).write_to_file(file)
    assert duration(file, name) == pytest.approx(seconds(*SENTENCES), abs=0.3)


def duration(file: Path, name: str | None) -> float:
    if name == "pcm":
        return file.stat().st_size / 2 / 24000
    if name != "aac":
        return float(soundfile.info(file).duration)
    import av

    with av.open(str(file)) as container:
        return sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))


def test_the_openai_clients_errors_name_the_member(serving: Serving) -> None:
    openai = pytest.importorskip("openai", reason="needs the extra clients")
    with openai.OpenAI(
        base_url=f"http://127.0.0.1:{serving.port}/v1", api_key="none", max_retries=0
    ) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.audio.speech.create(model="tones", voice="echo", input="Hi")
        assert caught.value.param == "voice"
        assert "Requested voice 'echo' not found in available voices" in str(caught.value)


def test_a_client_that_leaves_frees_its_place(serving: Serving) -> None:
    body = {"model": "tones", "input": "A short sentence. " * 3000, "response_format": "pcm"}
    for _ in range(3):
        with serving.request("POST", "/v3/audio/speech", body) as response:
            assert len(response.read(1000)) == 1000
    # The sentences of those that left would take far longer than this test may.
    assert speak(serving, input="Hello.")[0] == 200


def test_a_graph_is_checked_without_loading_it(site: Path) -> None:
    make_model(site / "checked", graph())
    assert graphrt("validate", "checked/graph.pbtxt", cwd=site).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pooling MEAN", "--pooling is not an option of the task text2speech"),
        ("--plugin_config []", "--plugin_config: must be a JSON object"),
        ("--model_type whisper", "Known here: speecht5, kokoro"),
    ],
)
def test_wrong_options_are_exit_code_2(site: Path, words: str, message: str) -> None:
    task = ["--model_name", "tones", "--model_path", "tones", "--task", "text2speech"]
    done = graphrt("serve", *task, *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
