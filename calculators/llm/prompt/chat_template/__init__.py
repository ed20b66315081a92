"""Chat templates: the prompt of a request's messages.

::

    template = ChatTemplate.load(model_directory)   # once; compiles
    renderer = ChatRenderer(template)               # once; finds out what the template can do
    prompt = renderer.render(messages, tools=tools)

Needs Jinja and the standard library, but no model library.
"""

from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis, analyze, analyze_source
from calculators.llm.prompt.chat_template.chat_renderer import (
    ChatRenderer,
    call_form_of,
    prepare_history,
)
from calculators.llm.prompt.chat_template.chat_template import (
    ChatTemplate,
    TemplateFiles,
    check_template_kwargs,
)
from calculators.llm.prompt.chat_template.limits import ChatTemplateError, RenderLimits
from calculators.llm.prompt.chat_template.unseen import UnseenParts

__all__ = [
    "ChatRenderer",
    "ChatTemplate",
    "ChatTemplateError",
    "RenderLimits",
    "TemplateAnalysis",
    "TemplateFiles",
    "UnseenParts",
    "analyze",
    "analyze_source",
    "call_form_of",
    "check_template_kwargs",
    "prepare_history",
]
