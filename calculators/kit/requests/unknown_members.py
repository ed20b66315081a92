"""`UnknownMembers`: the rule for what a server does not know. Light, as the help reads it."""

from __future__ import annotations

from enum import StrEnum


class UnknownMembers(StrEnum):
    """The rule for a part of a request that this server does not know, such as a new member.

    With WARN the request is answered without it, and the answer and the log name it; only what
    looks like a misspelt known member is refused. With IGNORE everything unknown changes nothing,
    and is not reported.
    """

    REFUSE = "refuse"
    WARN = "warn"
    IGNORE = "ignore"
