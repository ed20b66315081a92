"""MiniCPM 5: ``<function name="NAME"><param name="NAME">VALUE</param></function>``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm, ParameterForm
from calculators.llm.parsers.xml_call import XmlCallParser, XmlForm


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
