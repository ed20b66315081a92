"""Tags: marks of the images, videos and sounds in a prompt's text.

Images and videos have openvino-genai's own. The library (2026.4) puts the tokens of all sounds
before a prompt, even before the chat template's first one, unless they are in the text already. So
the server has tags for sounds, too, and writes as many tokens as the library's encoder makes of
each sound, where the sound is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError

#: Tags that no text may contain.
_MARK: Final = "<ov_genai_"
_TAG: Final = re.compile(r"<ov_genai_(image|video)_([0-9]{1,6})>")
#: Members of ``config.json`` that hold the id of a token which stands for an image or a sound.
_MEMBERS: Final = re.compile(
    r"(?:image|video|vision|img|boi|eoi|audio|boa|eoa)(?:_\w*)?_?token_(?:id|index)"
)
#: Such tokens of the models that openvino-genai knows, where they are tokens.
_NAMES: Final = (
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
    "<image>", "</image>", "<img>", "</img>", "<IMG_CONTEXT>", "<image_soft_token>",
    "<start_of_image>", "<end_of_image>", "<|image>", "<image|>", "<|image|>", "<|video|>",
    "<|audio_start|>", "<|audio_pad|>", "<|audio_end|>",
)  # fmt: skip


def with_tags(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages with each image and video replaced by its tag.

    Images and videos are numbered each for itself, over all messages.
    """
    with_images = _tagged(messages, "image_url", "<ov_genai_image_")
    return _tagged(with_images, "video_url", "<ov_genai_video_")


def with_sound_tags(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages with each sound replaced by its tag, numbered over all messages."""
    return _tagged(messages, "input_audio", _SOUND_MARK)


def _tagged(messages: Sequence[Mapping[str, Any]], kind: str, mark: str) -> list[Mapping[str, Any]]:
    """Replace each part of the type ``kind`` by a text: ``mark``, its number and ``>``."""
    count = 0
    tagged: list[Mapping[str, Any]] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            parts: list[Any] = []
            for part in content:
                if isinstance(part, dict) and part.get("type") == kind:
                    part = {"type": "text", "text": f"{mark}{count}>"}
                    count += 1
                parts.append(part)
            message = {**message, "content": parts}
        tagged.append(message)
    return tagged


def is_tag(text: str) -> bool:
    """Return True if a text is the tag of an image or a video and nothing else."""
    return _TAG.fullmatch(text) is not None


def without_tags(prompt: str) -> str:
    """Return the prompt's text without tags."""
    return _TAG.sub("", prompt)


def check_tags(prompt: str, images: int, videos: int = 0) -> None:
    """Check that the prompt has the tag of each image and each video once, and no other tag.

    Raises:
        RequestError: a text has such a tag, or the template leaves out an image.
    """
    wanted = {("image", number) for number in range(images)}
    wanted |= {("video", number) for number in range(videos)}
    tags = [(kind, int(number)) for kind, number in _TAG.findall(prompt)]
    marks = prompt.count(_MARK)
    if marks == len(tags) == len(wanted) and wanted == set(tags):
        return
    if marks > len(wanted):
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
                f'no text may have "{forbidden[each]}" in it: it stands for an image or a sound'
            )


# Sounds -------------------------------------------------------------------------------------------

#: The library refuses shorter sounds.
LEAST_SAMPLES: Final = 201
#: Samples of a frame of Whisper's spectrogram, at 16 kHz.
_SAMPLES_PER_FRAME: Final = 160
#: The library's own value for a ``config.json`` without one.
_WINDOW: Final = 200
#: Halvings of the number of frames, by three convolutions.
_HALVINGS: Final = 3
_SOUND_MARK: Final = "<ov_genai_audio_"
_SOUND_TAG: Final = re.compile(r"<ov_genai_audio_([0-9]{1,6})>")
_BEGIN, _TOKEN, _END = "<|audio_start|>", "<|audio_pad|>", "<|audio_end|>"


def window_of(config: Mapping[str, Any]) -> int:
    """Return the frames of a window of the encoder, by a model's parsed ``config.json``."""
    value: Any = config
    for name in ("thinker_config", "audio_config", "n_window_infer"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and value > 0 else _WINDOW


def token_count(samples: int, window: int) -> int:
    """Return the number of tokens that stand for a sound of 16 kHz.

    The encoder reads windows of twice the length, each half of which it reads twice.
    """
    frames = max(samples, LEAST_SAMPLES) // _SAMPLES_PER_FRAME
    total = 0
    for start in range(0, frames, window):
        count = min(2 * window, frames - start)
        for _ in range(_HALVINGS):
            count = (count + 1) // 2
        total += count
    return total


def with_sound_tokens(text: str, counts: Sequence[int]) -> str:
    """Return a prompt with the tokens of each sound in the place of its tag.

    Raises:
        RequestError: a text has such a tag of its own, or the template leaves out a sound.
    """
    numbers = [int(number) for number in _SOUND_TAG.findall(text)]
    if text.count(_SOUND_MARK) > len(counts):
        raise RequestError(f'no text may have "{_SOUND_MARK}" in it: the server marks sounds so')
    if numbers != list(range(len(counts))):
        raise RequestError(
            "the chat template of the model leaves out a sound: send sounds in messages of the user"
        )
    return _SOUND_TAG.sub(lambda tag: _BEGIN + _TOKEN * counts[int(tag[1])] + _END, text)


def without_sound_tags(text: str) -> str:
    """Return a prompt's text without tags."""
    return _SOUND_TAG.sub("", text)
