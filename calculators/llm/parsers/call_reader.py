"""Reads the calls of any declaration: sections, calls, and five ways to write arguments.

The readers are generators over a `GrowingText`: they yield where more text is needed, so that what
they find does not depend on the pieces in which it arrives. A call is announced as soon as it is
certain to be one; until then its text can be given back, to be content.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias, TypeVar

from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.gemma_value import GemmaValue
from calculators.llm.parsers.json_object import CallObject
from calculators.llm.parsers.json_scanner import JsonScanner, json_or_string
from calculators.llm.parsers.parser import Tags, TagScanner, tags_of
from calculators.llm.parsers.pattern import (
    MARK,
    PatternPart,
    atoms,
    head,
    literal_part,
    sections,
    segments,
)
from calculators.llm.parsers.python_value import (
    PythonString,
    PythonTags,
    PythonValue,
    opening_quote,
    python_tags,
)
from calculators.llm.parsers.typed_value import (
    EMPTY,
    ArgumentSchema,
    item_schema,
    property_schema,
    retyped,
    typed_json,
    types_of,
)

_T = TypeVar("_T")
#: A reader: it yields where it needs more text, or the end of the text.
Reading: TypeAlias = Generator[None, None, _T]
Tools: TypeAlias = Mapping[str, Mapping[str, Any]]
_Patterns: TypeAlias = Sequence[Sequence[PatternPart]]

_LONGEST_NAME: Final = 256
_LONGEST_HEADER: Final = 300
#: Blanks after the end of a value among which what follows it is looked for.
_FAR: Final = 128
_NAME: Final = re.compile(r"[\w.\-/]*")
_DIGITS: Final = re.compile(r"\d*")
_BLANKS: Final = re.compile(r"\s*")
_CDATA: Final = "<![CDATA["
_CDATA_END: Final = "]]>"
_KIMI_ID: Final = re.compile(r"functions\.([\w.\-/]+):\d+")
_ANY_ID: Final = re.compile(r"(?:functions[._])?(.+?)(?:[:_]\d+)?", re.DOTALL)
_KEY_OF_GEMMA: Final = re.compile(r"[^{}\[\]\"]{1,256}")
_KEY_OF_PYTHON: Final = re.compile(r"[^\W\d][\w.\-]{0,127}")


class GrowingText(TagScanner):
    """The text of an answer. Readers look ahead from its place, and move it over what they take."""

    def __init__(self) -> None:
        self._is_kept = False
        #: A reader has wanted more text than there is.
        self.is_exhausted = False

    def feed(self, text: str) -> None:
        if self._is_kept:
            self.text += text
        else:
            super().feed(text)

    def keep(self) -> None:
        """Keep the text from this place on, for `give_back`."""
        self.text = self.text[self.place :]
        self.place = 0
        self._is_kept = True

    def commit(self) -> None:
        """Keep the text no longer."""
        self._is_kept = False

    def give_back(self) -> None:
        """Return to the place of `keep`, and go on keeping."""
        self.place = 0

    def blanks(self) -> Reading[bool]:
        """Take white space. Return True if other text follows, False at the end of the text."""
        while True:
            text, place = self.text, self.place
            if text[place : place + 1].isspace():
                self.place = place = _end(_BLANKS, text, place)
            if place < len(text):
                return True
            if not self.more:
                self.is_exhausted = True
                return False
            yield

    @property
    def is_at_blank(self) -> bool:
        """True at white space, and where no text is left: `blanks` has something to do."""
        next_one = self.text[self.place : self.place + 1]
        return not next_one or next_one.isspace()

    def blanks_ahead(self) -> Reading[bool]:
        """Return True if other text follows, after white space, which is not taken."""
        while True:
            if _end(_BLANKS, self.text, self.place) < len(self.text):
                return True
            if not self.more:
                return False
            yield

    def character(self) -> Reading[str]:
        """Return the next character, which is not taken; "" at the end of the text."""
        while self.place >= len(self.text):
            if not self.more:
                self.is_exhausted = True
                return ""
            yield
        return self.text[self.place]

    def begins(self, parts: Sequence[str], *, takes: bool = False) -> Reading[bool]:
        """Return True if the parts follow, with any white space before each of them.

        ``takes``: take them then. At most `_FAR` blanks are looked at.
        """
        ahead = 0
        for part in parts:
            while True:
                text = self.text
                begin = end = self.place + ahead
                if text[end : end + 1].isspace():
                    end = _end(_BLANKS, text, begin, begin + _FAR)
                if end < len(text):
                    if text.startswith(part, end):
                        ahead = end + len(part) - self.place
                        break
                    if text[end] != part[0] or not part.startswith(text[end:]):
                        return False
                elif end - begin >= _FAR:
                    return False
                if not self.more:
                    self.is_exhausted = True
                    return False
                yield
        if takes:
            self.place += ahead
        return True

    def matched(self, pattern: re.Pattern[str], longest: int) -> Reading[str]:
        """Take what a pattern matches, which may be nothing; "" if it is too long."""
        while True:
            end = _end(pattern, self.text, self.place)
            if end - self.place > longest:
                return ""
            if end < len(self.text) or not self.more:
                text = self.text[self.place : end]
                self.place = end
                return text
            yield

    def before(self, part: str, longest: int) -> Reading[str | None]:
        """Take the text before ``part``; None if it is too long, or ``part`` never comes."""
        while True:
            end = self.text.find(part, self.place, self.place + longest + len(part))
            if end >= 0:
                text = self.text[self.place : end]
                self.place = end
                return text
            if len(self.text) - self.place >= longest + len(part):
                return None
            if not self.more:
                self.is_exhausted = True
                return None
            yield

    def tagged(self, tags: Tags) -> Reading[tuple[list[str], str]]:
        """Take the text up to the next tag, in pieces, and the tag; "" at the end of the text."""
        pieces: list[str] = []
        while True:
            text, tag = self.take(tags)
            if text:
                pieces.append(text)
            if tag is not None or not self.more:
                return pieces, tag or ""
            yield


def _end(pattern: re.Pattern[str], text: str, begin: int, end: int | None = None) -> int:
    match = pattern.match(text, begin) if end is None else pattern.match(text, begin, end)
    assert match is not None, "it matches nothing at all, too"
    return match.end()


class ArgumentForm:
    """A pattern of one argument: the text before its name, and what follows the name."""

    def __init__(self, pattern: str) -> None:
        begin, _, *rest = segments(pattern)
        self.begin: Final = begin.atoms
        self.rest: Final[Sequence[PatternPart]] = rest
        #: What ends a name, and what ends a value.
        self.key_end: Final = rest[0].atoms[0]
        self.end: Final = rest[-1].atoms[0]
        self.is_quoted: Final = self.key_end.startswith('"')


class CallForm:
    """The form of the calls of a family, ready for reading.

    Attributes:
        heads: the marks with which calls and sections begin.
        ends: the marks that end sections.
    """

    def __init__(self, calls: CallSyntax, stops: Sequence[str]) -> None:
        self.calls: Final = calls
        self.sections: Final = [
            (atoms(begin), atoms(end)) for begin, end in sections(calls) if begin.strip()
        ]
        self.patterns: Final = [_parts(calls, each) for each in (calls.call, *calls.accepts)]
        has_mark = calls.is_bare or bool(self.sections)
        of_calls = [head(each, may_be_word=not has_mark) for each in (calls.call, *calls.accepts)]
        self.heads: Final = tuple(
            dict.fromkeys([*(begin[0] for begin, _ in self.sections), *filter(None, of_calls)])
        )
        self.ends: Final = tuple(dict.fromkeys(end[0] for _, end in self.sections if end))
        self.arguments: Final = [
            ArgumentForm(each) for each in (calls.argument, *calls.argument_accepts) if each
        ]
        #: Where arguments that are no JSON end: at any mark of the frame, and ends of turns.
        last = [each.literal for pattern in self.patterns for each in pattern[-1:]]
        self.frame: Final = tuple(
            dict.fromkeys(
                [
                    *self.heads,
                    *self.ends,
                    *(each for text in last for each in atoms(text)[-1:] if MARK.search(each)),
                ]
            )
        )
        # No text has the last one: a form that was made may have no mark at all.
        self.raw_ends: Final = Tags(*dict.fromkeys([*self.frame, *stops, "\0"]))
        #: The patterns that begin with a mark.
        self.marked: Final = [each for each in self.patterns if not each[0].field]
        #: The patterns that may stand where nothing else tells a call from text.
        self.objects: Final = [each for each in self.patterns if each[0].field != "name"]


def _parts(calls: CallSyntax, pattern: str) -> Sequence[PatternPart]:
    parts = segments(pattern)
    if not calls.header_is_id:
        return parts
    # The text before the arguments is read as a whole, as clients change it in the history.
    begin = literal_part(parts[0].atoms[0].partition("functions.")[0])
    index = next(i for i, part in enumerate(parts) if part.field == "json")
    separator = parts[index - 1]
    return (begin, PatternPart("header"), separator, *parts[index:])


@lru_cache(maxsize=256)
def call_form(calls: CallSyntax, stops: tuple[str, ...]) -> CallForm:
    """Return the form of calls, ready for reading. ``stops``: ends of turns."""
    return CallForm(calls, stops)


class _Call:
    """A call that is being read. It is announced once, and of one argument's name the first counts.

    Attributes:
        name: of the tool.
        call_id: "" where the model gives none.
    """

    def __init__(self, reader: CallReader) -> None:
        self.name = ""
        self.call_id = ""
        self.is_announced = False
        #: The text ended within an argument, which stays open.
        self.is_cut = False
        self._reader = reader
        self._keys: set[str] = set()

    @property
    def schema(self) -> ArgumentSchema:
        """The schema of all arguments."""
        parameters = self._reader.tools.get(self.name)
        return ArgumentSchema(parameters, parameters)

    def announce(self) -> None:
        """Send the name: from now on it is a call, however its text goes on."""
        if not self.is_announced:
            self.is_announced = True
            self._reader.on_call()
            self._reader.events.append(ToolCall(self.name, self.call_id))

    def has(self, key: str) -> bool:
        """Return True if an argument of this name was added."""
        return key in self._keys

    def begin(self, key: str) -> bool:
        """Begin an argument. Return False if it is to be left out, as it is not the first."""
        if key in self._keys:
            return False
        self.announce()
        self.send(("," if self._keys else "{") + f"{encode_basestring(key)}:")
        self._keys.add(key)
        return True

    def add(self, key: str, value: str) -> None:
        """Add an argument. ``value``: JSON."""
        if self.begin(key):
            self.send(value)

    def send(self, text: str) -> None:
        """Send a piece of the arguments."""
        if text:
            self._reader.events.append(Arguments(text))

    def close(self) -> None:
        """End the arguments."""
        self.announce()
        self.send("}" if self._keys else "{}")


class CallReader:
    """Reads the calls of one answer.

    Attributes:
        text: the text, which is at a mark of `CallForm.heads` when calls are read.
        events: where events go.
        on_call: called before a call is announced.
    """

    def __init__(
        self,
        form: CallForm,
        text: GrowingText,
        events: list[OutputEvent],
        tools: Tools,
        on_call: Callable[[], None],
    ) -> None:
        self.text = text
        self.events = events
        self.tools = tools
        self.on_call = self._committing(on_call)
        self.form = form
        self._calls = form.calls
        #: A first call has been read, so that later ones need no proof.
        self._has_begun = False
        #: A mark tells the calls from text.
        self._is_marked = False
        #: The end of the last call or section, if it is missing so far.
        self._missing = ""
        self.is_over = False

    def _committing(self, on_call: Callable[[], None]) -> Callable[[], None]:
        def announced() -> None:
            self.text.commit()
            self._has_begun = True
            on_call()

        return announced

    def is_missing(self, tag: str) -> bool:
        """Return True, once, for the mark that should have ended the last call or section."""
        is_missing = bool(tag) and tag == self._missing
        if is_missing:
            self._missing = ""
        return is_missing

    def read(self) -> Reading[bool]:
        """Read a section or a call. Return False, with the text where it was, if there is none."""
        text, form = self.text, self.form
        text.keep()
        self._is_marked = True
        for begin, end in form.sections:
            if (yield from text.begins(begin, takes=True)):
                found = yield from self._section(end)
                if found:
                    return True
                text.give_back()
        following = form.objects if self._calls.is_bare else form.marked
        found = yield from self._row(form.marked, following)
        if not found:
            text.give_back()
        text.commit()
        return found

    def read_bare(self) -> Reading[bool]:
        """Read calls at the beginning of an answer, where they need no mark."""
        text = self.text
        text.keep()
        self._is_marked = False
        is_list = yield from text.begins("[", takes=True)
        if is_list:
            found = yield from self._list(is_marked=False)
        else:
            found = yield from self._row(self.form.objects, self.form.objects)
        if not found:
            text.give_back()
        text.commit()
        return found

    def _section(self, end: Sequence[str]) -> Reading[bool]:
        """Read the calls after the begin of a section, and its end."""
        text = self.text
        if end and (yield from text.begins(end, takes=True)):
            return True  # no calls, and nothing to be read
        if (yield from text.begins("[", takes=True)):
            found = yield from self._list(is_marked=True)
        else:
            # A name alone tells a second call from text only within the brackets of a list.
            patterns = self.form.patterns
            found = yield from self._row(
                patterns, self.form.objects if self._calls.is_list else patterns
            )
        if found and end and not (yield from text.begins(end, takes=True)):
            self._missing = end[-1]
        return found

    def _list(self, *, is_marked: bool) -> Reading[bool]:
        """Read the calls of a list, and its bracket. After a mark an empty list is none."""
        if is_marked and (yield from self.text.begins("]", takes=True)):
            return True
        if not (yield from self._row(self.form.patterns, self.form.patterns)):
            return False
        yield from self.text.begins("]", takes=True)
        return True

    def _row(self, first: _Patterns, following: _Patterns) -> Reading[bool]:
        """Read calls one after the other, whatever is between them."""
        text = self.text
        if not (yield from self._call(first)):
            return False
        while not self.is_over:
            text.keep()
            yield from text.blanks()
            for separator in (self._calls.separator.strip(), ",", ";"):
                if separator and (yield from text.begins((separator,), takes=True)):
                    break
            text.is_exhausted = False
            if not (yield from self._call(following)):
                text.give_back()
                text.commit()
                if text.is_exhausted:
                    # A call that was cut before it was certain is no text.
                    text.place = len(text.text)
                break
        return True

    def _call(self, patterns: _Patterns) -> Reading[bool]:
        """Read one call of any of the patterns. The text is kept, and given back for the next."""
        text = self.text
        start = text.place
        if self.is_over:
            return False
        is_exhausted = text.is_exhausted
        for pattern in patterns:
            if (yield from self._pattern(pattern)):
                self.is_over = self._calls.only_one
                return True
            text.place = start
            is_exhausted = is_exhausted or text.is_exhausted
        text.is_exhausted = is_exhausted
        return False

    def _pattern(self, pattern: Sequence[PatternPart]) -> Reading[bool]:
        """Read one call. Return False if the text is none; it has not been announced then."""
        text, call = self.text, _Call(self)
        for index, part in enumerate(pattern):
            if not part.field:
                if index == len(pattern) - 1 and call.is_announced:
                    yield from self._end(part, pattern[index - 1].field)
                elif not (yield from self._literal(part, pattern, index)):
                    return call.is_announced
                continue
            closing = pattern[index + 1].atoms if index + 1 < len(pattern) else ()
            match part.field:
                case "name":
                    yield from text.blanks()
                    call.name = yield from text.matched(_NAME, _LONGEST_NAME)
                    found = bool(call.name) and bool((yield from text.character()))
                case "n":
                    yield from text.blanks()
                    found = bool((yield from text.matched(_DIGITS, _LONGEST_NAME)))
                case "id":
                    yield from text.blanks()
                    call.call_id = yield from text.matched(_NAME, _LONGEST_NAME)
                    found = bool(call.call_id)
                case "header":
                    found = yield from self._header(call, closing)
                case _:
                    before = pattern[index - 1].literal if index else ""
                    found = yield from self._arguments(part.field, call, before, closing)
            if not found:
                return call.is_announced
        return True

    def _literal(
        self, part: PatternPart, pattern: Sequence[PatternPart], index: int
    ) -> Reading[bool]:
        text = self.text
        if (yield from text.begins(part.atoms, takes=True)):
            return True
        # Some models write the name and go on in the next line, without the end of its mark.
        follows_name = index and pattern[index - 1].field == "name"
        if follows_name and len(part.atoms) == 1 and len(part.atoms[0]) == 1:
            return part.atoms[0] == ">" and (yield from text.character()) == "\n"
        return False

    def _end(self, part: PatternPart, field: str) -> Reading[None]:
        """Read the end of a call, which may be missing."""
        text = self.text
        self._missing = ""
        text.is_exhausted = False
        if (yield from text.begins(part.atoms, takes=True)):
            return
        if text.is_exhausted:
            text.place = len(text.text)
            return
        self._missing = part.atoms[-1] if part.atoms else ""
        if field in ("object", "json") and (yield from text.begins("}")):
            # One bracket too many, if the end of the call follows it.
            text.keep()
            yield from text.begins("}", takes=True)
            if (yield from text.begins(part.atoms, takes=True)):
                self._missing = ""
            else:
                text.give_back()
            text.commit()

    def _header(self, call: _Call, closing: Sequence[str]) -> Reading[bool]:
        """Read Kimi's id of a call, which has the name in it."""
        written = yield from self.text.before(closing[0], _LONGEST_HEADER)
        header = (written or "").strip()
        known = _KIMI_ID.fullmatch(header)
        if known is not None:
            call.name, call.call_id = known[1], header
            return True
        if header in self.tools:
            call.name = header
            return True
        other = _ANY_ID.fullmatch(header)
        name = other[1] if other is not None else ""
        if name not in self.tools and len(self.tools) == 1 and name.startswith("call"):
            (name,) = self.tools
        call.name = name if _NAME.fullmatch(name) else ""
        return bool(call.name)

    # Arguments ------------------------------------------------------------------------------------

    def _cut(self, call: _Call) -> bool:
        """End with the text within arguments: once its name is complete, the call is there."""
        call.announce()
        self.text.place = len(self.text.text)
        return True

    def _arguments(
        self, field: str, call: _Call, before: str, closing: Sequence[str]
    ) -> Reading[bool]:
        match field:
            case "object":
                return self._object(call)
            case "keyed":
                return self._keyed(call)
            case "json":
                return self._json(call, before)
            case "args":
                return self._pairs(call, closing)
            case "python":
                return self._python(call)
            case "gemma":
                return self._gemma(call, closing)
            case _:
                return self._tree(call, closing)

    def _json(self, call: _Call, before: str) -> Reading[bool]:
        """Read the arguments as a JSON object after ``before``; they may be missing."""
        text = self.text
        has_text = yield from text.blanks()
        if has_text and text.text[text.place] == "{":
            return (yield from self._json_object(call))
        # After a mark of its own even no JSON is the arguments.
        if len(before.strip()) <= 1:
            return bool(before.strip()) and not has_text and self._cut(call)
        call.announce()
        raw, tag = yield from text.tagged(self.form.raw_ends)
        text.place -= len(tag)
        call.send("".join(raw).rstrip() or "{}")
        return True

    def _json_object(self, call: _Call) -> Reading[bool]:
        text, scanner = self.text, JsonScanner(is_lenient=True)
        call.announce()
        while not scanner.is_done:
            out: list[str] = []
            text.place = scanner.read(text.text, text.place, out)
            if out:
                call.send("".join(out))
            if scanner.is_broken or (text.is_empty and not text.more):
                break
            if not scanner.is_done:
                yield
        if scanner.is_broken:
            yield from self._rest(call, brackets=0)
        return True

    def _rest(self, call: _Call, *, brackets: int) -> Reading[None]:
        """Pass on the rest of broken arguments, up to a mark, without brackets that are not theirs.

        ``brackets``: how many there may be at the end.
        """
        pieces, tag = yield from self.text.tagged(self.form.raw_ends)
        self.text.place -= len(tag)
        rest = "".join(pieces).rstrip()
        if self._calls.is_list:
            rest = rest.removesuffix("]").rstrip()
        for _ in range(brackets):
            rest = rest.removesuffix("}").rstrip()
        if rest:
            call.send(rest)

    def _object(self, call: _Call) -> Reading[bool]:
        """Read an object with name and arguments."""
        text = self.text
        if not (yield from text.blanks()):
            return False
        is_bare = self._calls.is_bare and not self._has_begun
        reader = CallObject(self._calls, is_bare=is_bare)
        while True:
            out: list[str] = []
            text.place = reader.read(text.text, text.place, out)
            if reader.is_announced:
                call.name = reader.name
                call.announce()
                if out:
                    call.send("".join(out))
            if reader.is_ended:
                break
            if text.is_empty and not text.more:
                text.is_exhausted = True
                break
            yield
        if not reader.is_announced:
            return False
        if reader.is_broken and not reader.is_complete:
            yield from self._rest(call, brackets=1)
        return True

    def _keyed(self, call: _Call) -> Reading[bool]:
        """Read ``{"NAME": {...}}``."""
        text = self.text
        if not (yield from text.begins(("{", '"'), takes=True)):
            return False
        written = yield from text.before('"', _LONGEST_NAME)
        if not written or not (yield from text.begins(('"', ":"), takes=True)):
            return False
        call.name = written
        if not (yield from text.begins("{")):
            return False
        yield from text.blanks()
        yield from self._json_object(call)
        yield from text.begins("}", takes=True)
        return True

    # Pairs ----------------------------------------------------------------------------------------

    def _pairs(self, call: _Call, closing: Sequence[str]) -> Reading[bool]:
        """Read arguments between marks, up to the end of the call, which is left."""
        text, form = self.text, self.form
        stray: list[str] = []
        first = form.arguments[0].begin[0]
        between = tags_of(first, closing[0], *form.heads, *form.ends)
        while True:
            if not (yield from text.blanks()):
                if call.is_announced and not call.is_cut:
                    call.close()
                return self._cut(call)
            if (yield from self._argument(call, closing)):
                continue
            text.is_exhausted = False
            begins_argument = yield from text.begins((first,))
            is_end = yield from text.begins(closing)
            if not begins_argument and not is_end and text.is_exhausted:
                return self._cut(call)
            if not is_end and not call.is_announced:
                return False
            if not is_end:
                pieces, tag = yield from text.tagged(between)
                text.place -= len(tag)
                stray += pieces
                if tag == first and pieces:
                    continue
                if tag == first:
                    # The mark of an argument without an argument.
                    text.place += len(tag)
                    stray.append(tag)
                    continue
                if not tag:
                    self._say(stray)
                    return True
            call.close()
            yield from text.begins(closing, takes=True)
            self._say(stray)
            return True

    def _say(self, stray: list[str]) -> None:
        """Make content of text that was between arguments."""
        if said := "".join(stray):
            self.events.append(Content(said))

    def _argument(self, call: _Call, closing: Sequence[str]) -> Reading[bool]:
        """Read one argument. Return False if none begins here."""
        text = self.text
        for form in self.form.arguments:
            if not (yield from text.begins(form.begin, takes=True)):
                continue
            call.announce()
            key = yield from text.before(form.key_end, _LONGEST_NAME)
            if key is None:
                # It was cut, or it is none.
                if text.more:
                    continue
                call.is_cut = True
                text.place = len(text.text)
                return True
            key = key.strip().strip("'\"")
            if form.is_quoted and "&" in key:
                key = html.unescape(key)
            chosen = form
            for other in self.form.arguments:
                is_like = other.begin == form.begin and other is not form
                if is_like and (yield from text.begins(other.rest[0].atoms)):
                    chosen = other
            yield from self._value_of(call, key, chosen, closing)
            return True
        return False

    def _value_of(
        self, call: _Call, key: str, form: ArgumentForm, closing: Sequence[str]
    ) -> Reading[None]:
        """Read the attributes of an argument and its value."""
        text = self.text
        kind: str | None = None
        rest = form.rest
        index = 0
        while rest[index].field != "value":
            part = rest[index]
            if part.field:
                written = yield from text.matched(_NAME, _LONGEST_NAME)
                kind = f"{part.field}:{written}"
            elif not (yield from text.begins(part.atoms, takes=True)):
                # An attribute was left out: the text goes on with what follows it.
                after = rest[index + 2] if index + 2 < len(rest) else part
                if rest[index + 1].field in ("text", "type") and (
                    yield from text.begins([after.atoms[0]], takes=True)
                ):
                    kind = "text:false"
                    index += 3
                    continue
                if not text.more:
                    call.is_cut = True
                    text.place = len(text.text)
                return
            index += 1
        schema = property_schema(call.schema, key)
        is_text = kind in ("text:true", "type:string")
        is_json = self._calls.has_json_values or (kind is not None and not is_text)
        value = _PairValue(self, call, key, form, closing, schema, is_text=is_text, is_json=is_json)
        yield from value.read()

    # Elements -------------------------------------------------------------------------------------

    def _tree(self, call: _Call, closing: Sequence[str]) -> Reading[bool]:
        """Read arguments as elements, up to the end of the call, which is left."""
        text = self.text
        prefix = closing[0].partition("</")[0]
        begin, end = f"{prefix}<", f"{prefix}</"
        tags = tags_of(begin, end)
        waiting: list[_Element] = []
        while True:
            if not waiting:
                if not (yield from text.blanks()):
                    return self._cut(call)
                text.is_exhausted = False
                if (yield from text.begins(closing)):
                    call.close()
                    yield from text.begins(closing, takes=True)
                    return True
                if not (yield from text.begins([begin])):
                    return self._cut(call) if text.is_exhausted else call.is_announced
            pieces, tag = yield from text.tagged(tags)
            if waiting:
                waiting[-1].text += pieces
            name = yield from text.before(">", _LONGEST_NAME)
            if not tag or name is None:
                return call.is_announced if text.more else self._cut(call)
            text.place += 1
            if tag == begin:
                call.announce()
                outer = waiting[-1].schema if waiting else call.schema
                waiting.append(_Element(name, _child_schema(outer, name)))
            elif waiting:
                done = waiting.pop()
                if not waiting:
                    call.add(done.name, done.to_json())
                else:
                    waiting[-1].children.append((done.name, done.to_json()))

    # Python ---------------------------------------------------------------------------------------

    def _python(self, call: _Call) -> Reading[bool]:
        """Read ``name=value`` one after the other, up to the bracket of the call."""
        text = self.text
        end = self.form.ends[0] if self.form.ends else ""
        tags = python_tags(end)
        while True:
            if text.is_at_blank and not (yield from text.blanks()):
                return self._cut(call)
            first = text.text[text.place]
            # The bracket of the call may be missing.
            if first == ")" or (
                first == "]" and end and call.is_announced and (yield from text.begins(("]", end)))
            ):
                call.close()
                return True
            if text.take_one(","):
                continue
            key = yield from text.matched(_NAME, _LONGEST_NAME)
            if text.is_at_blank and not (yield from text.blanks()):
                return self._cut(call)
            if not _KEY_OF_PYTHON.fullmatch(key):
                return call.is_announced
            if text.take_one("=") is None:
                if text.text[text.place] in ",)" and (call.is_announced or self._is_marked):
                    call.add(key, '""')
                    continue
                return call.is_announced
            call.announce()
            if not (yield from self._python_value(call, key, tags)):
                return True

    def _python_value(self, call: _Call, key: str, tags: PythonTags) -> Reading[bool]:
        """Read one value. Return False if the call breaks off in it."""
        text = self.text
        schema = property_schema(call.schema, key)
        if text.is_at_blank:
            yield from text.blanks()
        quote = text.text[text.place : text.place + 1]
        if quote in ("'", '"') and types_of(schema) <= {"string"}:
            is_sent = call.begin(key)
            while (whole := opening_quote(text, quote)) is None:
                yield
            text.place += len(whole)
            growing = PythonString(whole, tags)
            if is_sent:
                call.send('"')
            while True:
                out = growing.read(text)
                if out and is_sent:
                    call.send(out)
                if growing.is_done:
                    if is_sent:
                        call.send('"')
                    return True
                if growing.is_broken or not text.more:
                    return False
                yield
        value = PythonValue(tags)
        while (stop := value.read(text)) is None:
            if not text.more:
                return False
            yield
        if stop not in (",", ")"):
            text.put_back(stop)
            yield from self._broken(call, key, value.written)
            return False
        if stop == ")":
            text.put_back(stop)
        call.add(key, retyped(value.to_json(), value.text, schema))
        return True

    def _broken(self, call: _Call, key: str, written: str) -> Reading[None]:
        """Pass on a value that is none, and what follows it in the call, as it was written."""
        if call.begin(key):
            call.send(written)
        yield from self._rest(call, brackets=0)

    # Gemma ----------------------------------------------------------------------------------------

    def _gemma(self, call: _Call, closing: Sequence[str]) -> Reading[bool]:
        """Read ``name:value`` one after the other, up to the bracket of the call."""
        text, quote = self.text, self._calls.quote
        ends = tags_of(":", ",", "}", *self.form.frame)
        follows_value = False
        while True:
            if text.is_at_blank and not (yield from text.blanks()):
                return self._cut(call)
            if text.text[text.place] == "}":
                call.close()
                return True
            if text.take_one(","):
                follows_value = False
                continue
            if follows_value:
                yield from self._rest(call, brackets=0)
                return True
            pieces, tag = yield from text.tagged(ends)
            if not tag:
                return self._cut(call)
            key = "".join(pieces).replace(quote, "").strip().strip("\"'")
            if _KEY_OF_GEMMA.fullmatch(key) is None:
                key = ""
            if tag in (",", "}") and key:
                text.put_back(tag)
                call.add(key, '""')
                continue
            if tag != ":" or not key:
                text.place -= len(tag) if tag != ":" else 0
                return call.is_announced
            call.announce()
            if not (yield from self._gemma_value(call, key)):
                return True
            follows_value = True

    def _gemma_value(self, call: _Call, key: str) -> Reading[bool]:
        text, quote = self.text, self._calls.quote
        schema = property_schema(call.schema, key)
        if types_of(schema) <= {"string"} and (yield from text.begins([quote], takes=True)):
            is_sent = call.begin(key)
            if is_sent:
                call.send('"')
            inside = tags_of(quote, *self.form.frame)
            while True:
                piece, tag = text.take(inside)
                if piece and is_sent:
                    call.send(encode_basestring(piece)[1:-1])
                if tag == quote:
                    if is_sent:
                        call.send('"')
                    return True
                if tag is not None:
                    text.put_back(tag)
                    return False
                if not text.more:
                    return False
                yield
        value = GemmaValue(quote, self.form.frame)
        while not value.is_done:
            if not value.read(text):
                if value.is_broken:
                    yield from self._broken(call, key, value.written)
                    return False
                if not text.more:
                    # A list or an object has a certain end.
                    if value.is_closed:
                        call.add(key, value.to_json())
                    return False
                yield
        call.add(key, retyped(value.to_json(), value.text, schema))
        return True


class _Element:
    """An element of arguments that is open: its text, and the JSON of its children."""

    def __init__(self, name: str, schema: ArgumentSchema) -> None:
        self.name = name
        self.schema = schema
        self.text: list[str] = []
        self.children: list[tuple[str, str]] = []

    def to_json(self) -> str:
        """Return the JSON of the element, which is complete."""
        types = types_of(self.schema)
        if not self.children:
            text = "".join(self.text)
            if not text.strip() and "string" not in types:
                if "array" in types:
                    return "[]"
                if "object" in types:
                    return "{}"
            return typed_json(text, self.schema)
        if "array" in types or (not types and all(key == "item" for key, _ in self.children)):
            return "[" + ",".join(value for _, value in self.children) + "]"
        # The first of each name counts.
        members = dict(reversed(self.children))
        names = dict.fromkeys(key for key, _ in self.children)
        return "{" + ",".join(f"{encode_basestring(key)}:{members[key]}" for key in names) + "}"


def _child_schema(schema: ArgumentSchema, name: str) -> ArgumentSchema:
    found = property_schema(schema, name)
    return item_schema(schema) if found is EMPTY and name == "item" else found


class _PairValue:
    """Reads the value of one argument between marks.

    It extends to the first end mark that an argument, the end of the call or the end of the text
    follows, white space aside: a value may hold the marks themselves. Without any such mark it
    extends to a line that begins with another argument of the tool, or to the end of the call at
    the end of its section.
    """

    def __init__(
        self,
        reader: CallReader,
        call: _Call,
        key: str,
        form: ArgumentForm,
        closing: Sequence[str],
        schema: ArgumentSchema,
        *,
        is_text: bool,
        is_json: bool,
    ) -> None:
        self._reader = reader
        self._text = reader.text
        self._call = call
        self._key = key
        self._form = form
        self._closing = closing
        self._schema = schema
        self._is_text = is_text or (not is_json and types_of(schema) == {"string"})
        self._is_json = is_json
        frame = reader.form
        self._trims = frame.calls.trims_lines
        self._has_section = bool(frame.ends)
        self._tags = tags_of(form.end, form.begin[0], closing[0])
        self._is_first = not call.has(key)
        self._is_begun = False
        self._pieces: list[str] = []
        self._held = ""
        #: A tag here would begin a line of the value.
        self._ends_line = True
        self._first_letter = ""

    def read(self) -> Reading[None]:
        """Read the value and what ends it."""
        text = self._text
        if self._reader.form.calls.has_cdata and (yield from text.begins((_CDATA,))):
            yield from self._cdata()
            return
        while True:
            piece, tag = text.take(self._tags)
            self._add(piece)
            if tag is None:
                if not text.more:
                    self._break_off()
                    return
                yield
            elif tag == self._form.end:
                if (yield from self._is_end()):
                    self._end()
                    return
                self._add(tag)
            elif tag == self._closing[0]:
                if self._may_end and (yield from self._ends_call()):
                    text.put_back(tag)
                    self._end()
                    return
                self._add(tag)
            else:
                text.put_back(tag)
                if self._may_end and (yield from self._is_other_argument()):
                    self._end()
                    return
                text.place += len(tag)
                self._add(tag)

    def _is_end(self) -> Reading[bool]:
        """Return True if an argument or an end follows the end mark."""
        form = self._reader.form
        text = self._text
        while True:
            place = _end(_BLANKS, text.text, text.place, text.place + _FAR)
            rest = text.text[place : place + 64]
            if not rest and not text.more:
                return True
            following = (*(each.begin[0] for each in form.arguments), self._closing[0], *form.frame)
            if rest.startswith(following):
                return True
            is_open = any(each.startswith(rest) for each in following)
            if not text.more or not is_open or place - text.place >= _FAR:
                return bool(rest) and not text.more and is_open
            yield

    def _ends_call(self) -> Reading[bool]:
        """Return True if the call ends here, at the end of its section, without the value's end."""
        form, text = self._reader.form, self._text
        if not self._has_section:
            return False
        if not (yield from text.begins((form.ends[0],))):
            # At the end of the text nothing can follow.
            return not (yield from self._text.blanks_ahead())
        if (yield from text.begins((form.ends[0], form.heads[0]))):
            return True
        return not (yield from self._has_more_behind(form.ends[0]))

    def _has_more_behind(self, mark: str) -> Reading[bool]:
        text = self._text
        while True:
            place = text.text.find(mark, text.place) + len(mark)
            if _end(_BLANKS, text.text, place, place + _FAR) < len(text.text):
                return True
            if not text.more:
                return False
            yield

    def _is_other_argument(self) -> Reading[bool]:
        """Return True if another argument of the tool begins here."""
        text, form = self._text, self._form
        ahead = len(form.begin[0])
        while True:
            begin = text.place + ahead
            end = text.text.find(form.key_end, begin, begin + _LONGEST_NAME)
            if end >= 0:
                break
            if not text.more or len(text.text) - begin >= _LONGEST_NAME:
                return False
            yield
        name = text.text[begin:end].strip()
        is_other = name != self._key and not self._call.has(name)
        return is_other and property_schema(self._call.schema, name) is not EMPTY

    @property
    def _may_end(self) -> bool:
        """True if a tag here may end the value, whose own end is missing."""
        return self._ends_line or self._first_letter not in ("", "\n")

    def _add(self, piece: str) -> None:
        if not piece:
            return
        self._first_letter = self._first_letter or piece[0]
        self._ends_line = piece.endswith("\n")
        if not self._is_text:
            self._pieces.append(piece)
        elif self._is_first:
            self._grow(piece)

    def _grow(self, piece: str) -> None:
        """Pass on a text while it grows."""
        if not self._is_begun:
            self._is_begun = True
            self._call.begin(self._key)
            self._call.send('"')
            if self._trims:
                piece = piece.removeprefix("\n")
        if self._trims:
            piece = self._held + piece
            self._held = "\n" if piece.endswith("\n") else ""
            piece = piece.removesuffix("\n")
        self._call.send(encode_basestring(piece)[1:-1])

    def _end(self) -> None:
        if self._is_text:
            if self._is_first and self._is_begun:
                self._call.send('"')
            elif self._is_first:
                self._call.add(self._key, '""')
            return
        value = "".join(self._pieces)
        if self._trims:
            value = value.removeprefix("\n").removesuffix("\n")
        if self._is_json:
            self._call.add(self._key, json_or_string(value))
        else:
            self._call.add(self._key, typed_json(value, self._schema))

    def _break_off(self) -> None:
        """End with the text: what was held back belongs to the value, which stays open."""
        self._call.is_cut = True
        if self._is_text and self._is_begun and self._held:
            self._call.send(encode_basestring(self._held)[1:-1])

    def _cdata(self) -> Reading[None]:
        """Read ``<![CDATA[...]]>``, whose text is taken as it is, or several of these."""
        text = self._text
        self._trims = False
        inside, mark = tags_of(_CDATA_END), (_CDATA,)
        yield from text.begins(mark, takes=True)
        while True:
            while True:
                piece, tag = text.take(inside)
                self._add(piece)
                if tag is not None:
                    break
                if not text.more:
                    self._break_off()
                    return
                yield
            if (yield from text.begins((self._form.end,), takes=True)):
                self._end()
                return
            if not (yield from text.begins(mark, takes=True)):
                self._add(_CDATA_END)
