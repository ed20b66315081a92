"""A guard in front of a language model: it masks e-mail addresses and refuses listed phrases."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graphrt import Calculator, CalculatorContext, In, Options, Out, calculator, options

#: Possessive, and only where no such character stands before it: the time that a search takes grows
#: with the length of the text and not with its square, whatever a client sends.
EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+")


@options("project_name.GuardOptions")
@dataclass(frozen=True)
class GuardOptions:
    """The options that graph.pbtxt sets.

    Attributes:
        refused: phrases; a request with one of them, in any case, is refused.
        mask: replaces each e-mail address.
        max_characters: requests with more text are refused, which bounds the time of the search.
    """

    refused: tuple[str, ...] = ()
    mask: str = "[e-mail]"
    max_characters: int = 200_000


@calculator("project_name.Guard")
class Guard(Calculator):
    """Checks every text of a request before the language model sees it.

    The whole body is searched, because messages are not its only way to the prompt: tools have
    descriptions, and other endpoints have other members.

    Inputs:
        HTTP_REQUEST_PAYLOAD: the request.
    Outputs:
        HTTP_REQUEST_PAYLOAD: the request with masked texts; nothing if it is refused.
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    checked = Out[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    options = Options(GuardOptions)

    def process(self, cc: CalculatorContext) -> None:
        """Called once per request.

        Raises:
            RequestError: the request is refused; the client receives the text with status 400.
        """
        payload = cc.get(self.request)
        body = payload.parsed_json
        if has_token_ids(body):
            raise RequestError("prompt must be text", param="prompt")
        texts = list(texts_of(body))
        if sum(map(len, texts)) > self.options.max_characters:
            limit = self.options.max_characters
            raise RequestError(f"the request has more than {limit} characters of text")
        phrases = [phrase.casefold() for phrase in self.options.refused]
        for text in texts:
            folded = text.casefold()
            if any(phrase in folded for phrase in phrases):
                raise RequestError("this server does not answer questions of this kind")
        masked = with_masks(body, self.options.mask)
        checked = replace(payload, parsed_json=masked, body=json.dumps(masked).encode())
        cc.emit(self.checked, checked)


def has_token_ids(body: Any) -> bool:
    """Return whether the prompt of a completion is given as token ids, which hide its text."""
    prompt = body.get("prompt") if isinstance(body, dict) else None
    texts = prompt if isinstance(prompt, list) else [prompt]
    return not all(text is None or isinstance(text, str) for text in texts)


def texts_of(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, names of members included."""
    match value:
        case str():
            yield value
        case list():
            for element in value:
                yield from texts_of(element)
        case dict():
            for name, member in value.items():
                yield name
                yield from texts_of(member)
        case _:
            return


def with_masks(value: Any, mask: str) -> Any:
    """Return a copy of a JSON value in whose strings each e-mail address is replaced."""
    match value:
        case str():
            return EMAIL.sub(lambda _: mask, value)
        case list():
            return [with_masks(element, mask) for element in value]
        case dict():
            return {
                with_masks(name, mask): with_masks(member, mask) for name, member in value.items()
            }
        case _:
            return value
