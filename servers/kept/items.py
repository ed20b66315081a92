"""Items of responses and messages of chats as they are kept and shown. Pure functions.

A request's input is kept as it was sent. Its items get their ids when they are read: an id is the
request's key and the item's place, so that it is the same each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import Array, Members, Value, honoured, table
from calculators.kit.requests.schema import array, request, string
from graph_runtime import Code
from servers.batches.objects import METADATA_SCHEMA, read_metadata

#: An object as clients send and read it: an item, a message, a conversation, a chat completion.
JsonObject: TypeAlias = dict[str, Any]

#: Hexadecimal digits in the id of an item: the number and the secret of its request, by which the
#: store finds it without an index, and the place of the item in the input.
_NUMBER_DIGITS: Final = 10
SECRET_DIGITS: Final = 16
_PLACE_DIGITS: Final = 6
_MADE_ID: Final = re.compile(
    f"[a-z]+_([0-9a-f]{{{_NUMBER_DIGITS}}})([0-9a-f]{{{SECRET_DIGITS}}})[0-9a-f]{{{_PLACE_DIGITS}}}"
)
_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
}
REFERENCE: Final = "item_reference"


def is_reference(item: object) -> bool:
    """Return True for an item that only names another one: ``{"type": ..., "id": ...}``."""
    if not isinstance(item, dict):
        return False
    kind, named = item.get("type"), item.get("id")
    is_bare = kind is None and named is not None and "role" not in item
    return kind == REFERENCE or is_bare


def items_of(value: object, key: str) -> list[JsonObject]:
    """Return the items of a request's ``input``, each with type and id; ``key``: the request's."""
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    listed = value if isinstance(value, list) else []
    return [_shown(item, key, place) for place, item in enumerate(listed) if isinstance(item, dict)]


def _shown(item: Mapping[str, Any], key: str, place: int) -> JsonObject:
    kind = item.get("type") or "message"
    found = item.get("id")
    if not (isinstance(found, str) and found):
        found = f"{_PREFIXES.get(kind, 'item')}_{key}{place:0{_PLACE_DIGITS}x}"
    shown = {"id": found, "type": kind} | {**item, "id": found, "type": kind}
    if kind == "message":
        shown.setdefault("status", "completed")
        if isinstance(content := item.get("content"), str):
            shown["content"] = [_text_part(content, item.get("role"))]
    return shown


def _text_part(text: str, role: object) -> JsonObject:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def key_of(number: int, secret: str) -> str:
    """Return the key of the items of a request; ``number``: of its answer in the store, or 0."""
    return f"{number:0{_NUMBER_DIGITS}x}{secret}"


def place_of(item_id: str) -> tuple[int, str] | None:
    """Return number and secret in an id that `items_of` has made; None for any other id."""
    found = _MADE_ID.fullmatch(item_id)
    return None if found is None else (int(found[1], 16), found[2])


# Answers ------------------------------------------------------------------------------------------

_EVENT: Final = rb'data: (\{"type":"response\.(?:%b)",.*?)\n\n'
_BEGUN: Final = re.compile(_EVENT % b"created", re.DOTALL)
_ENDED: Final = re.compile(_EVENT % b"completed|incomplete|failed", re.DOTALL)
_NUMBER: Final = re.compile(r'"sequence_number":(\d{1,9})')


class _Event(msgspec.Struct):
    response: msgspec.Raw


class _Item(msgspec.Struct):
    id: str = ""


class KeptHead(msgspec.Struct):
    """The members of a response or chat completion by which it is found again."""

    id: str = ""
    model: str = ""
    status: str = ""
    created_at: int = 0
    created: int = 0
    output: list[_Item] = []


read_head: Final = msgspec.json.Decoder(KeptHead).decode
_read_event: Final = msgspec.json.Decoder(_Event).decode


def begun_response(events: bytes) -> bytes | None:
    """Return the object of the event that begins a response; None: there is no such event."""
    return _shown_response(_BEGUN, events)


def ended_response(events: bytes) -> bytes | None:
    """Return the object of the event that ends a response; None: there is no such event."""
    return _shown_response(_ENDED, events)


def _shown_response(which: re.Pattern[bytes], events: bytes) -> bytes | None:
    found = which.search(events)
    if found is None:
        return None
    try:
        return bytes(_read_event(found[1]).response)
    except msgspec.DecodeError:
        return None


def split_events(text: str) -> Iterator[tuple[int | None, str]]:
    """Yield the events of a stream's piece with their sequence numbers; None: one without."""
    for event in text.split("\n\n"):
        if event:
            number = _NUMBER.search(event)
            yield (None if number is None else int(number[1])), event + "\n\n"


#: Texts of a message that grow with each chunk.
_GROWING: Final = frozenset(
    {"content", "reasoning_content", "reasoning", "refusal", "arguments", "input", "transcript"}
    | {"data"}
)


def completion_of(events: bytes) -> bytes | None:
    """Return the chat completion whose chunks are given; None if there is no chunk."""
    head: JsonObject = {}
    usage = None
    choices: dict[int, JsonObject] = {}
    for line in events.decode("utf-8", "replace").splitlines():
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line[6:])
        if chunk.get("object") != "chat.completion.chunk":
            return None
        usage = chunk.get("usage") or usage
        head = head or {n: v for n, v in chunk.items() if n not in ("choices", "usage", "object")}
        for each in chunk.get("choices") or ():
            choice = choices.setdefault(
                each["index"],
                {"index": each["index"], "message": {}, "logprobs": None, "finish_reason": None},
            )
            _grow(choice["message"], each.get("delta") or {})
            if each.get("logprobs"):
                listed = choice["logprobs"] or {"content": []}
                listed["content"] += each["logprobs"].get("content") or []
                choice["logprobs"] = listed
            choice["finish_reason"] = each.get("finish_reason") or choice["finish_reason"]
    if not head:
        return None
    made = [choices[index] for index in sorted(choices)]
    for choice in made:
        choice["message"].setdefault("refusal", None)
    return json.dumps(
        {**head, "object": "chat.completion", "choices": made, "usage": usage}
    ).encode()


def _grow(message: JsonObject, delta: Mapping[str, Any]) -> None:
    """Add a delta to what is known: texts grow, calls are found by their ``index``."""
    for name, value in delta.items():
        known = message.get(name)
        if isinstance(value, str) and isinstance(known, str) and name in _GROWING:
            message[name] = known + value
        elif isinstance(value, dict):
            _grow(message.setdefault(name, {}), value)
        elif name == "tool_calls" and isinstance(value, list):
            calls = message.setdefault(name, [])
            for each in value:
                rest = {member: part for member, part in each.items() if member != "index"}
                if each["index"] >= len(calls):
                    calls.append({})
                _grow(calls[-1], rest)
        elif value is not None or known is None:
            message[name] = value


def shown_messages(messages: Sequence[object], chat_id: str) -> list[JsonObject]:
    """Return the messages of a request as a stored chat completion lists them."""
    shown = []
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        parts = content if isinstance(content, list) else None
        text = content if isinstance(content, str) else None
        if parts is not None:
            texts = [part.get("text") for part in parts if isinstance(part, dict)]
            text = "".join(each for each in texts if isinstance(each, str)) or None
        shown.append(
            {**message, "id": f"{chat_id}-{place}", "content": text, "content_parts": parts}
        )
    return shown


def quoted_id(text: str) -> str:
    """Return an id that a client has sent, for an error."""
    return f'"{ascii(text[:100])[1:-1]}"'


def not_kept(kind: str, object_id: str, *, param: str | None = None) -> RequestError:
    """Return the error about an object that this client has not, or not any more.

    ``param``: the member that names it; None: a path does.
    """
    return RequestError(
        f"there is no {kind} {quoted_id(object_id)}: it was not stored, is too old, or belongs to "
        "another client",
        param=param,
        code=Code.NOT_FOUND,
        detail=f"a {kind} that is not kept",
    )


# Bodies of requests -------------------------------------------------------------------------------

#: Items that a request may add to a conversation.
MOST_ADDED: Final = 20


def _read_items(value: Any, path: str) -> list[JsonObject]:
    items = Array().read(value, path)
    if len(items) > MOST_ADDED:
        raise fields.invalid(path, f"{len(items)} items are more than the maximum {MOST_ADDED}")
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise fields.wrong_type(f"{path}[{place}]", "an object", item)
        for name in ("id", "type"):
            fields.string(item, name, f"{path}[{place}].{name}")
        chosen = item.get("id")
        if chosen is not None and not re.fullmatch(_CHOSEN_ID, chosen):
            where = f"{path}[{place}].id"
            raise fields.invalid(where, "an id has 1 to 256 characters of ASCII, without spaces")
    return items


#: Ids of items that clients choose: what a path and a header can have.
_CHOSEN_ID: Final = "[!-~]{1,256}"
_ITEM: Final = request(
    {"id": string(pattern=f"^{_CHOSEN_ID}$"), "type": string("`message` by default.")},
    "An item as in the input of a response. The model that gets it checks the rest of it.",
    additionalProperties=True,
)
_ITEMS: Final = Value(array(_ITEM, maxItems=MOST_ADDED), _read_items)
_METADATA: Final = Value(METADATA_SCHEMA, read_metadata)
CONVERSATION_MEMBERS: Final[Members] = table(
    honoured("items", _ITEMS, "The first items."),
    honoured("metadata", _METADATA, "For the client's own use."),
)
ADDED_ITEMS_MEMBERS: Final[Members] = table(
    honoured("items", _ITEMS, is_required=True),
)
METADATA_MEMBERS: Final[Members] = table(
    honoured("metadata", _METADATA, "Replaces the metadata.", is_required=True)
)
