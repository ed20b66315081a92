"""Operations of what is kept: responses, conversations and stored chat completions."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests import schema
from calculators.kit.requests.members import body_schema
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import EVENTS, JSON, Operation, answer, events, media, prefixed
from servers.batches.objects import METADATA_SCHEMA
from servers.kept import items

_RESPONSES: Final = "Kept responses"
_CONVERSATIONS: Final = "Conversations"
_CHATS: Final = "Stored chat completions"
_ID: Final = schema.nullable(schema.string())


def _list_of(each: schema.Schema) -> schema.Schema:
    return schema.record(
        {
            "object": schema.const("list"),
            "data": schema.array(each),
            "first_id": _ID,
            "last_id": _ID,
            "has_more": schema.flag(),
        },
        required=("object", "data", "first_id", "last_id", "has_more"),
    )


def _deleted(kind: str) -> schema.Schema:
    return schema.record(
        {"id": schema.string(), "object": schema.const(kind), "deleted": schema.const(True)},
        required=("id", "object", "deleted"),
    )


KEPT_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "KeptItem": schema.anything(
        "An item of an input or an output.",
        properties={"id": schema.string(), "type": schema.string()},
        required=["id", "type"],
        additionalProperties=True,
    ),
    "KeptItemList": _list_of(schema.ref("KeptItem")),
    "ResponseDeleted": _deleted("response"),
    "Conversation": schema.record(
        {
            "id": schema.string(),
            "object": schema.const("conversation"),
            "created_at": schema.integer("Unix time in seconds."),
            "metadata": METADATA_SCHEMA,
        },
        required=("id", "object", "created_at", "metadata"),
    ),
    "ConversationDeleted": _deleted("conversation.deleted"),
    "CreateConversationRequest": body_schema(items.CONVERSATION_MEMBERS),
    "AddItemsRequest": body_schema(items.ADDED_ITEMS_MEMBERS),
    "MetadataRequest": body_schema(items.METADATA_MEMBERS),
    "StoredChatCompletion": schema.record(
        {
            "id": schema.string(),
            "object": schema.const("chat.completion"),
            "created": schema.integer("Unix time in seconds."),
            "model": schema.string(),
            "choices": schema.array(schema.anything()),
            "usage": schema.nullable(schema.anything()),
            "metadata": METADATA_SCHEMA,
        },
        "As it was answered, with the request's metadata.",
        required=("id", "object", "created", "model", "choices", "metadata"),
        additionalProperties=True,
    ),
    "StoredChatCompletionList": _list_of(schema.ref("StoredChatCompletion")),
    "StoredMessageList": _list_of(
        schema.record(
            {
                "id": schema.string(),
                "role": schema.string(),
                "content": schema.nullable(schema.string()),
                "content_parts": schema.nullable(schema.array(schema.anything())),
            },
            required=("id", "content", "content_parts"),
            additionalProperties=True,
        )
    ),
    "ChatCompletionDeleted": _deleted("chat.completion.deleted"),
}

_A_PAGE: Final = ("After", "BatchLimit", "Order")
_NOT_THERE: Final = frozenset({404})


def _kept(
    method: str,
    path: str,
    id: str,
    tag: str,
    summary: str,
    answers: str,
    *,
    about: str = "",
    parameters: tuple[str, ...] = (),
    body: str = "",
    body_is_required: bool = True,
    has_events: bool = False,
) -> Operation:
    content = {JSON: media(schema.ref(answers))}
    if has_events:
        event = schema.one_of(schema.ref("ResponseEvent"), schema.ref("OpenAIError"))
        content[EVENTS] = events("With `stream`: an event.", event, last="[DONE]")
    return Operation(
        method=method,
        paths=prefixed(path),
        id=id,
        tag=tag,
        summary=summary,
        about=about,
        form=ErrorForm.OPENAI,
        errors=_NOT_THERE,
        parameters=parameters,
        body={JSON: media(schema.ref(body))} if body else None,
        body_is_required=body_is_required,
        answers={200: answer("It is there.", content)},
    )


def kept_operations() -> list[Operation]:
    """Return the operations of what is kept, except those that run a model."""
    response, conversation = "/responses/{response_id}", "/conversations/{conversation_id}"
    entries, chat = f"{conversation}/items", "/chat/completions/{completion_id}"
    return [
        _kept(
            *("get", response, "retrieveResponse", _RESPONSES, "Read a response"),
            "ResponseObject",
            about="A response in the background is shown as it is now. With `stream` its events "
            "come from the beginning, or after number `starting_after`, until it ends.",
            parameters=("StreamEvents", "StartingAfter"),
            has_events=True,
        ),
        _kept(
            *("delete", response, "deleteResponse", _RESPONSES, "Delete a response"),
            "ResponseDeleted",
            about="Responses that continue it cannot be continued any more.",
        ),
        _kept(
            *("get", f"{response}/input_items", "listInputItems", _RESPONSES),
            "List what a response was made of, with the items that it continues",
            "KeptItemList",
            parameters=_A_PAGE,
        ),
        _kept(
            *("post", f"{response}/cancel", "cancelResponse", _RESPONSES),
            "Cancel a response in the background",
            "ResponseObject",
            about="One that has ended stays as it is.",
        ),
        _kept(
            *("post", "/conversations", "createConversation", _CONVERSATIONS),
            "Make a conversation",
            "Conversation",
            body="CreateConversationRequest",
            body_is_required=False,
        ),
        _kept(
            *("get", conversation, "retrieveConversation", _CONVERSATIONS, "Read a conversation"),
            "Conversation",
        ),
        _kept(
            *("post", conversation, "updateConversation", _CONVERSATIONS),
            "Replace the metadata of a conversation",
            "Conversation",
            body="MetadataRequest",
        ),
        _kept(
            *("delete", conversation, "deleteConversation", _CONVERSATIONS),
            "Delete a conversation and its items",
            "ConversationDeleted",
        ),
        _kept(
            *("get", entries, "listConversationItems", _CONVERSATIONS, "List its items"),
            "KeptItemList",
            parameters=_A_PAGE,
        ),
        _kept(
            *("post", entries, "addConversationItems", _CONVERSATIONS, "Add items"),
            "KeptItemList",
            body="AddItemsRequest",
        ),
        _kept(
            *("get", f"{entries}/{{item_id}}", "retrieveConversationItem", _CONVERSATIONS),
            "Read an item",
            "KeptItem",
        ),
        _kept(
            *("delete", f"{entries}/{{item_id}}", "deleteConversationItem", _CONVERSATIONS),
            "Delete an item",
            "Conversation",
        ),
        _kept(
            *("get", "/chat/completions", "listChatCompletions", _CHATS),
            "List chat completions that were stored",
            "StoredChatCompletionList",
            about="Those whose requests had `store: true`. `metadata[NAME]=VALUE` in the query: "
            "only those with this pair.",
            parameters=("OfModel", *_A_PAGE),
        ),
        _kept(
            *("get", chat, "retrieveChatCompletion", _CHATS, "Read a chat completion"),
            "StoredChatCompletion",
        ),
        _kept(
            *("post", chat, "updateChatCompletion", _CHATS),
            "Replace the metadata of a chat completion",
            "StoredChatCompletion",
            body="MetadataRequest",
        ),
        _kept(
            *("delete", chat, "deleteChatCompletion", _CHATS, "Delete a chat completion"),
            "ChatCompletionDeleted",
        ),
        _kept(
            *("get", f"{chat}/messages", "listChatCompletionMessages", _CHATS),
            "List the messages that it answers",
            "StoredMessageList",
            parameters=_A_PAGE,
        ),
    ]
