"""Protobuf's text format, read into messages of the private pool, with errors for people.

Accepts what MediaPipe's parser accepts (spec of the text format:
https://protobuf.dev/reference/protobuf/textformat-spec/). Nothing is dropped: an unknown name is an
error with its position in the text and the nearest known names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graph_runtime.errors import GraphSyntaxError, did_you_mean
from graph_runtime.language import text_scalars
from graph_runtime.language.text_tokens import Kind, Token, Tokens
from protos.pool import (
    FieldType,
    MessageType,
    class_of,
    extensions_of,
    find_extension,
    find_message,
    is_repeated,
    is_required,
)

if TYPE_CHECKING:
    from google.protobuf.message import Message

ANY = "google.protobuf.Any"
MAX_DEPTH = 64
"""Messages inside messages: more than any graph has, and few enough for Python's own stack."""

T = TypeVar("T")

#: Functions that register the types of installed packages, called when a graph names an unknown
#: one. Each returns whether it has registered any now.
type_sources: Final[list[Callable[[], bool]]] = []

_CLOSING = {"{": "}", "<": ">"}
_COMMON_ENDING = re.compile(r"(calc[a-z]*?)?opt[a-z]*$")


#: Beyond this many errors of one text the rest would be noise.
MAX_ERRORS = 100

_OWN_OPTIONS = "the options of your own calculators are registered when their module is imported"
_OPTIONS = frozenset((ANY, "mediapipe.CalculatorOptions", "mediapipe.MediaPipeOptions"))


def parse_text(text: str, message: Message, source: str) -> None:
    """Read ``text`` into ``message``.

    Raises:
        GraphSyntaxError: the first error; its `others` are the rest. ``message`` is half filled
            then.
    """
    errors: list[GraphSyntaxError] = []
    read_text(text, message, source, errors)
    if errors:
        raise with_others(errors)


def read_text(text: str, message: Message, source: str, errors: list[GraphSyntaxError]) -> bool:
    """Read as much of ``text`` into ``message`` as possible, and add the errors to ``errors``.

    A wrong field or block is skipped. Returns False if anything besides options was skipped, so
    that ``message`` is no basis for further checks of the graph.
    """
    try:
        parser = _Parser(text, source, errors)
        parser.parse(message)
    except GraphSyntaxError as error:
        errors.append(error)
        return False
    return not parser.is_incomplete


def with_others(errors: list[GraphSyntaxError]) -> GraphSyntaxError:
    """Return the first error, with the others in its text."""
    first, *others = errors
    if not others:
        return first
    return GraphSyntaxError(
        first.reason,
        source=first.source,
        line=first.line,
        column=first.column,
        hint=first.hint,
        others=others,
    )


class _Parser:
    """Reads one text. ``is_incomplete``: something that is not part of options was skipped."""

    def __init__(self, text: str, source: str, errors: list[GraphSyntaxError]) -> None:
        self._errors = errors
        self.is_incomplete = False
        self._tokens = Tokens(text, source)
        # The messages that are open, from the outermost: type and opening token.
        self._open: list[tuple[MessageType, Token]] = []

    def parse(self, message: Message) -> None:
        self._fields(message, self._tokens.current, None)

    def _fields(self, message: Message, opening: Token, closing: str | None) -> None:
        """Read the fields of ``message`` up to and including ``closing`` (None: to the end)."""
        tokens = self._tokens
        if len(self._open) >= MAX_DEPTH:
            raise tokens.error(f"messages are nested more than {MAX_DEPTH} deep", opening)
        self._open.append((message.DESCRIPTOR, opening))
        seen: dict[str, Token] = {}
        errors_before = len(self._errors)
        while not (tokens.skip(closing) if closing else tokens.current.kind is Kind.END):
            if tokens.current.kind is Kind.END:
                line, column = tokens.place(opening.offset)
                raise tokens.error(
                    f"the text ends, but the `{opening.text}` at {line}:{column} is still open",
                    tokens.current,
                    f"add `{closing}`",
                )
            self._field(message, seen)
            tokens.skip(",", ";")
        if len(self._errors) == errors_before:  # else it may be there, misspelt
            self._refuse_missing(message, seen, opening)
        self._open.pop()

    def _field(self, message: Message, seen: dict[str, Token]) -> None:
        tokens = self._tokens
        name = tokens.current
        if tokens.at("["):
            self._bracketed_field(message, seen)
            return
        if name.kind is not Kind.WORD:
            raise self._not_a_field(name)
        descriptor = message.DESCRIPTOR
        field = descriptor.fields_by_name.get(name.text)
        if field is None:
            self._report(self._unknown_field(descriptor, name))
            tokens.advance()
            self._skip_value()
            return
        tokens.advance()
        self._refuse_twice(field, name, seen)
        self._value(message, field, name)

    def _bracketed_field(self, message: Message, seen: dict[str, Token]) -> None:
        """``[package.Type.ext] {...}``, or ``[url/package.Type] {...}`` inside an Any."""
        tokens = self._tokens
        opening = tokens.current
        name = tokens.bracketed()
        if name is None:
            raise tokens.error("this `[` has no `]`, or not a type's name in it", opening)
        kind = message.DESCRIPTOR
        if kind.full_name == ANY:
            if seen:
                self._report(
                    tokens.error(
                        "one google.protobuf.Any holds one message",
                        name,
                        "write another `node_options { ... }` for another message",
                    )
                )
                self._skip_value()
                return
            for field in kind.fields:
                self._refuse_twice(field, name, seen)
            self._any(message, name)
            return
        extension = _find_type(find_extension, name.text)
        if extension is None or extension.containing_type.full_name != kind.full_name:
            self._report(self._unknown_extension(kind, extension, name))
            self._skip_value()
            return
        self._refuse_twice(extension, name, seen)
        self._value(message, extension, name)

    def _any(self, message: Any, name: Token) -> None:
        prefix, _, type_name = name.text.rpartition("/")
        kind = _find_type(find_message, type_name)
        if kind is None or not prefix:
            self._report(self._unknown_any(kind, type_name, name))
            self._skip_value()
            return
        self._tokens.skip(":")
        value = class_of(kind)()
        self._message(value, name)
        message.type_url = name.text
        message.value = value.SerializePartialToString()

    def _value(self, message: Any, field: FieldType, name: Token) -> None:
        tokens = self._tokens
        colon = tokens.skip(":")
        if field.message_type is None and not colon:
            error = tokens.error(
                f"expected `:` after `{name.text}`, found {tokens.current}",
                tokens.current,
                f"{name.text} is {text_scalars.kind_of(field)}",
            )
            # With a value that cannot be anything else the parser goes on, and finds the other
            # errors too.
            if tokens.current.kind not in (Kind.STRING, Kind.NUMBER):
                raise error
            self._report(error)
        read = self._read_message if field.message_type is not None else self._read_scalar
        if not is_repeated(field):
            read(message, field, name)
        elif tokens.skip("["):
            self._list(message, field, name, read)
        else:
            read(message, field, name)

    def _list(
        self,
        message: Any,
        field: FieldType,
        name: Token,
        read: Callable[[Any, FieldType, Token], None],
    ) -> None:
        tokens = self._tokens
        if tokens.skip("]"):
            return
        while True:
            read(message, field, name)
            if tokens.skip("]"):
                return
            if not tokens.skip(","):
                raise tokens.error(
                    f"expected `,` or `]` in the list of `{name.text}`, found {tokens.current}",
                    tokens.current,
                )

    def _read_scalar(self, message: Any, field: FieldType, name: Token) -> None:
        tokens = self._tokens
        try:
            value = text_scalars.read(tokens, field)
        except GraphSyntaxError as error:
            self._report(error)
            self._skip_scalar()
            return
        if field.is_extension:
            if is_repeated(field):
                message.Extensions[field].append(value)
            else:
                message.Extensions[field] = value
        elif is_repeated(field):
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)

    def _read_message(self, message: Any, field: FieldType, name: Token) -> None:
        container = (
            message.Extensions[field] if field.is_extension else getattr(message, field.name)
        )
        if field.message_type.GetOptions().map_entry:
            self._map_entry(container, field, name)
        elif is_repeated(field):
            self._message(container.add(), name)
        else:
            container.SetInParent()
            self._message(container, name)

    def _map_entry(self, container: Any, field: FieldType, name: Token) -> None:
        entry: Any = container.GetEntryClass()()
        self._message(entry, name)
        if field.message_type.fields_by_name["value"].message_type is not None:
            container[entry.key].CopyFrom(entry.value)
        else:
            container[entry.key] = entry.value

    def _message(self, message: Message, name: Token) -> None:
        tokens = self._tokens
        opening = tokens.current
        if not tokens.at("{", "<"):
            raise tokens.error(
                f"expected `{{` after `{name.text}`, found {opening}",
                opening,
                f"{name.text} is a message: write `{name.text} {{ ... }}`",
            )
        tokens.advance()
        self._fields(message, opening, _CLOSING[opening.text])

    # Recovery from errors.

    def _report(self, error: GraphSyntaxError) -> None:
        """Add an error after which reading can go on.

        Raises:
            GraphSyntaxError: there are too many.
        """
        if len(self._errors) >= MAX_ERRORS - 1:
            raise error
        self._errors.append(error)
        if not any(kind.full_name in _OPTIONS for kind, _ in self._open):
            self.is_incomplete = True

    def _skip_value(self) -> None:
        """Step over the value of an unknown field."""
        tokens = self._tokens
        tokens.skip(":")
        if not tokens.at("{", "<", "["):
            self._skip_scalar()
            return
        # Not by recursion: an unknown field may be nested as deep as its text is long.
        closings: list[tuple[str, Token]] = []
        while True:
            token = tokens.current
            if token.kind is Kind.END:
                line, column = tokens.place(closings[-1][1].offset)
                raise tokens.error(
                    f"the text ends, but the `{closings[-1][1].text}` at {line}:{column} is still "
                    f"open",
                    token,
                    f"add `{closings[-1][0]}`",
                )
            if tokens.at("["):
                is_name = tokens.bracketed() is not None
                if not is_name:
                    closings.append(("]", tokens.advance()))
            elif tokens.at("{", "<"):
                closings.append((_CLOSING[token.text], tokens.advance()))
            elif tokens.at("}", ">", "]"):
                closing, opening = closings.pop()
                if token.text != closing:
                    line, column = tokens.place(opening.offset)
                    raise tokens.error(
                        f"expected `{closing}` for the `{opening.text}` at {line}:{column}, found "
                        f"{token}",
                        token,
                    )
                tokens.advance()
            else:
                tokens.advance()
            if not closings:
                return

    def _skip_scalar(self) -> None:
        """Step over one value, or over nothing if the next field begins instead."""
        tokens = self._tokens
        tokens.skip("-")
        token = tokens.current
        if token.kind is Kind.STRING:
            while tokens.current.kind is Kind.STRING:
                tokens.advance()
        elif token.kind is Kind.NUMBER:
            tokens.advance()
        elif token.kind is Kind.WORD:
            tokens.advance()
            if tokens.at(":", "{", "<"):
                tokens.current = token

    # Errors: what is wrong, and what would be right.

    def _refuse_twice(self, field: FieldType, name: Token, seen: dict[str, Token]) -> None:
        if is_repeated(field):
            return
        first = seen.get(field.full_name)
        if first is not None:
            line, column = self._tokens.place(first.offset)
            self._report(
                self._tokens.error(
                    f"`{name.text}` is set a second time; the first is at {line}:{column}",
                    name,
                    "only a repeated field may stand more than once",
                )
            )
            return
        seen[field.full_name] = name
        group = field.containing_oneof
        if group is None or len(group.fields) == 1:
            return
        for other in group.fields:
            if other is not field and other.full_name in seen and other.name != field.name:
                self._report(
                    self._tokens.error(
                        f"`{name.text}` cannot be set together with `{other.name}`",
                        name,
                        f"at most one of {_listed(member.name for member in group.fields)}",
                    )
                )
                return

    def _refuse_missing(self, message: Message, seen: dict[str, Token], opening: Token) -> None:
        kind = message.DESCRIPTOR
        if message.IsInitialized():
            return
        missing = [
            field.name
            for field in kind.fields
            if is_required(field) and field.full_name not in seen
        ]
        if missing:
            self._report(self._tokens.error(f"{kind.full_name} needs {_listed(missing)}", opening))

    def _not_a_field(self, token: Token) -> GraphSyntaxError:
        kind, opening = self._open[-1]
        if token.kind is Kind.SYMBOL and token.text in ("}", ">", "]") and len(self._open) > 1:
            line, column = self._tokens.place(opening.offset)
            closing = _CLOSING[opening.text]
            return self._tokens.error(
                f"expected `{closing}` for the `{opening.text}` at {line}:{column}, found {token}",
                token,
            )
        if token.kind is Kind.SYMBOL and token.text in ("}", ">"):
            return self._tokens.error(f"{token} closes nothing", token)
        hint = {"/": "comments begin with #", "{": "no braces stand around the whole text"}
        return self._tokens.error(
            f"expected the name of a field of {kind.full_name}, found {token}",
            token,
            hint.get(token.text) if token.kind is Kind.SYMBOL else None,
        )

    def _unknown_field(self, kind: MessageType, name: Token) -> GraphSyntaxError:
        message = f"{kind.full_name} has no field `{name.text}`"
        opening = self._open[-1][1]
        for outer, _ in reversed(self._open[:-1]):
            if name.text in outer.fields_by_name:
                line, column = self._tokens.place(opening.offset)
                # Without that brace nothing that follows is at its intended depth.
                raise self._tokens.error(
                    message,
                    name,
                    f"it is a field of {outer.full_name}: is a `}}` missing for the"
                    f" `{opening.text}` at {line}:{column}?",
                )
        if kind.full_name == ANY:
            return self._tokens.error(
                f"expected `[type.googleapis.com/package.Type] {{ ... }}`, found `{name.text}`",
                name,
                "node_options and graph_options hold messages by their type's name",
            )
        names = list(kind.fields_by_name)
        return self._tokens.error(message, name, _suggestion(name.text, names))

    def _unknown_extension(
        self, kind: MessageType, extension: FieldType | None, name: Token
    ) -> GraphSyntaxError:
        if extension is not None:
            right = extension.containing_type.full_name
            return self._tokens.error(
                f"`[{name.text}]` extends {right}, not {kind.full_name}", name
            )
        known = [extension.full_name for extension in extensions_of(kind.full_name)]
        bare = name.text.rpartition("/")[2]
        if f"{bare}.ext" in known:
            hint = f"write `[{bare}.ext]` here, or `[type.googleapis.com/{bare}]` in node_options"
        elif find_message(bare) is not None and not kind.is_extendable:
            hint = f"{kind.full_name} cannot be extended; did you mean node_options?"
        elif find_message(bare) is not None:
            hint = f"{bare} does not extend {kind.full_name}; it can stand in node_options"
        else:
            hint = _nearest_types(name.text, known) or _OWN_OPTIONS
        return self._tokens.error(
            f"no extension `[{name.text}]` of {kind.full_name} is registered", name, hint
        )

    def _unknown_any(
        self, kind: MessageType | None, type_name: str, name: Token
    ) -> GraphSyntaxError:
        if kind is not None:
            return self._tokens.error(
                f"the type `[{name.text}]` needs a URL before its name",
                name,
                f"write `[type.googleapis.com/{type_name}]`",
            )
        if type_name.endswith(".ext") and find_message(type_name.removesuffix(".ext")) is not None:
            bare = type_name.removesuffix(".ext")
            return self._tokens.error(
                f"`[{name.text}]` is an extension, not a message type",
                name,
                f"write `[type.googleapis.com/{bare}]` here, or `[{bare}.ext]` in options",
            )
        return self._tokens.error(
            f"no message type `{type_name}` is registered",
            name,
            _nearest_types(type_name, option_types()) or _OWN_OPTIONS,
        )


def _find_type(find: Callable[[str], T | None], name: str) -> T | None:
    """Find a type; one that is unknown may be among those that packages bring."""
    found = find(name)
    if found is None and any(bring() for bring in type_sources):
        found = find(name)
    return found


def option_types() -> list[str]:
    """The names of all message types that extend the options of nodes or of other messages."""
    extendable = ("mediapipe.CalculatorOptions", "mediapipe.MediaPipeOptions")
    return [
        extension.message_type.full_name
        for name in extendable
        for extension in extensions_of(name)
        if extension.message_type is not None
    ]


def _suggestion(name: str, names: list[str]) -> str:
    near = did_you_mean(name, names).strip()
    if near:
        return near
    return f"its fields are {_listed(names)}" if names else "it has no fields"


def _nearest_types(name: str, known: Iterable[str]) -> str | None:
    """The options types of similar names, compared without the affixes that nearly all have."""
    stems = {_stem(candidate): candidate for candidate in known}
    near = difflib.get_close_matches(_stem(name), stems, n=2, cutoff=0.7)
    return f"Did you mean {' or '.join(f'`{stems[stem]}`' for stem in near)}?" if near else None


def _stem(type_name: str) -> str:
    last = type_name.removesuffix(".ext").rpartition(".")[2].lower()
    return _COMMON_ENDING.sub("", last) or last


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
