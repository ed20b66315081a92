"""Log-probabilities of tokens, in the two JSON forms of OpenAI's endpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from calculators.language.token_logprob import TokenLogprob
from calculators.llm.answers.json_text import quote

#: OpenAI's own value for a token that cannot be chosen; JSON has no infinity.
IMPOSSIBLE: Final = -9999.0


def chat_logprobs_json(tokens: Sequence[TokenLogprob]) -> str:
    """Return the value of the member ``logprobs`` of a chat choice."""
    return f'{{"content":[{logprob_items_json(tokens)}],"refusal":null}}'


def logprob_items_json(tokens: Sequence[TokenLogprob]) -> str:
    """Return the items of chat choices and responses. An unknown value becomes `IMPOSSIBLE`."""
    return ",".join(
        f'{{"token":{quote(token.token)},"logprob":{_printed(token.logprob) or IMPOSSIBLE}'
        f',"bytes":[{",".join(map(str, token.bytes))}],"top_logprobs":[]}}'
        for token in tokens
    )


def completion_logprobs_json(
    tokens: Sequence[TokenLogprob], *, top: bool, first_offset: int = 0
) -> str:
    """Return the value of the member ``logprobs`` of a completion choice.

    Offsets are in characters, so that clients can index the text with them (OpenVINO Model Server
    counts bytes). ``top`` repeats each token as the only one of its ``top_logprobs``.
    """
    texts = [quote(token.token) for token in tokens]
    values = [_printed(token.logprob) or "null" for token in tokens]
    offsets = []
    offset = first_offset
    for token in tokens:
        offsets.append(str(offset))
        offset += characters_started(token)
    tops = "null"
    if top:
        pairs = zip(texts, values, strict=True)
        joined = (f"{{{text}:{value}}}" if value != "null" else value for text, value in pairs)
        tops = f"[{','.join(joined)}]"
    return (
        f'{{"tokens":[{",".join(texts)}],"token_logprobs":[{",".join(values)}]'
        f',"top_logprobs":{tops},"text_offset":[{",".join(offsets)}]}}'
    )


def characters_started(token: TokenLogprob) -> int:
    """Count the characters that begin in a token: its bytes without continuation bytes."""
    return sum(byte & 0xC0 != 0x80 for byte in token.bytes)


def _printed(value: float | None) -> str | None:
    """Return a JSON number, or None for an unknown log-probability."""
    if value is None or math.isnan(value) or value > 0:
        return None
    return repr(max(float(value), IMPOSSIBLE))
