"""`BlockCallParser`: calls between two tags, each a name with arguments in brackets."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from calculators.llm.parsers.call_walker import (
    Argument,
    BrokenCall,
    BuiltCall,
    CallScanner,
    CallWalker,
)
from calculators.llm.parsers.python_value import PythonTags, PythonValue, parameter_type
from calculators.llm.parsers.tag_scanner import Tags, beginnings

BLOCK_END: Final = "<|tool_call_end|>"
NAME: Final = r"[\w.\-]{1,128}+"

_ARGUMENT: Final = re.compile(r"[^\W\d][\w.\-]{0,127}")
#: A number that Python and JSON do not have.
_ZEROS: Final = re.compile(r'"[+-]?0\d{1,300}"')
_BLANK: Final = r"\s{0,20}+"
_KEY: Final = Tags("=", *"\"'[{(]}),", BLOCK_END)
_VALUE: Final = PythonTags(BLOCK_END)

# After an argument: another one, another call, or the end of the block.
_AFTER_STRING: Final = re.compile(
    rf"{_BLANK}(?:,{_BLANK}{NAME}{_BLANK}="
    rf"|\){_BLANK}(?:,{_BLANK}{NAME}{_BLANK}\(|\]?{_BLANK}{re.escape(BLOCK_END)}))"
)
_AFTER_STRING_SO_FAR: Final = re.compile(
    rf"{_BLANK}(?:,{_BLANK}(?:{NAME}{_BLANK})?"
    rf"|\){_BLANK}(?:,{_BLANK}(?:{NAME}{_BLANK})?|\]?{_BLANK}{beginnings(BLOCK_END)}))?"
)
_AT_THE_END: Final = re.compile(rf"{_BLANK}\){_BLANK}\]?{_BLANK}")


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
        """Read the next argument; see `calculators.llm.parsers.block_call.ArgumentsReader`."""
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
