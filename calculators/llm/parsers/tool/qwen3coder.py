"""Qwen3-Coder: ``<tool_call><function=NAME><parameter=NAME>VALUE</parameter></function>...``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm, ParameterForm
from calculators.llm.parsers.xml_call import XmlCallParser, XmlForm


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
