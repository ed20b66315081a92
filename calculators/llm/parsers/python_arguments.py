"""`PythonArguments`: the arguments of a call in Python, ``a='x', b=1)``, read as they grow."""

from __future__ import annotations

import re
from typing import Final

from calculators.llm.parsers.built_call import Argument, BrokenCall
from calculators.llm.parsers.call_scanner import CallScanner
from calculators.llm.parsers.parameter_value import parameter_type
from calculators.llm.parsers.python_value import PythonTags, PythonValue
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
