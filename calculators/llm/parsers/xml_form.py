"""`XmlForm`: a form of calls as elements with a child for every argument."""

from __future__ import annotations

from typing import Final, NamedTuple

from calculators.llm.parsers.tag_scanner import Tags

CDATA: Final = "<![CDATA["
CDATA_END: Final = "]]>"


class XmlForm(NamedTuple):
    """The tags of a form, and how values are written.

    ``[block_begin] (call_begin NAME name_end (parameter_begin NAME name_end VALUE parameter_end)*
    call_end)* [block_end]``, with any white space between tags. A value extends to the first
    ``parameter_end``. Where that is missing, it extends to the line that begins with the next
    parameter of the tool, or with the end of the call at the end of its block.

    Attributes:
        block_begin: may be missing before a call; "" where the form has no blocks.
        trims_newlines: one newline at either end of a value is dropped.
        allows_single_quotes: objects and lists may be written as in Python.
        has_cdata: a value may be ``<![CDATA[...]]>``, whose text is taken as it is.
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
        self.cdata: Final = Tags(
            CDATA_END + form.parameter_end, CDATA_END + "\n" + form.parameter_end
        )
