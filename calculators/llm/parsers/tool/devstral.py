"""Calls as Devstral and newer Mistral models write them: ``[TOOL_CALLS]NAME[ARGS]{...}</s>``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.tool.mistral import CALL, MistralToolParser


class DevstralToolParser(MistralToolParser):
    """Reads what `MistralToolParser` reads, but calls need their tag.

    Tags that begin no call are left out, as they are special tokens.
    """

    bare = ""
    keeps_tag = False
    call_form = CallForm(trigger=CALL, begin="[TOOL_CALLS]NAME[ARGS]", end="", separator="")
