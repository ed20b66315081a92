"""`Notation`: how values are written, as JSON or as families of models write arguments.

Rules of schemas (`calculators.llm.grammars.schema_rules`) take every bracket, word, name and mark
from a notation, and so does `Notation.text`, which writes a value that is known. That of the
arguments of a call follows from the declaration of its form (`arguments_notation`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from calculators.llm.grammars import json_text
from calculators.llm.grammars.grammar import NO_SPECIAL_LETTERS, SpecialLetters
from calculators.llm.grammars.rules import Rules, literal
from calculators.llm.grammars.schema_values import kinds_of
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.pattern import segments

#: What may be a name without quotes around it.
_PYTHON_NAMES: Final = r"[^\W\d][\w.\-]*"
_BARE_NAMES: Final = r"[\w.\-$@/]+(?: [\w.\-$@/]+)*"
_What = Literal["object", "array"]


@dataclass(frozen=True, slots=True)
class ValueFrame:
    """The texts around a value.

    Attributes:
        begin: up to the value; may have ``{text}`` or ``{type}``, which say what the value is.
        pad: between the value and ``mark``. A text may also go on up to the mark.
        mark: ends a text that is written as it is, and so cannot have it.
        rest: after the mark.
        is_json: the value is JSON, a text too.
    """

    begin: str
    pad: str
    mark: str
    rest: str
    is_json: bool = False

    @property
    def is_typed(self) -> bool:
        """True if an attribute tells texts from other values."""
        return "{t" in self.begin

    def before(self, kind: str) -> str:
        """Return the text before a value of a JSON type."""
        is_text = "true" if kind == "string" else "false"
        name = "number" if kind == "integer" else kind
        return self.begin.replace("{text}", is_text).replace("{type}", name)

    @property
    def after(self) -> str:
        """The text after a value."""
        return self.pad + self.mark + self.rest


@dataclass(frozen=True, slots=True)
class Notation:
    """How values of JSON's types are written.

    Attributes:
        object: around the members of an object.
        array: around the items of an array.
        comma: between members, or items.
        is_spaced: models may write white space after brackets and commas, and after colons.
        key: around a member's name.
        names: what may be a name without quotes, as a regular expression; "": names are strings.
        words: true, false and null.
        quote: around strings, which cannot have it. Between JSON's quotes they have escapes.
        frame: around a value; None: nothing is.
        is_raw: strings in the frame are written as they are, without quotes.
        inside: of the values of members and items, where it is another one.
        tag: comes before the marks of elements, where members and items are elements.
    """

    object: tuple[str, str] = ("{", "}")
    array: tuple[str, str] = ("[", "]")
    comma: str = ","
    is_spaced: bool = True
    key: tuple[str, str] = ('"', '":')
    names: str = ""
    words: tuple[str, str, str] = ("true", "false", "null")
    quote: str = '"'
    frame: ValueFrame | None = None
    is_raw: bool = False
    inside: Notation | None = None
    tag: str = ""

    @property
    def stop(self) -> str:
        """The text that a string cannot have; "": it has escapes."""
        if self.is_raw:
            assert self.frame is not None
            return self.frame.mark
        return "" if self.quote == '"' else self.quote

    def brackets(self, what: _What) -> tuple[str, str]:
        """Return the texts around an object or an array."""
        return self.object if what == "object" else self.array

    def word(self, value: bool | None) -> str:
        """Return true, false or null."""
        return self.words[2 if value is None else 0 if value else 1]

    def can_name(self, name: str) -> bool:
        """Return True if a member can have the name."""
        return not self.names or re.fullmatch(self.names, name) is not None

    def of_member(self, name: str) -> Notation:
        """Return the notation of a member's value."""
        return self._element("", name) if self.tag else self.inside or self

    def of_item(self) -> Notation:
        """Return the notation of an item."""
        return self._element(f"{self.tag}<item>", "item") if self.tag else self.inside or self

    def _element(self, begin: str, name: str) -> Notation:
        return replace(self, frame=ValueFrame(begin, "", self.tag, f"</{name}>"), is_raw=False)

    def of(self, types: Collection[str]) -> Notation:
        """Return this notation as it is for values of some types; none are any.

        A parser takes a value for a text if an attribute says so or the schema allows no other
        value, and reads everything else as JSON, in which strings have quotes.
        """
        if self.frame is None:
            return self
        if self.tag and not types:
            # Elements have meaning by a schema only.
            return replace(JSON, frame=self.frame, inside=JSON)
        is_text = "string" in types and {"string", "null"}.issuperset(types)
        is_raw = not self.frame.is_json and (self.frame.is_typed or is_text)
        return replace(self, is_raw=is_raw)

    # Parts of rules -------------------------------------------------------------------------------

    def space(self, rules: Rules) -> str:
        """Return the white space that models may write after a bracket or comma."""
        return f" {rules.add_expression(json_text.SPACE)}" if self.is_spaced else ""

    def begin(self, rules: Rules, what: _What) -> str:
        """Return what comes before the first member or item."""
        return f"{_part(self.brackets(what)[0])}{self.space(rules)}"

    def next(self, rules: Rules) -> str:
        """Return what comes before each further member or item."""
        return f"{_part(self.comma)}{self.space(rules)}"

    def end(self, rules: Rules, what: _What) -> str:
        """Add the rule of what comes after the last member or item; return its name."""
        return rules.add(f"{self.space(rules)} {literal(self.brackets(what)[1])}".lstrip())

    def empty(self, what: _What) -> str:
        """Return an object or array of nothing."""
        begin, end = self.brackets(what)
        return f"{_part(begin)} {_part(end)}".strip() or '""'

    # Values that are known ------------------------------------------------------------------------

    def text(self, value: Any) -> str:
        """Write a value, with what stands around it.

        Raises:
            ValueError: it cannot be written: a number is not finite, a text has the mark that ends
                it or is not Unicode, or a name is none.
        """
        written = self._text(value)
        if self.frame is None:
            return written
        return self.frame.before(kind_of(value)) + written + self.frame.after

    def _text(self, value: Any) -> str:
        match value:
            case bool() | None:
                return self.word(value)
            case str() if self.stop:
                value.encode()
                if self.stop in value:
                    raise ValueError("the text has the mark that ends it")
                return value if self.is_raw else self.quote + value + self.quote
            case list():
                return self._joined("array", (self._within(self.of_item(), each) for each in value))
            case dict():
                return self.members(value)
            case _:
                return json_text.value_text(value)

    def members(self, value: Mapping[str, Any]) -> str:
        """Write an object, without what stands around it; raises as `text` does."""
        return self._joined("object", self._members(value))

    def _members(self, value: Mapping[str, Any]) -> Iterator[str]:
        for name, each in value.items():
            if not self.can_name(name):
                raise ValueError(f"{name[:40]!r} cannot be the name of an argument")
            key = json_text.value_text(name)[1:-1] if not self.names else name
            blank = " " if self.is_spaced else ""
            yield self.key[0] + key + self.key[1] + blank + self._within(self.of_member(name), each)

    def _within(self, notation: Notation, value: Any) -> str:
        # A string that no schema speaks of is a text.
        return notation.of((kind_of(value),)).text(value)

    def _joined(self, what: _What, parts: Iterable[str]) -> str:
        begin, end = self.brackets(what)
        return begin + (self.comma + (" " if self.is_spaced else "")).join(parts) + end


#: Values as JSON, and as Python's literals.
JSON: Final = Notation()
_PYTHON: Final = Notation(words=("True", "False", "None"))


def arguments_notation(
    form: CallSyntax, field: str, special: SpecialLetters = NO_SPECIAL_LETTERS
) -> Notation:
    """Return the notation of the arguments that a field of a form stands for."""
    match field:
        case "args":
            return _pairs(form, special)
        case "python":
            inside = JSON if form.has_json_words else _PYTHON
            return Notation(
                object=("", ""), comma=", ", is_spaced=False, key=("", "="), names=_PYTHON_NAMES,
                inside=inside,
            )  # fmt: skip
        case "gemma":
            inside = Notation(
                is_spaced=False, key=("", ":"), names=_BARE_NAMES, quote=special.written(form.quote)
            )
            return replace(inside, object=("", ""), inside=inside)
        case "tree":
            tag = special.written(segments(form.call)[-1].literal.partition("</")[0])
            return Notation(
                object=("", ""), array=("", ""), comma="", is_spaced=False, key=(f"{tag}<", ">"),
                names=_BARE_NAMES, tag=tag,
            )  # fmt: skip
        case _:
            return JSON


def _part(text: str) -> str:
    return literal(text) if text else ""


def _pairs(form: CallSyntax, special: SpecialLetters) -> Notation:
    """Return the notation of arguments that are written one by one."""
    before, within, after = "", "", ""
    has_key = has_value = False
    for field, text, _ in segments(form.argument):
        match field:
            case "key":
                has_key = True
            case "value":
                has_value = True
            case "" if has_value:
                after += text
            case "" if has_key:
                within += text
            case "":
                before += text
            case _:
                within += f"{{{field}}}"
    mark = after.strip()
    pad, _, rest = after.partition(mark)
    begin, before_mark, end, rest = map(special.written, (within, pad, mark, rest))
    frame = ValueFrame(begin, before_mark, end, rest, form.has_json_values)
    return Notation(
        object=("", ""), comma="", is_spaced=False, key=(special.written(before), ""),
        names=_BARE_NAMES, inside=Notation(frame=frame, inside=JSON),
    )  # fmt: skip


def kind_of(value: object) -> str:
    """Return the type of a JSON value, "integer" for numbers without a fraction."""
    return min(kinds_of(value))  # "integer" comes before "number"


# Calls --------------------------------------------------------------------------------------------


def frame_of(form: CallSyntax) -> tuple[str, str, str]:
    """Return the text before calls, the pattern of one call, and the text after them."""
    begin, end = form.section
    call = form.call
    if form.section_each:
        call = begin + call + end
        begin = end = ""
    return (begin + "[", call, "]" + end) if form.is_list else (begin, call, end)


def object_begin(form: CallSyntax, field: str, name: str) -> str:
    """Return an object with a name up to the arguments; after them only a bracket follows."""
    written = json_text.value_text(name)
    if field == "keyed":
        return f"{{{written}: "
    return f'{{"{form.name_key}": {written}, "{form.argument_keys[0]}": '


def written_calls(
    form: CallSyntax, calls: Sequence[tuple[str, Mapping[str, Any] | str | None]]
) -> str:
    """Return the text of calls, each a name and arguments: an object, or its JSON text.

    The text of a call that was cut stays as it is where the form has JSON, and is an empty object
    elsewhere.

    Raises:
        ValueError: the form cannot write an argument.
    """
    begin, call, end = frame_of(form)
    written = (_written_call(form, call, place, *each) for place, each in enumerate(calls))
    return begin + form.separator.join(written) + end


def _written_call(
    form: CallSyntax, pattern: str, place: int, name: str, arguments: Mapping[str, Any] | str | None
) -> str:
    made = ""
    for field, text, _ in segments(pattern):
        match field:
            case "":
                made += text
            case "name":
                made += name
            case "n":
                made += str(place + (not form.header_is_id))
            case "id":
                made += f"{place:09}"
            case "object" | "keyed":
                made += object_begin(form, field, name) + _written_arguments(JSON, arguments) + "}"
            case _:
                made += _written_arguments(arguments_notation(form, field), arguments)
    return made


def _written_arguments(notation: Notation, arguments: Mapping[str, Any] | str | None) -> str:
    if isinstance(arguments, str):
        if notation is JSON:
            return arguments
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    return notation.members(arguments if isinstance(arguments, Mapping) else {})
