"""`XmlCallParser`: calls of tools written as elements with a child for every argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from calculators.language.events import Arguments, Content
from calculators.llm.parsers.built_call import BuiltCall
from calculators.llm.parsers.call_walker import CallWalker
from calculators.llm.parsers.growing_string import GrowingString
from calculators.llm.parsers.json_value import compact_json
from calculators.llm.parsers.parameter_value import ParameterType, parameter_type
from calculators.llm.parsers.python_value import python_to_json
from calculators.llm.parsers.xml_form import FormTags, XmlForm

_LONGEST_NAME: Final = 256


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
            self._parameter = name
            self._type = parameter_type(self.tools.get(self._call.name), name)
            self._value = []
            self._may_grow = self._call.is_announced and not self._call.has(name)
            self._state = self._in_value
        return name is not None

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
        text, tag = self._scanner.take(self._tags.value)
        if self._growing is not None:
            self._grow(text)
        else:
            self._value.append(text)
            if self._may_grow:
                self._try_to_grow()
        if tag is None:
            return False
        if self._growing is not None:
            self._events.append(Arguments('"'))
            self._growing = None
        else:
            self._events += self._call.add(self._parameter, self._to_json("".join(self._value)))
        self._value = []
        self._scanner.commit()
        self._state = self._in_call
        return True

    def _to_json(self, value: str) -> str:
        if self.form.trims_newlines:
            value = value.removeprefix("\n").removesuffix("\n")
        if self.form.allows_single_quotes and value[:1] in ("{", "[") and not self._type.is_string:
            return compact_json(value) or python_to_json(value)
        return self._type.to_json(value)

    def _try_to_grow(self) -> None:
        """Pass on a string while it grows, if it can be, from the second argument on."""
        text = "".join(self._value)
        first = text.removeprefix("\n")[:1] if self.form.trims_newlines else text[:1]
        if not first:
            return
        self._may_grow = False
        if self._type.grows(first):
            self._growing = GrowingString(trims_newlines=self.form.trims_newlines)
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
