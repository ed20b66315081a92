"""A guard around a language model: it masks e-mail addresses and refuses listed phrases."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from graphrt import GenerationRequest, Refusal, RequestError, on_request, on_text, options

#: Possessive, and only where no such character stands before it: the time that a search takes grows
#: with the length of the text and not with its square, whatever a client sends.
EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+", re.ASCII)
#: The characters of addresses: what ends with them may go on.
OF_ADDRESSES: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+@-"


@options("project_name.GuardOptions")
@dataclass(frozen=True)
class GuardOptions:
    """The options that graph.pbtxt sets.

    Attributes:
        refused: phrases; a request with one of them, in any case, is refused.
        mask: replaces each e-mail address.
        max_characters: texts of a request that are longer together are refused, which bounds the
            time of the search.
    """

    refused: tuple[str, ...] = ()
    mask: str = "[e-mail]"
    max_characters: int = 200_000


@on_request
async def check_request(request: GenerationRequest, guard: GuardOptions) -> GenerationRequest:
    """Check every text that the model would read: messages, calls, descriptions of tools.

    Raises:
        Refusal: there is a listed phrase; clients of each API get it in their own form.
        RequestError: the request cannot be checked; the client gets status 400.
    """
    if not all(isinstance(prompt, str) for prompt in request.prompts):
        raise RequestError("prompt must be text", param="prompt")
    phrases = [phrase.casefold() for phrase in guard.refused]
    characters = 0

    def checked(text: str) -> str:
        nonlocal characters
        characters += len(text)
        if characters > guard.max_characters:
            limit = guard.max_characters
            raise RequestError(f"the request has more than {limit} characters of text")
        folded = text.casefold()
        if any(phrase in folded for phrase in phrases):
            raise Refusal("This server does not answer questions of this kind.")
        return EMAIL.sub(lambda _: guard.mask, text)

    return request.map_text(checked)


@on_text
async def mask_answer(text: AsyncIterator[str], guard: GuardOptions) -> AsyncIterator[str]:
    """Mask addresses in the answer while the model writes it.

    A piece may end inside an address, so what may go on is held back until more text comes.
    """
    held = ""
    async for piece in text:
        held += piece
        end = len(held.rstrip(OF_ADDRESSES))
        yield EMAIL.sub(lambda _: guard.mask, held[:end])
        held = held[end:]
    yield EMAIL.sub(lambda _: guard.mask, held)
