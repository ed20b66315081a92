"""``truncate_prompt_tokens``: a prompt that is too long is cut, and not refused.

Members, meaning and the side that is cut are vLLM's (``renderers/params.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, table
from calculators.kit.requests.readers import Choice, Integer

#: The member that asks for it.
TRUNCATES: Final = "truncate_prompt_tokens"
#: Bytes of one token id of a prompt.
_ID_BYTES: Final = 8

TRUNCATION_MEMBERS: Final[Members] = table(
    honoured(
        TRUNCATES,
        Integer(
            minimum=-1, maximum=fields.INT32_MAX, refused={0: "leaves nothing; -1 is all that fits"}
        ),
        "Only the last tokens of the prompt, so many at most; -1 is what the model holds beside the"
        " answer. Text and token ids only, without images.",
    ),
    honoured(
        "truncation_side",
        Choice(("left", "right")),
        "With `truncate_prompt_tokens`: `left` cuts the beginning off, which is the default.",
    ),
)


class Truncation(NamedTuple):
    """The cut of a prompt.

    Attributes:
        tokens: the most tokens that are left; -1 is all that fit.
        keeps_end: cut the beginning off, not the end.
    """

    tokens: int
    keeps_end: bool = True

    def cut(self, input_ids: bytes, room: int | None) -> bytes:
        """Return the ids that are left of a prompt, 64-bit integers like ``input_ids``.

        ``room``: the tokens that the model can take as a prompt; None is no limit.

        Raises:
            RequestError: the model cannot hold so many, or has no known length for -1.
        """
        most = self.tokens
        if room is not None and most > room:
            raise fields.invalid(
                TRUNCATES,
                f"{most} is above the maximum {room}, which this model can take beside the answer",
            )
        if most == -1:
            if room is None:
                raise fields.invalid(TRUNCATES, "-1 needs a model of known length; send a number")
            most = max(1, room)
        size = most * _ID_BYTES
        return input_ids[-size:] if self.keeps_end else input_ids[:size]


def read_truncation(body: Mapping[str, Any]) -> Truncation:
    """Resolve the members of a checked body that has `TRUNCATES`."""
    return Truncation(body[TRUNCATES], body.get("truncation_side") != "right")
