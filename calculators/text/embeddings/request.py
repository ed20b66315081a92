"""Checked requests for embeddings of OpenAI, text-embeddings-inference, Cohere and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.keep_alive import KEEP_ALIVE
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    BOOLEAN,
    DEFAULT_MODEL,
    EVERYWHERE,
    STRING,
    Array,
    Enumeration,
    Integer,
    Members,
    Value,
    check_object,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.schema import (
    array,
    flag,
    integer,
    nullable,
    one_of,
    record,
    string,
    word,
)
from calculators.text.text_models.encoder_task import MAX_ALL_CHARACTERS, MAX_CHARACTERS, MAX_TEXTS

_TEXT: Final = string(maxLength=MAX_CHARACTERS)
_ID: Final = integer(minimum=0, maximum=fields.INT32_MAX)
TEXTS_SCHEMA: Final = one_of(
    _TEXT,
    array(_TEXT, minItems=1, maxItems=MAX_TEXTS),
    array(_ID, minItems=1),
    array(array(_ID, minItems=1), minItems=1, maxItems=MAX_TEXTS),
)

Side = Literal["left", "right"]
_SIDES: Final[Mapping[str, Side]] = {"left": "left", "right": "right"}
#: By NVIDIA's and Cohere's words: the end that is cut off.
_CUT_WORDS: Final[Mapping[str, Side | None]] = {
    "NONE": None,
    "START": "left",
    "END": "right",
    "none": None,
    "start": "left",
    "end": "right",
}
#: Names of prompts that models use, by the words of clients (Cohere, NVIDIA, Jina, LiteLLM).
_PROMPT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("query", "search_query", "retrieval.query"),
    "search_query": ("search_query", "query", "retrieval.query"),
    "retrieval.query": ("retrieval.query", "query", "search_query"),
    "passage": ("passage", "document", "search_document", "retrieval.passage"),
    "document": ("document", "passage", "search_document", "retrieval.passage"),
    "search_document": ("search_document", "document", "passage", "retrieval.passage"),
    "retrieval.passage": ("retrieval.passage", "passage", "document", "search_document"),
}


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a request, or their token ids.

    Attributes:
        param: the member that has them.
        values: the texts, if they are not token ids.
        ids: the token ids of each text, if they are.
        is_list: the member is an array of them, not a single one.
        size: characters or ids in all.
    """

    param: str
    values: list[str]
    ids: list[list[int]]
    is_list: bool
    size: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """A request's rule for texts that are too long.

    Attributes:
        cuts: cut them off, or refuse them; None: as the node does.
        side: the side that is cut off.
        most: tokens of a text; None: as many as the model takes.
    """

    cuts: bool | None = None
    side: Side = "right"
    most: int | None = None


def _read_cut(value: Any, path: str) -> bool | Side:
    """Return true or false, or the side of NVIDIA's and Cohere's words."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _CUT_WORDS:
        side = _CUT_WORDS[value]
        return False if side is None else side
    raise fields.wrong_type(path, 'true, false, "NONE", "START" or "END"', value)


def _read_side(value: Any, path: str) -> Side:
    if isinstance(value, str) and value.lower() in _SIDES:
        return _SIDES[value.lower()]
    raise fields.wrong_type(path, '"left" or "right"', value)


_SIDE: Final = Value(word(("left", "right", "Left", "Right")), _read_side)

#: Members about long texts: NVIDIA's and Cohere's, Voyage's, vLLM's, and those of
#: text-embeddings-inference.
TRUNCATION_MEMBERS: Final[Members] = table(
    honoured(
        "truncate",
        Value(one_of(flag(), word(_CUT_WORDS)), _read_cut),
        "Cut off what is too long for the model (END, or true), or its beginning (START); "
        "otherwise it is refused. By default as the graph's node says.",
    ),
    honoured("truncation", BOOLEAN, "As truncate."),
    honoured(
        "truncate_prompt_tokens",
        Integer(minimum=-1, refused={0: "leaves no token"}),
        "Cut texts to so many tokens; -1: to as many as the model takes.",
    ),
    honoured("truncation_side", _SIDE, "The side that is cut off."),
    honoured("truncation_direction", _SIDE, "As truncation_side."),
)

#: Members that choose a prompt of config_sentence_transformers.json.
PROMPT_MEMBERS: Final[Members] = table(
    honoured(
        "input_type",
        STRING,
        "The use of the texts, such as query or passage: the model's prompt for it is put before "
        "each. Without an effect if the model has no such prompt.",
    ),
    honoured("task", STRING, "As input_type."),
    honoured(
        "prompt_name",
        STRING,
        "The name of a prompt in the model's config_sentence_transformers.json.",
    ),
)

#: Integers of vectors, as `vectors.KINDS`.
NUMBER_KINDS: Final = ("float", "int8", "uint8", "binary", "ubinary")
KIND: Final = Enumeration(NUMBER_KINDS)


class _Dimensions(Integer):
    """A number of dimensions. Only the model knows its bound, and its refusal names it."""

    def read(self, value: Any, path: str) -> int:
        value = fields.whole(value)
        if type(value) is not int:
            raise fields.wrong_type(path, "an integer", value)
        return value


DIMENSIONS: Final = _Dimensions(minimum=1, maximum=65536)
TOKENS: Final = Integer(minimum=1, maximum=65536)


def read_truncation(body: Mapping[str, Any]) -> Truncation:
    """Return what a checked body says about long texts."""
    cuts = body.get("truncate", body.get("truncation"))
    most = body.get("truncate_prompt_tokens")
    side = body.get("truncation_side", body.get("truncation_direction"))
    if isinstance(cuts, str):
        side = side or cuts
        cuts = True
    if cuts is None and most is not None:
        cuts = True
    return Truncation(cuts, side or "right", None if most == -1 else most)


def find_prompt(body: Mapping[str, Any], prompts: Mapping[str, str], default: str) -> str:
    """Return the prompt that a checked body asks for, "" for none.

    Raises:
        RequestError: ``prompt_name`` names one that the model does not have.
    """
    named = body.get("prompt_name")
    if named:
        if named not in prompts:
            known = ", ".join(f'"{name}"' for name in sorted(prompts)[:20])
            raise fields.invalid(
                "prompt_name",
                f"{fields.describe(named)} is no prompt of the model: "
                + (f"it has {known}" if known else "it has none"),
            )
        return prompts[named]
    use = body.get("input_type") or body.get("task")
    if use:
        for name in (use, *_PROMPT_NAMES.get(use, ())):
            if name in prompts:
                return prompts[name]
    return prompts.get(default, "")


def read_texts(body: Mapping[str, Any], param: str) -> Texts:
    """Return the texts or token ids of a member of a body.

    The texts of errors are OpenVINO Model Server's (``embeddings/embeddings_api.cpp``), with the
    place after them.

    Raises:
        RequestError: they are missing, of mixed or wrong types, or too many.
    """
    value = body.get(param)
    if value is None:
        raise RequestError(f"{param} field is required", param=param)
    if isinstance(value, str):
        return _of_texts(param, [value], is_list=False)
    if not isinstance(value, list):
        raise RequestError(
            f"{param} should be string, array of strings or array of integers, not "
            f"{fields.describe(value)}",
            param=param,
        )
    if not value:
        raise RequestError(f"{param} array should not be empty", param=param)
    if type(fields.whole(value[0])) is int:
        return _of_ids(param, [_read_ids(param, param, value)], is_list=False)
    fields.check_most(param, len(value), "texts", MAX_TEXTS)
    if isinstance(value[0], list):
        read = [_read_ids(param, f"{param}[{place}]", ids) for place, ids in enumerate(value)]
        return _of_ids(param, read, is_list=True)
    for place, text in enumerate(value):
        if not isinstance(text, str):
            raise _wrong_item(param, f"{param}[{place}]", text, is_first=place == 0)
    return _of_texts(param, value, is_list=True)


def _wrong_item(param: str, path: str, value: object, *, is_first: bool) -> RequestError:
    if not is_first and isinstance(value, int | list) and not isinstance(value, bool):
        said = f"{param} must be homogeneous"
    else:
        said = f"every element in {param} array should be either string or int"
    return RequestError(f"{said}: {path} is {fields.describe(value)}", param=path)


def _read_ids(param: str, path: str, ids: object) -> list[int]:
    """Return an array of integers, and refuse any other; the vocabulary is checked later."""
    if not isinstance(ids, list):
        raise RequestError(
            f"{param} must be homogeneous: {path} is {fields.describe(ids)}", param=path
        )
    if not ids:
        raise RequestError(f"inner arrays in {param} should not be empty: {path} is", param=path)
    ids = list(map(fields.whole, ids))
    for place, each in enumerate(ids):
        if type(each) is not int:
            if path == param:
                raise _wrong_id(param, f"{path}[{place}]", each)
            raise RequestError(
                f"{param} must be either array of strings or array of array of integers: "
                f"{path}[{place}] is {fields.describe(each)}",
                param=f"{path}[{place}]",
            )
        if not 0 <= each <= fields.INT32_MAX:
            raise RequestError(
                f"{path}[{place}] is {fields.describe(each)}, which is not a token id",
                param=f"{path}[{place}]",
            )
    return ids


def _wrong_id(param: str, path: str, value: object) -> RequestError:
    is_text = isinstance(value, str | list)
    said = (
        f"{param} must be homogeneous"
        if is_text
        else f"every element in {param} array should be either string or int"
    )
    return RequestError(f"{said}: {path} is {fields.describe(value)}", param=path)


def _of_ids(param: str, ids: list[list[int]], *, is_list: bool) -> Texts:
    total = sum(map(len, ids))
    fields.check_most(param, total, "token ids in all", MAX_ALL_CHARACTERS)
    return Texts(param, [], ids, is_list, total)


def _of_texts(param: str, texts: list[str], *, is_list: bool) -> Texts:
    for place, text in enumerate(texts):
        path = f"{param}[{place}]" if is_list else param
        fields.check_most(path, len(text), "characters", MAX_CHARACTERS)
    total = sum(map(len, texts))
    fields.check_most(param, total, "characters in all", MAX_ALL_CHARACTERS)
    return Texts(param, texts, [], is_list, total)


_FORMATS: Final = (*NUMBER_KINDS, "base64")


def _read_format(value: Any, path: str) -> str:
    # Clients of OpenVINO Model Server match on these two texts.
    if not isinstance(value, str):
        raise RequestError("encoding_format should be string", param=path)
    if value not in _FORMATS:
        raise RequestError(
            "encoding_format should either base64 or float, or one of int8, uint8, binary, ubinary",
            param=path,
        )
    return value


EMBEDDINGS_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    honoured(
        "input",
        Value(TEXTS_SCHEMA),
        "A text, texts, the token ids of a text, or the token ids of several texts.",
        is_required=True,
    ),
    honoured(
        "encoding_format",
        Value(word(_FORMATS), _read_format),
        "base64 is of little-endian 32-bit floats. int8 and uint8 are the numbers times 127; "
        "binary and ubinary have the signs of eight numbers in one.",
    ),
    honoured("embedding_type", Value(word(_FORMATS), _read_format), "As encoding_format."),
    honoured(
        "output_dtype",
        KIND,
        "As encoding_format; with encoding_format base64, the base64 of these numbers.",
    ),
    honoured(
        "dimensions",
        DIMENSIONS,
        "The first numbers of each embedding; not more than the model's.",
    ),
    honoured("output_dimension", DIMENSIONS, "As dimensions."),
    honoured("normalized", BOOLEAN, "Embeddings of length 1; by default as the graph's node says."),
    honoured("normalize", BOOLEAN, "As normalized."),
    honoured(
        "add_special_tokens", BOOLEAN, "False: texts are embedded without [CLS] and the like."
    ),
    TRUNCATION_MEMBERS,
    PROMPT_MEMBERS,
    ABOUT_THE_CLIENT,
    refused("is not supported: each text is embedded alone", "late_chunking"),
)

TEI_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    DEFAULT_MODEL,
    honoured("inputs", Value(TEXTS_SCHEMA), "A text, or texts.", is_required=True),
    honoured("normalize", BOOLEAN, "Embeddings of length 1; the default is true."),
    honoured("dimensions", DIMENSIONS, "The first numbers of each embedding."),
    TRUNCATION_MEMBERS,
    PROMPT_MEMBERS,
    ABOUT_THE_CLIENT,
)

COHERE_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    DEFAULT_MODEL,
    honoured("texts", Value(array(string(), minItems=1)), "The texts."),
    honoured(
        "inputs",
        Array(
            record(
                {
                    "content": array(
                        record(
                            {"type": nullable(word(("text",))), "text": string()},
                            required=("text",),
                        ),
                        minItems=1,
                    )
                },
                required=("content",),
            ),
            {"minItems": 1},
        ),
        "The texts in parts, instead; the parts of one are joined by lines.",
    ),
    honoured(
        "embedding_types",
        Array(word(_FORMATS)),
        "The types of numbers to return; float by default.",
    ),
    honoured("output_dimension", DIMENSIONS, "The first numbers of each embedding."),
    honoured("max_tokens", TOKENS, "Tokens of a text at most."),
    honoured("input_type", STRING, "As that of /v3/embeddings."),
    honoured("truncate", TRUNCATION_MEMBERS["truncate"].reader, "The default is END."),
    ABOUT_THE_CLIENT,
    ignored("is about how soon an answer comes", "priority"),
    ignored("is about what is returned on errors of Cohere's own service", "strict_tools"),
    refused("is not supported: the model embeds texts", "images"),
)


_OLLAMA_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    KEEP_ALIVE,
    ignored("is about language models; dimensions and truncate stand beside them", "options"),
)
OLLAMA_EMBED_MEMBERS: Final[Members] = table(
    _OLLAMA_MEMBERS,
    honoured(
        "input",
        Value(one_of(*TEXTS_SCHEMA["anyOf"], array({}, maxItems=0))),
        "A text, or texts. Without any the model is loaded.",
    ),
    honoured("truncate", BOOLEAN, "Cut off what is too long for the model; the default is true."),
    honoured("dimensions", Integer(maximum=65536), "The first numbers of each embedding."),
)
OLLAMA_EMBEDDINGS_MEMBERS: Final[Members] = table(
    _OLLAMA_MEMBERS,
    honoured("prompt", Value(_TEXT), "A text. Without any the model is loaded."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """Texts to embed, checked.

    Attributes:
        model: the name that the client used.
        body: the checked members, for the choice of a prompt.
        formats: types of numbers, see `calculators.text.embeddings.servable.KINDS`.
        is_base64: return embeddings as base64.
        dimensions: the numbers to return of each embedding; None: all.
        normalizes: return vectors of length 1; None: as the node does.
    """

    model: str
    texts: Texts
    body: Mapping[str, Any]
    truncation: Truncation
    formats: Sequence[str] = ("float",)
    is_base64: bool = False
    dimensions: int | None = None
    normalizes: bool | None = None
    adds_special: bool = True

    def prompt(self, prompts: Mapping[str, str], default: str) -> str:
        """Return the text that is put before each text.

        Raises:
            RequestError: the request names a prompt that the model does not have.
        """
        if self.texts.ids:
            return ""
        return find_prompt(self.body, prompts, default)


def parse_embeddings_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/v3/embeddings``.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), EMBEDDINGS_MEMBERS)
    form = read.get("encoding_format", read.get("embedding_type", "float"))
    kind = read.get("output_dtype", "float" if form == "base64" else form)
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=read_texts(read, "input"),
        truncation=read_truncation(read),
        formats=(kind,),
        is_base64=form == "base64",
        dimensions=read.get("dimensions", read.get("output_dimension")),
        normalizes=read.get("normalized", read.get("normalize")),
        adds_special=read.get("add_special_tokens", True),
    )


def parse_tei_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/embed``; see `parse_embeddings_request`."""
    read = read_members(fields.body_object(body), TEI_MEMBERS)
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=read_texts(read, "inputs"),
        truncation=read_truncation(read),
        dimensions=read.get("dimensions"),
        normalizes=read.get("normalize", True),
    )


def parse_ollama_embed_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed body of ``/api/embed``; see `parse_embeddings_request`."""
    read = read_members(fields.body_object(body), OLLAMA_EMBED_MEMBERS)
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=read_texts(read, "input"),
        truncation=Truncation(read.get("truncate", True)),
        dimensions=read.get("dimensions") or None,
        normalizes=True,
    )


def parse_ollama_embeddings_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/api/embeddings``, of one text.

    See `parse_embeddings_request`.
    """
    read = read_members(fields.body_object(body), OLLAMA_EMBEDDINGS_MEMBERS)
    if not isinstance(read.get("prompt"), str):
        raise fields.wrong_type("prompt", "a string", read.get("prompt"))
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=read_texts(read, "prompt"),
        truncation=Truncation(cuts=True),
    )


def parse_cohere_request(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed JSON body of ``/v2/embed``; see `parse_embeddings_request`."""
    read = read_members(fields.body_object(body), COHERE_MEMBERS)
    if "inputs" in read:
        if "texts" in read:
            raise fields.combined("inputs", "texts")
        read["texts"] = [
            _input_text(each, f"inputs[{place}]") for place, each in enumerate(read["inputs"])
        ]
    try:
        texts = read_texts(read, "texts")
    except RequestError as error:
        raise fields.renamed(error, {"texts": "inputs"} if "inputs" in read else {}) from None
    if not texts.is_list or texts.ids:
        raise fields.wrong_type("texts", "an array of strings", read["texts"])
    formats = read.get("embedding_types") or ("float",)
    for place, each in enumerate(formats):
        _read_format(each, f"embedding_types[{place}]")
    truncation = read_truncation({"truncate": "right", **read})
    most = read.get("max_tokens")
    return EmbeddingsRequest(
        model=read.get("model", ""),
        body=read,
        texts=texts,
        truncation=Truncation(truncation.cuts, truncation.side, most),
        formats=tuple(dict.fromkeys(formats)),
        dimensions=read.get("output_dimension"),
    )


def _input_text(value: object, path: str) -> str:
    """Return the text of one of Cohere's inputs."""
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object with content", value)
    check_object(value, path, ("content",))
    parts = fields.array(value, "content", f"{path}.content")
    if not parts:
        raise fields.missing(f"{path}.content", "an array of parts with texts")
    texts = []
    for place, part in enumerate(parts):
        where = f"{path}.content[{place}]"
        if not isinstance(part, dict):
            raise fields.wrong_type(where, "an object", part)
        kind = fields.string(part, "type", f"{where}.type")
        if kind not in (None, "text"):
            shown = fields.describe(kind)
            raise fields.invalid(f"{where}.type", f"{shown} is not supported: texts are embedded")
        text = fields.string(part, "text", f"{where}.text")
        if text is None:
            raise fields.missing(f"{where}.text")
        check_object(part, where, ("type", "text"))
        texts.append(text)
    return "\n".join(texts)
