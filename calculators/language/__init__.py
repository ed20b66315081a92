"""Language models as nodes: the packets between them, and nodes of an author's own.

Authors import only this module. ``docs/language_nodes.md`` has the guide.

Streams carry two kinds of packets: a `GenerationRequest` under the tag ``REQUEST``, and `Deltas`
under the tag ``DELTAS``, one for each turn of a model.
"""

from __future__ import annotations

from calculators.images.media.image import ImageReference
from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.language.authoring.answers import answers
from calculators.language.authoring.functions import AuthorError
from calculators.language.authoring.on_deltas import on_deltas
from calculators.language.authoring.on_request import on_request
from calculators.language.authoring.on_text import TextFilter, on_text
from calculators.language.delta import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    Gained,
    ResolvedSampling,
    Submitted,
    ToolCalled,
    ToolRan,
    Verbose,
    refusal_deltas,
)
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.finish_reason import FinishReason
from calculators.language.generation_request import Api, GenerationRequest, Message, Source
from calculators.language.language_model import DeltaSource, LanguageModel
from calculators.language.order import OrderCheck, OrderError
from calculators.language.refusal import Refusal
from calculators.language.structured_output import StructuredOutput
from calculators.language.template_arguments import TemplateArguments
from calculators.language.testing import (
    call,
    delta_packets,
    deltas,
    every_cut,
    fake_model,
    request_for,
    text_of,
)
from calculators.language.token_logprob import TokenLogprob
from calculators.language.tools import NO_TOOLS, Tools, ToolServer
from calculators.language.usage import Usage, usage_sum

__all__ = [
    "NO_TOOLS",
    "Api",
    "Arguments",
    "AuthorError",
    "Begun",
    "CallDone",
    "Content",
    "Delta",
    "DeltaSource",
    "Deltas",
    "Ended",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "Gained",
    "GenerationRequest",
    "HttpAnswer",
    "HttpPayload",
    "ImageReference",
    "LanguageModel",
    "Message",
    "OrderCheck",
    "OrderError",
    "Reasoning",
    "Refusal",
    "Refused",
    "RequestError",
    "ResolvedSampling",
    "Source",
    "StructuredOutput",
    "Submitted",
    "TemplateArguments",
    "TextFilter",
    "TokenLogprob",
    "ToolCall",
    "ToolCalled",
    "ToolRan",
    "ToolServer",
    "Tools",
    "Usage",
    "Verbose",
    "answers",
    "call",
    "delta_packets",
    "deltas",
    "every_cut",
    "fake_model",
    "on_deltas",
    "on_request",
    "on_text",
    "refusal_deltas",
    "request_for",
    "text_of",
    "usage_sum",
]
