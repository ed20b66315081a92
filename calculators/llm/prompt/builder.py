"""`PromptBuilder`: a model's tokenizer and chat template. Runs in the prompt process."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import openvino_genai as genai

from calculators.child_process.library_errors import library_reason
from calculators.llm.prompt.chat_template import ChatRenderer, ChatTemplate, ChatTemplateError
from calculators.llm.prompt.chat_template.limits import RenderLimits
from calculators.llm.prompt.messages import (
    Chat,
    Decode,
    Encode,
    Prompt,
    Question,
    Ready,
    Refused,
    Text,
    Tokenize,
    Tokens,
)
from calculators.llm.prompt.text_encoder import TextEncoder
from calculators.llm.text.token_pieces import read_token_pieces
from calculators.llm.text.token_table import TokenTable, make_token_table, pieces_of
from calculators.media.image import EncodedImage, Image
from calculators.media.tags import check_tags, check_tokens, media_tokens, without_tags
from calculators.requests.http_payload import RequestError
from graph_runtime import Code
from graph_runtime.regular_file import MODEL_FILE_BYTES, read_regular_file

#: Texts on whose tokens the token table is checked, beside random tokens.
_TEXTS: Final = (
    "The quick brown fox; 3.14 (x != y), it's  two  spaces.\n\n\tEnd .",
    " leading space, don't , do n't",
    "Grüße, žluťoučký kůň, 你好，世界, こんにちは, 안녕, שלום, مرحبا",  # noqa: RUF001
    "emoji 👩‍👩‍👧‍👦 🏳️‍🌈 \u0000 \u200b \ufeff",
    "",
)
_RANDOM_SAMPLES: Final = 200
#: One thread for each of two streams: the threads of one stream wake each other for every text, and
#: spin while they wait for more. A single thread hides failures (`TextEncoder`).
_THREADS: Final = {"NUM_STREAMS": 2, "INFERENCE_NUM_THREADS": 2}
_TOO_MUCH_MEMORY: Final = "the prompt needs too much memory"


class PromptBuilder:
    """Answers one question at a time.

    Raises (on construction):
        RuntimeError: openvino-genai cannot load the tokenizer.
        ChatTemplateError: a file of the template is broken.
    """

    def __init__(
        self,
        model_path: str,
        max_tokens: int | None = None,
        *,
        sees_images: bool = False,
        limits: RenderLimits | None = None,
    ) -> None:
        """Load tokenizer and template.

        Args:
            max_tokens: length of the model; prompts that must be longer are refused.
            sees_images: the model takes images. Then text must not look like an image's tag.
            limits: limits of one rendering.
        """
        self._limits = limits
        self._model_path = Path(model_path)
        self._tokenizer = genai.Tokenizer(model_path, **_THREADS)
        self._encoder = TextEncoder(self._tokenizer)
        self._vocabulary: dict[bytes, int] = self._tokenizer.get_vocab()
        self._max_tokens = max_tokens
        self._sees_images = sees_images
        self._media_tokens: dict[int, str] = {}
        if sees_images:
            self._media_tokens = media_tokens(_read_config(Path(model_path)), self._vocabulary)
        self._max_bytes: int | None = None
        if max_tokens is not None:
            # A token stands for at most as many characters as the longest piece has bytes.
            self._max_bytes = max_tokens * max(map(len, self._vocabulary), default=1)
        self._problem = ""
        self._chats: ChatRenderer | None = None
        try:
            self._chats = ChatRenderer(self._load_template(Path(model_path)))
        except ChatTemplateError as error:
            # Completions need no template; a chat is refused with this text.
            self._problem = str(error)

    def _load_template(self, path: Path) -> ChatTemplate:
        if path.is_dir():
            template = ChatTemplate.load(path, self._limits)
            if not template.files.is_default:
                return template
        else:
            template = None
        source = self._tokenizer.chat_template
        if source:
            return ChatTemplate.of_source(
                source,
                bos_token=self._tokenizer.get_bos_token(),
                eos_token=self._tokenizer.get_eos_token(),
                limits=self._limits,
            )
        return template or ChatTemplate.load(path.parent, self._limits)

    def ready(self) -> Ready:
        """Return the message that the process sends once it is loaded."""
        ready = Ready(tokens=self._token_table(), template_problem=self._problem)
        if self._chats is None:
            return ready
        return msgspec.structs.replace(
            ready,
            tool_parser=self._chats.tool_parser,
            reasoning_parser=self._chats.analysis.reasoning_parser or "",
            knows_tools=self._chats.knows_tools,
        )

    def answer(self, message: Question) -> Prompt | Tokens | Text | Refused:
        """Answer a question; errors of the request are `Refused`."""
        try:
            match message:
                case Chat():
                    return self._chat(message)
                case Encode():
                    ids = self.encode(
                        message.text,
                        special=message.add_special_tokens,
                        will_be_cut=message.will_be_cut,
                    )
                    return Prompt(ids, message.text)
                case Tokenize():
                    return Tokens([self.tokenize(text, message) for text in message.texts])
                case Decode():
                    return Text(self.decode(message.ids, message.skip_special_tokens))
        except RequestError as error:
            return Refused(str(error), error.param or "messages")
        except ChatTemplateError as error:
            is_clients = error.code in (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE)
            code = error.code if is_clients else Code.INTERNAL
            param = error.param or ("messages" if isinstance(message, Chat) else "prompt")
            return Refused(str(error), param, code.name)
        except MemoryError:
            return Refused(_TOO_MUCH_MEMORY)
        except RuntimeError as error:
            # Raised by the tokenizer, which can be used again.
            if "bad_alloc" in str(error):
                return Refused(_TOO_MUCH_MEMORY)
            reason = f"the tokenizer failed: {library_reason(error)}"
            return Refused(reason, code=Code.INTERNAL.name)

    def _chat(self, chat: Chat) -> Prompt:
        text = self.render(chat)
        if not self._sees_images:
            ids = self.encode(text, special=False, will_be_cut=chat.will_be_cut)
            return Prompt(ids, text)
        check_tags(text, len(chat.images))
        ids = self.encode(without_tags(text), special=False)
        check_tokens(np.frombuffer(ids, dtype=np.int64).tolist(), self._media_tokens)
        return Prompt(ids, text, _decoded(chat.images))

    def render(self, chat: Chat) -> str:
        """Render the prompt of a chat.

        Raises:
            ChatTemplateError: there is no usable template, or it refuses the chat.
        """
        if self._chats is None:
            raise ChatTemplateError(
                f"the model has no usable chat template: {self._problem}",
                code=Code.FAILED_PRECONDITION,
            )
        text = self._chats.render(
            chat.messages,
            tools=chat.tools,
            template_kwargs=chat.template_kwargs,
            continues=chat.continues,
            call_form=chat.call_form,
        )
        try:
            text.encode()
        except UnicodeEncodeError:
            # A template can decode JSON in a text, or cut a text apart.
            raise ChatTemplateError(
                "the chat template makes a text with half of a surrogate pair"
            ) from None
        return text

    def encode(self, text: str, *, special: bool, will_be_cut: bool = False) -> bytes:
        """Tokenize a prompt; return ids as int64 in native byte order.

        ``will_be_cut``: the prompt may be longer than the model.

        Raises:
            ChatTemplateError: OUT_OF_RANGE, the text is too long for the model in any case.
        """
        if self._max_bytes is not None and len(text) > self._max_bytes and not will_be_cut:
            raise ChatTemplateError(
                f"the prompt of {len(text)} characters is longer than the {self._max_tokens} "
                "tokens that the model can hold",
                code=Code.OUT_OF_RANGE,
            )
        return self._encoder.encode(text, special=special).tobytes()

    def tokenize(self, text: str, message: Tokenize) -> bytes:
        """Tokenize a text; return ids as a JSON array, truncated and padded as asked.

        The library's own truncation depends on how the tokenizer was converted
        (openvino-genai 2026.4: many do not truncate).
        """
        ids = self._encoder.encode(text, special=message.add_special_tokens)
        length = message.max_length
        if length is not None:
            ids = ids[:length]
            if message.pads:
                missing = length - len(ids)
                sides = (missing, 0) if message.padding_side == "left" else (0, missing)
                padding = max(0, self._tokenizer.get_pad_token_id())
                ids = np.pad(ids, sides, constant_values=padding)
        return msgspec.json.encode(ids.tolist())

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        """Return the text of token ids."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    # The token table ------------------------------------------------------------------------------

    def _token_table(self) -> TokenTable:
        pieces = read_token_pieces(self._model_path) or pieces_of(self._vocabulary)
        size = len(pieces)
        return make_token_table(pieces, self._special(size), self.decode, self._samples(size))

    def _special(self, size: int) -> Iterator[int]:
        each: list[Any] = [[token_id] for token_id in range(size)]
        shown = self._tokenizer.decode(each, skip_special_tokens=False)
        hidden = self._tokenizer.decode(each, skip_special_tokens=True)
        for token_id in range(size):
            if shown[token_id] and not hidden[token_id]:
                yield token_id

    def _samples(self, size: int) -> Iterator[list[int]]:
        for text in _TEXTS:
            ids = np.frombuffer(self.encode(text, special=True), dtype=np.int64)
            if len(ids):
                yield ids.tolist()
        chance = random.Random(0)
        for _ in range(_RANDOM_SAMPLES if size else 0):
            yield [chance.randrange(size) for _ in range(chance.randint(1, 24))]


def _decoded(images: list[EncodedImage]) -> tuple[Image, ...]:
    if not images:
        return ()
    # Imported here: only models that take images need it.
    from calculators.media.decoding import decode_images

    return decode_images(images)


def _read_config(directory: Path) -> dict[str, Any]:
    config = json.loads(read_regular_file(directory / "config.json", MODEL_FILE_BYTES))
    return config if isinstance(config, dict) else {}
