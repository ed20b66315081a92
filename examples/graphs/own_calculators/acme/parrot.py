"""A calculator that answers ``POST /v3/chat/completions``."""

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graphrt import Calculator, CalculatorContext, In, Out, calculator


@calculator("acme.Parrot")
class Parrot(Calculator):
    """Repeats the last message; in a stream, word by word."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    turn = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    next_turn = Out[bool]("LOOPBACK")
    timestamp_offset = None  # the number of words per turn of the loop varies

    def open(self, cc: CalculatorContext) -> None:
        """Each request has a run, and so a calculator object, of its own."""
        self.clock = 0
        self.packets: Iterator[str] = iter(())

    async def process(self, cc: CalculatorContext) -> None:
        """Called with the request, and then for each turn of the loop."""
        if not cc.is_empty(self.request):
            self.packets = answer(cc.get(self.request).parsed_json)
        packet = next(self.packets, None)
        if packet is not None:
            cc.emit(self.response, packet, at=self.clock)
            cc.emit(self.next_turn, True, at=self.clock)
            self.clock += 1


def answer(body: Any) -> Iterator[str]:
    """Return the packets of an answer. A `RequestError` is answered with 400 and its text."""
    match body:
        case {"messages": [*_, {"content": str(text)}]}:
            pass
        case _:
            raise RequestError("the last message must have text as its content", param="messages")
    head = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": body["model"],
    }
    if not body.get("stream"):
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return iter([json.dumps({**head, "object": "chat.completion", "choices": [choice]})])
    return events({**head, "object": "chat.completion.chunk"}, text)


def events(head: dict[str, Any], text: str) -> Iterator[str]:
    """Yield a stream: one event for the role, one for each word, one for the end."""
    words = text.split(" ")
    pieces = [words[0], *(f" {word}" for word in words[1:])]
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces), {}]
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
    yield "data: [DONE]\n\n"
