"""Calls between two tags, each a name with arguments in brackets: LFM2 and Gemma 4.

A block holds any number of calls, as ``begin f(a='x', b=1), g() end``. `BlockCallParser` finds the
names and the ends of calls and blocks; a reader of arguments, one for each way to write them, takes
the text in brackets. An argument becomes an event when its value is complete. Text that breaks off
before the first argument of a call is content again, with its tag.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, ClassVar, Final, Protocol

from calculators.llm.parsers.call_walker import (
    Argument,
    BrokenCall,
    BuiltCall,
    CallScanner,
    CallWalker,
)
from calculators.llm.parsers.json_scanner import compact_json, json_or_string
from calculators.llm.parsers.parser import CallForm, ParameterForm, Tags, beginnings
from calculators.llm.parsers.python_value import PythonTags, PythonValue, parameter_type

_LONGEST_HEAD: Final = 300


class ArgumentsReader(Protocol):
    """Reads the arguments of one call as they grow.

    Attributes:
        is_done: the closing bracket was read.
    """

    is_done: bool

    def read(self, scanner: CallScanner) -> Argument | None:
        """Return the next argument; None without enough text, or at the end of the arguments.

        Raises:
            BrokenCall: the text is not a list of arguments.
        """


class BlockCallParser(CallWalker):
    """Reads ``begin NAME bracket ARGUMENTS bracket [...] end``. Subclasses set the attributes.

    Attributes:
        first: matches the text between ``begin`` and the bracket of the first call; its group is
            the name.
        further: matches the text between two calls up to the bracket; its group is the name.
        last: matches the text between the last call and ``end``.
        none: matches the text between ``begin`` and ``end`` where there is no call, which is left
            out; None: there always is one.
    """

    begin: ClassVar[str]
    end: ClassVar[str]
    bracket: ClassVar[str]
    first: ClassVar[re.Pattern[str]]
    further: ClassVar[re.Pattern[str]]
    last: ClassVar[re.Pattern[str]]
    none: ClassVar[re.Pattern[str] | None] = None
    _outside_tags: ClassVar[Tags]
    _head_tags: ClassVar[Tags]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._outside_tags = Tags(cls.begin, *cls.erased)
        cls._head_tags = Tags(cls.bracket, cls.end, cls.begin, *cls.erased)

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._is_first = True
        self._head = ""
        self._call = BuiltCall("")
        self._arguments = self.read_arguments()

    @abstractmethod
    def read_arguments(self) -> ArgumentsReader:
        """Make a reader for the arguments of the next call."""

    def _outside(self) -> bool:
        if self._take_content(self._outside_tags) is None:
            return False
        self._is_first = True
        self._state = self._before_call
        return True

    def _before_call(self) -> bool:
        """Read up to the bracket after the name of a call, or the end of the block."""
        text, tag = self._scanner.take(self._head_tags)
        head = self._head = self._head + text
        if tag is None and len(head) <= _LONGEST_HEAD:
            return False
        self._head = ""
        if len(head) <= _LONGEST_HEAD:
            if tag == self.bracket:
                found = (self.first if self._is_first else self.further).fullmatch(head)
                if found is not None:
                    self._call = BuiltCall(found[1])
                    self._arguments = self.read_arguments()
                    self._state = self._in_arguments
                    return True
            elif tag == self.end and self._ends_block(head):
                self._scanner.commit()
                self._state = self._outside
                return True
        if tag is not None and tag not in (self.bracket, self.end):
            self._scanner.put_back(tag)
        return self._no_call()

    def _ends_block(self, head: str) -> bool:
        if not self._is_first:
            return self.last.fullmatch(head) is not None
        return self.none is not None and self.none.fullmatch(head) is not None

    def _no_call(self) -> bool:
        if self._head and not self._is_first and self.last.fullmatch(self._head):
            # Only the end of the block was left out.
            self._scanner.commit()
        self._head = ""
        return super()._no_call()

    def _in_arguments(self) -> bool:
        try:
            argument = self._arguments.read(self._scanner)
        except BrokenCall:
            return self._no_call()
        if argument is not None:
            self._events += self._call.add(*argument)
            self._scanner.commit()
        if self._arguments.is_done:
            self._events += self._call.end()
            self._scanner.commit()
            self._is_first = False
            self._state = self._before_call
            return True
        return argument is not None


_LFM2_END: Final = "<|tool_call_end|>"
_NAME: Final = r"[\w.\-]{1,128}+"
_ARGUMENT: Final = re.compile(r"[^\W\d][\w.\-]{0,127}")
#: A number that Python and JSON do not have.
_ZEROS: Final = re.compile(r'"[+-]?0\d{1,300}"')
_BLANK: Final = r"\s{0,20}+"
_KEY: Final = Tags("=", *"\"'[{(]}),", _LFM2_END)
_VALUE: Final = PythonTags(_LFM2_END)
# After an argument: another one, another call, or the end of the block.
_AFTER_STRING: Final = re.compile(
    rf"{_BLANK}(?:,{_BLANK}{_NAME}{_BLANK}="
    rf"|(?:,{_BLANK})?\){_BLANK}(?:,{_BLANK}{_NAME}{_BLANK}\(|\]?{_BLANK}{re.escape(_LFM2_END)}))"
)
_AFTER_STRING_SO_FAR: Final = re.compile(
    rf"{_BLANK}(?:,{_BLANK}(?:{_NAME}{_BLANK})?"
    rf"|(?:,{_BLANK})?\){_BLANK}"
    rf"(?:,{_BLANK}(?:{_NAME}{_BLANK})?|\]?{_BLANK}{beginnings(_LFM2_END)}))?"
)
_AT_THE_END: Final = re.compile(rf"{_BLANK}(?:,{_BLANK})?\){_BLANK}\]?{_BLANK}")


class Lfm2ToolParser(BlockCallParser):
    """Reads the calls that LFM2 and LFM2.5 write, lists of calls in Python."""

    begin = "<|tool_call_start|>"
    end = _LFM2_END
    special_tokens = frozenset((begin, end))
    heads = (begin,)
    bracket = "("
    first = re.compile(rf"\s*\[\s*({_NAME})\s*")
    further = re.compile(rf"\s*,\s*({_NAME})\s*")
    last = re.compile(r"\s*\]?\s*")
    none = re.compile(r"\s*(?:\[\s*\]\s*)?")
    erased = ("<|im_end|>",)
    call_form = CallForm(
        trigger=begin,
        opening="<|tool_call_start|>[",
        begin="NAME(",
        end=")",
        separator=", ",
        closing="]<|tool_call_end|>",
        parameters=ParameterForm(begin="NAME=", end="", separator=", "),
    )

    def read_arguments(self) -> PythonArguments:
        return PythonArguments(self.tools.get(self._call.name))


class PythonArguments:
    """Reads ``name=value`` after ``name=value``, up to the parenthesis that ends the call.

    The value of a name alone is "". A value without a name, as in ``f(1)``, breaks the call.
    """

    __slots__ = ("_key", "_schema", "_value", "is_done")

    def __init__(self, schema: object = None) -> None:
        """``schema``: of the object of all arguments."""
        self._schema = schema
        self.is_done = False
        self._key: list[str] = []
        self._value: PythonValue | None = None

    def read(self, scanner: CallScanner) -> Argument | None:
        """Read the next argument; see `calculators.llm.parsers.block_calls.ArgumentsReader`."""
        if self._value is None:
            text, tag = scanner.take(_KEY)
            self._key.append(text)
            if tag is None:
                return None
            if tag != "=":
                return self._end_without_value(tag)
            self._value = PythonValue(_VALUE, _ends_argument)
        stop = self._value.read(scanner)
        if stop is None:
            return None
        key, value = self._take_key(), self._value.to_json()
        # ``007`` became a string, since neither Python nor JSON has such a number.
        if _ZEROS.fullmatch(value) and parameter_type(self._schema, key).is_number:
            value = str(int(value.strip('"')))
        argument = Argument(key, value)
        self._value = None
        self.is_done = stop == ")"
        return argument

    def _end_without_value(self, tag: str) -> Argument | None:
        if tag not in (",", ")"):
            raise BrokenCall
        self.is_done = tag == ")"
        if self.is_done and not "".join(self._key).strip():
            return None
        return Argument(self._take_key(), '""')

    def _take_key(self) -> str:
        key = "".join(self._key).strip()
        self._key = []
        if not _ARGUMENT.fullmatch(key):
            raise BrokenCall
        return key


def _ends_argument(text: str, place: int, more: bool) -> bool | None:
    if _AFTER_STRING.match(text, place):
        return True
    if more:
        return None if _AFTER_STRING_SO_FAR.fullmatch(text, place) else False
    return _AT_THE_END.fullmatch(text, place) is not None


_GEMMA_BEGIN: Final = "<|tool_call>"
_GEMMA_END: Final = "<tool_call|>"
_GEMMA_MARK: Final = '<|"|>'
_BARE: Final = Tags(*'{}[],:"', _GEMMA_MARK, _GEMMA_BEGIN, _GEMMA_END)
_STRING: Final = {
    _GEMMA_MARK: Tags(_GEMMA_MARK, _GEMMA_END),
    '"': Tags('"', '\\"', "\\\\", _GEMMA_END),
}
_WORDS: Final = frozenset(("true", "false", "null"))
_GEMMA_CALL: Final = re.compile(r"\s*call:\s*([^\s{}]+)\s*")


class Gemma4ToolParser(BlockCallParser):
    """Reads the calls that Gemma 4 writes."""

    special_tokens = frozenset((_GEMMA_BEGIN, _GEMMA_END, _GEMMA_MARK))
    begin = _GEMMA_BEGIN
    end = _GEMMA_END
    bracket = "{"
    first = _GEMMA_CALL
    further = _GEMMA_CALL
    last = re.compile(r"\s*")
    erased = ("<turn|>", "<|tool_response>")
    call_form = CallForm(
        trigger=_GEMMA_BEGIN,
        begin="<|tool_call>call:NAME{",
        end="}<tool_call|>",
        separator="",
        parameters=ParameterForm(
            begin="NAME:", end="", separator=",", text_begin=_GEMMA_MARK, text_end=_GEMMA_MARK
        ),
    )

    def read_arguments(self) -> GemmaArguments:
        return GemmaArguments()


class GemmaArguments:
    """Reads ``name:value,name:value}``.

    A value is an object ``{name:value}``, a list ``[value]``, a string between marks or in quotes,
    or a bare word, which is JSON or else a string. The value of a name alone is "".
    """

    __slots__ = (
        "_bare",
        "_is_blank",
        "_is_closed",
        "_open",
        "_out",
        "_quote",
        "_string",
        "_text",
        "is_done",
    )

    def __init__(self) -> None:
        self.is_done = False
        #: The object of the arguments, and what is open in it.
        self._open = [_Open("{")]
        #: JSON of the argument, where it is a list or an object.
        self._out: list[str] = []
        #: The text that ends the current string.
        self._quote = ""
        self._text: list[str] = []
        # The text since the last comma, colon or bracket: bare text, the JSON of a string, or a
        # list or an object that has just been closed.
        self._bare: list[str] = []
        self._string = ""
        self._is_closed = False
        #: None of these has been read yet.
        self._is_blank = True

    def read(self, scanner: CallScanner) -> Argument | None:
        """Read the next argument; see `calculators.llm.parsers.block_calls.ArgumentsReader`."""
        while True:
            if self._quote:
                text, tag = scanner.take(_STRING[self._quote])
                self._text.append(text)
            else:
                tag = scanner.take_one("{}[],:")
                if tag is None:
                    text, tag = scanner.take(_BARE)
                    self._add_bare(text)
            if tag is None:
                return None
            if tag == _GEMMA_END:
                raise BrokenCall
            if tag == _GEMMA_BEGIN:
                scanner.put_back(tag)
                raise BrokenCall
            if self._quote:
                self._read_string(tag)
            elif tag in (",", "}", "]"):
                argument = self._end_item(tag)
                if argument is not None or self.is_done:
                    return argument
            else:
                self._read_bare(tag)

    def _add_bare(self, text: str) -> None:
        self._bare.append(text)
        if self._is_blank and text.strip():
            self._is_blank = False

    def _read_string(self, tag: str) -> None:
        if tag != self._quote:
            self._text.append(tag)
            return
        text = "".join(self._text)
        as_json = compact_json(f'"{text}"') if tag == '"' else None
        self._string = encode_basestring(text) if as_json is None else as_json
        self._quote = ""
        self._is_blank = False

    def _read_bare(self, tag: str) -> None:
        inner = self._open[-1]
        is_member = inner.bracket == "{"
        if tag in (_GEMMA_MARK, '"'):
            if self._is_blank:
                self._quote = tag
                self._text = []
            elif tag == '"':
                self._add_bare(tag)
            else:
                raise BrokenCall
        elif tag == ":":
            if is_member and inner.key is None:
                inner.key = self._take_name()
            else:
                self._add_bare(tag)
        else:
            if not self._is_blank or (is_member and inner.key is None):
                raise BrokenCall
            self._bare = []
            self._begin_item(inner)
            self._out.append(tag)
            self._open.append(_Open(tag))

    def _take_name(self) -> str:
        name, self._bare = "".join(self._bare).strip(), []
        if self._string:
            name, self._string = "".join(self._text) if not name else "", ""
        if not name or self._is_closed:
            raise BrokenCall
        self._is_blank = True
        return name

    def _end_item(self, tag: str) -> Argument | None:
        """End an item at a comma or closing bracket; return the argument if it is complete."""
        inner = self._open[-1]
        if tag == ("]" if inner.bracket == "{" else "}"):
            raise BrokenCall
        argument = None
        # An empty list, or a trailing comma.
        if tag == "," or inner.key is not None or not self._is_blank:
            value = self._item(inner)
            if len(self._open) == 1:
                argument = Argument(inner.key or "", value or "".join(self._out))
                self._out = []
            elif value:
                self._begin_item(inner)
                self._out.append(value)
            inner.is_empty = False
            inner.key = None
        self._bare = []
        self._is_blank = tag == ","
        if tag != ",":
            self._open.pop()
            self._is_closed = True
            self.is_done = not self._open
            if not self.is_done:
                self._out.append(tag)
        return argument

    def _item(self, inner: _Open) -> str:
        """Return the JSON of the item that ends; "" if it is written already."""
        if inner.bracket == "{" and inner.key is None:
            inner.key = self._take_name()
            return '""'
        bare = "".join(self._bare).strip()
        string, is_closed = self._string, self._is_closed
        self._string, self._is_closed = "", False
        if not string and not is_closed:
            return bare.lower() if bare.lower() in _WORDS else json_or_string(bare)
        if bare:
            raise BrokenCall
        return string

    def _begin_item(self, inner: _Open) -> None:
        """Write the separator and name before an item of a list or an object inside an argument."""
        if len(self._open) == 1:
            return
        if not inner.is_empty:
            self._out.append(",")
        if inner.key is not None:
            self._out.append(encode_basestring(inner.key) + ":")


class _Open:
    """An incomplete list or object.

    Attributes:
        key: of the member that is being read; None before its colon, and in lists.
    """

    __slots__ = ("bracket", "is_empty", "key")

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self.is_empty = True
        self.key: str | None = None
