"""`endpoint`: an async function becomes a calculator that answers a path of its own.

The types of the signature decide what the function takes and how it answers:

    parameter                               takes
    ``HttpPayload``, or a bare ``request``  the request itself
    a class of options                      the options of its node
    a name in braces in the path            that segment
    ``FormFile``, ``list[FormFile]``        uploads of a form (``multipart/form-data``)
    ``AsyncIterator[str]`` and its like     the messages of a WebSocket's client
    a number, text, enum, list of these     a query parameter; where no other parameter takes the
                                            body, with POST a member of it, or of a form
    anything else                           the body as JSON: dataclasses, TypedDicts, msgspec's
                                            structs, pydantic's models, ``dict[str, int]``

    result                                  answers
    ``-> AsyncIterator[T]`` with ``yield``  server-sent events; chunks, if T is bytes; messages of
                                            the WebSocket
    ``-> bytes``, ``-> HttpAnswer``         these bytes
    ``-> T``                                JSON

Values are converted, and types described for OpenAPI, by msgspec; a model of pydantic does both
itself, and pydantic is never imported.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, Final, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs

import msgspec

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import FormFile, HttpPayload, RequestError
from calculators.kit.requests.members import check_object
from calculators.kit.requests.request_record import set_current_record
from calculators.kit.tasks import AuthorEndpoint, ErrorForm, endpoint_at, is_servers
from calculators.kit.tasks.author_endpoint import AUTHOR_METHODS
from calculators.kit.tasks.operation import (
    BINARY,
    EVENTS,
    FORM,
    JSON,
    MediaType,
    Operation,
    TaskDescription,
    answer,
    events,
    media,
)
from calculators.language.authoring.functions import (
    AuthorError,
    closable,
    make_calculator,
    option_values,
)
from calculators.language.authoring.json_values import (
    JsonSchemas,
    converted,
    fits,
    members_of,
    missing,
    plain,
)
from calculators.language.mistakes import AuthorMistake, named, place_of
from graph_runtime import Calculator, CalculatorContext, Code, In, Options, Out
from graph_runtime.options.options import is_options_type
from graphrt_base.annotations import resolved

#: A longer body is converted in a thread: models of pydantic are code of Python.
_SHORT: Final = 64 * 1024
#: Fields of a query, of which each costs a moment of the loop.
_MOST_FIELDS: Final = 256
_SCALARS: Final = (bool, int, float, str)
_ITERATORS: Final = (AsyncIterator, AsyncIterable, AsyncGenerator)
_BODY_METHODS: Final = ("POST", "PUT", "PATCH")
_PATH: Final = re.compile(r"(/([\w.~:@!$&'()*+,;=%-]+|\{[A-Za-z_]\w*\}))+")
_SEGMENT: Final = re.compile(r"\{(\w+)\}")
_LINE: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a stream, for endpoints that yield more than data.

    Attributes:
        data: a text, or a value that is sent as JSON.
        event: its type; "": a message.
        id: what a browser repeats as ``Last-Event-ID`` when it connects again; "": none.
    """

    data: Any
    event: str = ""
    id: str = ""


class _From(Enum):
    """The part of a request that a parameter is made of."""

    REQUEST = auto()
    PATH = auto()
    NAMED = auto()
    FILE = auto()
    BODY = auto()
    MESSAGES = auto()


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    part: _From
    #: The annotation, with its notes.
    hint: Any
    default: Any = inspect.Parameter.empty
    is_list: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


def endpoint(
    path: str, /, *, methods: Sequence[str] = (), content_type: str = ""
) -> Callable[[Callable[..., Any]], type[Calculator]]:
    """Make a calculator of an async function that answers a path.

    ::

        @endpoint("/v3/countdown")
        async def countdown(start: int = 3) -> AsyncIterator[str]:
            for number in range(start, 0, -1):
                yield str(number)
                await asyncio.sleep(1)

    The calculator has the function's name. A server that imports its file serves it at the path;
    a graph may have it as a node, too. The module's text says what the types of the signature mean.
    A generator is closed when its client goes, and goes on no faster than the client reads.

    A value that does not fit its type is the client's 400, and so is a `RequestError` that the
    function raises. Any other exception is a 500 that names the node.

    Args:
        path: the whole path; ``{name}`` is a segment, which the parameter of that name gets.
        methods: GET and POST if not given, or POST alone where a parameter takes the body, or GET
            alone where none takes anything.
        content_type: of an answer of ``bytes`` or ``str``: "audio/wav", "text/plain".

    Raises:
        AuthorError: the path or the function cannot be an endpoint.
    """
    if not isinstance(path, str):
        name = getattr(path, "__name__", "NAME")
        raise AuthorError(f'@endpoint needs the path that is answered: @endpoint("/v3/{name}")')

    def decorate(function: Callable[..., Any]) -> type[Calculator]:
        shape = _Shape(function, path, tuple(methods), content_type)
        return make_calculator(
            function, EndpointFunction, shape.options, endpoint=shape.endpoint, shape=shape
        )

    return decorate


class EndpointFunction(Calculator):
    """Answers requests by an async function. Subclasses are made by `endpoint`.

    Attributes:
        endpoint: the path, for servers.
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    answer = Out[str | bytes | HttpAnswer]("HTTP_RESPONSE_PAYLOAD")
    timestamp_offset = None
    endpoint: ClassVar[AuthorEndpoint]
    shape: ClassVar[_Shape]
    function: Callable[..., Any]

    async def process(self, cc: CalculatorContext) -> None:
        payload = cc.get(self.request)
        shape = self.shape
        arguments = {**await shape.arguments(payload), **option_values(self)}
        if not shape.streams:
            made: Awaitable[Any] = self.function(**arguments)
            cc.emit(self.answer, shape.whole(await made))
            return
        time = cc.time
        if shape.stream_type:
            cc.emit(self.answer, HttpAnswer(b"", shape.stream_type, has_more=True), at=time)
            time += 1
        async with aclosing(closable(self.function(**arguments))) as pieces:
            async for piece in pieces:
                try:
                    packet = shape.piece(piece)
                except AuthorMistake as mistake:
                    # Thrown in there, so that the traceback ends at the author's own ``yield``.
                    with suppress(StopAsyncIteration):
                        await pieces.athrow(mistake)
                    raise
                cc.emit(self.answer, packet, at=time)
                # A piece is sent before the next one is asked for (decision 0053).
                cc.flush()
                time += 1
                await payload.client.writable()


class _Shape:
    """The signature of a function, read once.

    Attributes:
        endpoint: for servers.
        options: the options of the function's node, by parameter.
        streams: the function yields.
        stream_type: the content type of a stream; "" for a WebSocket.
    """

    def __init__(
        self, function: Callable[..., Any], path: str, methods: tuple[str, ...], content_type: str
    ) -> None:
        self._function = function
        self._name = name = getattr(function, "__qualname__", str(function))
        self._content_type = content_type
        self.streams = inspect.isasyncgenfunction(function)
        if not self.streams and not inspect.iscoroutinefunction(function):
            raise AuthorError(
                f"@endpoint: {name} is not an async function: write async def {name}; what takes "
                f"long without waiting goes into `await asyncio.to_thread(...)`"
            )
        self._check_path(path)
        try:
            hints = get_type_hints(function, include_extras=True)
        except Exception as error:
            raise AuthorError(f"{name}: its annotations cannot be read: {error}") from error
        self.options: dict[str, Options[Any]] = {}
        self._parameters = tuple(self._read(path, hints))
        self._check_segments(path)
        parts = [each.part for each in self._parameters]
        self._is_socket = _From.MESSAGES in parts
        self._has_form = _From.FILE in parts
        self._has_body = _From.BODY in parts
        self._result = self._read_result(hints)
        self.stream_type = ""
        if self.streams and not self._is_socket:
            is_bytes = resolved(self._result) is bytes
            self.stream_type = content_type or (BINARY if is_bytes else EVENTS)
        self._check_parts(parts)
        methods = self._methods(methods)
        #: Named parameters are members of the body, where there is one.
        self._has_members = not self._has_body and not self._is_socket and _From.NAMED in parts
        takes_body = any(each in _BODY_METHODS for each in methods)
        self._takes_whole = _From.REQUEST in parts
        #: Names that a query or body may have, where parameters take their members.
        self._named = frozenset(
            each.name for each in self._parameters if each.part in (_From.NAMED, _From.FILE)
        )
        bodies = [each.hint for each in self._parameters if each.part is _From.BODY]
        self._body_members = frozenset[str]().union(*map(members_of, bodies))
        self._takes_any = self._takes_whole and not (
            self._has_body or self._has_form or self._has_members
        )
        inputs = {_From.BODY, _From.FILE} | ({_From.NAMED} if self._has_members else set())
        self._needs_body = any(each.is_required for each in self._parameters if each.part in inputs)
        self.endpoint = AuthorEndpoint(
            path=path,
            methods=methods,
            takes_json=takes_body
            and (self._has_body or (self._has_members and not self._has_form)),
            takes_form=takes_body and (self._has_form or self._has_members),
            takes_any=takes_body and self._takes_any,
            needs_body=self._needs_body,
            is_socket=self._is_socket,
            description=self._described(path, methods),
        )

    # Reading --------------------------------------------------------------------------------------

    def _check_path(self, path: str) -> None:
        if _PATH.fullmatch(path) is None:
            raise AuthorError(
                f"{self._name}: {path!r} is not a path to answer: write one such as "
                f'"/v3/{self._function.__name__}", with "{{name}}" for a segment that varies'
            )
        if is_servers(path):
            raise AuthorError(f"{self._name}: the path {path} is the server's own; choose another")
        if endpoint_at(path) is not None:
            raise AuthorError(
                f"{self._name}: models answer the path {path}, and requests name which: serve a "
                f"graph that takes an HttpPayload under the name of a model, or choose another path"
            )

    def _read(self, path: str, hints: Mapping[str, Any]) -> list[_Parameter]:
        segments = _SEGMENT.findall(path)
        found: list[_Parameter] = []
        for name, parameter in inspect.signature(self._function).parameters.items():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise AuthorError(f"{self._name}: the parameter {name} must have a name and a type")
            if name not in hints and name != "request":
                raise AuthorError(
                    f"{self._name}: the parameter {name} has no annotation, which says what it "
                    f"takes: write {name}: str"
                )
            hint = hints.get(name, HttpPayload)
            kind = resolved(hint)
            if is_options_type(kind):
                self.options[name] = Options(kind)
                continue
            bare = _without_none(kind)
            part = _From.BODY
            is_list = get_origin(bare) in (list, tuple, set)
            if bare is HttpPayload:
                part = _From.REQUEST
            elif name in segments:
                part = _From.PATH
            elif bare is FormFile or (is_list and FormFile in get_args(bare)):
                part = _From.FILE
            elif (get_origin(bare) or bare) in _ITERATORS:
                part = _From.MESSAGES
                hint = (get_args(bare) or (str,))[0]
            elif _is_scalar(bare):
                part = _From.NAMED
            self._check_type(name, hint, part)
            found.append(_Parameter(name, part, hint, parameter.default, is_list))
        return found

    def _check_type(self, name: str, hint: Any, part: _From) -> None:
        if part in (_From.REQUEST, _From.FILE) or resolved(hint) is Any:
            return
        try:
            JsonSchemas("", is_strict=True).of(hint)
        except Exception as error:
            raise AuthorError(
                f"{self._name}: a value of JSON cannot become the type of {name}, "
                f"{inspect.formatannotation(hint)}: use a dataclass, a TypedDict, a model of "
                f"pydantic, or types of these such as list[int]"
            ) from error

    def _check_segments(self, path: str) -> None:
        lacking = {*_SEGMENT.findall(path)} - {each.name for each in self._parameters}
        if lacking:
            name = min(lacking)
            raise AuthorError(
                f"{self._name}: {{{name}}} of the path {path} needs a parameter {name}: str"
            )

    def _read_result(self, hints: Mapping[str, Any]) -> Any:
        """Return the annotation of the result, or of what is yielded."""
        function = self._function.__name__
        result = hints.get("return", _MISSING)
        if not self.streams:
            if result is _MISSING:
                raise AuthorError(
                    f"{self._name}: the result has no annotation, which says how it is answered: "
                    f"async def {function}(...) -> dict[str, int]"
                )
            if (get_origin(resolved(result)) or resolved(result)) in _ITERATORS:
                raise AuthorError(f"{self._name} is declared to yield and has no `yield` in it")
            return result
        kind = resolved(result)
        if result is _MISSING or (get_origin(kind) or kind) not in _ITERATORS:
            raise AuthorError(
                f"{self._name} yields: say what, async def {function}(...) -> AsyncIterator[str]"
            )
        # `kind` has lost the notes of the annotation.
        return (get_args(resolved(result, keeps_notes=True)) or (Any,))[0]

    def _check_parts(self, parts: Sequence[_From]) -> None:
        bodies = [each.name for each in self._parameters if each.part is _From.BODY]
        if len(bodies) > 1:
            raise AuthorError(
                f"{self._name}: both {bodies[0]} and {bodies[1]} take the body: make one dataclass "
                f"of them"
            )
        if self._has_body and self._has_form:
            raise AuthorError(
                f"{self._name}: a form has uploads and texts, and no JSON for {bodies[0]}: take "
                f"its members as parameters"
            )
        if self._is_socket and (self._has_body or self._has_form or not self.streams):
            raise AuthorError(
                f"{self._name}: a WebSocket has messages and no body: take them by one "
                f"AsyncIterator, and answer with yield"
            )

    def _methods(self, methods: tuple[str, ...]) -> tuple[str, ...]:
        if any(each not in AUTHOR_METHODS for each in methods):
            raise AuthorError(
                f"{self._name}: methods are several of {', '.join(AUTHOR_METHODS)}: "
                f'methods=("POST",)'
            )
        if self._is_socket:
            if methods not in ((), ("GET",)):
                raise AuthorError(f"{self._name}: a WebSocket is opened with GET alone")
            return ("GET",)
        has_body = self._has_body or self._has_form
        if has_body and any(each not in _BODY_METHODS for each in methods):
            raise AuthorError(f"{self._name} takes a body, which {methods[0]} does not have")
        if methods:
            return tuple(dict.fromkeys(methods))
        if has_body:
            return ("POST",)
        takes = any(each.part in (_From.NAMED, _From.REQUEST) for each in self._parameters)
        return ("GET", "POST") if takes else ("GET",)

    # A request ------------------------------------------------------------------------------------

    async def arguments(self, payload: HttpPayload) -> dict[str, Any]:
        """Return the arguments that a request has for the function.

        Raises:
            RequestError: a value is missing or does not fit, or the request is for another path.
        """
        path, _, query = payload.uri.partition("?")
        segments = self.endpoint.match(path)
        if segments is None or payload.method not in self.endpoint.methods:
            methods = " and ".join(self.endpoint.methods)
            text = f"this model answers {methods} {self.endpoint.path} only"
            raise RequestError(text, code=Code.NOT_FOUND)
        found: dict[str, Any] = {}
        members, are_texts = self._members(payload, query)
        if not self._takes_whole:
            set_current_record(payload.record)
            if self._named:
                check_object(members, "", self._named)
            if self._body_members and isinstance(payload.parsed_json, dict):
                check_object(payload.parsed_json, "", self._body_members)
        for each in self._parameters:
            match each.part:
                case _From.REQUEST:
                    found[each.name] = payload
                case _From.PATH:
                    found[each.name] = converted(
                        segments[each.name], each.hint, each.name, are_texts=True
                    )
                case _From.MESSAGES:
                    found[each.name] = _received(payload, each.hint)
                case _From.FILE:
                    found[each.name] = self._files(payload, each)
                case _From.BODY:
                    found[each.name] = await _body(payload, each)
                case _From.NAMED:
                    found[each.name] = _named_value(each, members, are_texts=are_texts)
        return found

    def _members(self, payload: HttpPayload, query: str) -> tuple[Mapping[str, Any], bool]:
        """Return the values of named parameters, and whether they are lists of texts."""
        if self._has_members and payload.method in _BODY_METHODS:
            if payload.form is not None:
                return payload.form.fields, True
            value = {} if payload.parsed_json is None else payload.parsed_json
            if not isinstance(value, dict):
                raise RequestError("the body must be a JSON object")
            return value, False
        try:
            return parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS), True
        except ValueError:
            raise RequestError(f"the query has more than {_MOST_FIELDS} fields") from None

    def _files(self, payload: HttpPayload, parameter: _Parameter) -> Any:
        name = parameter.name
        files = () if payload.form is None else payload.form.files.get(name, ())
        if not files:
            if payload.form is not None and name in payload.form.fields:
                text = f"{name} must be a file: its part of the form needs a filename"
                raise RequestError(text, param=name)
            if parameter.is_required:
                raise missing(name)
            return parameter.default
        if parameter.is_list:
            return list(files)
        if len(files) > 1:
            raise RequestError(f"{name} is given {len(files)} times", param=name)
        return files[0]

    # An answer ------------------------------------------------------------------------------------

    def whole(self, value: Any) -> str | bytes | HttpAnswer:
        """Return the packet of what the function has returned.

        Raises:
            AuthorMistake: it is not of the type that the function declares, or not JSON.
        """
        self._check(value, "returned", "return")
        if isinstance(value, HttpAnswer):
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return HttpAnswer(bytes(value), self._content_type or BINARY)
        if isinstance(value, str) and self._content_type:
            return HttpAnswer(value.encode("utf-8", "replace"), self._content_type)
        return HttpAnswer(self._json(value, "returned"), self._content_type or JSON)

    def piece(self, value: Any) -> str | bytes:
        """Return the packet of what the function has yielded.

        Raises:
            AuthorMistake: as in `whole`.
        """
        self._check(value, "yielded", "yield")
        if self._is_socket:
            return (
                value if isinstance(value, str | bytes) else self._json(value, "yielded").decode()
            )
        if self.stream_type != EVENTS:
            if isinstance(value, str):
                return value.encode("utf-8", "replace")
            return value if isinstance(value, bytes) else self._json(value, "yielded") + b"\n"
        event = value if isinstance(value, ServerSentEvent) else ServerSentEvent(value)
        data = event.data
        text = data if isinstance(data, str) else self._json(data, "yielded").decode()
        lines = [f"event: {event.event}"] if event.event else []
        lines += [f"id: {event.id}"] if event.id else []
        if any(_LINE.search(line) for line in lines):
            raise AuthorMistake(f"{self._at} yielded an event whose type or id has a line end")
        lines += [f"data: {line}" for line in _LINE.split(text)]
        return "\n".join(lines) + "\n\n"

    def _check(self, value: Any, did: str, word: str) -> None:
        if isinstance(value, ServerSentEvent | HttpAnswer) or fits(value, resolved(self._result)):
            return
        declared = inspect.formatannotation(self._result)
        meant = f"`{word}` one on every way through it, or change the annotation"
        raise AuthorMistake(
            f"{self._at} {did} {named(value)}, and its signature says {declared}: {meant}"
        )

    def _json(self, value: Any, did: str) -> bytes:
        try:
            return msgspec.json.encode(value, enc_hook=plain)
        except Exception as error:
            raise AuthorMistake(
                f"{self._at} {did} {named(value)} that JSON has no form for: {error}"
            ) from None

    @property
    def _at(self) -> str:
        return place_of(self._function)

    # Its description ------------------------------------------------------------------------------

    def _described(self, path: str, methods: tuple[str, ...]) -> TaskDescription:
        name = self._function.__name__
        schemas = JsonSchemas(name)
        summary, _, rest = (inspect.getdoc(self._function) or name).partition("\n")
        operations = tuple(
            Operation(
                method=method.lower(),
                paths={"": path},
                id=f"{name}_{method.lower()}",
                tag="Endpoints",
                summary=summary.strip(),
                about=rest.strip(),
                form=ErrorForm.OPENAI,
                runs_graph=True,
                errors=frozenset({426}) if self._is_socket else frozenset(),
                parameters=("Timeout",),
                own_parameters=tuple(self._described_parameters(method, schemas)),
                body=self._described_body(schemas) if method in _BODY_METHODS else None,
                body_is_required=self._needs_body,
                answers=self._described_answers(schemas),
            )
            for method in methods
        )
        return TaskDescription(operations, schemas.named)

    def _described_parameters(self, method: str, schemas: JsonSchemas) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for each in self._parameters:
            if each.part is _From.PATH:
                place, schema = "path", schemas.of(each.hint)
            elif each.part is _From.NAMED and not (self._has_members and method in _BODY_METHODS):
                place, schema = "query", schemas.of(each.hint, each.default)
            else:
                continue
            is_required = place == "path" or each.is_required
            found.append(
                {"name": each.name, "in": place, "required": is_required, "schema": schema}
            )
        return found

    def _described_body(self, schemas: JsonSchemas) -> dict[str, MediaType] | None:
        for each in self._parameters:
            if each.part is _From.BODY:
                return {JSON: media(schemas.of(each.hint))}
        if self._takes_any:
            return {"*/*": media({})}
        inputs = [each for each in self._parameters if each.part in (_From.NAMED, _From.FILE)]
        if not inputs:
            return None
        file = {"type": "string", "format": "binary"}
        members = {
            each.name: (
                schemas.of(each.hint, each.default)
                if each.part is _From.NAMED
                else {"type": "array", "items": file}
                if each.is_list
                else file
            )
            for each in inputs
        }
        schema: dict[str, Any] = {"type": "object", "properties": members}
        required = [each.name for each in inputs if each.is_required]
        if required:
            schema["required"] = required
        kinds = (FORM,) if self._has_form else (JSON, FORM)
        return {kind: media(schema) for kind in kinds}

    def _described_answers(self, schemas: JsonSchemas) -> dict[int, Any]:
        if self._is_socket:
            return {101: answer("The WebSocket is open.")}
        kind = resolved(self._result)
        if self.stream_type == EVENTS:
            data = None if kind in (str, Any, ServerSentEvent) else schemas.of(self._result)
            content: dict[str, MediaType] = {EVENTS: events("An event.", data)}
        elif self.streams or kind is bytes:
            type_ = self.stream_type or self._content_type or BINARY
            content = {type_: media({"type": "string", "format": "binary"})}
        elif kind is HttpAnswer:
            content = {"*/*": media({})}
        elif kind is str and self._content_type:
            content = {self._content_type: media({"type": "string"})}
        else:
            content = {self._content_type or JSON: media(schemas.of(self._result))}
        return {200: answer("The answer.", content)}


_MISSING: Final = object()


def _is_scalar(hint: Any) -> bool:
    """Return whether a text can be a value of the type: of a query, a form or a path."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return all(each is type(None) or _is_scalar(each) for each in arguments)
    if origin in (list, tuple, set):
        return all(each is Ellipsis or _is_scalar(each) for each in arguments)
    if origin is Literal:
        return True
    if not isinstance(hint, type):
        return False
    if issubclass(hint, Enum) or hint in _SCALARS:
        return True
    # Dates, UUIDs and decimals: types of the standard library that msgspec reads from texts.
    return hint.__module__ in ("datetime", "decimal", "uuid")


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        rest = [each for each in get_args(hint) if each is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint


def _named_value(parameter: _Parameter, members: Mapping[str, Any], *, are_texts: bool) -> Any:
    """Return the value of a parameter. ``are_texts``: members are lists of texts."""
    name = parameter.name
    if name not in members:
        if parameter.is_required:
            raise missing(name)
        return parameter.default
    value = members[name]
    if are_texts and not parameter.is_list:
        if len(value) > 1:
            raise RequestError(f"{name} is given {len(value)} times", param=name)
        (value,) = value
    elif value is None and not parameter.is_required:
        return parameter.default  # null counts as absent, as in every request here
    return converted(value, parameter.hint, name, are_texts=are_texts)


async def _body(payload: HttpPayload, parameter: _Parameter) -> Any:
    """Return the body as a value of the parameter's type; the default if there is no body.

    Raises:
        RequestError: there is none, or it does not fit.
    """
    if not payload.body and payload.parsed_json is None:
        if parameter.is_required:
            raise RequestError("the body is missing: it must be JSON")
        return parameter.default
    if len(payload.body) > _SHORT:
        return await asyncio.to_thread(converted, payload.parsed_json, parameter.hint)
    return converted(payload.parsed_json, parameter.hint)


async def _received(payload: HttpPayload, hint: Any) -> AsyncIterator[Any]:
    """Yield the messages of a WebSocket's client: texts, bytes, or values that JSON has."""
    kind = resolved(hint)
    wanted = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    is_plain = all(each in (str, bytes) for each in wanted)
    assert payload.messages is not None
    while (message := await payload.messages.receive()) is not None:
        if is_plain and not isinstance(message, wanted):
            kinds = "a text" if isinstance(message, bytes) else "bytes"
            raise RequestError(f"a message must be {kinds}")
        if is_plain:
            yield message
            continue
        try:
            value = json.loads(message)
        except (ValueError, RecursionError):
            raise RequestError("a message must be JSON") from None
        yield converted(value, hint)
