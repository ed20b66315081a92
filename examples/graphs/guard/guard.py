import re
from collections.abc import AsyncIterator

from graphrt import GenerationRequest, Refusal, on_request, on_text


@on_request
async def no_codes(request: GenerationRequest) -> GenerationRequest:
    if "launch code" in request.last_text().lower():
        raise Refusal("I do not talk about launch codes.")
    return request


@on_text
async def mask(text: AsyncIterator[str]) -> AsyncIterator[str]:
    held = ""
    async for piece in text:  # a piece may end inside a word: hold that back
        *words, held = re.split(r"(?<=\s)", held + piece)
        yield "".join(words).replace("Paris", "*****")
    yield held.replace("Paris", "*****")
