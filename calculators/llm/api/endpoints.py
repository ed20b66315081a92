"""The endpoints that generate: how each reads its requests and writes its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from calculators.llm.answers.answer_writer import AnswerWriter
from calculators.llm.answers.response import ResponseHead, Verbose, new_response_id
from calculators.llm.api.anthropic.messages_request import MessagesRequest, parse_messages_request
from calculators.llm.api.anthropic.messages_writer import MessagesAnswerWriter
from calculators.llm.api.openai.chat_writer import ChatAnswerWriter
from calculators.llm.api.openai.completion_writer import CompletionAnswerWriter
from calculators.llm.api.openai.responses_request import ResponsesRequest, parse_responses_request
from calculators.llm.api.openai.responses_writer import ResponsesAnswerWriter
from calculators.llm.requests.chat_request import ChatRequest, parse_chat_request
from calculators.llm.requests.completion_request import CompletionRequest, parse_completion_request
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.generation_request import GenerationRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

Parse = Callable[[object, RequestLimits, ModelDefaults], GenerationRequest]
Write = Callable[[GenerationRequest, str | None, Verbose | None], AnswerWriter]


@dataclass(frozen=True, slots=True)
class GeneratingEndpoint:
    """One of them.

    Attributes:
        parse: a parsed body to a checked request; raises `RequestError`.
        writer: of the answer; takes the request, the fingerprint of the system, and what is shown
            beside the answer.
        prompt_field: the member that the prompt comes from, for errors about it.
    """

    parse: Parse
    writer: Write
    prompt_field: str


def _chat_writer(
    request: GenerationRequest, fingerprint: str | None, verbose: Verbose | None
) -> AnswerWriter:
    assert isinstance(request, ChatRequest)
    head = ResponseHead(new_response_id("chatcmpl"), request.model, system_fingerprint=fingerprint)
    return ChatAnswerWriter(
        head,
        n=request.n,
        include_usage=request.include_usage,
        wants_logprobs=request.logprobs,
        verbose=verbose,
    )


def _completion_writer(
    request: GenerationRequest, fingerprint: str | None, verbose: Verbose | None
) -> AnswerWriter:
    assert isinstance(request, CompletionRequest)
    head = ResponseHead(new_response_id("cmpl"), request.model, system_fingerprint=fingerprint)
    return CompletionAnswerWriter(
        head,
        choices=request.n * len(request.prompts),
        include_usage=request.include_usage,
        logprobs=request.logprobs,
        verbose=verbose,
    )


def _responses_writer(
    request: GenerationRequest, fingerprint: str | None, verbose: Verbose | None
) -> AnswerWriter:
    assert isinstance(request, ResponsesRequest)
    return ResponsesAnswerWriter(request, verbose)


def _messages_writer(
    request: GenerationRequest, fingerprint: str | None, verbose: Verbose | None
) -> AnswerWriter:
    assert isinstance(request, MessagesRequest)
    return MessagesAnswerWriter(request, verbose)


GENERATING: Final[Mapping[Endpoint, GeneratingEndpoint]] = {
    Endpoint.CHAT_COMPLETIONS: GeneratingEndpoint(parse_chat_request, _chat_writer, "messages"),
    Endpoint.COMPLETIONS: GeneratingEndpoint(
        parse_completion_request, _completion_writer, "prompt"
    ),
    Endpoint.RESPONSES: GeneratingEndpoint(parse_responses_request, _responses_writer, "input"),
    Endpoint.MESSAGES: GeneratingEndpoint(parse_messages_request, _messages_writer, "messages"),
}
