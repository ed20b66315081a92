"""`PromptBuilder`: a model's tokenizer and chat template. Runs in the prompt process.

`TextEncoder` is the tokenizer with an error when memory is missing; `read_token_pieces` reads the
bytes of each token from the detokenizer's files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

import msgspec
import numpy as np
import openvino_genai as genai
from numpy.typing import NDArray

from calculators.images.media.image import EncodedImage, Image
from calculators.images.media.tags import (
    check_tags,
    check_tokens,
    media_tokens,
    token_count,
    window_of,
    with_sound_tokens,
    without_sound_tags,
    without_tags,
)
from calculators.kit.checkpoints.vocabulary import INFILL_IDS
from calculators.kit.child_process.library_errors import lacks_memory, library_reason
from calculators.kit.model_json import read_model_json
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.detokenizer import TokenTable, make_token_table, pieces_of
from calculators.llm.prompt.chat_template.analysis import (
    CONVERSATION,
    CONVERSATION_WITH_RESULT,
    TOOL,
)
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError, RenderLimits
from calculators.llm.prompt.chat_template.text_guard import (
    ControlTokens,
    GuardedTokens,
    TextGuard,
    written_tokens,
)
from calculators.llm.prompt.fill_in_middle import (
    InfillParts,
    file_text,
    heading_texts,
    infill_prompt,
    infill_tokens,
)
from calculators.llm.prompt.messages import (
    Chat,
    Decode,
    DecodedTokens,
    Encode,
    FillIn,
    Prompt,
    PromptReady,
    PromptRefused,
    Question,
    TokenizedTexts,
    TokenizerTexts,
    TokenizeTexts,
)
from graphrt_base.errors import Code
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file

Ids: TypeAlias = NDArray[np.int64]

#: Characters of a text; shorter ones need too little memory to fail for it.
_LONG: Final = 256 * 1024
#: Texts of so many characters are tokenized together, so many at a time: one takes the room of the
#: longest.
_SHORT: Final = 256
_BATCH: Final = 512
_MARKER: Final = "~ what comes before a long text ~"


class TextEncoder:
    """openvino-genai's tokenizer, with an error when memory is missing.

    With one thread, as on a machine with one processor, the library (2026.4) answers a text for
    which there is not enough memory with the tokens of the previous text, without an error. That
    may have been another client's, so before each long text a marker is tokenized.
    """

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer``: an ``openvino_genai.Tokenizer``."""
        self._tokenizer = tokenizer

    def encode(self, text: str, *, special: bool) -> Ids:
        """Return the ids of a text, shape ``[tokens]``.

        Args:
            special: add the special tokens that begin or end a text.

        Raises:
            MemoryError: there is not enough memory.
            RuntimeError: the library failed, perhaps for want of memory too (`lacks_memory`).
        """
        if len(text) < _LONG:
            return self._encode(text, special=special)
        # Long texts only: they are the ones for which memory runs out, and a marker costs an
        # encoding.
        marker = self._encode(_MARKER, special=special)
        ids = self._encode(text, special=special)
        if np.array_equal(ids, marker):
            raise MemoryError
        return ids

    def encode_many(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, without added tokens.

        Many short texts take far less time together than one by one.

        Raises:
            MemoryError, RuntimeError: as `encode`.
        """
        found: dict[str, Ids] = {}
        short: list[str] = []
        for text in dict.fromkeys(texts):
            if len(text) > _SHORT:
                found[text] = self.encode(text, special=False)
            else:
                short.append(text)
        for start in range(0, len(short), _BATCH):
            batch = short[start : start + _BATCH]
            encoded = self._tokenizer.encode(batch, add_special_tokens=False)
            rows = np.array(encoded.input_ids.data, dtype=np.int64)
            masks = np.array(encoded.attention_mask.data)
            for text, row, mask in zip(batch, rows, masks, strict=True):
                found[text] = row[mask != 0]
        return [found[text] for text in texts]

    def _encode(self, text: str, *, special: bool) -> Ids:
        encoded = self._tokenizer.encode(text, add_special_tokens=special)
        return np.array(encoded.input_ids.data, dtype=np.int64).reshape(-1)


_MODEL: Final = "openvino_detokenizer"
#: Inputs of the operation `VocabDecoder`: first bytes, last bytes and bytes of all tokens.
_INPUTS: Final = ("1", "2", "3")


def read_token_pieces(directory: Path) -> list[bytes] | None:
    """Return the bytes of each token by id, from the files of an OpenVINO detokenizer.

    ``openvino_genai.Tokenizer.get_vocab`` returns a token by its bytes, so of two tokens with the
    same bytes one is missing: SentencePiece has a line end as a text and as a byte. The
    detokenizer's own constants have all of them.

    None if the files have another form.
    """
    try:
        return _read(directory / f"{_MODEL}.xml", directory / f"{_MODEL}.bin")
    except (OSError, ValueError, KeyError, StopIteration, ElementTree.ParseError):
        return None


def _read(graph: Path, weights: Path) -> list[bytes]:
    model = ElementTree.parse(graph).getroot()
    layers = {layer.attrib["id"]: layer for layer in model.iter("layer")}
    decoder = next(each for each in layers.values() if each.get("type") == "VocabDecoder")
    sources = {
        edge.attrib["to-port"]: layers[edge.attrib["from-layer"]]
        for edge in model.iter("edge")
        if edge.get("to-layer") == decoder.attrib["id"]
    }
    arrays = []
    with weights.open("rb") as file:
        for port in _INPUTS:
            data = next(sources[port].iter("data")).attrib
            file.seek(int(data["offset"]))
            arrays.append(file.read(int(data["size"])))
    begins, ends = (np.frombuffer(each, "<i4").tolist() for each in arrays[:2])
    pieces = arrays[2]
    if len(begins) != len(ends) or (ends and max(ends) > len(pieces)):
        raise ValueError
    return [pieces[begin:end] for begin, end in zip(begins, ends, strict=True)]


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
#: Stands in a special token of a text that the engine tokenizes, so that it is none. Has no width.
_CUT: Final = "\u200b"
#: SentencePiece's space.
_META_SPACE: Final = "\u2581".encode()
#: A picture with so many times the pixels that a model looks at is reduced to less: half of each
#: side is left to the model's own, finer reduction.
_REDUCED_FROM: Final = 4
#: Special tokens of which one is tried for `PromptBuilder._lead`.
_FEW: Final = 16
#: Letters that most vocabularies join with no other one.
_LETTERS_BEFORE: Final = ("\n", "\t", "\x01", "\u2060")
#: Between the pieces of a text; no text of JSON has half of a surrogate pair once it was encoded.
_MARK: Final = "\ud800"
_CANNOT_FILL_IN: Final = (
    "this model cannot fill in text: its tokenizer has none of the known tokens for that, such as "
    "<|fim_prefix|>; take a model for code, or leave out the text after the gap"
)
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
        special_tokens_in_text: bool = False,
        template_directory: str = "",
        limits: RenderLimits | None = None,
    ) -> None:
        """Load tokenizer and template.

        Args:
            max_tokens: length of the model; prompts that must be longer are refused.
            sees_images: the model takes images. Then text must not look like an image's tag.
            special_tokens_in_text: special tokens in the text of messages act as such.
            template_directory: see `calculators.llm.prompt.messages.PromptLoad`.
            limits: limits of one rendering.
        """
        self._limits = limits
        self._model_path = Path(model_path)
        # Two streams of one thread: with a single thread openvino-genai 2026.4 answers a text for
        # which memory is missing with the tokens of the text before (decision 0009).
        self._tokenizer = genai.Tokenizer(model_path, **_THREADS)
        self._encoder = TextEncoder(self._tokenizer)
        self._vocabulary: dict[bytes, int] = self._tokenizer.get_vocab()
        self._spaces = {i for i, piece in enumerate(self._pieces) if piece in (_META_SPACE, b" ")}
        self._infill = infill_tokens(
            self._vocabulary,
            read_model_json(self._model_path / "config.json").get(INFILL_IDS) or {},
        )
        self._max_tokens = max_tokens
        self._sees_images = sees_images
        self._media_tokens: dict[int, str] = {}
        self._most_pixels: int | None = None
        self._window = 0
        if sees_images:
            config = _read_config(Path(model_path))
            self._media_tokens = media_tokens(config, self._vocabulary)
            self._window = window_of(config)
            self._most_pixels = _most_pixels(Path(model_path))
        self._max_bytes: int | None = None
        if max_tokens is not None:
            # A token stands for at most as many characters as the longest piece has bytes.
            self._max_bytes = max_tokens * max(map(len, self._vocabulary), default=1)
        self._problem = ""
        self._problem_code = Code.FAILED_PRECONDITION
        self._template = ""
        self._chats: ChatRenderer | None = None
        try:
            template = self._load_template(template_directory)
            self._template = template.files.main.text
            self._chats = ChatRenderer(
                template,
                vocabulary=_VocabularyTexts(self._vocabulary),
                architecture=_architecture(self._model_path),
            )
        except ChatTemplateError as error:
            # Completions need no template; a chat is refused with this text.
            self._problem = str(error)
            if error.code is Code.INVALID_ARGUMENT:
                self._problem_code = error.code
        self._guarded: GuardedTokens | None = None
        if self._chats is not None and not special_tokens_in_text:
            self._guarded = self._guarded_tokens(self._chats)

    def _load_template(self, template_directory: str) -> ChatTemplate:
        template = ChatTemplate.load(self._model_path, self._limits)
        if not template.files.is_default:
            return template
        source = self._tokenizer.chat_template
        if source:
            return ChatTemplate.of_source(
                source,
                bos_token=self._tokenizer.get_bos_token(),
                eos_token=self._tokenizer.get_eos_token(),
                limits=self._limits,
            )
        if not template_directory:
            return template
        template = ChatTemplate.load(Path(template_directory), self._limits)
        if template.files.is_default:
            raise ChatTemplateError(
                "its GGUF file has none, like the files of base models: use completions, or "
                "put the template as chat_template.jinja beside the file",
                code=Code.INVALID_ARGUMENT,
            )
        return template

    def ready(self) -> PromptReady:
        """Return the message that the process sends once it is loaded."""
        ready = PromptReady(
            tokens=self._token_table(),
            template_problem=self._problem,
            infill_ends=None if self._infill is None else self._infill.ends,
            texts=TokenizerTexts(
                _tokenizer_class(self._model_path),
                self._template,
                self._tokenizer.get_bos_token(),
                self._tokenizer.get_eos_token(),
            ),
        )
        if self._chats is None:
            return ready
        return msgspec.structs.replace(
            ready,
            tool_parser=self._chats.tool_parser,
            reasoning_parser=self._chats.analysis.reasoning_parser or "",
            made=self._chats.analysis.made,
            knows_tools=self._chats.knows_tools,
        )

    def answer(self, message: Question) -> Prompt | TokenizedTexts | DecodedTokens | PromptRefused:
        """Answer a question; errors of the request are `PromptRefused`."""
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
                case FillIn():
                    return self._fill_in(message)
                case TokenizeTexts():
                    return TokenizedTexts([self.tokenize(text, message) for text in message.texts])
                case Decode():
                    return DecodedTokens(self.decode(message.ids, message.skip_special_tokens))
        except RequestError as error:
            return PromptRefused(str(error), error.param or "messages")
        except ChatTemplateError as error:
            is_clients = error.code in (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE)
            code = error.code if is_clients else Code.INTERNAL
            param = error.param or ("messages" if isinstance(message, Chat) else "prompt")
            return PromptRefused(str(error), param, code.name)
        except (MemoryError, RuntimeError) as error:
            # Raised by the tokenizer, which can be used again.
            if lacks_memory(error):
                return PromptRefused(_TOO_MUCH_MEMORY)
            reason = f"the tokenizer failed: {library_reason(error)}"
            return PromptRefused(reason, code=Code.INTERNAL.name)

    def _chat(self, chat: Chat) -> Prompt:
        pieces = self._render(chat)
        if not self._sees_images:
            text = "".join(pieces)
            self._check_length(text, will_be_cut=chat.will_be_cut)
            return Prompt(self._encode_pieces(pieces), text)
        # The engine tokenizes the text itself, with the images in it.
        # The engine gets one text, so pieces cannot be tokenized apart: a space of no width breaks
        # special tokens that users wrote (decision 0085).
        marked = _CUT.join(pieces)
        counts = [token_count(samples, self._window) for samples in chat.sounds]
        text = with_sound_tokens(marked, counts)
        unheard = without_sound_tags(marked)
        # openvino-genai 2026.4 copies embeddings for image tags in a text before it counts them,
        # and reads memory that is not its own (decision 0021).
        videos = sum(image.video is not None for image in chat.images)
        check_tags(unheard, len(chat.images) - videos, videos)
        ids = self.encode(without_tags(unheard), special=False, will_be_cut=chat.will_be_cut)
        check_tokens(np.frombuffer(ids, dtype=np.int64).tolist(), self._media_tokens)
        if counts:
            ids = self.encode(without_tags(text), special=False, will_be_cut=chat.will_be_cut)
        return Prompt(ids, text, _decoded(chat.images, self._most_pixels), sum(counts))

    def render(self, chat: Chat) -> str:
        """Render the prompt of a chat; raises as the template does."""
        return "".join(self._render(chat))

    def _render(self, chat: Chat) -> list[str]:
        """Render the prompt of a chat, in pieces that are tokenized one by one.

        Raises:
            ChatTemplateError: there is no usable template, or it refuses the chat.
        """
        if self._chats is None:
            raise ChatTemplateError(
                f"the model has no usable chat template: {self._problem}",
                code=self._problem_code,
            )
        guard = None if self._guarded is None else TextGuard(self._guarded)
        try:
            text = self._chats.render(
                chat.messages,
                tools=chat.tools,
                template_kwargs=chat.template_kwargs,
                continues=chat.continues,
                calls=chat.calls,
                guard=guard,
            )
        except ChatTemplateError as error:
            if guard is None:
                raise
            words = guard.without_marks(error.message)
            raise ChatTemplateError(words, param=error.param, code=error.code) from None
        try:
            text.encode()
        except UnicodeEncodeError:
            # A template can decode JSON in a text, or cut a text apart.
            raise ChatTemplateError(
                "the chat template makes a text with half of a surrogate pair"
            ) from None
        return [text] if guard is None else guard.pieces(text)

    def encode(self, text: str, *, special: bool, will_be_cut: bool = False) -> bytes:
        """Tokenize a prompt; return ids as int64 in native byte order.

        ``will_be_cut``: the prompt may be longer than the model.

        Raises:
            ChatTemplateError: OUT_OF_RANGE, the text is too long for the model in any case.
        """
        self._check_length(text, will_be_cut=will_be_cut)
        return self._encoder.encode(text, special=special).tobytes()

    def _check_length(self, text: str, *, will_be_cut: bool) -> None:
        if self._max_bytes is not None and len(text) > self._max_bytes and not will_be_cut:
            raise ChatTemplateError(
                f"the prompt of {len(text)} characters is longer than the {self._max_tokens} "
                "tokens that the model can hold",
                code=Code.OUT_OF_RANGE,
            )

    def _encode_pieces(self, pieces: Sequence[str]) -> bytes:
        """Tokenize the pieces of one text, as if none had a beginning or an end of its own."""
        # Tokenizing each message apart would change the tokens at the borders of every prompt; a
        # text without marks is one piece (decision 0085).
        first, *others = (pieces[0], *filter(None, pieces[1:]))
        ids = [self._encoder.encode(first, special=False)]
        # Some tokenizers begin each text with a space, some only what no token precedes.
        lead, lead_id = self._lead
        encoded = self._encoder.encode_many([lead + piece for piece in others])
        for piece, each in zip(others, encoded, strict=True):
            own = each[1:] if lead and each[0] == lead_id else each
            ids.append(self._without_space(own, piece) if self._has_space(own, piece) else own)
        return np.concatenate(ids).tobytes()

    def _has_space(self, ids: NDArray[np.int64], piece: str) -> bool:
        """Return True if the tokens of a piece begin with a space more than the piece."""
        spaces = 0
        for token in ids.tolist():
            text = self._pieces[token].replace(_META_SPACE, b" ")
            rest = text.lstrip(b" ")
            spaces += len(text) - len(rest)
            if rest:
                break
        return spaces > len(piece) - len(piece.lstrip(" "))

    def _without_space(self, ids: NDArray[np.int64], piece: str) -> NDArray[np.int64]:
        """Return the tokens of a piece without the space that its tokenizer begins texts with."""
        if int(ids[0]) in self._spaces:
            return ids[1:]
        # The space has become a part of a longer token, so it must stand before another letter.
        for letter in _LETTERS_BEFORE:
            each = self._encoder.encode(letter + piece, special=False)
            begin = b""
            for count, token in enumerate(each.tolist()[:_FEW], 1):
                begin += self._pieces[token].replace(_META_SPACE, b" ")
                if begin.lstrip(b" ") == letter.encode():
                    return each[count:]
        return ids

    # Filling in text -----------------------------------------------------------------------------

    def _fill_in(self, question: FillIn) -> Prompt:
        tokens = self._infill
        if tokens is None:
            raise RequestError(_CANNOT_FILL_IN, param="suffix")
        prefix, suffix = question.prefix, question.suffix
        most = self._max_bytes
        if question.room is not None and most is not None:
            # The rest is cut anyway; a text of megabytes would take a second.
            prefix, suffix = prefix[-most:], suffix[:most]
        self._check_length(prefix + suffix + question.middle, will_be_cut=question.room is not None)
        project, open_file = heading_texts(tokens)
        parts = InfillParts(
            prefix=self._text_ids(prefix, begins_with_space=tokens.begins_with_space),
            suffix=self._text_ids(suffix),
            middle=self._text_ids(question.middle),
            files=[self._text_ids(file_text(tokens, *each)) for each in question.files],
            project=self._text_ids(project),
            open_file=self._text_ids(open_file),
        )
        begin = self._encoder.encode("", special=True).tolist()
        bos = self._tokenizer.get_bos_token_id()
        ids = infill_prompt(tokens, parts, [each for each in begin if each == bos], question.room)
        return Prompt(np.array(ids, dtype=np.int64).tobytes(), self.decode(ids, False))

    def _text_ids(self, text: str, *, begins_with_space: bool = False) -> list[int]:
        """Tokenize a client's text without a space in front, and without any special token."""
        pieces = self._textual.marked(text, _MARK).split(_MARK)
        first = [] if begins_with_space and text else [""]
        ids: list[int] = np.frombuffer(self._encode_pieces([*first, *pieces]), np.int64).tolist()
        return ids

    @cached_property
    def _textual(self) -> ControlTokens:
        """The tokens that are text in a text that is filled in."""
        texts = {text: each for each, text in self._special.items()}
        if self._infill is not None:
            ends = {
                self._pieces[each].decode("utf-8", "replace"): each for each in self._infill.ends
            }
            texts |= ends
        return ControlTokens(self._tokens_in_text(texts))

    # Tokens that text must not have ---------------------------------------------------------------

    def _guarded_tokens(self, chats: ChatRenderer) -> GuardedTokens:
        # What a template writes around turns is not always a special token of the tokenizer
        # (decision 0085).
        turns, results = (_written(chats, with_results=each) for each in (False, True))
        reasoning = {"<think>", "</think>", "[THINK]", "[/THINK]"}
        marks = chats.analysis.marks or ()
        if all(mark.encode() in self._vocabulary for mark in marks):
            reasoning.update(marks)
        return GuardedTokens.of(
            self._tokens_in_text({text: each for each, text in self._special.items()}),
            turns=self._tokens_in_text(self._in_vocabulary(turns)),
            results=self._tokens_in_text(self._in_vocabulary(results)),
            reasoning=reasoning,
        )

    def _in_vocabulary(self, texts: Iterable[str]) -> dict[str, int]:
        ids = {text: self._vocabulary.get(text.encode()) for text in texts}
        return {text: each for text, each in ids.items() if each is not None}

    def _tokens_in_text(self, ids: Mapping[str, int]) -> list[str]:
        """Return the texts that the tokenizer makes this one token of."""
        texts = list(ids)
        encoded = self._encoder.encode_many(texts)
        return [text for text, each in zip(texts, encoded, strict=True) if ids[text] in each]

    @cached_property
    def _lead(self) -> tuple[str, int]:
        """A special token, for the beginning of texts, and its id; an empty text: there is none."""
        texts = list(self._special.values())[:_FEW]
        for text, each in zip(texts, self._encoder.encode_many(texts), strict=True):
            if len(each) == 1:
                return text, int(each[0])
        return "", 0

    def tokenize(self, text: str, message: TokenizeTexts) -> bytes:
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

    @cached_property
    def _pieces(self) -> list[bytes]:
        """The bytes of each token by its id."""
        return read_token_pieces(self._model_path) or pieces_of(self._vocabulary)

    def _token_table(self) -> TokenTable:
        pieces = self._pieces
        return make_token_table(pieces, self._special, self.decode, self._samples(len(pieces)))

    @cached_property
    def _special(self) -> dict[int, str]:
        """The texts of special tokens by their ids."""
        each: list[Any] = [[token_id] for token_id in range(len(self._pieces))]
        shown = self._tokenizer.decode(each, skip_special_tokens=False)
        hidden = self._tokenizer.decode(each, skip_special_tokens=True)
        return {
            token_id: text for token_id, text in enumerate(shown) if text and not hidden[token_id]
        }

    def _samples(self, size: int) -> Iterator[list[int]]:
        for text in _TEXTS:
            ids = np.frombuffer(self.encode(text, special=True), dtype=np.int64)
            if len(ids):
                yield ids.tolist()
        chance = random.Random(0)
        for _ in range(_RANDOM_SAMPLES if size else 0):
            # Random tokens find byte tokens and joins that no text of a language has. If the table
            # differs anywhere, the tokenizer decodes instead (decision 0005).
            yield [chance.randrange(size) for _ in range(chance.randint(1, 24))]


def _written(chats: ChatRenderer, *, with_results: bool) -> set[str]:
    """Return what looks like tokens in a short chat, between the texts of its messages."""
    chat = CONVERSATION_WITH_RESULT if with_results else CONVERSATION
    tools = [TOOL] if with_results else None
    try:
        # The beginning of an answer may have marks of reasoning.
        arguments = {"add_generation_prompt": False}
        return written_tokens(chats.render(chat, tools=tools, template_kwargs=arguments))
    except ChatTemplateError:
        return set()


def _decoded(images: list[EncodedImage], most: int | None) -> tuple[Image, ...]:
    if not images:
        return ()
    # Imported here: only models that take images need it.
    from calculators.images.media.decoding import decode_images

    return decode_images(images, most)


def _most_pixels(directory: Path) -> int | None:
    """Return the pixels from which a model makes fewer by itself, with room for a good reduction.

    The engine keeps memory for the largest picture that it was given. None: unknown.
    """
    own = read_model_json(directory / "preprocessor_config.json").get("max_pixels")
    return own * _REDUCED_FROM if isinstance(own, int) and own > 0 else None


class _VocabularyTexts:
    """The texts of a vocabulary."""

    def __init__(self, ids: Mapping[bytes, int]) -> None:
        self._ids = ids

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and text.encode() in self._ids


def _tokenizer_class(model: Path) -> str:
    """Return the class that a tokenizer's files name; "" for none."""
    found = read_model_json(model / "tokenizer_config.json").get("tokenizer_class")
    return found if isinstance(found, str) else ""


def _architecture(model: Path) -> str:
    """Return what the configuration of a model names first; "" for none."""
    found = read_model_json(model / "config.json").get("architectures")
    return str(found[0]) if isinstance(found, list) and found else ""


def _read_config(directory: Path) -> dict[str, Any]:
    config = json.loads(read_regular_file(directory / "config.json", MODEL_FILE_BYTES))
    return config if isinstance(config, dict) else {}
