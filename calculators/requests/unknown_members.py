"""`UnknownMembers`: the rule for members of requests that no endpoint knows."""

from __future__ import annotations

from enum import StrEnum


class UnknownMembers(StrEnum):
    """The rule for a member that is not known, such as a misspelt one.

    With IGNORE a misspelt member changes nothing, and is not reported. With WARN the request
    is answered too, and the answer and the log name the member.
    """

    REFUSE = "refuse"
    WARN = "warn"
    IGNORE = "ignore"
