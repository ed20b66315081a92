"""How many answers a request wants, and how they are searched for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.requests import fields
from calculators.requests.members import Members, honoured, table
from calculators.requests.readers import POSITIVE, Integer

#: Tokens that all answers of a request have together at most where it names no number: for
#: answers beside each other, and for beams, which show nothing before the last of them has ended.
UNASKED_TOKENS: Final = 16384
UNASKED_BEAM_TOKENS: Final = 4096

N: Final = Integer(minimum=1, maximum=fields.INT32_MAX)
CHOICE_MEMBERS: Final[Members] = table(
    honoured("n", N, f"Answers, {LIMITS.max_choices} at most; with `best_of` as many as that."),
    honoured(
        "best_of",
        POSITIVE,
        f"Beams of a beam search; {LIMITS.best_of_limit} at most unless the graph says"
        " otherwise. Not in streams.",
    ),
)


@dataclass(frozen=True, slots=True)
class Choices:
    """``n`` answers; ``beams`` above 1 is beam search, from which the best ``n`` are taken."""

    n: int = 1
    beams: int = 1


def most_unasked(most: int | None, *, n: int, beams: int) -> int | None:
    """New tokens of each answer where the request names no number.

    ``most`` is what the model or the node's options say; None is no limit. A single answer may
    have all of it, several share.
    """
    if beams > 1:
        share = UNASKED_BEAM_TOKENS // beams
    elif n > 1:
        share = UNASKED_TOKENS // n
    else:
        return most
    share = max(1, share)
    return share if most is None else min(most, share)


def read_choices(body: Mapping[str, Any], limits: RequestLimits) -> Choices:
    """Resolve ``n`` and ``best_of`` of a checked body.

    ``best_of`` above 1 asks for beam search, as in OpenVINO Model Server. Beams are only known
    when the search has ended, so they cannot be streamed. ``n`` alone is that many samples.
    """
    beams = body.get("best_of")
    n = body.get("n", 1)
    if beams is not None and beams > limits.best_of_limit:
        raise fields.above("best_of", beams, limits.best_of_limit)
    if beams is not None and n > beams:
        raise fields.invalid("n", f"{n} is above best_of, which is {beams}")
    if beams is None and n > limits.max_choices:
        raise fields.invalid("n", f"{n} is above the maximum {limits.max_choices}")
    if beams is not None and beams > 1 and body.get("stream") is True:
        raise fields.invalid(
            "best_of",
            f"{beams} is beam search, which cannot be streamed; leave out stream or best_of",
        )
    if beams is not None and beams > 1 and not limits.has_beams:
        raise fields.invalid(
            "best_of",
            f"{beams} is beam search, which this model is not served with; leave it out; n makes "
            "several answers",
        )
    return Choices(n, beams or 1)
