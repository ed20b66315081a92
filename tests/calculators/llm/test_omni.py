"""Sound in and out with pipeline_type OMNI, through a graph and the library's own pipeline."""

from __future__ import annotations

import asyncio
import base64
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from calculators.images.media.tags import token_count, with_sound_tokens
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import GenerationSettings, TalkerSettings
from graph_runtime import Cancelled, Code, ResourceError
from tests.calculators.llm.engine.engines import read_for_ever
from tests.calculators.llm.graph_runs import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    Asking,
    LeavingClient,
    request,
    text_of,
)
from tests.calculators.llm.graph_texts import plan_of, resources_of, with_options
from tests.calculators.llm.omni_model import FRAME, SEEING, VOICES, make_omni_model
from tests.support.conditions import soon, until

OMNI = with_options('models_path: "./" pipeline_type: AUTO device: "CPU"')
WHAT = "What is in the picture?"
SPOKEN: dict[str, Any] = {"modalities": ["text", "audio"]}
RATE = 24_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_omni_model(tmp_path_factory.mktemp("omni"))


@pytest.fixture(scope="module")
def omni(runner: asyncio.Runner, model: Path) -> Iterator[Asking]:
    resources = runner.run(soon(resources_of(OMNI, model)))
    yield Asking(runner, plan_of(OMNI), resources)
    runner.run(resources.close())


def tone(seconds: float, rate: int = 16_000, channels: int = 1) -> np.ndarray[Any, Any]:
    time = np.arange(int(seconds * rate)) / rate
    wave = 0.9 * np.sin(2 * math.pi * 440 * time)
    return np.repeat(wave[:, np.newaxis], channels, axis=1)


def file_of(seconds: float = 1, form: str = "WAV", **how: Any) -> str:
    """Return a sound file in Base64."""
    file = io.BytesIO()
    rate = how.get("rate", 16_000)
    soundfile.write(file, tone(seconds, **how), rate, format=form)
    return base64.b64encode(file.getvalue()).decode()


def heard(data: str, text: str = "Hello", **more: Any) -> list[dict[str, Any]]:
    """Return a message of the user with a sound before its text."""
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav", **more}}
    return [{"role": "user", "content": [part, {"type": "text", "text": text}]}]


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def seen(name: str, text: str = WHAT) -> list[dict[str, Any]]:
    data = base64.b64encode((SEEING / "pictures" / f"{name}.png").read_bytes()).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return [{"role": "user", "content": [picture, {"type": "text", "text": text}]}]


def usage_of(body: dict[str, Any]) -> dict[str, Any]:
    usage: dict[str, Any] = body["usage"]
    return usage


# Sound out ----------------------------------------------------------------------------------------


def test_an_answer_is_spoken_beside_its_text(omni: Asking) -> None:
    written = text_of(omni(CHAT, messages=seen("red_circle")))
    assert "red" in written
    body = omni(CHAT, messages=seen("red_circle"), **SPOKEN).body
    message = body["choices"][0]["message"]
    assert message["content"] == message["audio"]["transcript"] == written
    assert message["audio"]["id"].startswith("audio_")
    assert message["audio"]["expires_at"] == body["created"]
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(message["audio"]["data"])))
    details = usage_of(body)["completion_tokens_details"]
    assert (len(samples) / FRAME, rate) == (details["audio_tokens"], RATE)
    assert 0.1 < np.abs(samples).max() < 0.5
    alone = usage_of(omni(CHAT, messages=seen("red_circle")).body)
    assert usage_of(body)["completion_tokens"] == (
        alone["completion_tokens"] + details["audio_tokens"]
    )
    assert "audio_tokens" not in alone["completion_tokens_details"]


def test_a_video_is_seen_beside_a_sound(omni: Asking) -> None:
    (picture, question) = seen("blue_square")[0]["content"]
    video = {"type": "video", "video": [picture["image_url"]["url"]] * 4, "fps": 1}
    sound = heard(file_of())[0]["content"][0]
    for content in ([video, question], [sound, video, question]):
        assert "blue" in text_of(omni(CHAT, messages=[{"role": "user", "content": content}]))


def test_a_sound_without_a_head_has_the_samples_of_the_file(omni: Asking) -> None:
    def data(form: str) -> bytes:
        asked = {"messages": said("Hello"), "seed": 3, "audio": {"format": form}, **SPOKEN}
        return base64.b64decode(omni(CHAT, **asked).body["choices"][0]["message"]["audio"]["data"])

    wav, pcm = data("wav"), data("pcm16")
    assert wav.endswith(pcm)
    assert wav[: len(wav) - len(pcm)].startswith(b"RIFF")
    assert len(pcm) % 2 == 0


def test_a_stream_has_the_same_sound_in_pieces_after_its_text(omni: Asking) -> None:
    asked = {"messages": said("Hello"), "seed": 5, **SPOKEN}
    asked |= {"audio": {"voice": "anna", "format": "pcm16"}, "chunk_frames": 1}
    asked |= {"ignore_eos": True, "max_tokens": 300}
    whole = omni(CHAT, **asked).body
    audio = whole["choices"][0]["message"]["audio"]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    events = omni(CHAT, **asked, **options).events
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    pieces = [delta["audio"] for delta in deltas if "audio" in delta]
    sounds = [piece["data"] for piece in pieces if "data" in piece]
    # Clients join the pieces before they decode them, or play each.
    assert "".join(sounds) == audio["data"]
    assert len(sounds) > 1
    for sound in sounds:
        assert len(base64.b64decode(sound)) % 2 == 0
    assert "".join(piece.get("transcript", "") for piece in pieces) == audio["transcript"]
    assert "".join(delta.get("content") or "" for delta in deltas) == audio["transcript"]
    assert len({piece["id"] for piece in pieces}) == 1
    assert "expires_at" in pieces[-1]
    first, last = (
        min(i for i, delta in enumerate(deltas) if "data" in delta.get("audio", {})),
        max(i for i, delta in enumerate(deltas) if delta.get("content")),
    )
    assert first > last
    assert events[-1]["usage"] == usage_of(whole)


def test_an_answer_for_ears_only_has_its_text_as_the_transcript(omni: Asking) -> None:
    message = omni(CHAT, messages=said("Hello"), modalities=["audio"]).body["choices"][0]["message"]
    assert message["content"] is None
    assert message["audio"]["transcript"]
    events = omni(CHAT, messages=said("Hello"), modalities=["audio"], stream=True).events
    deltas = [event["choices"][0]["delta"] for event in events]
    assert not any(delta.get("content") for delta in deltas)
    spoken = "".join(delta.get("audio", {}).get("transcript", "") for delta in deltas)
    assert spoken == message["audio"]["transcript"]


def test_each_choice_has_a_sound_of_its_own(omni: Asking) -> None:
    asked = {"messages": said("Hello"), "temperature": 1, "seed": 2, "n": 2, **SPOKEN}
    choices = omni(CHAT, **asked).body["choices"]
    first, second = (choice["message"]["audio"] for choice in choices)
    assert first["id"] != second["id"]
    assert first["data"] != second["data"]


def test_a_seed_makes_the_same_sound_again(omni: Asking) -> None:
    def sound(**more: Any) -> str:
        body = omni(CHAT, messages=said("Hello"), **SPOKEN, **more).body
        return str(body["choices"][0]["message"]["audio"]["data"])

    assert sound(seed=1, temperature=1) == sound(seed=1, temperature=1)


def test_a_response_has_the_sound_after_its_text(omni: Asking) -> None:
    asked = {"input": "Hello", "seed": 4, "audio": {"format": "pcm16"}, **SPOKEN}
    body = omni(RESPONSES, **asked).body
    text, sound = body["output"][0]["content"]
    assert (text["type"], sound["type"]) == ("output_text", "output_audio")
    assert sound["transcript"] == text["text"]
    spoken = usage_of(body)["output_tokens_details"]["audio_tokens"]
    assert len(base64.b64decode(sound["data"])) == spoken * FRAME * 2
    only = omni(RESPONSES, **{**asked, "modalities": ["audio"]}).body
    assert [part["type"] for part in only["output"][0]["content"]] == ["output_audio"]


def test_a_response_in_events_has_the_sound_after_its_text(omni: Asking) -> None:
    asked = {"input": "Hello", "seed": 4, **SPOKEN}
    whole = omni(RESPONSES, **asked, audio={"format": "pcm16"}).body
    (sent,) = ("".join(omni(RESPONSES, **asked, stream=True).values),)
    kinds = re.findall("^event: (.*)$", sent, re.MULTILINE)
    last_text = len(kinds) - kinds[::-1].index("response.output_text.delta")
    assert kinds.index("response.audio.delta") >= last_text
    data = "".join(re.findall(r'"response.audio.delta".*?"delta":"(.*?)"', sent))
    assert data == whole["output"][0]["content"][1]["data"]
    assert kinds.count("response.audio.done") == 1
    numbers = [int(number) for number in re.findall(r'"sequence_number":(\d+)', sent)]
    assert numbers == list(range(len(numbers)))
    assert '"type":"output_audio"' in sent[sent.rindex("event: response.completed") :]


@pytest.mark.parametrize(
    ("uri", "body", "param"),
    [
        (CHAT, {**SPOKEN, "audio": {"voice": "nobody"}}, "audio.voice"),
        (CHAT, {**SPOKEN, "audio": {"format": "wav"}, "stream": True}, "audio.format"),
        (CHAT, {**SPOKEN, "audio": {"format": "mp3"}}, "audio.format"),
        (CHAT, {**SPOKEN, "stop": ["."]}, "stop"),
        (CHAT, {**SPOKEN, "logprobs": True}, "logprobs"),
        (CHAT, {**SPOKEN, "chunk_frames": 0}, "chunk_frames"),
        (CHAT, {"modalities": ["text", 1]}, "modalities[1]"),
        (MESSAGES, SPOKEN, "modalities[1]"),
        (COMPLETIONS, SPOKEN, "modalities[1]"),
    ],
)
def test_sound_that_no_answer_can_have_is_refused(
    omni: Asking, uri: str, body: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        omni(uri, **body)
    assert caught.value.param == param
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_unknown_voice_is_answered_with_the_known_ones(omni: Asking) -> None:
    with pytest.raises(RequestError, match=", ".join(VOICES)):
        omni(CHAT, **SPOKEN, audio={"voice": "alloy"})
    body = omni(CHAT, **SPOKEN, audio={"voice": VOICES[1].upper()}).body
    assert body["choices"][0]["message"]["audio"]["data"]


def test_a_call_of_a_tool_is_not_spoken(omni: Asking) -> None:
    tool = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    body = omni(
        CHAT,
        messages=said("Hello"),
        tools=[{"type": "function", "function": tool}],
        tool_choice="required",
        max_tokens=60,
        **SPOKEN,
    ).body
    message = body["choices"][0]["message"]
    assert message["tool_calls"]
    assert "audio" not in message


def test_a_client_that_leaves_while_it_is_spoken_to_makes_room(omni: Asking) -> None:
    async def leave() -> None:
        client = LeavingClient()
        run = omni.new_run()
        asked = request(CHAT, messages=said("Hello"), stream=True, **SPOKEN)
        asked |= {"ignore_eos": True, "max_tokens": 900, "chunk_frames": 1}
        await run.start(CHAT, asked, client)
        await until(lambda: '"data":' in "".join(run.answered.values))
        client.leave()
        with pytest.raises(Cancelled):
            await run.end()
        await until(lambda: omni.servable.unfinished == 0)

    omni.runner.run(soon(leave()))
    assert text_of(omni(CHAT, messages=said("Hello")))
    assert omni.servable.engine.restarts == 0


# Sound in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["WAV", "MP3", "FLAC"])
def test_a_sound_changes_the_answer_and_is_counted(omni: Asking, form: str) -> None:
    body = omni(CHAT, messages=heard(file_of(1, form))).body
    plain = omni(CHAT, messages=said("Hello")).body
    assert body["choices"] != plain["choices"]
    usage = usage_of(body)
    tokens = usage["prompt_tokens_details"]["audio_tokens"]
    assert 12 <= tokens <= 15
    assert usage["prompt_tokens"] == usage_of(plain)["prompt_tokens"] + tokens + 2


@pytest.mark.parametrize("seconds", [0.001, 0.0201, 0.11, 1, 8, 16.01, 24.005])
def test_the_tokens_of_a_sound_are_those_that_the_library_makes(
    omni: Asking, seconds: float
) -> None:
    # The library refuses a prompt with another number of them.
    usage = usage_of(omni(CHAT, messages=heard(file_of(seconds)), max_tokens=1).body)
    samples = int(seconds * 16_000)
    assert usage["prompt_tokens_details"]["audio_tokens"] == token_count(samples, 800)


def test_a_sound_of_another_rate_with_more_channels_is_the_same_sound(omni: Asking) -> None:
    usage = usage_of(omni(CHAT, messages=heard(file_of(2, rate=44_100, channels=2))).body)
    same = usage_of(omni(CHAT, messages=heard(file_of(2))).body)
    assert abs(usage["prompt_tokens"] - same["prompt_tokens"]) <= 1


def test_sounds_of_a_conversation_stand_where_they_were_said(omni: Asking) -> None:
    first, second = heard(file_of(1)), heard(file_of(2))
    between = [{"role": "assistant", "content": "I see."}]
    body = omni(CHAT, messages=[*first, *between, *second]).body
    assert usage_of(body)["prompt_tokens_details"]["audio_tokens"] == (
        token_count(16_000, 800) + token_count(32_000, 800)
    )
    prompt = "<|im_start|>user\n<ov_genai_audio_0>Hello<|im_end|>"
    assert with_sound_tokens(prompt, [2]) == (
        "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_pad|><|audio_end|>Hello<|im_end|>"
    )


def test_a_response_hears(omni: Asking) -> None:
    part = {"type": "input_audio", "input_audio": {"data": file_of(1), "format": "wav"}}
    asked = [{"role": "user", "content": [part, {"type": "input_text", "text": "Hello"}]}]
    body = omni(RESPONSES, input=asked).body
    assert usage_of(body)["input_tokens_details"]["audio_tokens"] == token_count(16_000, 800)


def test_a_data_url_is_a_sound_and_an_address_is_refused(omni: Asking) -> None:
    def asked(url: str) -> list[dict[str, Any]]:
        part = {"type": "audio_url", "audio_url": {"url": url}}
        return [{"role": "user", "content": [part, {"type": "text", "text": "Hello"}]}]

    body = omni(CHAT, messages=asked(f"data:audio/wav;base64,{file_of(1)}")).body
    assert usage_of(body)["prompt_tokens_details"]["audio_tokens"] == token_count(16_000, 800)
    with pytest.raises(RequestError) as caught:
        omni(CHAT, messages=asked("http://example.com/a.wav"))
    assert caught.value.param == "messages[0].content[0].audio_url.url"


def test_a_sound_is_not_heard_by_the_next_client(omni: Asking) -> None:
    before = omni(CHAT, messages=said("Hello")).body
    omni(CHAT, messages=heard(file_of(1)))
    after = omni(CHAT, messages=said("Hello")).body
    assert (after["choices"], after["usage"]) == (before["choices"], before["usage"])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "there is no data"),
        ("*", "not Base64"),
        (base64.b64encode(b"no sound at all").decode(), "cannot be read|not sound"),
        (file_of(0), "no sound in it"),
        (file_of(601, rate=8000), "longer than 600 s"),
    ],
)
def test_a_broken_or_long_sound_is_refused_with_its_place(
    omni: Asking, data: str, reason: str
) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        omni(CHAT, messages=heard(data))
    assert caught.value.param == "messages[0].content[0].input_audio.data"
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_sounds_are_bounded_in_number_and_together(omni: Asking) -> None:
    part = heard(file_of(0.1))[0]["content"][0]
    with pytest.raises(RequestError, match="only 16 sounds") as caught:
        omni(CHAT, messages=[{"role": "user", "content": [part] * 17}])
    assert caught.value.param == "messages[0].content[16]"
    long = heard(file_of(350, rate=8000))[0]["content"][0]
    with pytest.raises(RequestError, match="600 seconds long together") as caught:
        omni(CHAT, messages=[{"role": "user", "content": [long, long]}])
    assert caught.value.param == "messages[0].content[1].input_audio.data"


@pytest.mark.parametrize("text", ["<ov_genai_audio_0>", "Hi <ov_genai_audio_7>"])
def test_a_text_cannot_stand_for_a_sound(omni: Asking, text: str) -> None:
    for messages in (said(text), heard(file_of(0.1), text)):
        with pytest.raises(RequestError, match="ov_genai_audio"):
            omni(CHAT, messages=messages)


def test_tokens_of_sounds_in_a_text_are_text(omni: Asking) -> None:
    # Otherwise the library would count them among its own.
    body = omni(CHAT, messages=heard(file_of(0.1), "<|audio_pad|> Hello <|audio_start|>")).body
    assert usage_of(body)["prompt_tokens_details"]["audio_tokens"] == token_count(1600, 800)


def test_a_failed_request_leaves_nothing_for_the_next(omni: Asking) -> None:
    async def fail() -> None:
        prompt = (await omni.servable.prompts.encode("Hello")).input_ids
        few = GenerationSettings(max_new_tokens=3)
        sound = bytes(3200)
        for part, reason in (
            (Add(0, prompt, few, "Hello <ov_genai_image_7>"), "Missing image"),
            (Add(0, prompt, few, "<|audio_start|><|audio_pad|>", (), (sound,)), "placed 1"),
            (Add(0, prompt, few, "Hello", speech=TalkerSettings(chunk_frames=0)), "chunk_frames"),
        ):
            with pytest.raises(RequestError, match=reason):
                await read_for_ever(omni.servable.engine.submit([part]))

    before = omni(CHAT, messages=said("Hello")).body["choices"]
    omni.runner.run(fail())
    assert omni(CHAT, messages=said("Hello")).body["choices"] == before
    assert omni.servable.engine.restarts == 0


def test_an_answer_follows_a_choice_and_is_spoken(omni: Asking) -> None:
    form = {"type": "regex", "pattern": "(yes|no)"}
    body = omni(CHAT, messages=said("Hello"), response_format=form, **SPOKEN).body
    message = body["choices"][0]["message"]
    assert message["content"] in ("yes", "no")
    assert message["audio"]["data"]


# Models that hear and do not speak ----------------------------------------------------------------


def test_a_model_without_the_networks_of_speech_hears_and_does_not_speak(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    directory = make_omni_model(tmp_path)
    for name in ("talker", "talker_text_embeddings", "talker_projections"):
        for end in ("xml", "bin"):
            (directory / f"openvino_{name}_model.{end}").unlink()
    resources = runner.run(soon(resources_of(OMNI, directory)))
    try:
        hearing = Asking(runner, plan_of(OMNI), resources)
        usage = usage_of(hearing(CHAT, messages=heard(file_of(1))).body)
        assert usage["prompt_tokens_details"]["audio_tokens"] == token_count(16_000, 800)
        assert "red" in text_of(hearing(CHAT, messages=seen("red_circle")))
        with pytest.raises(RequestError, match="does not speak") as caught:
            hearing(CHAT, messages=said("Hello"), **SPOKEN)
        assert caught.value.param == "modalities[1]"
    finally:
        runner.run(resources.close())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('pipeline_type: OMNI device: "NPU"', "device NPU"),
        ('pipeline_type: OMNI draft_models_path: "x"', "draft"),
        ("pipeline_type: LM", "does not fit"),
    ],
)
def test_options_that_a_speaking_model_cannot_have_are_refused(
    runner: asyncio.Runner, model: Path, options: str, reason: str
) -> None:
    graph = with_options(f'models_path: "./" {options}')
    with pytest.raises(ResourceError, match=reason):
        runner.run(soon(resources_of(graph, model)))


def test_a_missing_part_of_a_speaking_model_is_named(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    directory = make_omni_model(tmp_path)
    (directory / "openvino_code2wav_model.bin").unlink()
    with pytest.raises(ResourceError, match=r"openvino_code2wav_model\.bin"):
        runner.run(soon(resources_of(OMNI, directory)))


def test_a_model_that_sees_only_is_no_omni_model(runner: asyncio.Runner) -> None:
    graph = with_options('models_path: "./" pipeline_type: OMNI')
    with pytest.raises(ResourceError, match=r"openvino_talker_model\.xml"):
        runner.run(soon(resources_of(graph, SEEING)))
