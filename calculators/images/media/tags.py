"""Image tags: openvino-genai's marks of the images in a prompt's text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError

#: Tags that no text may contain: tags of images, and of videos, which are not served.
_MARK: Final = "<ov_genai_"
_TAG: Final = re.compile(r"<ov_genai_image_([0-9]{1,6})>")
#: Members of ``config.json`` that hold the id of a token which stands for an image or a sound.
_MEMBERS: Final = re.compile(
    r"(?:image|video|vision|img|boi|eoi|audio|boa|eoa)(?:_\w*)?_?token_(?:id|index)"
)
#: Such tokens of the models that openvino-genai knows, where they are tokens.
_NAMES: Final = (
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
    "<image>", "</image>", "<img>", "</img>", "<IMG_CONTEXT>", "<image_soft_token>",
    "<start_of_image>", "<end_of_image>", "<|image>", "<image|>", "<|image|>", "<|video|>",
)  # fmt: skip


def with_tags(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with each image replaced by its tag; tags are numbered over all messages."""
    count = 0
    tagged: list[Mapping[str, Any]] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            parts: list[Any] = []
            for part in content:
                if isinstance(part, dict) and part.get("type") == "image_url":
                    parts.append({"type": "text", "text": f"<ov_genai_image_{count}>"})
                    count += 1
                else:
                    parts.append(part)
            message = {**message, "content": parts}
        tagged.append(message)
    return tagged


def is_tag(text: str) -> bool:
    """Return True if a text is the tag of an image and nothing else."""
    return _TAG.fullmatch(text) is not None


def without_tags(prompt: str) -> str:
    """Return the prompt's text without tags."""
    return _TAG.sub("", prompt)


def check_tags(prompt: str, count: int) -> None:
    """Check that the prompt has the tag of each of ``count`` images once, and no other tag.

    Raises:
        RequestError: a text has such a tag, or the template leaves out an image.
    """
    numbers = sorted(int(number) for number in _TAG.findall(prompt))
    marks = prompt.count(_MARK)
    if marks == count and numbers == list(range(count)):
        return
    if marks > count:
        raise RequestError(f'no text may have "{_MARK}" in it: the server marks images so')
    raise RequestError(
        "the chat template of the model leaves out an image: send images in messages of the user"
    )


def media_tokens(config: Mapping[str, Any], vocabulary: Mapping[bytes, int]) -> dict[int, str]:
    """The tokens that a text must not have, with their names: they stand for images to the model.

    Args:
        config: the model's parsed ``config.json``.
        vocabulary: the bytes of all tokens, with their ids.
    """
    found = {vocabulary[name.encode()]: name for name in _NAMES if name.encode() in vocabulary}
    ids = {
        value for name, value in config.items() if _MEMBERS.fullmatch(name) and type(value) is int
    }
    named = {each: piece for piece, each in vocabulary.items() if each in ids}
    for each, piece in named.items():
        found.setdefault(each, piece.decode(errors="replace"))
    return found


def check_tokens(ids: Iterable[int], forbidden: Mapping[int, str]) -> None:
    """Refuse a text with tokens that stand for images: openvino-genai would read past its images.

    Raises:
        RequestError: the text has such a token; the error names it.
    """
    for each in ids:
        if each in forbidden:
            raise RequestError(
                f'no text may have "{forbidden[each]}" in it: it stands for an image'
            )
