"""Members without effect whose values are still checked."""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, table
from calculators.kit.requests.readers import POSITIVE, STRING, Array, Object, Value
from calculators.kit.requests.schema import word


def _function_call(value: Any, path: str) -> None:
    """Check the predecessor of ``tool_choice``: two values change nothing without functions."""
    if value not in ("none", "auto"):
        raise fields.invalid(path, "the member is not supported; use tool_choice")


_MODALITIES: Final = Array({"type": "string", "not": {"const": "audio"}})


def _modalities(value: Any, path: str) -> None:
    for i, modality in enumerate(_MODALITIES.read(value, path)):
        if not isinstance(modality, str):
            raise fields.wrong_type(f"{path}[{i}]", "a string", modality)
        if modality == "audio":
            raise fields.invalid(f"{path}[{i}]", "this model does not answer with audio")


_AUDIO: Final = Object()


def _audio(value: Any, path: str) -> None:
    audio_format = _AUDIO.read(value, path).get("format")
    if isinstance(audio_format, str) and audio_format not in ("wav", "pcm16"):
        raise fields.invalid(
            f"{path}.format", f'{fields.describe(audio_format)} is neither "wav" nor "pcm16"'
        )


#: Members of all requests. They have no effect, but a wrong type is a mistake of the client.
CHECKED_MEMBERS: Final[Members] = table(
    honoured("user", STRING, "Changes nothing."),
    honoured("modalities", Value(_MODALITIES.schema(""), _modalities)),
    honoured("audio", Value(_AUDIO.schema(""), _audio)),
    honoured("chunk_frames", POSITIVE),
)
#: Members of chat requests.
CHECKED_CHAT_MEMBERS: Final[Members] = table(
    honoured("function_call", Value(word(("none", "auto")), _function_call)),
)
