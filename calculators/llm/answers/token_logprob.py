"""Log-probabilities of tokens, in the two forms that OpenAI's endpoints have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calculators.llm.answers.json_text import quote

#: OpenAI's own value for a token that cannot be chosen; JSON has no infinity.
IMPOSSIBLE: Final = -9999.0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token as text and as bytes (a token may be part of a character), with its probability.

    ``logprob`` above 0, NaN or None: there is none, as for the first token of an echoed prompt.
    """

    token: str
    bytes: bytes
    logprob: float | None


def chat_logprobs_json(tokens: Sequence[TokenLogprob]) -> str:
    """The ``logprobs`` member of a chat choice."""
    return f'{{"content":[{logprob_items_json(tokens)}],"refusal":null}}'


def logprob_items_json(tokens: Sequence[TokenLogprob]) -> str:
    """Tokens as chat choices and responses list them. There is no place for an unknown one."""
    return ",".join(
        f'{{"token":{quote(token.token)},"logprob":{_printed(token.logprob) or IMPOSSIBLE}'
        f',"bytes":[{",".join(map(str, token.bytes))}],"top_logprobs":[]}}'
        for token in tokens
    )


def completion_logprobs_json(
    tokens: Sequence[TokenLogprob], *, top: bool, first_offset: int = 0
) -> str:
    """The ``logprobs`` member of a completion choice.

    Offsets are in characters, for clients to index the text with (OpenVINO Model Server counts
    bytes). ``top`` repeats each token as the only one of its ``top_logprobs``.
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
    """How many characters begin in a token: of its bytes, those that do not continue one."""
    return sum(byte & 0xC0 != 0x80 for byte in token.bytes)


def _printed(value: float | None) -> str | None:
    """A JSON number, or None where there is no log-probability."""
    if value is None or math.isnan(value) or value > 0:
        return None
    return repr(max(float(value), IMPOSSIBLE))
