"""The speech endpoints of a real server over HTTP: forms, hostile files, clients that leave."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.calculators.speech.audio.sounds import encoded, silence, tone, wav
from tests.calculators.speech.speech_to_text.counter import (
    TEXT,
    TRANSCRIPTIONS,
    TRANSLATIONS,
    make_model,
)
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site
from tests.servers.fronts.openapi.described import Described
from tests.support.patience import PATIENCE

SPEECH = wav(tone(2.0))
BOUNDARY = "a-boundary-of-a-form"


def form(content: bytes | None = SPEECH, **fields: str) -> bytes:
    """Return a multipart body with a file and fields; ``__`` in a name stands for ``[]``."""
    body = b""
    for name, text in {"model": "counter", **fields}.items():
        name = name.replace("__", "[]")
        body += (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        ).encode()
    if content is not None:
        body += (
            f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
            'name="file"; filename="speech.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        ).encode()
        body += content + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


@contextmanager
def sent(
    server: Serving, body: bytes, path: str = TRANSCRIPTIONS
) -> Iterator[http.client.HTTPResponse]:
    """Send a form; yield the response with its headers. Leaving closes the connection."""
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    ) as connection:
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        connection.request("POST", path, body, headers)
        with connection.getresponse() as response:
            yield response


def post(
    server: Serving, content: bytes | None = SPEECH, path: str = TRANSCRIPTIONS, **fields: str
) -> tuple[int, str, bytes]:
    """Return status, media type and body of the answer to a form."""
    with sent(server, form(content, **fields), path) as response:
        media = (response.getheader("Content-Type") or "").partition(";")[0]
        return response.status, media, response.read()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, child_program: None) -> Iterator[Serving]:
    site = tmp_path_factory.mktemp("site")
    make_site(site)
    make_model(site / "counter", "")
    words = ["--model_name", "counter", "--model_path", "counter"]
    words += ["--enable_word_timestamps", "true", "--metrics_enable", "true"]
    serving = Serving(site, *words, is_forked=False)
    with serving:
        yield serving.wait_until_serving()


def test_a_directory_with_a_whisper_is_served_as_speech2text(server: Serving) -> None:
    log = "".join(server.log)
    assert "served as speech2text" in log
    assert "-F file=@speech.wav" in log  # the request to try out
    assert "-F model=counter" in log
    for path in (TRANSCRIPTIONS, "/v1/audio/transcriptions", "/v1/audio/translations"):
        status, media, body = post(server, path=path)
        assert (status, media) == (200, "application/json")
        assert json.loads(body)["text"] == TEXT
    maps = Path(f"/proc/{server.pid}/maps")
    if maps.exists():  # model and decoders are in processes of their own
        loaded = maps.read_text(encoding="utf-8")
        assert "libopenvino" not in loaded
        assert "libsndfile" not in loaded


def test_answers_fit_the_openapi_document(server: Serving) -> None:
    described = Described()
    for path in (TRANSCRIPTIONS, TRANSLATIONS):
        for format in ("json", "verbose_json", "text", "srt", "vtt"):
            status, media, body = post(server, path=path, response_format=format)
            assert status == 200
            described.check_answer(path, "post", status, media, body)
    status, media, body = post(
        server, response_format="verbose_json", timestamp_granularities__="word"
    )
    described.check_answer(TRANSCRIPTIONS, "post", status, media, body)
    status, media, body = post(server, stream="true")
    assert (status, media) == (200, "text/event-stream")
    described.check_answer(TRANSCRIPTIONS, "post", status, media, body)


def test_granularities_are_taken_with_brackets_and_without(server: Serving) -> None:
    for _, _, body in (
        post(server, timestamp_granularities="word"),
        post(server, timestamp_granularities__="word"),
    ):
        assert len(json.loads(body)["words"]) == 10


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "File parsing fails"),
        (None, "File parsing fails"),
        (b"no sound at all", "is not valid wav nor mp3"),
        (b"\x00\x00\x00\x20ftypM4A " + b"\x00" * 1000, "is not valid wav nor mp3"),
        (b"\x1a\x45\xdf\xa3" + b"\xff" * 1000, "is not valid wav nor mp3"),
        (b"OggS" + bytes(range(256)) * 20, "is not valid wav nor mp3"),
        (b"\xff\xfb\x90" + bytes(range(256)) * 20, "is not valid wav nor mp3"),
        (b"#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n", "is not valid wav nor mp3"),
        (SPEECH[:20], "is not valid wav nor mp3"),
        (encoded(tone(1.0), format="FLAC")[:9000], "is broken"),
        (encoded(np.full(9000, np.nan, np.float32), format="WAV", subtype="FLOAT"), "NaN"),
    ],
)
def test_a_hostile_file_is_refused_and_the_next_request_answered(
    server: Serving, content: bytes | None, words: str
) -> None:
    status, _, body = post(server, content)
    error = json.loads(body)["error"]
    assert status in (400, 413), error
    assert error["param"] == "file"
    assert words in error["message"]
    assert "BytesIO" not in error["message"]
    assert json.loads(post(server)[2])["text"] == TEXT


def test_ten_hours_of_sound_in_a_small_file_are_refused(server: Serving) -> None:
    content = silence(10 * 3600, 1000)
    assert len(content) < 1_000_000
    status, _, body = post(server, content)
    assert status == 400
    assert "is longer than 7200 s" in json.loads(body)["error"]["message"]
    assert json.loads(post(server)[2])["text"] == TEXT


def test_bodies_that_are_no_forms_are_refused(server: Serving) -> None:
    with server.request("POST", TRANSCRIPTIONS, {"model": "counter"}) as response:
        assert response.status == 400
        assert "Failed to parse multipart data" in json.loads(response.read())["error"]["message"]
    with sent(server, form()[:-40]) as response:  # it breaks off
        assert response.status == 400
    assert json.loads(post(server)[2])["text"] == TEXT


def test_a_stream_ends_with_the_whole_text(server: Serving) -> None:
    _, _, body = post(server, stream="true")
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line]
    assert "".join(each["delta"] for each in events[:-1]) == events[-1]["text"] == TEXT
    status, _, body = post(server, path=TRANSLATIONS, stream="true")
    assert status == 400
    assert "streaming is not supported for translations endpoint" in body.decode()


def test_a_client_that_leaves_frees_the_model(server: Serving) -> None:
    with sent(server, form(silence(600), stream="true")) as response:
        assert response.read(1)
    # The next request would wait for the end of the ten minutes.
    assert json.loads(post(server)[2])["text"] == TEXT
    with server.request("GET", "/metrics") as response:
        metrics = response.read().decode()
    seconds = [line for line in metrics.splitlines() if "speech_audio_seconds_total{" in line]
    assert len(seconds) == 1
    assert float(seconds[0].rpartition(" ")[2]) < 600
    assert "graphrt_speech_queue_seconds_count" in metrics


def test_openais_client_is_answered(server: Serving, tmp_path: Path) -> None:
    openai = pytest.importorskip("openai", reason="the extra clients is not installed")
    file = tmp_path / "speech.wav"
    file.write_bytes(SPEECH)
    base = f"http://127.0.0.1:{server.port}/v1"
    with openai.OpenAI(base_url=base, api_key="none", timeout=PATIENCE) as client:
        create: Any = client.audio.transcriptions.create
        assert create(model="counter", file=file).text == TEXT
        assert create(model="counter", file=file, response_format="text") == TEXT.strip() + "\n"
        assert "-->" in create(model="counter", file=file, response_format="srt")
        verbose = create(
            model="counter",
            file=file,
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
            language="en",
            temperature=0.0,
            prompt="",
        )
        assert verbose.duration == 2.0
        assert verbose.segments[0].text == TEXT
        assert [each.word.strip() for each in verbose.words] == TEXT.split()
        events = list(create(model="counter", file=file, stream=True))
        assert [each.type for each in events[-2:]] == [
            "transcript.text.delta",
            "transcript.text.done",
        ]
        assert "".join(each.delta for each in events[:-1]) == events[-1].text == TEXT
        assert client.audio.translations.create(model="counter", file=file).text == TEXT
        with pytest.raises(openai.BadRequestError) as raised:
            create(model="counter", file=("a.wav", b"nothing"))
        assert raised.value.param == "file"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pooling CLS", "--pooling is not an option of the task speech2text"),
        ("--plugin_config []", "--plugin_config: must be a JSON object"),
    ],
)
def test_wrong_options_are_exit_code_2(tmp_path: Path, words: str, message: str) -> None:
    make_site(tmp_path)
    make_model(tmp_path / "counter", "")
    task = ["--model_name", "counter", "--model_path", "counter", "--task", "speech2text"]
    done = graphrt("serve", *task, *words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
