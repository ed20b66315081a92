"""`LlmSettings`: the operator's settings for all language models of a server."""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.requests.request_queue import RequestQueue
from calculators.kit.settings.declaration import RUNNING, option
from calculators.kit.settings.value_types import switch


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings(RequestQueue):
    """Flags of language models, and the bound on the requests of one engine."""

    verbose_response: bool = option(
        False,
        "answers show the prompt as the model got it, and the raw text it wrote",
        group=RUNNING,
        metavar="BOOL",
        reads=switch,
    )
    special_tokens_in_text: bool = option(
        False,
        "special tokens in the text of messages act as such, as with most servers: a text can end "
        "its turn and speak for the system",
        group=RUNNING,
        metavar="BOOL",
        reads=switch,
    )
