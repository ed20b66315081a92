"""Google's API of embeddings: ``:embedContent`` and ``:batchEmbedContents``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields, members, schema
from calculators.kit.requests.google_json import camel_case, read_object
from calculators.text.embeddings.request import DIMENSIONS, EmbeddingsRequest, Texts, Truncation
from calculators.text.embeddings.servable import Answered, as_json
from calculators.text.text_models.encoder_task import MAX_ALL_CHARACTERS, MAX_CHARACTERS, MAX_TEXTS

#: The uses of texts by Google's words; others are the same in small letters.
_USES: Final = {
    "RETRIEVAL_QUERY": "query",
    "RETRIEVAL_DOCUMENT": "document",
    "QUESTION_ANSWERING": "query",
    "FACT_VERIFICATION": "query",
    "CODE_RETRIEVAL_QUERY": "query",
    "TASK_TYPE_UNSPECIFIED": "",
}
_OF_TEXT: Final[members.Members] = members.table(
    members.honoured(
        "content",
        members.Value(schema.one_of(schema.ref("TextContent"), schema.string())),
        is_required=True,
    ),
    members.honoured(
        "taskType", members.STRING, "The use of the text: the model's prompt for it is put first."
    ),
    members.honoured("outputDimensionality", DIMENSIONS, "The first numbers of the embedding."),
    members.honoured("model", members.Value(), "The path names the model."),
    members.ignored(
        "changes nothing: models here take a text alone", "title autoTruncate mimeType"
    ),
)
_CONFIG: Final[members.Members] = members.table(
    (member for name, member in _OF_TEXT.items() if name not in ("content", "model")),
    # The model does not see one that the text's own replaces.
    members.honoured("outputDimensionality", members.Integer(minimum=1, maximum=65536)),
)
_ITEM: Final[members.Members] = members.table(
    _OF_TEXT,
    members.honoured("embedContentConfig", members.Object(members.body_schema(_CONFIG))),
)
EMBED_CONTENT_MEMBERS: Final[members.Members] = members.table(
    _ITEM, members.honoured("timeout", members.Value())
)
BATCH_MEMBERS: Final[members.Members] = members.table(
    members.honoured(
        "requests",
        members.Value(schema.array(schema.ref("EmbedContentItem"), minItems=1, maxItems=MAX_TEXTS)),
        "All of one task type and dimensionality.",
        is_required=True,
    ),
    members.honoured("model", members.Value(), "The path names the model."),
    members.honoured("timeout", members.Value()),
)
GOOGLE_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "EmbedContentItem": members.body_schema(_ITEM),
    "TextContent": schema.request(
        {
            "role": schema.string(),
            "parts": schema.array(
                schema.one_of(
                    schema.record({"text": schema.string()}, required=("text",)), schema.string()
                ),
                minItems=1,
            ),
        },
        "Parts of text.",
        required=("parts",),
    ),
    "ContentEmbedding": schema.record(
        {"values": schema.array(schema.number())}, required=("values",)
    ),
    "EmbedContentResponse": schema.record(
        {"embedding": schema.ref("ContentEmbedding"), "usageMetadata": schema.ref("EmbedUsage")},
        required=("embedding",),
    ),
    "BatchEmbedContentsResponse": schema.record(
        {
            "embeddings": schema.array(schema.ref("ContentEmbedding")),
            "usageMetadata": schema.ref("EmbedUsage"),
        },
        required=("embeddings",),
    ),
    "EmbedUsage": schema.record(
        {
            "promptTokenCount": schema.integer(minimum=0),
            "totalTokenCount": schema.integer(minimum=0),
        },
        required=("promptTokenCount", "totalTokenCount"),
    ),
}


def parse_embed_content(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed body of ``:embedContent``.

    Raises:
        RequestError: with the member that is wrong.
    """
    value = camel_case(fields.body_object(body))
    read = members.read_members(dict(value), EMBED_CONTENT_MEMBERS)
    read = _with_config(read, "embedContentConfig")
    return _request(read.get("model", ""), [_text(read, "content")], read, is_list=False)


def parse_batch_embed_contents(body: object) -> EmbeddingsRequest:
    """Return the request of a parsed body of ``:batchEmbedContents``.

    Raises:
        RequestError: with the member that is wrong, or that differs between the texts.
    """
    read = members.read_members(fields.body_object(body), BATCH_MEMBERS)
    items = fields.array(read, "requests")
    if not items:
        raise fields.missing("requests", "an array with a request for each text")
    fields.check_most("requests", len(items), "texts", MAX_TEXTS)
    texts: list[str] = []
    first: Mapping[str, Any] = {}
    for i, item in enumerate(items):
        path = f"requests[{i}]"
        each = _with_config(_read(item, path, _ITEM), f"{path}.embedContentConfig")
        texts.append(_text(each, f"{path}.content"))
        first = first or each
        for name in ("taskType", "outputDimensionality"):
            if each.get(name) != first.get(name):
                raise fields.invalid(
                    f"{path}.{name}", "it must be the same for all texts of a batch"
                )
    return _request(read.get("model", ""), texts, first, is_list=True)


def _read(value: object, path: str, known: members.Members) -> dict[str, Any]:
    """Return the members of an inner object that have an effect."""
    return {
        name: read
        for name, each in read_object(value, path, known).items()
        if each is not None
        and name in known
        and (read := known[name].read(each, f"{path}.{name}")) is not None
    }


def _with_config(read: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the members of a text; its configuration fills in what is missing."""
    return {**_read(read.pop("embedContentConfig", {}), path, _CONFIG), **read}


def _text(read: Mapping[str, Any], path: str) -> str:
    """Return the text of a content; its parts follow each other."""
    content = read.get("content")
    if content is None:
        raise fields.missing(path, "the text, as a content with parts")
    if isinstance(content, str):
        content = {"parts": [{"text": content}]}
    given = read_object(content, path, ("role", "parts"))
    fields.string(given, "role", f"{path}.role")
    parts = fields.array(given, "parts", f"{path}.parts") or []
    texts = []
    for i, part in enumerate(parts):
        place = f"{path}.parts[{i}]"
        inner = {"text": part} if isinstance(part, str) else part
        if not isinstance(inner, dict):
            raise fields.wrong_type(place, "an object", inner)
        text = fields.string(inner, "text", f"{place}.text")
        if text is None:
            raise fields.invalid(place, "it has no text, and the model embeds nothing else")
        texts.append(text)
    if not texts:
        raise fields.missing(f"{path}.parts", "the parts of the text")
    text = "".join(texts)
    fields.check_most(path, len(text), "characters", MAX_CHARACTERS)
    return text


def _request(
    model: str, texts: list[str], read: Mapping[str, Any], *, is_list: bool
) -> EmbeddingsRequest:
    total = sum(map(len, texts))
    fields.check_most("requests", total, "characters in all", MAX_ALL_CHARACTERS)
    kind = read.get("taskType", "")
    use = _USES.get(kind, kind.lower())
    return EmbeddingsRequest(
        model=model,
        texts=Texts("requests" if is_list else "content", texts, [], is_list, total),
        body={"input_type": use} if use else {},
        # Google's models cut long texts off.
        truncation=Truncation(cuts=True),
        dimensions=read.get("outputDimensionality"),
    )


def google_answer(answered: Answered) -> bytes:
    """Return the answer of either method."""
    request, vectors, tokens = answered
    rows = [b'{"values":%b}' % row for row in as_json(vectors, "float", is_base64=False)]
    usage = b'"usageMetadata":{"promptTokenCount":%d,"totalTokenCount":%d}' % (tokens, tokens)
    if request.texts.is_list:
        return b'{"embeddings":[%b],%b}' % (b",".join(rows), usage)
    return b'{"embedding":%b,%b}' % (rows[0], usage)
