"""Calls that are elements with a child for every argument: Qwen3-Coder, MiniCPM 5, Onyx.

An `XmlForm` declares the tags, and `XmlCallParser` reads the calls of one form. It converts values
by the types that the tool's schema declares. Strings grow as they come; other values are complete
before they become events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, ClassVar, Final, NamedTuple

from calculators.language.events import Arguments, Content
from calculators.llm.parsers.call_walker import BuiltCall, CallWalker
from calculators.llm.parsers.json_scanner import compact_json
from calculators.llm.parsers.parser import CallForm, ParameterForm, Tags
from calculators.llm.parsers.python_value import ParameterType, parameter_type, python_to_json

CDATA: Final = "<![CDATA["
CDATA_END: Final = "]]>"
_CDATA: Final = Tags(CDATA)
_IN_CDATA: Final = Tags(CDATA_END)
_LONGEST_NAME: Final = 256
#: Characters after a tag among which another one is looked for.
_FAR: Final = 128


class XmlForm(NamedTuple):
    """The tags of a form, and how values are written.

    ``[block_begin] (call_begin NAME name_end (parameter_begin NAME name_end VALUE parameter_end)*
    call_end)* [block_end]``, with any white space between tags. A value extends to the first
    ``parameter_end``. Where that is missing, it extends to the line that begins with the next
    parameter of the tool, or with the end of the call at the end of its block; of a value that
    begins behind its tag, these end it in any place.

    Attributes:
        block_begin: may be missing before a call; "" where the form has no blocks.
        trims_newlines: one newline at either end of a value is dropped.
        allows_single_quotes: objects and lists may be written as in Python.
        has_cdata: a value may be ``<![CDATA[...]]>``, whose text is taken as it is, or several of
            these one after the other, as XML writes ``]]>``.
    """

    call_begin: str
    call_end: str
    parameter_begin: str
    parameter_end: str
    name_end: str
    block_begin: str = ""
    block_end: str = ""
    trims_newlines: bool = False
    allows_single_quotes: bool = False
    has_cdata: bool = False

    @property
    def tags(self) -> frozenset[str]:
        """All tags except those that a name follows."""
        every = {self.call_end, self.parameter_end, self.block_begin, self.block_end}
        return frozenset(every - {""})


class FormTags:
    """The tags to look for in each state. Where text breaks off a call, every tag counts."""

    def __init__(self, form: XmlForm, erased: tuple[str, ...]) -> None:
        begins = [form.call_begin, *erased]
        if form.block_begin:
            begins.append(form.block_begin)
        inner = [form.call_end, form.parameter_begin]
        if form.block_end:
            inner.append(form.block_end)
        self.outside: Final = Tags(*begins)
        self.between: Final = Tags(*begins, *inner)
        self.name: Final = Tags(form.name_end, "<", "\n")
        of_value = [form.parameter_end, form.parameter_begin]
        if form.block_end:
            of_value.append(form.call_end)
        self.value: Final = Tags(*of_value)
        self.after_cdata: Final = Tags(form.parameter_end, CDATA)


class XmlCallParser(CallWalker):
    """Reads the calls of one `XmlForm`, which subclasses set.

    Text between the arguments of a call that is announced already does not end the call; it becomes
    content after it. The end of a block ends its call; a call in which another one begins stays
    open.
    """

    form: ClassVar[XmlForm]
    _tags: ClassVar[FormTags]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._tags = FormTags(cls.form, cls.erased)

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._is_in_block = False
        self._call = BuiltCall("")
        self._stray_text: list[str] = []
        self._is_stray = False
        self._name: list[str] = []
        self._parameter = ""
        self._type = ParameterType()
        self._value: list[str] = []
        self._may_grow = False
        self._growing: GrowingString | None = None
        self._is_cdata = False
        #: A tag here would begin a line of the value.
        self._ends_line = False
        self._first_letter = ""

    def _outside(self) -> bool:
        tag = self._take_content(self._tags.outside)
        if tag is None:
            return False
        self._is_in_block = tag == self.form.block_begin
        self._state = self._block if self._is_in_block else self._call_name
        return True

    def _block(self) -> bool:
        """Read in a block, before its first call."""
        return self._blanks_before({self.form.call_begin: self._call_name})

    def _after_call(self) -> bool:
        """Read after a call, up to the end of its block, whose begin may have been left out."""
        if self._is_in_block:
            following = {
                self.form.block_end: self._outside,
                self.form.call_begin: self._call_name,
            }
        else:
            following = {self.form.block_end: self._outside}
        return self._blanks_before(following)

    def _blanks_before(self, following: Mapping[str, Callable[[], bool]]) -> bool:
        """Expect one of these tags, after white space at most, and go to its state."""
        text, tag = self._scanner.take(self._tags.between)
        if text.strip() or (tag is not None and tag not in following):
            return self._leave(tag)
        if tag is None:
            return False
        if tag == self.form.block_end:
            self._scanner.commit()
        self._state = following[tag]
        return True

    def _leave(self, tag: str | None) -> bool:
        """Give up the call. The ``tag`` just taken may begin another one."""
        if tag is not None:
            self._scanner.put_back(tag)
        return self._no_call()

    def _call_name(self) -> bool:
        name = self._read_name()
        if name:
            self._call = BuiltCall(name)
            self._state = self._in_call
        return name is not None

    def _in_call(self) -> bool:
        """Read in a call, between its arguments."""
        scanner, form = self._scanner, self.form
        text, tag = scanner.take(self._tags.between)
        if text and (self._is_stray or text.strip()):
            if not self._call.is_announced:
                return self._leave(tag)
            self._is_stray = True
            if tag is not None:
                scanner.put_back(tag)
            self._stray_text.append(scanner.give_back())
            return tag is not None
        if tag is None:
            return False
        self._is_stray = False
        if tag == form.parameter_begin:
            self._state = self._parameter_name
            return True
        if tag not in (form.call_end, form.block_end):
            return self._leave(tag)
        return self._end_call(tag)

    def _end_call(self, tag: str) -> bool:
        scanner, form = self._scanner, self.form
        self._events += self._call.end()
        self._say_stray_text()
        scanner.commit()
        has_blocks = tag == form.call_end and form.block_end
        self._state = self._after_call if has_blocks else self._outside
        return True

    def _say_stray_text(self) -> None:
        if self._stray_text:
            self._events.append(Content("".join(self._stray_text)))
            self._stray_text = []

    def _parameter_name(self) -> bool:
        name = self._read_name()
        if name:
            self._begin_value(name)
        return name is not None

    def _begin_value(self, name: str) -> None:
        self._parameter = name
        self._type = parameter_type(self.tools.get(self._call.name), name)
        self._value = []
        self._may_grow = self._call.is_announced and not self._call.has(name)
        self._is_cdata = False
        self._ends_line, self._first_letter = True, ""
        self._state = self._value_start if self.form.has_cdata else self._in_value

    def _value_start(self) -> bool:
        """Read up to what tells whether a value is ``<![CDATA[``."""
        scanner = self._scanner
        rest = scanner.text[scanner.place : scanner.place + _FAR]
        is_cdata = _stands_before(CDATA, rest)
        if is_cdata is None and scanner.more and len(rest) < _FAR:
            return False
        self._is_cdata = bool(is_cdata)
        if self._is_cdata:
            scanner.take(_CDATA)
        self._state = self._in_value
        return True

    def _read_name(self) -> str | None:
        """Return the name: None without enough text, "" if the text is not a name."""
        text, tag = self._scanner.take(self._tags.name)
        self._name.append(text)
        name = "".join(self._name)
        if tag is None and len(name) <= _LONGEST_NAME:
            self._name = [name]
            return None
        self._name = []
        if tag == self.form.name_end:
            if name.strip() and len(name) <= _LONGEST_NAME:
                return name.strip()
            tag = None
        self._leave(tag)
        return ""

    def _in_value(self) -> bool:
        text, tag = self._scanner.take(_IN_CDATA if self._is_cdata else self._tags.value)
        self._add_text(text)
        if tag is None:
            return False
        if tag == CDATA_END:
            self._state = self._after_cdata
            return True
        if tag == self.form.parameter_begin:
            self._state = self._next_parameter
            return True
        if tag == self.form.call_end:
            self._state = self._next_call_end
            return True
        self._end_value()
        self._state = self._in_call
        return True

    def _after_cdata(self) -> bool:
        """Read up to the end of the value, or to more of it."""
        scanner = self._scanner
        rest = scanner.text[scanner.place : scanner.place + _FAR]
        following = [_stands_before(each, rest) for each in (self.form.parameter_end, CDATA)]
        if None in following and True not in following and scanner.more and len(rest) < _FAR:
            return False
        self._state = self._in_value
        if True not in following:
            self._add_text(CDATA_END)
        elif scanner.take(self._tags.after_cdata)[1] != CDATA:
            self._end_value()
            self._state = self._in_call
        return True

    def _add_text(self, text: str) -> None:
        if text:
            self._first_letter = self._first_letter or text[0]
            self._ends_line = text.endswith("\n")
        if self._growing is not None:
            self._grow(text)
        else:
            self._value.append(text)
            if self._may_grow:
                self._try_to_grow()

    def _next_parameter(self) -> bool:
        """Read a name in a value: that of another parameter of the tool ends it, on a new line."""
        scanner = self._scanner
        text, tag = scanner.take(self._tags.name)
        self._name.append(text)
        name = "".join(self._name)
        if tag is None and len(name) <= _LONGEST_NAME and scanner.more:
            self._name = [name]
            return False
        self._name = []
        if tag == self.form.name_end and self._may_end and self._is_known(name.strip()):
            self._end_value()
            self._begin_value(name.strip())
            return True
        if tag is not None:
            scanner.put_back(tag)
        self._state = self._in_value
        self._add_text(self.form.parameter_begin + name)
        return True

    def _next_call_end(self) -> bool:
        """Read after the end of a call in a value: at the end of its block it ends the value."""
        scanner, form = self._scanner, self.form
        rest = scanner.text[scanner.place : scanner.place + _FAR]
        is_end = self._may_end
        if is_end:
            after = _stands_before(form.block_end, rest)
            if after:
                after = _stands_before(form.block_begin, rest.lstrip()[len(form.block_end) :])
            if after is None and scanner.more and len(rest) < _FAR:
                return False
            is_end = after is not False
        if is_end:
            self._end_value()
            return self._end_call(form.call_end)
        self._state = self._in_value
        self._add_text(form.call_end)
        return True

    @property
    def _may_end(self) -> bool:
        """True if a tag here may end the value, whose own end is missing."""
        return self._ends_line or self._first_letter not in ("", "\n")

    def _is_known(self, name: str) -> bool:
        schema = self.tools.get(self._call.name)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        is_other = name != self._parameter and not self._call.has(name)
        return isinstance(properties, Mapping) and name in properties and is_other

    def _end_value(self) -> None:
        if self._growing is not None:
            self._events.append(Arguments('"'))
            self._growing = None
        else:
            self._events += self._call.add(self._parameter, self._to_json("".join(self._value)))
        self._value = []
        self._scanner.commit()

    def _to_json(self, value: str) -> str:
        if self._is_cdata and self._type.is_string:
            return encode_basestring(value)
        if self.form.trims_newlines and not self._is_cdata:
            value = value.removeprefix("\n").removesuffix("\n")
        begins = ("{", "[", "(") if self._type.is_array else ("{", "[")
        if self.form.allows_single_quotes and value[:1] in begins and not self._type.is_string:
            return compact_json(value) or python_to_json(value)
        return self._type.to_json(value)

    def _try_to_grow(self) -> None:
        """Pass on a string while it grows, if it can be, from the second argument on."""
        text = "".join(self._value)
        trims = self.form.trims_newlines and not self._is_cdata
        first = text.removeprefix("\n")[:1] if trims else text[:1]
        if not first:
            return
        self._may_grow = False
        if self._type.grows(first):
            self._growing = GrowingString(trims_newlines=trims)
            self._events += self._call.add(self._parameter, '"')
            self._grow(text)

    def _grow(self, text: str) -> None:
        grown = self._growing.more(text) if self._growing is not None and text else ""
        if grown:
            self._events.append(Arguments(grown))
        self._scanner.commit()

    def _no_call(self) -> bool:
        if self._growing is not None:
            rest, self._growing = self._growing.break_off(), None
            if rest:
                self._events.append(Arguments(rest))
        self._say_stray_text()
        return super()._no_call()


class Qwen3CoderToolParser(XmlCallParser):
    """Reads the calls that Qwen3-Coder writes. The tool's schema determines the types of values."""

    form = XmlForm(
        call_begin="<function=",
        call_end="</function>",
        parameter_begin="<parameter=",
        parameter_end="</parameter>",
        name_end=">",
        block_begin="<tool_call>",
        block_end="</tool_call>",
        trims_newlines=True,
        allows_single_quotes=True,
    )
    heads = ("<tool_call>", "<function=")
    special_tokens = form.tags
    call_form = CallForm(
        trigger="<tool_call>",
        begin="<tool_call>\n<function=NAME>\n",
        end="</function>\n</tool_call>",
        parameters=ParameterForm(
            begin="<parameter=NAME>\n", end="\n</parameter>\n", text_end="\n</parameter>\n"
        ),
    )


class MiniCpm5ToolParser(XmlCallParser):
    """Reads the calls that MiniCPM 5 writes. The tool's schema determines the types of values."""

    form = XmlForm(
        call_begin='<function name="',
        call_end="</function>",
        parameter_begin='<param name="',
        parameter_end="</param>",
        name_end='">',
        trims_newlines=True,
        allows_single_quotes=True,
        has_cdata=True,
    )
    erased = ("<s>", "<|im_end|>")
    heads = ("<function name=",)
    special_tokens = form.tags | {"<function", "<param"}
    call_form = CallForm(
        trigger="<function",
        begin='<function name="NAME">',
        end="</function>",
        parameters=ParameterForm(begin='<param name="NAME">', end="</param>", text_end="</param>"),
    )


class GrowingString:
    """Encodes a text piece by piece as the inside of a JSON string, without the quotes.

    With ``trims_newlines`` one newline at either end of the text is dropped.
    """

    __slots__ = ("_held", "_is_first", "_trims")

    def __init__(self, *, trims_newlines: bool) -> None:
        self._trims = trims_newlines
        self._is_first = True
        self._held = ""

    def more(self, text: str) -> str:
        """Encode the next piece of the text, which must not be empty."""
        if not self._trims:
            return encode_basestring(text)[1:-1]
        if self._is_first:
            self._is_first = False
            text = text.removeprefix("\n")
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        return encode_basestring(text.removesuffix("\n"))[1:-1]

    def break_off(self) -> str:
        """Return the newline that was held back because it might have been the last one."""
        return encode_basestring(self._held)[1:-1]


def _stands_before(tag: str, text: str) -> bool | None:
    """Return True if ``text`` begins with ``tag``, white space aside; None if it yet may."""
    rest = text.lstrip()
    if rest.startswith(tag):
        return True
    return None if tag.startswith(rest) else False
