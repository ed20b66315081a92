"""Language models as nodes: the packets between them, and nodes of an author's own.

Authors import only this module. ``docs/language_nodes.md`` has the guide.

Streams carry two kinds of packets: a `GenerationRequest` under the tag ``REQUEST``, and `Deltas`
under the tag ``DELTAS``, one for each turn of a model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from calculators.images.media.image import ImageReference, VideoSampling
    from calculators.kit.requests.http_answer import HttpAnswer
    from calculators.kit.requests.http_payload import FormFile, HttpPayload, RequestError
    from calculators.language.authoring.answers import answers
    from calculators.language.authoring.endpoint import ServerSentEvent, endpoint
    from calculators.language.authoring.functions import AuthorError, on_request
    from calculators.language.authoring.on_deltas import on_deltas
    from calculators.language.authoring.on_text import TextFilter, on_text
    from calculators.language.delta import (
        Begun,
        Delta,
        Deltas,
        DeltaSource,
        Ended,
        Failed,
        Finished,
        FinishReason,
        Gained,
        LanguageModel,
        OrderCheck,
        OrderError,
        ResolvedSampling,
        Submitted,
        TokenLogprob,
        ToolCalled,
        ToolRan,
        Usage,
        Verbose,
        refusal_deltas,
        usage_sum,
    )
    from calculators.language.events import (
        Arguments,
        CallDone,
        Content,
        Event,
        Reasoning,
        Refused,
        SpeechSamples,
        ToolCall,
    )
    from calculators.language.generation_request import (
        NO_TOOLS,
        Api,
        GenerationRequest,
        Message,
        Refusal,
        Source,
        StructuredOutput,
        TemplateArguments,
        Tools,
        ToolServer,
    )
    from calculators.language.testing import (
        call,
        delta_packets,
        deltas,
        every_cut,
        fake_model,
        request_for,
        text_of,
    )

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
    "FormFile",
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
    "ServerSentEvent",
    "Source",
    "SpeechSamples",
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
    "VideoSampling",
    "answers",
    "call",
    "delta_packets",
    "deltas",
    "endpoint",
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

#: Names by their modules. A process that reads one module of this room, as the processes of
#: tools do, must not load the others, and with them the runtime of graphs.
_NAMES: Final = {
    "calculators.images.media.image": ("ImageReference", "VideoSampling"),
    "calculators.kit.requests.http_answer": ("HttpAnswer",),
    "calculators.kit.requests.http_payload": ("FormFile", "HttpPayload", "RequestError"),
    "calculators.language.authoring.answers": ("answers",),
    "calculators.language.authoring.endpoint": ("ServerSentEvent", "endpoint"),
    "calculators.language.authoring.functions": ("AuthorError", "on_request"),
    "calculators.language.authoring.on_deltas": ("on_deltas",),
    "calculators.language.authoring.on_text": ("TextFilter", "on_text"),
    "calculators.language.delta": (
        "Begun",
        "Delta",
        "Deltas",
        "DeltaSource",
        "Ended",
        "Failed",
        "Finished",
        "FinishReason",
        "Gained",
        "LanguageModel",
        "OrderCheck",
        "OrderError",
        "ResolvedSampling",
        "Submitted",
        "TokenLogprob",
        "ToolCalled",
        "ToolRan",
        "Usage",
        "Verbose",
        "refusal_deltas",
        "usage_sum",
    ),
    "calculators.language.events": (
        "Arguments",
        "CallDone",
        "Content",
        "Event",
        "Reasoning",
        "Refused",
        "SpeechSamples",
        "ToolCall",
    ),
    "calculators.language.generation_request": (
        "NO_TOOLS",
        "Api",
        "GenerationRequest",
        "Message",
        "Refusal",
        "Source",
        "StructuredOutput",
        "TemplateArguments",
        "Tools",
        "ToolServer",
    ),
    "calculators.language.testing": (
        "call",
        "delta_packets",
        "deltas",
        "every_cut",
        "fake_model",
        "request_for",
        "text_of",
    ),
}

#: The module of each name.
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Return one of the names above. Its module is imported when the name is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
