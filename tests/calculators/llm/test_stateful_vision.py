"""Text and images with pipeline_type VLM, one request at a time, through a graph."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import GenerationSettings
from graph_runtime import Cancelled
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.engine.engines import read_for_ever
from tests.calculators.llm.graph_runs import (
    CHAT,
    COMPLETIONS,
    Asking,
    LeavingClient,
    request,
    text_of,
)
from tests.calculators.llm.graph_texts import plan_of, resources_of, with_options
from tests.support.conditions import soon, until

MODEL = DEMO.parent / "shapes_vlm"
VLM = with_options('models_path: "./" pipeline_type: VLM device: "CPU"')
WHAT = "What is in the picture?"


@pytest.fixture(scope="module")
def vision(runner: asyncio.Runner) -> Iterator[Asking]:
    resources = runner.run(soon(resources_of(VLM, MODEL)))
    yield Asking(runner, plan_of(VLM), resources)
    runner.run(resources.close())


def seen(question: str, *names: str) -> list[dict[str, Any]]:
    """Return a message of the user with pictures of the model's folder."""
    parts: list[dict[str, Any]] = []
    for name in names:
        data = base64.b64encode((MODEL / "pictures" / f"{name}.png").read_bytes()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}})
    return [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}]


def test_the_answer_names_what_a_picture_shows(vision: Asking) -> None:
    whole = vision(CHAT, messages=seen(WHAT, "red_circle"))
    assert "red" in text_of(whole)
    assert "blue" in text_of(vision(CHAT, messages=seen(WHAT, "blue_square")))
    assert whole.body["choices"][0]["finish_reason"] == "stop"


def test_pictures_are_the_frames_of_a_video_too(vision: Asking) -> None:
    for name, colour in (("red_circle", "red"), ("blue_square", "blue")):
        (picture, question) = seen(WHAT, name)[0]["content"]
        video = {"type": "video_url", "video_url": {"url": [picture["image_url"]["url"]] * 4}}
        whole = vision(CHAT, messages=[{"role": "user", "content": [video, question]}])
        assert colour in text_of(whole)
        plain = vision(CHAT, messages=seen(WHAT, name)).body["usage"]["prompt_tokens"]
        assert whole.body["usage"]["prompt_tokens"] > plain


def test_a_stream_ends_with_the_usage_of_text_and_picture(vision: Asking) -> None:
    whole = vision(CHAT, messages=seen(WHAT, "red_circle")).body
    options = {"stream": True, "stream_options": {"include_usage": True}}
    streamed = vision(CHAT, messages=seen(WHAT, "red_circle"), **options)
    assert text_of(streamed) == whole["choices"][0]["message"]["content"]
    assert streamed.events[-1]["usage"] == whole["usage"]
    alone = vision(CHAT, messages=seen(WHAT)).body["usage"]["prompt_tokens"]
    assert whole["usage"]["prompt_tokens"] > alone


def test_pictures_are_counted_before_an_answer_as_with_it(vision: Asking) -> None:
    (message,) = seen(WHAT, "red_circle")
    picture = message["content"][0]["image_url"]["url"].partition(",")[2]
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": WHAT}]
    asked = {"messages": [{"role": "user", "content": blocks}]}
    used = vision("/v3/messages", max_tokens=3, **asked).body["usage"]["input_tokens"]
    count = vision.answer("/v3/messages/count_tokens", {"model": "demo", **asked})
    assert vision.runner.run(count).body == {"input_tokens": used}


def test_a_picture_leaves_nothing_for_the_next_request(vision: Asking) -> None:
    before = text_of(vision(CHAT, messages=seen(WHAT)))
    vision(CHAT, messages=seen("What differs?", "red_circle", "blue_square"))
    assert text_of(vision(CHAT, messages=seen(WHAT))) == before


def test_an_answer_follows_a_choice(vision: Asking) -> None:
    answered = vision(
        CHAT,
        messages=seen(WHAT, "red_circle"),
        response_format={"type": "regex", "pattern": "(yes|no)"},
    )
    assert text_of(answered) in ("yes", "no")


@pytest.mark.parametrize(
    ("more", "param"), [({"best_of": 2}, "best_of"), ({"logprobs": True}, "logprobs")]
)
def test_outputs_that_the_library_does_not_give_are_refused(
    vision: Asking, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        vision(CHAT, messages=seen(WHAT, "red_circle"), **more)
    assert caught.value.param == param


def test_a_failed_request_leaves_nothing_for_the_next(vision: Asking) -> None:
    async def fail() -> None:
        prompt = (await vision.servable.prompts.encode("Hello")).input_ids
        few = GenerationSettings(max_new_tokens=3)
        bad = GenerationSettings(max_new_tokens=3, repetition_penalty=-1.0)
        for part, reason in (
            (Add(0, prompt, bad, "Hello"), "repetition_penalty"),
            (Add(0, prompt, few, "Hello <ov_genai_image_7>"), "Missing image"),
        ):
            with pytest.raises(RequestError, match=reason):
                await read_for_ever(vision.servable.engine.submit([part]))

    before = text_of(vision(CHAT, messages=seen(WHAT, "red_circle")))
    vision.runner.run(fail())
    assert text_of(vision(CHAT, messages=seen(WHAT, "red_circle"))) == before
    assert vision.servable.engine.restarts == 0


def test_other_endpoints_than_chats_are_refused(vision: Asking) -> None:
    with pytest.raises(RequestError, match="answers chats only"):
        vision(COMPLETIONS)


def test_a_client_that_leaves_makes_room_for_the_next(vision: Asking) -> None:
    async def run() -> None:
        client = LeavingClient()
        leaving = vision.new_run()
        endless = {"messages": seen(WHAT, "red_circle"), "ignore_eos": True, "max_tokens": 700}
        await leaving.start(CHAT, request(CHAT, **endless), client)
        engine = vision.servable.engine
        await until(lambda: engine.running > 0)
        client.leave()
        short = request(CHAT, messages=seen(WHAT, "red_circle"), max_tokens=3)
        assert text_of(await vision.answer(CHAT, short))
        assert engine.unfinished == 0
        with pytest.raises(Cancelled):
            await leaving.end()

    vision.runner.run(run())
