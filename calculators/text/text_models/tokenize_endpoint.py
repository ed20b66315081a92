"""``/tokenize`` and ``/detokenize`` on the graph of an encoder model: answers and description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import orjson

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.requests.members import (
    BOOLEAN,
    EVERYWHERE,
    Enumeration,
    Members,
    Value,
    honoured,
    read_members,
    read_model,
    table,
)
from calculators.kit.requests.schema import array, integer, one_of, record, ref, string
from calculators.kit.requests.tokenize_request import (
    MAX_PADDED,
    TOKENIZE_MEMBERS,
    TokenizeRequest,
    parse_tokenize_request,
)
from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.operation import (
    JSON,
    TaskDescription,
    answer,
    media,
    paths_of,
    posted,
    with_timeout,
)
from calculators.text.text_models.text_model import AnyTextModel, off_loop
from calculators.text.text_models.text_tokenizer import Detokenize, Tokenize, Tokenized

MEMBERS: Final[Members] = table(
    TOKENIZE_MEMBERS,
    honoured(
        "return_offsets",
        BOOLEAN,
        "Also return the characters of each token: the first, and the one after the last.",
    ),
    honoured(
        "truncation_side", Enumeration(("left", "right")), "The side that max_length cuts off."
    ),
)

DETOKENIZE_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    honoured(
        "tokens",
        Value(array(integer(minimum=0), maxItems=MAX_PADDED)),
        "Token ids of the model's vocabulary.",
        is_required=True,
    ),
    honoured("skip_special_tokens", BOOLEAN, "Leave [CLS] and the like out; false by default."),
)


_OWN: Final = ("return_offsets", "truncation_side")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A checked request, with the members that only encoder models know."""

    request: TokenizeRequest
    says_special: bool
    with_offsets: bool
    side: Literal["left", "right"]


async def answer_tokenize(
    model: AnyTextModel, payload: HttpPayload, *, adds_special: bool = True
) -> bytes:
    """Return the answer to a request to a path that ends in ``tokenize``.

    ``adds_special``: whether special tokens are added where the request does not say.

    Raises:
        RequestError: a member is wrong; see `TextModel.ask`.
    """
    size = len(payload.body)
    wanted = await off_loop(size, _read_tokenize, payload.parsed_json)
    request = wanted.request
    if wanted.says_special:
        adds_special = request.add_special_tokens
    outputs = await model.ask(
        Tokenize(
            list(request.texts), adds_special, request.max_length, wanted.side, wanted.with_offsets
        ),
        characters=sum(map(len, request.texts)),
        param="text",
    )
    return await off_loop(
        size + len(request.texts) * (request.max_length or 0) * request.pad_to_max_length,
        _tokenize_answer,
        model.max_tokens,
        request,
        msgspec.convert(outputs.note, Tokenized),
    )


def _read_tokenize(value: object) -> _Wanted:
    body = fields.body_object(value)
    own = read_members({name: body[name] for name in _OWN if name in body}, MEMBERS)
    return _Wanted(
        parse_tokenize_request(body, MEMBERS),
        body.get("add_special_tokens") is not None,
        own.get("return_offsets", False),
        own.get("truncation_side", "right"),
    )


def _tokenize_answer(max_tokens: int, request: TokenizeRequest, found: Tokenized) -> bytes:
    tokens, offsets = found.tokens, found.offsets
    counts = sum(map(len, tokens))
    if request.pad_to_max_length and request.max_length is not None:
        for place, ids in enumerate(tokens):
            padding = [found.pad] * (request.max_length - len(ids))
            tokens[place] = padding + ids if request.padding_side == "left" else ids + padding
    # One text has one list, also where it came in an array: so does OpenVINO Model Server.
    answer: dict[str, Any] = {
        "tokens": tokens[0] if len(tokens) == 1 else tokens,
        "count": counts,
        "max_model_len": max_tokens,
    }
    if offsets is not None:
        answer["offsets"] = offsets[0] if len(offsets) == 1 else offsets
    return orjson.dumps(answer)


async def answer_detokenize(model: AnyTextModel, payload: HttpPayload) -> bytes:
    """Return the answer to a request to a path that ends in ``detokenize``.

    Raises:
        RequestError: a member is wrong; an id is not in the vocabulary; see `TextModel.ask`.
    """
    question = await off_loop(len(payload.body), _read_detokenize, payload.parsed_json)
    outputs = await model.ask(question, characters=len(question.tokens), param="tokens")
    # vLLM's name for the text, and llama.cpp's.
    return orjson.dumps({"prompt": outputs.note, "content": outputs.note})


def _read_detokenize(value: object) -> Detokenize:
    body = read_members(fields.body_object(value), DETOKENIZE_MEMBERS)
    read_model(body)
    tokens = body.get("tokens")
    if tokens is None:
        raise fields.missing("tokens", "an array of token ids")
    if not isinstance(tokens, list):
        raise fields.wrong_type("tokens", "an array of token ids", tokens)
    if len(tokens) > MAX_PADDED:
        raise fields.invalid("tokens", f"{len(tokens)} are above the maximum {MAX_PADDED}")
    tokens = list(map(fields.whole, tokens))
    for place, each in enumerate(tokens):
        if type(each) is not int or not 0 <= each <= fields.INT32_MAX:
            raise fields.wrong_type(f"tokens[{place}]", "a token id", each)
    return Detokenize(tokens, body.get("skip_special_tokens", False))


_IDS: Final = array(integer())
_OFFSETS: Final = array(array(integer(), minItems=2, maxItems=2))


def describe_tokenizing(
    model: str, tokenize: TaskEndpoint, detokenize: TaskEndpoint
) -> TaskDescription:
    """Return both operations, as `answer_tokenize` and `answer_detokenize` do them.

    ``model``: a name for the examples.
    """
    operations = (
        posted(
            paths_of(tokenize),
            id="tokenizeText",
            summary="The token ids of a text",
            body={
                JSON: media(
                    ref("TextTokenizeRequest"), text_of_a_query={"model": model, "text": "Hello"}
                )
            },
            answers={200: answer("The ids.", {JSON: media(ref("TextTokenizeResponse"))})},
        ),
        posted(
            paths_of(detokenize),
            id="detokenize",
            summary="The text of token ids",
            body={
                JSON: media(ref("DetokenizeRequest"), two_tokens={"model": model, "tokens": [5, 6]})
            },
            answers={200: answer("The text.", {JSON: media(ref("DetokenizeResponse"))})},
        ),
    )
    schemas = {
        "TextTokenizeRequest": with_timeout(MEMBERS),
        "TextTokenizeResponse": record(
            {
                "tokens": one_of(_IDS, array(_IDS), about="One list where there is one text."),
                "count": integer("Tokens of all texts, without padding.", minimum=0),
                "max_model_len": integer("The most tokens of a text.", minimum=1),
                "offsets": one_of(
                    _OFFSETS, array(_OFFSETS), about="The characters of each token, if asked for."
                ),
            },
            required=("tokens", "count", "max_model_len"),
        ),
        "DetokenizeRequest": with_timeout(DETOKENIZE_MEMBERS),
        "DetokenizeResponse": record(
            {"prompt": string("The text."), "content": string("The same.")},
            required=("prompt", "content"),
        ),
    }
    return TaskDescription(operations, schemas)
