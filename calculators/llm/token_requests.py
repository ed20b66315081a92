"""Texts and tokens: ``/tokenize`` and ``/detokenize`` in the forms of several servers.

The member with the text says which server's form is meant: ``text`` is OpenVINO Model Server's,
``prompt`` and ``messages`` vLLM's, ``content`` llama.cpp's, ``inputs`` Hugging Face's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    BOOLEAN,
    DEFAULT_MODEL,
    EVERYWHERE,
    STRING,
    Array,
    Members,
    Value,
    honoured,
    ignored,
    read_members,
    table,
)
from calculators.kit.requests.schema import array, integer, string
from calculators.kit.requests.tokenize_request import (
    MAX_CHARACTERS,
    MAX_PADDED,
    TOKENIZE_MEMBERS,
    TokenizeRequest,
    parse_tokenize_request,
    tokenize_response,
)
from calculators.llm.requests.completions_request import (
    CHAT_MEMBERS,
    ChatRequest,
    parse_chat_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

if TYPE_CHECKING:
    from calculators.llm.servable import LlmServable

_TEXT: Final = Value(string(maxLength=MAX_CHARACTERS), STRING.read)
#: Members of a chat that change its prompt.
_OF_CHATS: Final = (
    *("messages", "tools", "tool_choice", "add_generation_prompt", "continue_final_message"),
    *("chat_template_kwargs", "documents", "reasoning_effort", "enable_thinking"),
)
_ANY: Final = ({"role": "user", "content": "any"},)
#: Members with a text; one of them says whose form is meant.
TEXTS: Final = ("text", "prompt", "messages", "content", "inputs")

MEMBERS: Final[Members] = table(
    EVERYWHERE,
    (member for name, member in CHAT_MEMBERS.items() if name in _OF_CHATS),
    (member for name, member in TOKENIZE_MEMBERS.items() if name != "text"),
    DEFAULT_MODEL,
    honoured("text", TOKENIZE_MEMBERS["text"].reader, "A text, or several."),
    honoured("messages", CHAT_MEMBERS["messages"].reader, "The prompt of a chat; vLLM's form."),
    honoured("prompt", _TEXT, "A text; vLLM's form."),
    honoured("content", _TEXT, "A text; llama.cpp's form."),
    honoured("inputs", _TEXT, "A text; text-generation-inference's form."),
    honoured("return_token_strs", BOOLEAN, "With the text of each token; vLLM's form."),
    honoured(
        "add_special", BOOLEAN, "As `add_special_tokens`, which is false in llama.cpp's form."
    ),
    honoured("with_pieces", BOOLEAN, "With the text of each token; llama.cpp's form."),
    ignored("is so in any case: special tokens of the text are read as such", "parse_special"),
)
DETOKENIZE_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    DEFAULT_MODEL,
    honoured(
        "tokens",
        Value(array(integer(minimum=0), maxItems=MAX_PADDED), Array().read),
        "Ids of the model's vocabulary.",
        is_required=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensRequest:
    """A checked request.

    Attributes:
        form: the member with the text.
        texts: of the form ``text``; None for the others.
        chat: of the form ``messages``.
        text: of the other forms.
        with_texts: the answer has the text of each token.
    """

    form: str
    texts: TokenizeRequest | None = None
    chat: ChatRequest | None = None
    text: str = ""
    adds_special: bool = True
    with_texts: bool = False


def parse_tokens_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> TokensRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong.
    """
    given = fields.body_object(value)
    body = read_members(given, MEMBERS)
    forms = [name for name in TEXTS if name in body]
    if len(forms) > 1:
        raise fields.combined(forms[1], forms[0])
    form = forms[0] if forms else "text"
    if form != "messages":  # what is about a chat has no effect, and may be wrong
        chat_of({**given, "messages": list(_ANY)}, limits, defaults)
    with_texts = body.get("return_token_strs", False) or body.get("with_pieces", False)
    match form:
        case "text":
            own = {name: each for name, each in given.items() if name in TOKENIZE_MEMBERS}
            texts = parse_tokenize_request({**own, "model": "any"})
            return TokensRequest(form=form, texts=texts)
        case "messages":
            return TokensRequest(
                form=form, chat=chat_of(given, limits, defaults), with_texts=with_texts
            )
        case _:
            fields.check_most(form, len(body[form]), "characters", MAX_CHARACTERS)
            adds = body.get("add_special", body.get("add_special_tokens", form != "content"))
            return TokensRequest(
                form=form, text=body[form], adds_special=adds, with_texts=with_texts
            )


def chat_of(body: Mapping[str, Any], limits: RequestLimits, defaults: ModelDefaults) -> ChatRequest:
    """Return the chat of a body for its prompt only; raises as `parse_chat_request`."""
    members = {name: body[name] for name in _OF_CHATS if name in body}
    return parse_chat_request({"model": "any", **members}, limits, defaults)


async def answer_tokens(servable: LlmServable, request: TokensRequest) -> str:
    """Return the body of the answer.

    Raises:
        RequestError: the template refuses the chat, or too many questions wait.
    """
    if request.texts is not None:
        texts = request.texts
        found = await servable.prompts.tokenize(
            texts.texts,
            add_special_tokens=texts.add_special_tokens,
            max_length=texts.max_length,
            pads=texts.pad_to_max_length,
            padding_side=texts.padding_side,
        )
        return tokenize_response(found)
    if (chat := request.chat) is not None:
        prompt = await servable.chat_prompt(
            chat.messages, chat.images, chat.tools, chat.template, will_be_cut=not chat.images
        )
        ids = memoryview(prompt.input_ids).cast("q").tolist()
    else:
        (written,) = await servable.prompts.tokenize(
            (request.text,), add_special_tokens=request.adds_special
        )
        ids = await asyncio.to_thread(json.loads, written)
    # Elsewhere: the text of a million tokens takes a second.
    return await asyncio.to_thread(
        _answer, request, ids, servable.tokens.pieces, servable.limits.length
    )


def _answer(
    request: TokensRequest, ids: Sequence[int], pieces: Sequence[bytes], length: int | None
) -> str:
    def texts() -> list[str]:
        return [pieces[each].decode("utf-8", "replace") for each in ids]

    answer: Any
    match request.form:
        case "content":
            answer = {"tokens": ids}
            if request.with_texts:
                answer["tokens"] = [{"id": each, "piece": _piece(pieces[each])} for each in ids]
        case "inputs":
            answer, place = [], 0
            for each, text in zip(ids, texts(), strict=True):
                stop = place + len(text)
                answer.append({"id": each, "text": text, "start": place, "stop": stop})
                place = stop
        case _:
            answer = {
                "count": len(ids),
                "max_model_len": length,
                "tokens": ids,
                "token_strs": texts() if request.with_texts else None,
            }
    return json.dumps(answer)


def _piece(piece: bytes) -> str | list[int]:
    """Return the text of a token, or its bytes where they are a part of a character."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def parse_detokenize_request(value: object) -> tuple[int, ...]:
    """Check a parsed body; return the ids.

    Raises:
        RequestError: the first member that is wrong.
    """
    tokens = read_members(fields.body_object(value), DETOKENIZE_MEMBERS).get("tokens")
    if tokens is None:
        raise fields.missing("tokens", "an array of token ids")
    fields.check_most("tokens", len(tokens), "ids", MAX_PADDED)
    ids = tuple(map(fields.whole, tokens))
    for i, each in enumerate(ids):
        if type(each) is not int:
            raise fields.wrong_type(f"tokens[{i}]", "a token id", each)
    return ids


async def answer_detokenize(servable: LlmServable, ids: tuple[int, ...]) -> str:
    """Return the body of the answer.

    Raises:
        RequestError: an id is not in the vocabulary.
    """
    servable.token_ids(ids, param="tokens")
    if servable.tokens.is_exact:
        decode = servable.tokens.decode
        text = await asyncio.to_thread(decode, ids, skip_special_tokens=False)
    else:
        text = await servable.prompts.decode(list(ids), skip_special_tokens=False)
    return json.dumps({"prompt": text, "content": text})
