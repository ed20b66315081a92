"""From a chat to its question, and from passages to the chat that the language model sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graphrt import Calculator, CalculatorContext, Code, In, Options, Out, calculator, options
from passages import Passage

#: Characters of a question that is searched for; the model sees all of it.
LONGEST_QUESTION = 1000


@calculator("rag.Question")
class Question(Calculator):
    """Takes the question out of a chat: the text of the user's last message.

    Inputs:
        HTTP_REQUEST_PAYLOAD: a request to /v3/chat/completions.
    Outputs:
        QUESTION: the question.
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    question = Out[str]("QUESTION")

    def process(self, cc: CalculatorContext) -> None:
        payload = cc.get(self.request)
        if not payload.uri.partition("?")[0].endswith("/chat/completions"):
            raise RequestError("this graph answers /v3/chat/completions", code=Code.NOT_FOUND)
        question = question_of(payload.parsed_json)
        if not question.strip():
            raise RequestError("messages must have a text of the user", param="messages")
        cc.emit(self.question, question[:LONGEST_QUESTION])


def question_of(body: Any) -> str:
    """Return the text of the last message of the user; "" if there is none."""
    messages = body.get("messages") if isinstance(body, dict) else None
    for message in reversed(messages) if isinstance(messages, list) else ():
        match message:
            case {"role": "user", "content": str(text)}:
                return text
            case {"role": "user", "content": list(parts)}:
                texts = (part.get("text") for part in parts if isinstance(part, dict))
                return "\n".join(text for text in texts if isinstance(text, str))
    return ""


@options("rag.PromptOptions")
class PromptOptions:
    """The options of the node.

    Attributes:
        instruction: stands before the passages.
        count: the number of passages that the model sees.
        max_characters: of all passages; the last one is cut off there.
    """

    instruction: str = "Answer with the help of these passages of the documents."
    count: int = 3
    max_characters: int = 2000


@calculator("rag.Prompt")
class Prompt(Calculator):
    """Puts the best passages into a chat, before everything that the client has written.

    Inputs:
        HTTP_REQUEST_PAYLOAD: the request.
        PASSAGES: passages.
        ORDER: their places, the best one first, int64 (passages,).
    Outputs:
        HTTP_REQUEST_PAYLOAD: the request with the passages.
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    passages = In[list[Passage]]("PASSAGES")
    order = In[np.ndarray[Any, Any]]("ORDER")
    prompt = Out[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    options = Options(PromptOptions)

    def process(self, cc: CalculatorContext) -> None:
        passages = cc.get(self.passages)
        best = [passages[place] for place in cc.get(self.order)[: self.options.count]]
        text = f"{self.options.instruction}\n\n{shown(best, self.options.max_characters)}"
        payload = cc.get(self.request)
        body = with_system_text(payload.parsed_json, text)
        cc.emit(self.prompt, replace(payload, parsed_json=body))


def shown(passages: list[Passage], longest: int) -> str:
    """Return passages with their titles and files, at most so many characters."""
    blocks = (f"{each.title} ({each.source})\n{each.text}" for each in passages)
    return "\n\n".join(blocks)[:longest]


def with_system_text(body: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a chat that begins with a text of the system, and then with the client's own."""
    first, *others = body["messages"]
    match first:
        case {"role": "system" | "developer", "content": str(own)}:
            return {**body, "messages": [{**first, "content": f"{text}\n\n{own}"}, *others]}
        case {"role": "system" | "developer", "content": list(parts)}:
            mixed = [{"type": "text", "text": text}, *parts]
            return {**body, "messages": [{**first, "content": mixed}, *others]}
    return {**body, "messages": [{"role": "system", "content": text}, first, *others]}
