"""The writers of answers, by the API that was asked."""

from __future__ import annotations

from calculators.language.delta import Begun
from calculators.language.generation_request import Api
from calculators.llm.answers.answer_writer import AnswerWriter
from calculators.llm.api.anthropic.messages_writer import messages_writer
from calculators.llm.api.openai.chat_writer import chat_writer
from calculators.llm.api.openai.completion_writer import completion_writer
from calculators.llm.api.openai.responses_writer import responses_writer


def answer_writer(begun: Begun) -> AnswerWriter:
    """Return the writer of an answer that begins."""
    match begun.request.api:
        case Api.CHAT:
            return chat_writer(begun)
        case Api.COMPLETIONS:
            return completion_writer(begun)
        case Api.RESPONSES:
            return responses_writer(begun)
        case Api.MESSAGES:
            return messages_writer(begun)
