"""Parts of the JSON of answers that several APIs share.

Texts are quoted by hand (`quote`), because an event has little else; identity and frame of an event
are constant text of one answer (`ResponseHead`, `EventFrame`).
"""

from __future__ import annotations

import json
import math
import re
import struct
import time
from binascii import b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, Never

import msgspec

from calculators.language.delta import (
    Begun,
    FinishReason,
    TokenLogprob,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
)
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.generation_request import GenerationRequest

# Half of a surrogate pair cannot be encoded as UTF-8. The three line ends are harmless in JSON and
# in SSE, but clients that split the stream with their language's idea of lines break there.
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


def quote(text: str) -> str:
    """Return the JSON literal of a text, with quotes. Lone surrogates become U+FFFD."""
    quoted = encode_basestring(text)
    if quoted.isascii() or not _UNSAFE.search(quoted):
        return quoted
    return _UNSAFE.sub(_escape, quoted)


def value_json(value: object) -> str:
    """Return the JSON of a value of any JSON type, with texts as `quote` writes them."""
    return _UNSAFE.sub(_escape, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


#: OpenAI's own value for a token that cannot be chosen; JSON has no infinity.
IMPOSSIBLE: Final = -9999.0


def chat_logprobs_json(tokens: Sequence[TokenLogprob]) -> str:
    """Return the value of the member ``logprobs`` of a chat choice."""
    return f'{{"content":[{logprob_items_json(tokens)}],"refusal":null}}'


def logprob_items_json(tokens: Sequence[TokenLogprob]) -> str:
    """Return the items of chat choices and responses. An unknown value becomes `IMPOSSIBLE`."""
    return ",".join(
        f'{{"token":{quote(token.token)},"logprob":{_printed(token.logprob) or IMPOSSIBLE}'
        f',"bytes":[{",".join(map(str, token.bytes))}],"top_logprobs":[]}}'
        for token in tokens
    )


def completion_logprobs_json(
    tokens: Sequence[TokenLogprob], *, top: bool, first_offset: int = 0
) -> str:
    """Return the value of the member ``logprobs`` of a completion choice.

    Offsets are in characters, so that clients can index the text with them (OpenVINO Model Server
    counts bytes). ``top`` repeats each token as the only one of its ``top_logprobs``.
    """
    texts = [quote(token.token) for token in tokens]
    values = [_printed(token.logprob) or "null" for token in tokens]
    offsets = []
    offset = first_offset
    for token in tokens:
        offsets.append(str(offset))
        offset += characters_started(token)
    tops = "null"
    if top:
        pairs = zip(texts, values, strict=True)
        joined = (f"{{{text}:{value}}}" if value != "null" else value for text, value in pairs)
        tops = f"[{','.join(joined)}]"
    return (
        f'{{"tokens":[{",".join(texts)}],"token_logprobs":[{",".join(values)}]'
        f',"top_logprobs":{tops},"text_offset":[{",".join(offsets)}]}}'
    )


def characters_started(token: TokenLogprob) -> int:
    """Count the characters that begin in a token: its bytes without continuation bytes."""
    return sum(byte & 0xC0 != 0x80 for byte in token.bytes)


def _printed(value: float | None) -> str | None:
    """Return a JSON number, or None for an unknown log-probability."""
    if value is None or math.isnan(value) or value > 0:
        return None
    return repr(max(float(value), IMPOSSIBLE))


def usage_json(usage: Usage) -> str:
    """Return the object of the member ``usage``. Unknown counts are left out."""
    cached = _details(
        "prompt_tokens_details", cached_tokens=usage.cached_tokens, audio_tokens=usage.heard_tokens
    )
    thought = _details(
        "completion_tokens_details",
        reasoning_tokens=usage.reasoning_tokens,
        audio_tokens=usage.spoken_tokens,
    )
    return (
        f'{{"prompt_tokens":{usage.prompt_tokens},"completion_tokens":{usage.completion_tokens}'
        f',"total_tokens":{usage.prompt_tokens + usage.completion_tokens}{cached}{thought}}}'
    )


def _details(name: str, **counts: int | None) -> str:
    known = [f'"{what}":{count}' for what, count in counts.items() if count is not None]
    return f',"{name}":{{{",".join(known)}}}' if known else ""


_encode: Final = msgspec.json.Encoder().encode
#: Bytes that are whole samples, and whole groups of Base64.
_GROUP: Final = 6
#: Samples of speech per second, in Hz, and their bytes.
_SPEECH_RATE: Final = 24_000
_SAMPLE_BYTES: Final = 2
_RIFF_SIZE: Final = 46


class SpokenBase64:
    """The sound of a choice in Base64, while it grows.

    It is encoded piece by piece, because a long sound would hold the event loop up at its end.
    """

    __slots__ = ("_pieces", "_rest", "_size")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._rest = b""
        self._size = 0

    def add(self, pcm: bytes) -> str:
        """Add samples; return what can be sent now: whole samples, without padding."""
        self._size += len(pcm)
        content = self._rest + pcm
        end = len(content) // _GROUP * _GROUP
        self._rest = content[end:]
        return b2a_base64(content[:end], newline=False).decode()

    def keep(self, pcm: bytes) -> str:
        """Add samples, for `whole` too; return what can be sent now."""
        data = self.add(pcm)
        self._pieces.append(data)
        return data

    def rest(self) -> str:
        """Return what is still to be sent at the end."""
        return b2a_base64(self._rest, newline=False).decode()

    def whole(self, form: str) -> str:
        """Return the sound as a file: "wav", or "pcm16" without a head."""
        head = ""
        if form == "wav":
            # A chunk without a meaning makes the head a multiple of 3 bytes.
            head_bytes = struct.pack(
                "<4sI4s4sIHHIIHH4sI2s4sI",
                *(b"RIFF", _RIFF_SIZE + self._size, b"WAVE", b"fmt ", 16, 1, 1, _SPEECH_RATE),
                *(_SPEECH_RATE * _SAMPLE_BYTES, _SAMPLE_BYTES, 8 * _SAMPLE_BYTES),
                *(b"JUNK", 2, b"\0\0", b"data", self._size),
            )
            head = b2a_base64(head_bytes, newline=False).decode()
        return "".join([head, *self._pieces, self.rest()])


class AnswerDetails:
    """The further members of one answer, as JSON with a comma before each.

    Only answers to requests that ask for some of them have this object. Token ids wait here for the
    next event of their choice.

    Attributes:
        usage: the counts so far.
    """

    __slots__ = ("_has_token_ids", "_has_usage", "_prompts", "_shown", "_waiting", "usage")

    def __init__(
        self, request: GenerationRequest, prompts: Sequence[bytes] | None, choices: int
    ) -> None:
        """
        Args:
            prompts: the ids of each prompt, as 64-bit integers in the machine's byte order; None:
                unknown, because images stand for tokens that only the engine counts.
            choices: the number of choices for all prompts.
        """
        self._has_token_ids = request.returns_token_ids
        self._has_usage = request.has_running_usage
        self._prompts = prompts
        self._waiting: list[list[int]] = [[] for _ in range(choices)]
        self._shown: set[int] = set()
        self.usage = Usage(0, 0)

    def add(self, index: int, token_ids: Sequence[int]) -> None:
        """Add the ids of new tokens of a choice."""
        if self._has_token_ids:
            self._waiting[index] += token_ids

    def take(self, index: int) -> str:
        """Return the member ``token_ids`` of a choice, with the ids since the last time."""
        if not self._has_token_ids:
            return ""
        return f',"token_ids":{_encode(self.take_ids(index)).decode()}'

    def take_ids(self, index: int) -> list[int]:
        """Return the ids of a choice's tokens since the last time."""
        ids, self._waiting[index] = self._waiting[index], []
        return ids

    def prompt(self, number: int = 0) -> str:
        """Return the member ``prompt_token_ids`` of a prompt."""
        if not self._has_token_ids:
            return ""
        if self._prompts is None:
            return ',"prompt_token_ids":null'
        return f',"prompt_token_ids":{_encode(self._prompt_ids(number)).decode()}'

    def context(self, ids: Sequence[int] | None = None) -> str:
        """Return Ollama's member ``context``: the ids of the first prompt and of its answer.

        ``ids``: the answer's; None: those since the last time.
        """
        if not self._has_token_ids or self._prompts is None:
            return ""
        said = [*self._prompt_ids(0), *(self._waiting[0] if ids is None else ids)]
        return f',"context":{_encode(said).decode()}'

    def _prompt_ids(self, number: int) -> list[int]:
        assert self._prompts is not None
        return memoryview(self._prompts[number]).cast("q").tolist()

    def prompt_once(self, place: int, number: int = 0) -> str:
        """Return the member of `prompt` for the first event at a place, and "" for later ones."""
        if place in self._shown:
            return ""
        self._shown.add(place)
        return self.prompt(number)

    def running_usage(self, otherwise: str) -> str:
        """Return the member ``usage`` of an event; ``otherwise`` if events have no counts."""
        return f',"usage":{usage_json(self.usage)}' if self._has_usage else otherwise


#: The last event of every stream.
DONE: Final = "data: [DONE]\n\n"
_END: Final = "}\n\n"
_NO_USAGE: Final = ',"usage":null'
#: For names of models and fingerprints: a server has few.
_quoted_name: Final = lru_cache(maxsize=256)(quote)


class ResponseHead(msgspec.Struct, frozen=True):
    """The identity of one answer, in its body or in each of its events.

    Attributes:
        id: see `calculators.llm.api.neutral_request.new_answer_id`.
        model: as the client named it.
        created: seconds since 1970; now, unless given.
        system_fingerprint: changes when the same request may be answered differently.
    """

    id: str
    model: str
    created: int = msgspec.field(default_factory=lambda: int(time.time()))
    system_fingerprint: str | None = None

    def json(self, kind: str) -> str:
        """Return the members as JSON without braces; ``kind`` is the value of ``object``."""
        fingerprint = self.system_fingerprint
        shown = "null" if fingerprint is None else _quoted_name(fingerprint)
        return (
            f'"id":{quote(self.id)},"object":"{kind}","created":{self.created}'
            f',"model":{_quoted_name(self.model)},"system_fingerprint":{shown}'
        )


def response_head(begun: Begun) -> ResponseHead:
    """Return the identity of an answer that begins."""
    request = begun.request
    return ResponseHead(request.id, answering_model(begun), request.created, begun.fingerprint)


def answering_model(begun: Begun) -> str:
    """Return the name of the model that an answer has."""
    return begun.model or begun.request.answer_model or begun.request.model


@dataclass(slots=True)
class MadeCall:
    """A call of a tool; ``arguments`` is the text of a JSON object, maybe cut short."""

    call_id: str
    name: str
    arguments: str = ""


def object_json(arguments: str) -> str:
    """Return the arguments of a call as the JSON of an object, for APIs where they are one.

    Arguments that are none, because the model stopped early or wrote something else, become
    ``{"INVALID_JSON": text}``, the form in which Anthropic's clients show them to the model.
    """
    if not arguments.strip():
        return "{}"
    try:
        value = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    return arguments if isinstance(value, dict) else f'{{"INVALID_JSON":{quote(arguments)}}}'


def _refuse(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


@dataclass(slots=True)
class AnswerChoice:
    """One answer of a whole response.

    Attributes:
        events: the output in order; with the prompt if it is echoed, and with the calls that this
            server ran if the answer shows them.
        logprobs: None unless the request asks for them.
        stop_string: the stop string that ended the choice, if one did.
        token_ids: the tokens of the completion; only for requests that ask for them.
        refusal: the refusal that ended it, if one did.
        sound: the text as sound, if it was spoken.
    """

    events: list[OutputEvent | ToolCalled | ToolRan] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.STOP
    logprobs: list[TokenLogprob] | None = None
    stop_string: str | None = None
    token_ids: list[int] = field(default_factory=list)
    refusal: Refused | None = None
    sound: SpokenBase64 | None = None

    @property
    def content(self) -> str:
        """The text for the user."""
        return "".join([event.text for event in self.events if isinstance(event, Content)])

    @property
    def reasoning(self) -> str:
        """The text of the reasoning."""
        return "".join([event.text for event in self.events if isinstance(event, Reasoning)])

    @property
    def tool_calls(self) -> list[MadeCall]:
        """The calls, in order."""
        calls: list[MadeCall] = []
        for event in self.events:
            if isinstance(event, ToolCall):
                calls.append(MadeCall(event.call_id, event.name))
            elif isinstance(event, Arguments):
                calls[-1].arguments += event.text
        return calls


def verbose_json(verbose: Verbose | None) -> str:
    """Return the member ``__verbose`` with a comma before it; "" if nothing is shown.

    The option ``--verbose_response`` shows the prompt and the raw text of the first choice.
    """
    if verbose is None:
        return ""
    prompt, content = quote(verbose.prompt), quote(verbose.content)
    return f',"__verbose":{{"prompt":{prompt},"content":{content}}}'


class EventFrame:
    """The constant text around the one choice that an event carries.

    Attributes:
        opening: the text before the choice's index.
        closing: the text after the choice; with ``"usage":null`` in a stream whose last event has
            the usage.
    """

    __slots__ = ("_head", "_usage", "closing", "opening")

    def __init__(self, head: ResponseHead, kind: str, *, include_usage: bool) -> None:
        self._head = head.json(kind)
        self.opening = f'data: {{{self._head},"choices":[{{"index":'
        self._usage = _NO_USAGE if include_usage else ""
        self.closing = f"}}]{self._usage}{_END}"

    def detailed(self, details: AnswerDetails, choice: str, answer: str = "") -> str:
        """Return the `closing` with further members of the choice, of the answer, and the usage."""
        return f"{choice}}}]{details.running_usage(self._usage)}{answer}{_END}"

    def closing_with(self, verbose: Verbose, closing: str) -> str:
        """Return a closing with the prompt and the raw text."""
        return f"{closing.removesuffix(_END)}{verbose_json(verbose)}{_END}"

    def usage(self, usage: Usage) -> str:
        """Return the event with the usage and without choices."""
        return f'data: {{{self._head},"choices":[],"usage":{usage_json(usage)}}}\n\n'
