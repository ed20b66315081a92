"""`GenerationRequest`: a request to a language model, whichever API it came by.

All nodes of a graph read the same request, so nothing in it can be changed in place. Templates and
encoders take dictionaries and lists; these are such (`FrozenObject`, `FrozenArray`), but their
changing methods raise `AuthorMistake`, at the line that would change what others read. A copy for
each node would cost every graph; this costs one walk for each request. ``copy.deepcopy`` and
pickles make ordinary values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import FrozenInstanceError, dataclass, field, replace
from enum import StrEnum
from types import NoneType
from typing import Any, ClassVar, Final, Literal, NamedTuple, NoReturn, Self, TypeAlias

from msgspec import Struct

from calculators.images.media.image import ImageReference, SoundReference, VideoSampling
from calculators.kit.requests.http_payload import ClientConnection, NoClient
from calculators.kit.requests.request_record import RequestRecord
from calculators.kit.requests.schema import Schema
from calculators.language.mistakes import (
    AuthorMistake,
    check_message,
    json_problem,
    message_problem,
    named,
    place_of,
)

_COPIES_MEANT: Final = (
    "a part of a request cannot be changed in place: other nodes read the same request. Return a "
    "changed one: request.with_messages(*request.messages[:-1], {**request.messages[-1], "
    '"content": "Hello"}), or request.with_sampling(max_tokens=100)'
)


def _refuse(self: object, *values: object, **named: object) -> NoReturn:
    raise AuthorMistake(_COPIES_MEANT)


class FrozenObject(dict[str, Any]):
    """A dictionary that cannot be changed."""

    __slots__ = ()

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenArray(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def frozen(value: Any) -> Any:
    """Return a value whose dictionaries and lists cannot be changed; frozen ones as they are."""
    kind = type(value)
    if kind is FrozenObject or kind is FrozenArray or kind is str:
        return value
    if isinstance(value, dict):
        return FrozenObject({name: frozen(each) for name, each in value.items()})
    if isinstance(value, list):
        return FrozenArray([frozen(each) for each in value])
    return value


class TextGrammar(NamedTuple):
    """The grammar of a text that is the one argument of a tool.

    Attributes:
        argument: its name.
        syntax: "lark" or "regex".
        path: the member of the request with the definition, for errors.
    """

    argument: str
    syntax: str
    definition: str
    path: str


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that ``tool_choice`` leaves, as the client wrote them.

    Attributes:
        items: for the template; empty if no tool may be called.
        choice: "none" if there are no items; "named" if the client chose one tool, which then is
            the only item. "required" and "named" may have no items yet: a node may have the tools.
        named: the tool that the client chose and that is none of its own; "" otherwise.
        is_declined: the client wants no calls (``tool_choice: "none"``), so nobody adds tools.
        schema_paths: the path of the schema of each item's parameters in the request.
        grammars: the grammars of tools of one text by the tool's name; further names belong to no
        tool.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    choice: Literal["none", "auto", "required", "named"] = "none"
    schema_paths: tuple[str, ...] = ()
    is_declined: bool = False
    named: str = ""
    grammars: Mapping[str, TextGrammar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        items: Any = self.items
        for wrong in [items] if not isinstance(items, list) else items:
            if wrong is items or not isinstance(wrong, dict):
                raise AuthorMistake(
                    f"items of Tools has {named(wrong)}: Tools(items=["
                    '{"type": "function", "function": {"name": "f"}}], choice="auto")'
                )
        object.__setattr__(self, "items", frozen(self.items))
        if not self.schema_paths:
            paths = (f"tools[{place}].function.parameters" for place in range(len(self.items)))
            object.__setattr__(self, "schema_paths", tuple(paths))

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of the parameters by the tool's name; {} for a tool without parameters.

        They are not checked to be JSON schemas until a grammar is made of them.
        """
        return {each["name"]: each.get("parameters") or {} for each in self._functions}

    @property
    def strict(self) -> frozenset[str]:
        """The names of the tools whose schemas are to be followed in full."""
        return frozenset(each["name"] for each in self._functions if each.get("strict") is True)

    @property
    def _functions(self) -> list[dict[str, Any]]:
        return [tool.get("function") or tool for tool in self.items]


NO_TOOLS: Final = Tools()


class Speech(NamedTuple):
    """The sound that an answer has beside its text.

    Attributes:
        voice: the name of a voice of the model; "" is the model's own choice.
        format: "wav", or "pcm16": samples of 16 bits at 24 kHz.
        chunk_frames: the frames of 80 ms of a piece of a stream; None is the engine's choice.
        has_text: the answer has its text outside of the sound's transcript too.
        seed: of the sound, 32 bits; None: each sound is another one.
    """

    voice: str = ""
    format: str = "wav"
    chunk_frames: int | None = None
    has_text: bool = True
    seed: int | None = None


class ToolServer(NamedTuple):
    """A server of tools that a request names by its label, for this server to call.

    Attributes:
        path: of the member of the request, for errors.
        url: the address that the client gives; it must be the one that this server uses.
        allowed: names of the tools that may be called; None: all that the server offers.
        refused: names of tools that may not be called.
        tools: the tools as they are offered, with ``name``, ``description`` and ``parameters``.
        is_offered: a node has looked the server up, and put its tools into the request.
    """

    label: str
    path: str
    url: str = ""
    allowed: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    is_offered: bool = False


@dataclass(frozen=True, slots=True)
class TemplateArguments:
    """Variables by name, and the end of the prompt.

    ``values`` does not contain ``add_generation_prompt``, which is None if the request does not
    have it. ``continues``: the answer goes on with the last message.
    """

    values: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool | None = None
    continues: bool = False

    @property
    def all_values(self) -> dict[str, Any]:
        """All variables, for the template."""
        begins = self.add_generation_prompt is not False and not self.continues
        return {**self.values, "add_generation_prompt": begins}


#: A request without any.
NO_ARGUMENTS: Final = TemplateArguments()


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """The form that an answer must have.

    Attributes:
        format: see `calculators.llm.grammars.formats`.
        param: the member of the request with the form.
    """

    format: dict[str, Any]
    param: str


class Setter(NamedTuple):
    """The node of an author that set a value of a request, and its code, for the log."""

    node: str = ""
    code: str = ""


class Refusal(Exception):
    """The request is not answered, or the answer does not go on.

    It is not an error: the client gets a status of 200, and the refusal where its API has a place
    for one. See the table in ``docs/language_nodes.md``.

    Attributes:
        text: the explanation for the user; may be empty.
        category: a word for programs, such as "violence"; None without one.
    """

    def __init__(self, text: str = "", category: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.category = category


#: A message in the form that chat templates take: ``{"role": "user", "content": "Hello"}``. The
#: content is a text or an array of parts, ``{"type": "text", "text": "Hello"}``.
Message: TypeAlias = dict[str, Any]

#: The kinds of texts that a model reads in a request.
TextKind: TypeAlias = Literal["content", "reasoning", "arguments", "tools"]
TEXT_KINDS: Final[tuple[TextKind, ...]] = ("content", "reasoning", "arguments", "tools")

_SYSTEM_ROLES: Final = ("system", "developer")
#: Members with one meaning, by the name that OpenAI's chats have.
_SAME: Final = {
    "max_tokens": ("max_completion_tokens", "max_output_tokens"),
    "stop": ("stop_sequences",),
}


class Infill(NamedTuple):
    """The other side of a gap: a completion fills in what is between its prompt and ``suffix``.

    Attributes:
        files: name and text of other files of the project.
        middle: the beginning of the missing text.
        is_cut: texts that are too long for the model are cut; otherwise the request is refused.
        user: who types, by the client's own word; "" is the client itself.
    """

    suffix: str
    files: tuple[tuple[str, str], ...] = ()
    middle: str = ""
    is_cut: bool = False
    user: str = ""


class Api(StrEnum):
    """The API that a client asked by. The value is the end of the path.

    Bodies of `SGLANG` share the path of `TGI`.
    """

    CHAT = "chat/completions"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE_CONTENT = "generateContent"
    COHERE_CHAT = "v2/chat"
    LLAMA_CPP_COMPLETION = "completion"
    INFILL = "infill"
    OLLAMA_CHAT = "api/chat"
    OLLAMA_GENERATE = "api/generate"
    TGI = "generate"
    SGLANG = "sglang/generate"


#: The APIs whose requests have prompts, and no messages; `Api.OLLAMA_GENERATE` has either.
TEXT_APIS: Final = frozenset(
    {Api.COMPLETIONS, Api.LLAMA_CPP_COMPLETION, Api.INFILL, Api.TGI, Api.SGLANG}
)


class Source(Struct, frozen=True):
    """A passage that the messages quote.

    Attributes:
        mark: the number by which the messages quote it: 1 for ``[1]``.
        name: for people, such as ``guide.md:12``.
        text: the passage.
        id: of the document; "" without one.
    """

    mark: int
    name: str
    text: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A request packet: what is to be generated, and how the answer is written.

    Nothing in it can be changed in place, also not the messages and what they have in them: other
    nodes read the same object. The methods ``with_...`` return a changed copy, and
    `dataclasses.replace` does for every field; both raise `AuthorMistake` for a value that the
    field cannot have. Put no request into error texts
    and traces: it has prompts.

    Attributes:
        api: the API that the answer is written for.
        model: as the client named it.
        messages: the conversation; () for completions.
        prompts: of completions: texts, or token ids.
        infill: the completion fills in what is between its prompts, which are texts, and another
            text; None: it goes on with its prompts.
        context: token ids that the prompt of a conversation begins with, from an earlier answer.
        images: the sources of the images in the messages, in their order.
        sounds: the sounds in the messages, in their order.
        speech: the answer is spoken by a model that speaks; None: it is not.
        tools: the tools that the model may call.
        tool_servers: servers whose tools the model may call and this server runs, as the client
            named them. A language model refuses a request if no node before it offers their tools.
        parallel_tool_calls: one answer may call several tools.
        max_tool_calls: the most calls of this server's tools in the answer; None is no limit of the
            client's.
        form: the form that the answer must have; None is any text.
        template: further variables of the chat template.
        sampling: further members of the body that a model reads (``temperature``, ``max_tokens``,
            ``stop``, ``seed``, ``truncate_prompt_tokens``, ...), as the client wrote them. The
            model that answers checks them, and fills in its own defaults.
        n: answers per prompt.
        stream: answer with events.
        include_usage: the last event of a chat or completion has the usage.
        has_running_usage: so has every event.
        returns_token_ids: the answer has token ids.
        wants_logprobs: the answer has the log-probabilities of its tokens.
        shows_thinking: the answer shows the reasoning; that of the responses API always does.
        echo: members that an answer of the responses API repeats, as JSON values, without those
            that depend on the model; of chats ``tools``, the ones that are not functions; of
            Google's API ``array``: a stream is one array; of llama.cpp's API ``n_predict`` and
            ``response_fields``; of text-generation-inference what its reader names.
        id: of the answer.
        created: seconds since 1970.
        answer_model: the model's name in the answer; "" is ``model``.
        refusal: set by a node that refuses the request. Then a language model generates nothing and
            answers with the refusal; other nodes pass such a request on.
        sources: passages that the messages quote, for the answer.
        turn: the number of this request within its answer. A node that asks a model again, as one
            that runs tools does, counts it up.
        deadline: of the whole request, in seconds of ``time.monotonic()``; None without one.
        client: reports when the client goes, and when it is slow.
        record: the record of the HTTP request, for log and traces.
        asked: the request as the client sent it; None for one that no client sent.
        set_by: the functions of authors that set a value, by the member of a body that has it.
    """

    #: For the check of graphs: a stream of these that nobody reads is a mistake.
    must_be_read: ClassVar[bool] = True
    #: For `graph_runtime.testing`: pushed without a timestamp, packets keep their order.
    only_order_counts: ClassVar[bool] = True

    api: Api
    model: str
    messages: tuple[Message, ...] = field(default=(), repr=False)
    prompts: tuple[str | tuple[int, ...], ...] = field(default=(), repr=False)
    infill: Infill | None = field(default=None, repr=False)
    context: tuple[int, ...] = field(default=(), repr=False)
    images: tuple[ImageReference, ...] = field(default=(), repr=False)
    sounds: tuple[SoundReference, ...] = field(default=(), repr=False)
    speech: Speech | None = None
    tools: Tools = field(default=NO_TOOLS, repr=False)
    tool_servers: tuple[ToolServer, ...] = field(default=(), repr=False)
    parallel_tool_calls: bool = True
    max_tool_calls: int | None = None
    form: StructuredOutput | None = field(default=None, repr=False)
    template: TemplateArguments = field(default=NO_ARGUMENTS, repr=False)
    sampling: Mapping[str, Any] = field(default_factory=dict, repr=False)
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    has_running_usage: bool = False
    returns_token_ids: bool = False
    wants_logprobs: bool = False
    shows_thinking: bool = True
    echo: Mapping[str, Any] = field(default_factory=dict, repr=False)
    id: str = ""
    created: int = 0
    answer_model: str = ""
    refusal: Refusal | None = field(default=None, repr=False, compare=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)
    turn: int = 0
    deadline: float | None = None
    client: ClientConnection = field(default_factory=NoClient, repr=False, compare=False)
    record: RequestRecord | None = field(default=None, repr=False, compare=False)
    asked: GenerationRequest | None = field(default=None, repr=False, compare=False)
    set_by: Mapping[str, Setter] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, kind in _SEQUENCES.items():
            value = getattr(self, name)
            if isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, name, value)
            if not isinstance(value, tuple):
                raise _mistake(name, value)
            for each in value:
                if not isinstance(each, kind):
                    raise _mistake(name, each)
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if type(value) is not kind and not isinstance(value, kind):
                raise _mistake(name, value)
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            if value is None and name == "max_tool_calls":
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise _mistake(name, value)
            if value < least:
                raise AuthorMistake(f"{name} of a request is {value}, below {least}")
        for message in self.messages:
            if type(message) is not FrozenObject and (problem := message_problem(message)):
                raise AuthorMistake(f"a message {problem}: {_MEANT['messages']}")
        self._check_parts()
        if type(self.sampling) is not FrozenObject or self.n != 1:
            self._check_sampling()
        object.__setattr__(self, "messages", tuple(map(frozen, self.messages)))
        object.__setattr__(self, "sampling", frozen(self.sampling))
        object.__setattr__(self, "echo", frozen(self.echo))
        object.__setattr__(self.template, "values", frozen(self.template.values))

    def _check_parts(self) -> None:
        """Check what stands within fields, as far as a client would be blamed for it later.

        What was checked once is frozen: only changes are looked at.
        """
        for prompt in self.prompts:
            for wrong in set(map(type, prompt)) - {int} if not isinstance(prompt, str) else ():
                raise AuthorMistake(
                    f"prompts of a request has {named(wrong())} among token ids: "
                    f"{_MEANT['prompts']}"
                )
        if self.api in TEXT_APIS and not self.prompts:
            raise AuthorMistake(f"prompts of a request is empty: {_MEANT['prompts']}")
        for name, references in (("images", self.images), ("sounds", self.sounds)):
            for reference in references:
                for part in reference[:2]:
                    if type(part) is not str:
                        raise _mistake(name, part)
        for image in self.images:
            wrong_parts: list[Any] = [frame for frame in image.frames if type(frame) is not str]
            if type(image.video) not in (VideoSampling, NoneType):
                wrong_parts.append(image.video)
            if wrong_parts:
                raise _mistake("images", wrong_parts[0])
        for name, value in (("echo", self.echo), ("template", self.template.values)):
            if type(value) is not FrozenObject and (problem := json_problem(value)):
                raise AuthorMistake(f"{name} of a request {problem}: {_meant(name)}")
        for name in _TEXTS:
            if problem := json_problem(getattr(self, name)):
                raise AuthorMistake(f"{name} of a request {problem}")
        if self.form is not None and type(self.form.format) is not FrozenObject:
            if not isinstance(self.form.format, dict):
                raise _mistake("form", self.form.format)
            if problem := json_problem(self.form.format):
                raise AuthorMistake(f"form of a request {problem}")
            object.__setattr__(self.form, "format", frozen(self.form.format))

    def _check_sampling(self) -> None:
        """Check the members of ``sampling`` together, as a model checks a client's.

        Raises:
            AuthorMistake: a model would blame the client for one.
        """
        problem = ""
        for name, value in self.sampling.items():
            if found := json_problem(value):
                problem = f"{name} {found}"
        for check in _checks:
            problem = problem or check(self)
        if problem:
            raise AuthorMistake(f"sampling: {problem}: {_MEANT['sampling']}")

    def as_asked(self) -> Self:
        """Mark a request that was just made as the client's own, and return it."""
        # Nothing is checked again, as `replace` would.
        object.__setattr__(self, "asked", copy(self))
        return self

    def made_of(self, given: GenerationRequest, by: Setter) -> Self:
        """Return the request with the function that made it of ``given``, which it was given."""
        if self is given or given.asked is None:
            return self
        names = {"n", "messages", "prompt", "tools", *self.sampling}
        names |= set() if self.form is None else {_first_word(self.form.param)}
        changed = (name for name in names if _values(self, name) != _values(given, name))
        setters = {**given.set_by, **dict.fromkeys(changed, by)}
        return replace(self, asked=given.asked, set_by=setters)

    def setter_of(self, param: str) -> Setter | None:
        """Return the node that set the value which a model refuses; None if the client did.

        A `Setter` without a name is a class, which does not say so.

        Args:
            param: the path of the value in a body, as errors have it.
        """
        # One that no client sent is an application's: there is nobody else to name.
        if self.asked is None:
            return None
        name = _first_word(param)
        name = "messages" if name == "input" else name
        asked = _values(self.asked, name, param)
        if all(value in asked for value in _values(self, name, param)):
            return None
        return self.set_by.get(name, Setter())

    @property
    def choices(self) -> int:
        """The number of answers: ``n`` for each prompt."""
        return self.n * max(1, len(self.prompts))

    def last_text(self) -> str:
        """Return the text of the user's last message; of completions, the last prompt's.

        "" if there is none, or if it is of token ids.
        """
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return text_of_content(message.get("content"))
        if self.prompts and isinstance(self.prompts[-1], str):
            return self.prompts[-1]
        return ""

    def with_messages(self, *messages: Message) -> Self:
        """Return the request with these messages in place of its own.

        Raises:
            AuthorMistake: one is not a message, as when all are given in one list.
        """
        own = {id(message) for message in self.messages}
        for place, message in enumerate(messages, 1):
            if id(message) not in own:
                check_message(message, f"the argument {place} of with_messages")
        return replace(self, messages=messages)

    def with_system(self, text: str) -> Self:
        """Return the request with a text for the model before the conversation.

        The text is put before that of a first system message, because many templates know only
        one. It comes before each prompt of a completion, too; prompts of token ids stay.

        Raises:
            AuthorMistake: it is not a text.
        """
        given: object = text
        what = json_problem(given) if isinstance(given, str) else f"is {named(given)}, no text"
        if what:
            raise AuthorMistake(
                f'the argument of with_system {what}: request.with_system("Be polite.")'
            )
        if self.prompts:
            return replace(
                self,
                prompts=tuple(
                    f"{text}\n\n{prompt}" if isinstance(prompt, str) else prompt
                    for prompt in self.prompts
                ),
            )
        first = self.messages[0] if self.messages else {}
        if first.get("role") not in _SYSTEM_ROLES:
            return self.with_messages({"role": "system", "content": text}, *self.messages)
        content = first.get("content")
        if isinstance(content, list):
            content = [{"type": "text", "text": f"{text}\n\n"}, *content]
        else:
            content = f"{text}\n\n{content}" if content else text
        return self.with_messages({**first, "content": content}, *self.messages[1:])

    def map_text(
        self, change: Callable[[str], str], kinds: Collection[TextKind] = TEXT_KINDS
    ) -> Self:
        """Return the request with each text in it that a model reads as ``change`` returns it.

        ``kinds``: "content", the texts of messages and prompts; "reasoning" of earlier turns;
        "arguments", the texts within the arguments of earlier calls; "tools", descriptions of
        tools. Names, forms, images and prompts of token ids stay.

        ``change`` may raise a `Refusal`, as the function that calls this may.

        Raises:
            AuthorMistake: ``change`` returns no text.
        """

        def changed(text: str) -> str:
            made: object = change(text)
            if not isinstance(made, str):
                raise AuthorMistake(
                    f"{place_of(change)} returned {named(made)}, no text: "
                    f"request.map_text(lambda text: text.upper())"
                )
            return made

        messages = tuple(_mapped_message(each, changed, kinds) for each in self.messages)
        prompts = tuple(
            changed(each) if isinstance(each, str) and "content" in kinds else each
            for each in self.prompts
        )
        tools = self.tools
        if "tools" in kinds and tools.items:
            tools = replace(tools, items=_mapped_values(tools.items, changed, "description"))
        return replace(self, messages=messages, prompts=prompts, tools=tools)

    def with_sampling(self, **members: Any) -> Self:
        """Return the request with members of a body in ``sampling``; None removes a member.

        ``max_tokens`` and ``stop`` replace the members of other names that APIs have for them.

        Raises:
            AuthorMistake: a value is none of JSON's, or none that the member can have.
        """
        replaced = {other for name in members for other in _SAME.get(name, ())}
        kept = {name: value for name, value in self.sampling.items() if name not in replaced}
        merged = {**kept, **members}
        given = {name: value for name, value in merged.items() if value is not None}
        return replace(self, sampling=given)

    def answered_by(self, model: str) -> Self:
        """Return the request with the name of the model in its answer."""
        return replace(self, answer_model=model)

    def refused(self, refusal: Refusal) -> Self:
        """Return the request with a refusal, which a language model answers with."""
        return replace(self, refusal=refusal)


_checks: Final[list[Callable[[GenerationRequest], str]]] = []


def check_sampling_by(check: Callable[[GenerationRequest], str]) -> None:
    """Add a check of ``sampling`` and ``n`` that authors set; a model that reads them has one.

    It gets a request whose ``sampling`` has values of JSON, and returns what is wrong, or "".
    """
    _checks.append(check)


def _unchangeable(request: GenerationRequest, name: str, value: object) -> None:
    known = _MEANT.get(name)
    meant = known or (
        f"replace(request, {name}=...)"
        if name in GenerationRequest.__dataclass_fields__
        else f"request.with_sampling({name}=...)"
    )
    raise FrozenInstanceError(
        f"request.{name} = ... is not possible: other nodes read the same request. Return a "
        f"changed one: {meant}"
    )


# The class is frozen: it has a method of this name that says less.
GenerationRequest.__setattr__ = _unchangeable  # type: ignore[method-assign, assignment]

#: The kinds of fields, of which None may be one; and of the items of those that are tuples.
_KINDS: Final[Mapping[str, Any]] = {
    "api": Api,
    "model": str,
    "tools": Tools,
    "parallel_tool_calls": bool,
    "form": (StructuredOutput, NoneType),
    "infill": (Infill, NoneType),
    "speech": (Speech, NoneType),
    "template": TemplateArguments,
    "sampling": Mapping,
    "stream": bool,
    "include_usage": bool,
    "has_running_usage": bool,
    "returns_token_ids": bool,
    "wants_logprobs": bool,
    "shows_thinking": bool,
    "echo": Mapping,
    "id": str,
    "answer_model": str,
    "refusal": (Refusal, NoneType),
    "deadline": (float, int, NoneType),
    "record": (RequestRecord, NoneType),
}
_SEQUENCES: Final[Mapping[str, Any]] = {
    "messages": dict,
    "prompts": (str, tuple, list),
    "context": int,
    "images": ImageReference,
    "sounds": SoundReference,
    "tool_servers": ToolServer,
    "sources": Source,
}
#: Numbers, and the least that each can be.
_COUNTS: Final[Mapping[str, int]] = {"n": 1, "created": 0, "turn": 0, "max_tool_calls": 0}
_TEXTS: Final = ("model", "id", "answer_model")
#: The calls that are meant where a field has a wrong value.
_MEANT: Final[Mapping[str, str]] = {
    "messages": 'request.with_messages({"role": "user", "content": "Hello"}, *request.messages)',
    "prompts": 'replace(request, prompts=("Once upon a time",))',
    "infill": 'replace(request, infill=Infill("text after the gap"))',
    "images": 'replace(request, images=(ImageReference("https://...", "messages[0]"),))',
    "tools": 'replace(request, tools=Tools(items=[...], choice="auto")), or NO_TOOLS',
    "sampling": "request.with_sampling(max_tokens=100)",
    "answer_model": 'request.answered_by("name")',
    "refusal": 'request.refused(Refusal("why"))',
    "sources": 'replace(request, sources=(Source(1, "guide.md"),))',
    "api": "replace(request, api=Api.CHAT)",
}


def _mapped_message(
    message: Message, change: Callable[[str], str], kinds: Collection[TextKind]
) -> Message:
    made = dict(message)
    content = made.get("content")
    if "content" in kinds and isinstance(content, str):
        made["content"] = change(content)
    elif "content" in kinds and isinstance(content, list):
        made["content"] = [
            {**part, "text": change(part["text"])} if isinstance(part.get("text"), str) else part
            for part in content
        ]
    reasoning = made.get("reasoning_content")
    if "reasoning" in kinds and isinstance(reasoning, str):
        made["reasoning_content"] = change(reasoning)
    if "arguments" in kinds:
        for name in ("tool_calls", "function_call"):
            if name in made:
                made[name] = _mapped_calls(made[name], change)
    return made


def _mapped_calls(calls: Any, change: Callable[[str], str]) -> Any:
    """Return calls with changed texts in their arguments, which are an object or its JSON."""
    if isinstance(calls, list):
        return [_mapped_calls(each, change) for each in calls]
    if not isinstance(calls, dict):
        return calls
    if "function" in calls:
        return {**calls, "function": _mapped_calls(calls["function"], change)}
    arguments = calls.get("arguments")
    if not isinstance(arguments, str):
        return {**calls, "arguments": _mapped_values(arguments, change)}
    try:
        value = json.loads(arguments)
        mapped = _mapped_values(value, change)
    except (json.JSONDecodeError, RecursionError):
        return {**calls, "arguments": change(arguments)}
    if mapped == value:  # spelt as it was
        return calls
    return {**calls, "arguments": json.dumps(mapped, ensure_ascii=False)}


def _mapped_values(value: Any, change: Callable[[str], str], only: str = "") -> Any:
    """Return a value of JSON with changed texts; ``only``: of members of this name."""
    if isinstance(value, str):
        return value if only else change(value)
    if isinstance(value, list):
        return [_mapped_values(each, change, only) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: change(each)
        if only == name and isinstance(each, str)
        else _mapped_values(each, change, only)
        for name, each in value.items()
    }


def _first_word(param: str) -> str:
    return re.split(r"[.\[]", param, maxsplit=1)[0]


def _values(request: GenerationRequest, name: str, param: str = "") -> list[Any]:
    """Return the values that a request has for a member of a body.

    Of messages they are the roles, because nodes add to the client's texts, and the images;
    ``param``: only what is at this path.
    """
    match name:
        case "n":
            return [request.n]
        case "messages":
            media: list[ImageReference | SoundReference] = [*request.images, *request.sounds]
            images = [each for each in media if param in (each.param, "")]
            roles = [message.get("role") for message in request.messages]
            return images if images and param else [*images, *roles]
        case "prompt":
            return list(request.prompts)
        case "tools":
            return request.tools.items
        case _:
            pass
    if request.form is not None and _first_word(request.form.param) == name:
        return [request.form.format]
    return [request.sampling[name]] if name in request.sampling else []


def _mistake(name: str, value: object) -> AuthorMistake:
    return AuthorMistake(f"{name} of a request has {named(value)}: {_meant(name)}")


def _meant(name: str) -> str:
    return _MEANT.get(name, f"see the field {name} of GenerationRequest")


def text_of_content(content: object) -> str:
    """Return the text of a message's content: a text, or the texts of its parts, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join([text for text in texts if isinstance(text, str)])
