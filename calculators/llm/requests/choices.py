"""``n`` and ``best_of``: the number of answers, and beam search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, table
from calculators.kit.requests.readers import POSITIVE, Integer
from calculators.llm.requests.request_limits import LIMITS, RequestLimits

#: The most tokens of all answers of a request together, if it sets no limit: for samples, and for
#: beams, which return nothing before the last of them has ended.
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


class Choices(Struct, frozen=True):
    """``n`` answers. ``beams`` above 1: the best ``n`` of a beam search."""

    n: int = 1
    beams: int = 1


#: The choices of a request that has none of the members.
ONE_CHOICE: Final = Choices()


def most_unasked(most: int | None, *, n: int, beams: int) -> int | None:
    """Return the most new tokens of each answer of a request that sets no limit.

    ``most`` is the limit of the model or of the node's options; None is no limit. A single answer
    may use all of it; several also share a fixed number.
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

    ``best_of`` above 1 asks for beam search, as in OpenVINO Model Server. Beams are known only when
    the search has ended, so they cannot be streamed. ``n`` alone asks for that many samples.

    Raises:
        RequestError: a number is above its limit, or this model has no beam search.
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
