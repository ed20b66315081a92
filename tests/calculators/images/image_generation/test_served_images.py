"""The images endpoints of a real server over HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.images.image_generation.drawn import events_in, pictures, pixels, same
from tests.calculators.images.image_generation.image_models import (
    SIDE,
    graph,
    make_model,
    write_lora,
)
from tests.calculators.images.media.pictures import picture, promising_png
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.servers.fronts.openapi.described import Described
from tests.support.conditions import wait_until

DESCRIBED: Final = Described()
GENERATIONS: Final = "/v3/images/generations"
EDITS: Final = "/v1/images/edits"
LONG: Final = {"model": "m", "prompt": "a", "size": "256x256", "steps": 900}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of one model, which is loaded as a graph of OpenVINO Model Server."""
    site = tmp_path_factory.mktemp("site")
    options = (
        'default_num_inference_steps: 2 max_num_inference_steps: 900 max_resolution: "256x256"'
    )
    write_lora(site / "ink.safetensors", 1)
    adapter = 'lora_adapters { alias: "ink" path: "../ink.safetensors" }'
    make_model(site / "m", text=graph(f"{options} {adapter}"))
    words = ("--model_name", "m", "--model_path", "m", "--image_queue_limit", "2")
    with Serving(site, *words, "--metrics_enable", calculators=(), is_forked=False) as started:
        yield started.wait_until_serving()


def form_of(fields: dict[str, str], files: dict[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """Return the body of a form, and its headers."""
    parts = [
        b'--cut\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
        % (name.encode(), text.encode())
        for name, text in fields.items()
    ]
    parts += [
        b'--cut\r\nContent-Disposition: form-data; name="%b"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n%b\r\n" % (name.encode(), content)
        for name, content in files.items()
    ]
    return b"".join(parts) + b"--cut--\r\n", {"Content-Type": "multipart/form-data; boundary=cut"}


def post_form(
    serving: Serving, path: str, fields: dict[str, str], files: dict[str, bytes]
) -> tuple[int, dict[str, Any]]:
    body, headers = form_of({"model": "m", **fields}, files)
    return post_bytes(serving, path, body, headers)


def post_bytes(
    serving: Serving, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    with closing(http.client.HTTPConnection("127.0.0.1", serving.port)) as connection:
        connection.request("POST", path, body, headers)
        with connection.getresponse() as response:
            return response.status, json.loads(response.read())


def metric(serving: Serving, name: str) -> float:
    """Return the value of a metric without further labels than graph and node."""
    with serving.request("GET", "/metrics") as response:
        text = response.read().decode()
    match = re.search(rf'^{name}\{{graph="m",node="ImageGenExecutor"\}} (\S+)$', text, re.M)
    assert match is not None, f"no {name} in:\n{text}"
    return float(match[1])


def until(serving: Serving, name: str, value: float) -> None:
    """Wait until a metric has a value."""
    wait_until(lambda: metric(serving, name) == value, name)


def check_that_it_still_draws(serving: Serving) -> None:
    status, answer = serving.post(GENERATIONS, {"model": "m", "prompt": "still there"})
    assert status == 200, answer


def test_images_are_drawn_under_every_prefix_as_the_document_says(serving: Serving) -> None:
    for prefix in ("/v3", "/v1", "/v3/v1"):
        path = f"{prefix}/images/generations"
        status, answer = serving.post(path, {"model": "m", "prompt": "a cat", "seed": 1})
        assert status == 200, answer
        assert pictures(answer)[0].shape == (SIDE, SIDE, 3)
        text = json.dumps(answer).encode()
        DESCRIBED.check_answer(path, "POST", status, "application/json", text)
        files = {"image": picture(SIDE, SIDE)}
        for name, fields in (("edits", {"prompt": "a"}), ("variations", {"n": "2"})):
            path = f"{prefix}/images/{name}"
            status, answer = post_form(serving, path, fields, files)
            assert status == 200, answer
            text = json.dumps(answer).encode()
            DESCRIBED.check_answer(path, "POST", status, "application/json", text)
    for path, method, body in DESCRIBED.examples():
        if path.endswith("/images/generations"):
            given = {**body, "model": "m", "size": "64x64"}
            assert DESCRIBED.request_errors(path, given) == []
            status, answer = serving.post(path, given)
            assert status == 200, (method, answer)


def test_a_stream_sends_each_image_as_an_event(serving: Serving) -> None:
    body = {"model": "m", "prompt": "a", "seed": 1, "steps": 60}
    _, whole = serving.post(GENERATIONS, body)
    body |= {"stream": True, "partial_images": 2}
    with serving.request("POST", GENERATIONS, body) as response:
        assert response.status == 200
        assert response.getheader("Content-Type") == "text/event-stream"
        sent = response.read()
    DESCRIBED.check_answer(GENERATIONS, "POST", 200, "text/event-stream", sent)
    *unfinished, last = events_in([sent])
    assert {event["type"] for event in unfinished} == {"image_generation.partial_image"}
    assert last["type"] == "image_generation.completed"
    assert same(pixels(last), pictures(whole)[0])
    fields = {"model": "m", "prompt": "a", "stream": "true", "steps": "60", "partial_images": "1"}
    content, headers = form_of(fields, {"image": picture(SIDE, SIDE), "mask": picture(SIDE, SIDE)})
    with closing(http.client.HTTPConnection("127.0.0.1", serving.port)) as connection:
        connection.request("POST", EDITS, content, headers)
        with connection.getresponse() as response:
            sent = response.read()
    DESCRIBED.check_answer(EDITS, "POST", 200, "text/event-stream", sent)
    assert [event["type"] for event in events_in([sent])] == [
        "image_edit.partial_image",
        "image_edit.completed",
    ]


def test_an_adapter_is_a_model(serving: Serving) -> None:
    body = {"prompt": "a", "seed": 1}
    base, ink = [serving.post(GENERATIONS, {"model": name, **body}) for name in ("m", "ink")]
    assert (base[0], ink[0]) == (200, 200)
    assert not same(pictures(base[1])[0], pictures(ink[1])[0])
    _, models = serving.get("/v3/models")
    assert [each["id"] for each in models["data"]] == ["m", "ink"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"num_inference_steps": 0}, "num_inference_steps"),
        ({"steps": 901}, "num_inference_steps"),
        ({"size": "1x1"}, "size"),
        ({"size": "100000x100000"}, "size"),
        ({"size": "8x264"}, "size"),
        ({"width": 100_000}, "width"),
        ({"n": 0}, "n"),
        ({"n": 11}, "n"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "a" * 1_000_000}, "prompt"),
        ({"response_format": "url"}, "response_format"),
        ({"promt": "a"}, "promt"),
        ({"negative_prompt": "a", "guidance_scale": 0.5}, "negative_prompt"),
        ({"prompt_2": "a"}, "prompt_2"),
        ({"lora_alphas": {"tar": 1}}, "lora_alphas"),
    ],
)
def test_a_hostile_member_is_a_400_and_the_next_request_is_answered(
    serving: Serving, body: dict[str, Any], param: str
) -> None:
    status, answer = serving.post(GENERATIONS, {"model": "m", "prompt": "a", **body})
    assert (status, answer["error"]["param"]) == (400, param)
    assert answer["error"]["type"] == "invalid_request_error"
    check_that_it_still_draws(serving)


@pytest.mark.parametrize(
    "image",
    [
        b"",
        b"no picture",
        picture(SIDE, SIDE)[:60],
        promising_png(100_000, 100_000),
        promising_png(64, 64),
        picture(2_000, 2),
        bytes(20_000_001),
    ],
    ids=["empty", "text", "cut", "huge", "broken", "line", "large"],
)
def test_a_hostile_picture_is_a_400_and_the_next_request_is_answered(
    serving: Serving, image: bytes
) -> None:
    status, answer = post_form(serving, EDITS, {"prompt": "a"}, {"image": image})
    assert (status, answer["error"]["param"]) == (400, "image"), answer
    assert answer["error"]["message"].startswith("Image parsing failed: ")
    files = {"image": picture(SIDE, SIDE), "mask": image}
    status, answer = post_form(serving, EDITS, {"prompt": "a"}, files)
    assert (status, answer["error"]["param"]) == (400, "mask"), answer
    check_that_it_still_draws(serving)


def test_a_form_that_breaks_off_is_a_400_and_the_next_request_is_answered(
    serving: Serving,
) -> None:
    body, headers = form_of({"model": "m", "prompt": "a"}, {"image": picture(SIDE, SIDE)})
    for cut in (12, 30, 200, len(body) // 2, len(body) - 1):
        status, answer = post_bytes(serving, EDITS, body[:-cut], headers)
        assert status == 400, (cut, answer)
    # The connection breaks off.
    with socket.create_connection(("127.0.0.1", serving.port)) as connection:
        head = f"POST {EDITS} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Type: {headers['Content-Type']}\r\n\r\n"
        connection.sendall(head.encode() + body[:-20])
    for path, form in ((GENERATIONS, body), (EDITS, b"{}")):
        kind = headers if form == body else {"Content-Type": "application/json"}
        status, _ = post_bytes(serving, path, form, kind)
        assert status in (400, 415)
    check_that_it_still_draws(serving)


def test_a_client_that_leaves_ends_its_drawing_and_others_wait_within_a_limit(
    serving: Serving,
) -> None:
    before = metric(serving, "graphrt_image_requests_cancelled_total")
    text = json.dumps(LONG)
    head = f"POST {GENERATIONS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(text)}\r\n\r\n{text}"
    clients = []
    try:
        for running, waiting in ((1, 0), (1, 1), (1, 2)):
            clients.append(socket.create_connection(("127.0.0.1", serving.port)))
            clients[-1].sendall(head.encode())
            until(serving, "graphrt_image_requests_running", running)
            until(serving, "graphrt_image_requests_waiting", waiting)
        with serving.request("POST", GENERATIONS, LONG) as response:
            answer = json.loads(response.read())
            assert (response.status, answer["error"]["code"]) == (503, "service_unavailable")
            assert int(response.getheader("Retry-After") or 0) >= 1
            assert "2 requests for images wait already" in answer["error"]["message"]
        name = "graphrt_image_progress_ratio"
        wait_until(lambda: metric(serving, name) > 0, name)
    finally:
        for client in clients:
            client.close()
    until(serving, "graphrt_image_requests_waiting", 0)
    until(serving, "graphrt_image_requests_running", 0)
    assert metric(serving, "graphrt_image_requests_cancelled_total") == before + 1
    check_that_it_still_draws(serving)


def test_images_steps_and_times_are_counted(serving: Serving) -> None:
    images = metric(serving, "graphrt_images_drawn_total")
    steps = metric(serving, "graphrt_image_steps_total")
    requests = metric(serving, "graphrt_image_drawing_seconds_count")
    body = {"model": "m", "prompt": "a", "n": 3, "steps": 5}
    assert serving.post(GENERATIONS, body)[0] == 200
    assert metric(serving, "graphrt_images_drawn_total") == images + 3
    assert metric(serving, "graphrt_image_steps_total") == steps + 3 * 5
    assert metric(serving, "graphrt_image_drawing_seconds_count") == requests + 1
    assert metric(serving, "graphrt_image_process_up") == 1
    assert metric(serving, "graphrt_image_process_restarts_total") == 0


def test_the_process_of_the_server_loads_no_model_library(serving: Serving) -> None:
    maps = Path(f"/proc/{serving.pid}/maps")
    if maps.exists():
        assert "libopenvino" not in maps.read_text(encoding="utf-8")


def test_the_openai_client_draws_edits_and_streams(serving: Serving) -> None:
    openai = pytest.importorskip("openai", reason="the extra clients")
    client = openai.OpenAI(
        base_url=f"http://127.0.0.1:{serving.port}/v3", api_key="unused", max_retries=0
    )
    with client:
        answer = client.images.generate(
            model="m", prompt="a cat", n=2, size="128x64", response_format="b64_json", user="me"
        )
        assert [pixels({"b64_json": each.b64_json}).shape for each in answer.data] == [
            (64, 128, 3)
        ] * 2
        assert (answer.output_format, answer.size) == ("png", "128x64")
        assert answer.usage.total_tokens == answer.usage.input_tokens > 0
        assert answer.created > 0
        png = base64.b64decode(answer.data[0].b64_json)
        edited = client.images.edit(
            model="m",
            image=[("a.png", png)],
            mask=("m.png", picture(128, 64)),
            prompt="a dog",
            output_format="webp",
            input_fidelity="high",
            extra_body={"seed": 5, "strength": 0.9, "num_inference_steps": 4},
        )
        assert pixels({"b64_json": edited.data[0].b64_json}, "WEBP").shape == (64, 128, 3)
        varied = client.images.create_variation(model="m", image=("a.png", png), n=2)
        assert len(varied.data) == 2
        events = list(
            client.images.generate(
                model="m",
                prompt="a boat",
                stream=True,
                partial_images=1,
                extra_body={"steps": 60},
            )
        )
        assert events[-1].type == "image_generation.completed"
        assert events[-1].usage.total_tokens > 0
        assert [event.partial_image_index for event in events[:-1]] == [0]
        with pytest.raises(openai.BadRequestError, match="must be higher than 0") as caught:
            client.images.generate(model="m", prompt="a", extra_body={"steps": 0})
        assert caught.value.param == "steps"


def test_a_directory_is_served_as_the_flags_say(tmp_path: Path) -> None:
    make_model(tmp_path / "tiny")
    write_lora(tmp_path / "tiny" / "ink.safetensors", 1)
    flags = ("--default_resolution", "128x64", "--default_num_inference_steps", "2")
    adapters = ("--source_loras", "ink=ink.safetensors:0.5,thin=@ink:0.1")
    words = ("tiny", *flags, *adapters, "--image_seed", "42")
    with Serving(tmp_path, *words, calculators=()).wait_until_serving() as serving:
        log = "".join(serving.log)
        assert "tiny: OpenVINO model, served as image_generation" in log
        assert GENERATIONS in log  # the request to try out
        answers = [
            serving.post(GENERATIONS, {"model": name, "prompt": "a"})[1]
            for name in ("tiny", "tiny", "ink", "thin")
        ]
        assert [answer["data"][0]["seed"] for answer in answers] == [42] * 4
        assert answers[0]["size"] == "128x64"
        base, again, ink, thin = [pictures(answer)[0] for answer in answers]
        assert same(base, again)
        assert not same(base, ink)
        assert not same(ink, thin)
        _, models = serving.get("/v3/models")
        assert models["data"][0]["task"] == "image_generation"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tool_parser hermes3", "--tool_parser is not an option of the task image_generation"),
        ("--max_resolution big", "Invalid resolution format. Expected WxH, e.g., 1024x1024"),
        ("--source_loras ink", "Missing alias in --source_loras entry"),
        ("--plugin_config []", "--plugin_config: must be a JSON object"),
    ],
)
def test_wrong_options_are_exit_code_2(tmp_path: Path, words: str, message: str) -> None:
    make_model(tmp_path / "tiny")
    task = ["--model_name", "tiny", "--model_path", "tiny", "--task", "image_generation"]
    done = graphrt("serve", *task, *words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
