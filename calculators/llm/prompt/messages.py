"""The protocol between the server and a prompt process; encoded as MessagePack.

One question at a time, each with one answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from calculators.child_process.messages import LoadFailed, Log, Stop
from calculators.llm.text.token_table import TokenTable
from calculators.media.encoded_image import EncodedImage
from calculators.media.image import Image


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message: the model whose tokenizer and template are wanted.

    Attributes:
        memory_limit: bytes that the process may grow by when it has loaded.
        render_seconds: of processor time, that the template may take.
        max_tokens: what the model can hold; prompts that must be longer are not even tokenized.
        sees_images: text must not look like an image.
    """

    model_path: str
    memory_limit: int
    render_seconds: float
    max_tokens: int | None = None
    sees_images: bool = False


class Chat(msgspec.Struct, frozen=True, tag="chat", array_like=True):
    """Render messages and tokenize the prompt, without adding special tokens.

    Attributes:
        images: what the tags in the messages stand for, see `calculators.media.tags`.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    template_kwargs: dict[str, Any] = {}
    images: list[EncodedImage] = []


class Encode(msgspec.Struct, frozen=True, tag="encode", array_like=True):
    """Tokenize text as it is, to be a prompt."""

    text: str
    add_special_tokens: bool = True


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize", array_like=True):
    """Tokenize texts for their tokens' sake, whatever the model can hold.

    Attributes:
        max_length: the rest is cut off; None is no limit.
        pads: fill up to ``max_length``.
        padding_side: "left" or "right".
    """

    texts: Sequence[str]
    add_special_tokens: bool = True
    max_length: int | None = None
    pads: bool = False
    padding_side: str = "right"


class Decode(msgspec.Struct, frozen=True, tag="decode", array_like=True):
    """The text of token ids, by the tokenizer itself."""

    ids: list[int]
    skip_special_tokens: bool = True


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """Tokenizer and template are loaded.

    Attributes:
        tokens: what text is made from.
        template_problem: why there is no usable chat template; "" when there is one.
        tool_parser, reasoning_parser: what the template looks like it is for; "" for none.
    """

    tokens: TokenTable
    template_problem: str = ""
    tool_parser: str = ""
    reasoning_parser: str = ""


class Prompt(msgspec.Struct, frozen=True, tag="prompt", array_like=True):
    """A prompt.

    Attributes:
        input_ids: its tokens (int64, native byte order), without those of images.
        text: as a text; with the tags of its images.
    """

    input_ids: bytes
    text: str
    images: tuple[Image, ...] = ()

    @property
    def token_count(self) -> int:
        """How many there are."""
        return len(self.input_ids) // 8


class Tokens(msgspec.Struct, frozen=True, tag="tokens", array_like=True):
    """The answer to `Tokenize`.

    Attributes:
        json: of each text an array of its token ids, as JSON; in ASCII.
    """

    json: list[bytes]


class Text(msgspec.Struct, frozen=True, tag="text", array_like=True):
    """The answer to `Decode`."""

    text: str


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The request cannot be made a prompt; ``reason`` is for the client, ``code`` a `Code`."""

    reason: str
    param: str | None = None
    code: str = "INVALID_ARGUMENT"


Question = Chat | Encode | Tokenize | Decode
ToPrompt = Load | Question | Stop
FromPrompt = Ready | LoadFailed | Log | Prompt | Tokens | Text | Refused

to_prompt_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToPrompt)
from_prompt_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromPrompt)
