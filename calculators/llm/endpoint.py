"""Declarations of the endpoints of language models: what one is made of.

This module is imported for every server, also for ``graphrt serve --help``, so the functions of a
declaration import what they need when they are called.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from calculators.kit.tasks.endpoint import TaskEndpoint

if TYPE_CHECKING:
    from calculators.kit.requests.http_payload import Continued, HttpPayload, RequestError
    from calculators.kit.requests.members import Members
    from calculators.kit.requests.schema import Schema
    from calculators.language.generation_request import Api
    from calculators.llm.requests.checked_request import CheckedRequest
    from calculators.llm.requests.model_defaults import ModelDefaults
    from calculators.llm.requests.request_limits import RequestLimits
    from calculators.llm.servable import LlmServable

_R = TypeVar("_R")
_G = TypeVar("_G", bound="CheckedRequest")


#: All endpoints, in the order of their declarations.
_declared: Final[list[LlmEndpoint]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling(Generic[_R]):
    """The code of one endpoint.

    Attributes:
        members: all members that bodies may have.
        parse: returns the checked request of a parsed body; raises `RequestError`.
        any_of: members of which a body has at least one.
    """

    members: Members
    parse: Callable[[object, RequestLimits, ModelDefaults], _R]
    any_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting(Handling[_R]):
    """An endpoint that answers without generating text.

    Attributes:
        answer: returns the body of the answer; raises `RequestError`.
    """

    answer: Callable[[LlmServable, _R], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generating(Handling[_G]):
    """An endpoint that generates text.

    Attributes:
        api: its name among the APIs of language models.
    """

    api: Api


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LlmEndpoint(TaskEndpoint):
    """The declaration of one endpoint.

    Attributes:
        handling: imports and returns the code; cached.
        schemas: imports and returns the schemas that are the endpoint's own, by name.
        id: of the operation in the OpenAPI document.
        summary: of the operation.
        tag: of the operation.
        request: the name of the schema of bodies, which `Handling.members` make; "" with GET.
        response: the name of the schema of answers.
        event: the name of the schema of events, if ``streams``.
        examples: bodies of requests by name, without the model.
        about: describes the answer.
    """

    handling: Callable[[], Counting[Any] | Generating[Any]]
    schemas: Callable[[], Mapping[str, Schema]]
    id: str
    summary: str
    response: str
    request: str = ""
    event: str = ""
    tag: str = "OpenAI"
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    about: str = "The answer: whole, or with `stream` in events."

    def __post_init__(self) -> None:
        _declared.append(self)

    def parse(
        self,
        body: object,
        limits: RequestLimits,
        defaults: ModelDefaults,
        continued: Continued | None = None,
    ) -> Any:
        """Return the checked request of a parsed body.

        ``continued``: what of the body the client has not sent.

        Raises:
            RequestError: with the member that is wrong as ``param``. The text about an unknown
                member names the endpoint that has it.
        """
        from calculators.kit.requests.http_payload import RequestError

        try:
            return self.handling().parse(body, limits, defaults)
        except RequestError as error:
            if continued is not None and continued.earlier:
                error = _of_own_items(error, continued)
            raise _with_hint(error, self) from None

    def body(self, payload: HttpPayload) -> Any:
        """Return the parsed body of a request; that of one with GET is empty.

        Raises:
            RequestError: it is not JSON.
        """
        return payload.json() if "POST" in self.methods else {}


def _of_own_items(error: RequestError, continued: Continued) -> RequestError:
    """Return an error about an item of ``input`` with the place that the client knows."""
    from calculators.kit.requests.http_payload import RequestError

    found = re.match(r"input\[(\d+)\]", error.param or "")
    if found is None:
        return error
    place = int(found[1]) - continued.earlier
    mine = f"input[{place}]" if place >= 0 else f"{continued.source}, item {found[1]}"
    param = f"{mine}{(error.param or '')[found.end() :]}" if place >= 0 else continued.source
    return RequestError(
        error.message.replace(found[0], mine), param=param, code=error.code, reason=error.reason
    )


def _with_hint(error: RequestError, endpoint: LlmEndpoint) -> RequestError:
    """Return an error that names the endpoint with an unknown member; other errors unchanged."""
    from calculators.kit.requests.members import UNKNOWN, Standing, unknown
    from calculators.llm.requests.checked_request import ELSEWHERE

    if error.reason != UNKNOWN or error.param is None or error.param in ELSEWHERE:
        return error
    # An endpoint of OpenAI's API first: other servers' lookups have some of its members.
    for other in sorted(_declared, key=lambda each: not each.paths()[0].startswith("/v3/")):
        member = other.handling().members.get(error.param)
        if member is not None and member.standing is not Standing.REFUSED:
            hint = f"{other.paths()[0]} has it, {endpoint.paths()[0]} does not"
            return unknown(error.param, endpoint.handling().members, hint)
    return error


def events_of(asked: Mapping[str, Any], answer: str, *, path: str) -> str:
    """See `TaskEndpoint.events_of`; ``path``: the end of it, by which the API has its name."""
    from calculators.language.generation_request import Api
    from calculators.llm.api.whole_answer import events_of_answer

    return events_of_answer(Api(path[1:]), asked, answer)
