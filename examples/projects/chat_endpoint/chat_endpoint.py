"""A chat endpoint: `reply` is the place for your own answers."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from graphrt import Calculator, CalculatorContext, In, Out, calculator


async def reply(text: str) -> AsyncIterator[str]:
    """Yield the answer to a user's text, in the pieces in which a stream sends it.

    It runs on the event loop of the server: await what waits, and leave what computes to a thread
    (``asyncio.to_thread``) or a process.
    """
    yield "You said:"
    for word in text.split():
        yield f" {word}"


@calculator("project_name.ChatEndpoint")
class ChatEndpoint(Calculator):
    """Answers ``POST /v3/chat/completions``, whole and streamed.

    Inputs:
        HTTP_REQUEST_PAYLOAD: the request.
        LOOPBACK: calls the node again for the next piece.
    Outputs:
        HTTP_RESPONSE_PAYLOAD: the body of the answer, or the events of a stream.
        LOOPBACK: a packet while there is more to send.
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    turn = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    next_turn = Out[bool]("LOOPBACK")
    timestamp_offset = None  # the number of packets per request varies

    def open(self, cc: CalculatorContext) -> None:
        """Called once per request: each has a run, and so an object, of its own."""
        self.clock = 0
        self.packets: AsyncIterator[str] | None = None
        self.client: ClientConnection | None = None

    async def process(self, cc: CalculatorContext) -> None:
        """Called with the request, and then once per packet of the answer."""
        if not cc.is_empty(self.request):
            payload = cc.get(self.request)
            self.client = payload.client
            self.packets = answer(payload.parsed_json)
        if self.client is not None and not self.client.is_writable:
            await self.client.writable()  # a slow reader gets the next piece when it is ready
        packet = None if self.packets is None else await anext(self.packets, None)
        if packet is not None:
            cc.emit(self.response, packet, at=self.clock)
            cc.emit(self.next_turn, True, at=self.clock)
            self.clock += 1


def answer(body: Any) -> AsyncIterator[str]:
    """Return the packets of an answer in OpenAI's form.

    Raises:
        RequestError: the body is not a chat; the client receives the text with status 400.
    """
    match body:
        case {"messages": [*_, {"content": content}]}:
            text = text_of(content)
        case _:
            raise RequestError("messages must be a list of messages", param="messages")
    head = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": body["model"],
    }
    if body.get("stream"):
        return events({**head, "object": "chat.completion.chunk"}, text)
    return whole({**head, "object": "chat.completion"}, text)


def text_of(content: Any) -> str:
    """Return the text of a message: a string, or a list of parts."""
    match content:
        case str():
            return content
        case [*parts]:
            return "".join(text_of_part(part) for part in parts)
        case _:
            raise RequestError("content must be a string or a list of parts", param="messages")


def text_of_part(part: Any) -> str:
    """Return the text of one part of a message."""
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            raise RequestError("only parts of text are understood", param="messages")


async def whole(head: Mapping[str, Any], text: str) -> AsyncIterator[str]:
    """Yield the only packet of an answer that is not a stream."""
    message = {"role": "assistant", "content": "".join([piece async for piece in reply(text)])}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    yield json.dumps({**head, "choices": [choice]})


async def events(head: Mapping[str, Any], text: str) -> AsyncIterator[str]:
    """Yield the events of a stream: the role, the pieces, the end."""
    yield event(head, {"role": "assistant", "content": ""})
    async for piece in reply(text):
        yield event(head, {"content": piece})
    yield event(head, {}, finish_reason="stop")
    yield "data: [DONE]\n\n"


def event(head: Mapping[str, Any], delta: Any, finish_reason: str | None = None) -> str:
    """Return one event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
