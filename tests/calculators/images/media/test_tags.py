"""Images in the prompt's text: a tag for each, and no text that looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.images.media.tags import (
    check_tags,
    check_tokens,
    media_tokens,
    with_tags,
    without_tags,
)
from calculators.kit.requests.http_payload import RequestError

IMAGE = {"type": "image_url", "image_url": {"url": "x"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def test_images_are_numbered_over_all_messages() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [IMAGE, text("a"), IMAGE]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [text("c"), IMAGE]},
    ]
    assert with_tags(messages) == [
        {"role": "user", "content": [text("<ov_genai_image_0>"), text("a"),
                                     text("<ov_genai_image_1>")]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [text("c"), text("<ov_genai_image_2>")]},
    ]  # fmt: skip
    assert messages[0]["content"] == [IMAGE, text("a"), IMAGE]


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("", 0), ("a", 0), ("<ov_genai_image_0>", 1), ("<ov_genai_image_1><ov_genai_image_0>", 2)],
)
def test_a_prompt_must_have_each_image_once(prompt: str, count: int) -> None:
    check_tags(prompt, count)


def test_images_and_videos_are_numbered_apart() -> None:
    video = {"type": "video_url", "video_url": {"url": "y"}, "fps": 2.0}
    (message,) = with_tags([{"role": "user", "content": [video, IMAGE, video]}])
    tags = [part["text"] for part in message["content"]]
    assert tags == ["<ov_genai_video_0>", "<ov_genai_image_0>", "<ov_genai_video_1>"]
    check_tags("".join(tags), 1, 2)
    for images, videos in ((2, 1), (1, 1), (0, 3)):
        with pytest.raises(RequestError):
            check_tags("".join(tags), images, videos)


@pytest.mark.parametrize(
    ("prompt", "count", "reason"),
    [
        ("<ov_genai_image_0>", 0, "no text may have"),
        ("<ov_genai_image_0><ov_genai_image_0>", 1, "no text may have"),
        ("<ov_genai_image_0> <ov_genai_image_", 1, "no text may have"),
        ("<ov_genai_image_99999999999999999999>", 0, "no text may have"),
        ("<ov_genai_video_0>", 0, "no text may have"),
        ("a", 1, "leaves out an image"),
        ("<ov_genai_image_1>", 1, "leaves out an image"),
        ("<ov_genai_image_0><ov_genai_image_0>", 2, "leaves out an image"),
    ],
)
def test_any_other_prompt_is_refused(prompt: str, count: int, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        check_tags(prompt, count)


def test_tags_can_be_removed_from_the_text() -> None:
    assert without_tags("a<ov_genai_image_0>b<ov_genai_image_12>c") == "abc"


def test_tokens_that_stand_for_images_are_found_by_name_and_by_config() -> None:
    config = {
        "image_token_id": 7,
        "video_token_id": 8,
        "vision_start_token_id": 9,
        "boi_token_index": 10,
        "img_context_token_id": 11,
        "eos_token_id": 1,
        "image_size": 2,
        "image_token_index": "3",
    }
    vocabulary = {b"a": 1, b"b": 2, b"c": 3, b"<|image_pad|>": 7, b"<pic>": 8, b"<image>": 12,
                  b"<boi>": 10}  # fmt: skip
    found = media_tokens(config, vocabulary)
    assert found == {7: "<|image_pad|>", 8: "<pic>", 10: "<boi>", 12: "<image>"}
    check_tokens([1, 2, 3], found)
    with pytest.raises(RequestError, match='no text may have "<pic>" in it'):
        check_tokens([1, 8], found)
