"""The protocol between the server and a prompt process; encoded as MessagePack.

One question at a time, each with one answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from calculators.images.media.image import EncodedImage, Image
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.llm.detokenizer import TokenTable
from calculators.llm.parsers.families import AnswerFamily, CallSyntax


class PromptLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """Load tokenizer and template of a model; the first message.

    Attributes:
        memory_limit: bytes by which the process may grow after loading.
        render_seconds: processor time of one rendering.
        max_tokens: length of the model; prompts that must be longer are not tokenized.
        sees_images: the model takes images. Then text must not look like an image's tag.
        special_tokens_in_text: special tokens in the text of messages act as such.
        template_directory: a directory that may have the chat template of a model without one; ""
            for models whose directory has all that there is.
    """

    model_path: str
    memory_limit: int
    render_seconds: float
    max_tokens: int | None = None
    sees_images: bool = False
    special_tokens_in_text: bool = False
    template_directory: str = ""


class Chat(msgspec.Struct, frozen=True, tag="chat", array_like=True):
    """Render messages and tokenize the prompt, without adding special tokens.

    Attributes:
        images: the images of the tags in the messages, see `calculators.images.media.tags`.
        sounds: the samples of each sound of the tags in the messages.
        continues: let the prompt end with the text of the last message.
        will_be_cut: the server cuts the prompt, so it may be longer than the model.
        calls: the form of calls, for a template that shows no tools, or no calls; None: they are
            left out.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    template_kwargs: Mapping[str, Any] = {}
    images: list[EncodedImage] = []
    continues: bool = False
    will_be_cut: bool = False
    calls: CallSyntax | None = None
    sounds: Sequence[int] = ()


class Encode(msgspec.Struct, frozen=True, tag="encode", array_like=True):
    """Tokenize a text as it is, to be a prompt. ``will_be_cut``: as in `Chat`."""

    text: str
    add_special_tokens: bool = True
    will_be_cut: bool = False


class FillIn(msgspec.Struct, frozen=True, tag="fill", array_like=True):
    """Make the prompt that asks for the text between two others.

    Attributes:
        files: name and text of other files of the project.
        middle: the beginning of the missing text.
        room: the most tokens of the prompt, to which the texts are cut; None: they are not.
    """

    prefix: str
    suffix: str
    files: Sequence[tuple[str, str]] = ()
    middle: str = ""
    room: int | None = None


class TokenizeTexts(msgspec.Struct, frozen=True, tag="tokenize", array_like=True):
    """Tokenize texts of any length, for a client that asks for tokens.

    Attributes:
        max_length: tokens after which a text is truncated; None is no limit.
        pads: shorter texts are padded to ``max_length``.
        padding_side: "left" or "right".
    """

    texts: Sequence[str]
    add_special_tokens: bool = True
    max_length: int | None = None
    pads: bool = False
    padding_side: str = "right"


class Decode(msgspec.Struct, frozen=True, tag="decode", array_like=True):
    """Return the text of token ids, by the tokenizer itself."""

    ids: list[int]
    skip_special_tokens: bool = True


class TokenizerTexts(msgspec.Struct, frozen=True, array_like=True):
    """Texts of a tokenizer and its chat template; "" for none.

    Attributes:
        kind: the class that its files name.
    """

    kind: str = ""
    chat_template: str = ""
    bos_token: str = ""
    eos_token: str = ""


class PromptReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """Tokenizer and template are loaded.

    Attributes:
        tokens: the vocabulary, from which the server makes text.
        template_problem: the reason why there is no usable chat template; "" when there is one.
        tool_parser, reasoning_parser: the forms that fit the template; "" for none.
        made: the one that was made of it, where a name says so.
        knows_tools: the template shows tools. Otherwise they are written into messages.
        infill_ends: the tokens that end a text that is filled in, beside the model's own; None: the
            vocabulary has no tokens for that.
    """

    tokens: TokenTable
    template_problem: str = ""
    tool_parser: str = ""
    reasoning_parser: str = ""
    made: AnswerFamily | None = None
    knows_tools: bool = True
    infill_ends: tuple[int, ...] | None = None
    texts: TokenizerTexts = TokenizerTexts()


class Prompt(msgspec.Struct, frozen=True, tag="prompt", array_like=True):
    """A prompt.

    Attributes:
        input_ids: the tokens of its text, int64 in native byte order.
        text: the prompt, with the tags of its images.
        images: decoded, in the order of the tags.
        sound_tokens: how many of the tokens stand for sounds.
    """

    input_ids: bytes
    text: str
    images: tuple[Image, ...] = ()
    sound_tokens: int = 0

    @property
    def token_count(self) -> int:
        """The number of tokens of its text."""
        return len(self.input_ids) // 8


class TokenizedTexts(msgspec.Struct, frozen=True, tag="tokens", array_like=True):
    """The answer to `TokenizeTexts`.

    Attributes:
        json: for each text a JSON array of its token ids; ASCII.
    """

    json: list[bytes]


class DecodedTokens(msgspec.Struct, frozen=True, tag="text", array_like=True):
    """The answer to `Decode`."""

    text: str


class PromptRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The question cannot be answered.

    Attributes:
        reason: for the client.
        param: the member of the request that is wrong; None: unknown.
        code: the name of a `Code`.
    """

    reason: str
    param: str | None = None
    code: str = "INVALID_ARGUMENT"


Question = Chat | Encode | FillIn | TokenizeTexts | Decode
ToPrompt = PromptLoad | Question | StopChild
FromPrompt = (
    PromptReady
    | LoadingPhase
    | LoadFailed
    | Log
    | Prompt
    | TokenizedTexts
    | DecodedTokens
    | PromptRefused
)

to_prompt_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToPrompt)
from_prompt_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromPrompt)
