"""The handler of graph.pbtxt: says the last message backwards, word by word."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

from calculators.kit.requests.http_payload import RequestError


class OvmsPythonModel:
    """Answers OpenAI's chat completions. One object answers all requests, one call at a time."""

    def initialize(self, kwargs: dict[str, Any]) -> None:
        """Called once, when the graph is loaded: the place to load a model."""

    def execute(self, inputs: list[Any]) -> Any:
        """Called for each request; an object that is returned is the answer's JSON."""
        request = inputs[0].parsed_json
        words = last_message(request).split()[::-1]
        head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": request["model"],
        }
        if request.get("stream"):
            return self.chunks(head, words)
        message = {"role": "assistant", "content": " ".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {**head, "object": "chat.completion", "choices": [choice]}

    def chunks(self, head: dict[str, Any], words: list[str]) -> Iterator[Any]:
        """Yield chunks: each object is sent at once as an event; text is sent as it is."""
        pieces = words[:1] + [f" {word}" for word in words[1:]]
        deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces)]
        for delta in [*deltas, {}]:
            choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
            yield {**head, "object": "chat.completion.chunk", "choices": [choice]}
        yield "data: [DONE]\n\n"

    def finalize(self) -> None:
        """Called once, when the graph is unloaded."""


def last_message(request: dict[str, Any]) -> str:
    """Return the text of the last message. A `RequestError` is answered with 400 and its text."""
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        raise RequestError("messages must be a list with a message in it", param="messages")
    content = messages[-1].get("content")
    if not isinstance(content, str):
        raise RequestError("content must be a string", param=f"messages[{len(messages) - 1}]")
    return content
