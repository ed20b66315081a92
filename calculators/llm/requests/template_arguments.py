"""The variables of a chat template besides messages and tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    BOOLEAN,
    Array,
    Enumeration,
    Members,
    Object,
    honoured,
    table,
)
from calculators.kit.requests.schema import anything, record, word
from calculators.language.generation_request import TemplateArguments

#: Names that ``chat_template_kwargs`` may not set: variables that the server itself passes to
#: templates, and arguments of Hugging Face's ``apply_chat_template`` that are not variables.
RESERVED: Final = frozenset(
    {"messages", "tools", "bos_token", "eos_token"}
    | {"self", "tokenize", "chat_template", "conversation", "continue_final_message"}
)

VERBOSITY: Final = Enumeration(("low", "medium", "high"))
EFFORT: Final = Enumeration(
    # The last is Groq's word for saying nothing.
    ("none", "minimal", "low", "medium", "high", "xhigh", "max", "default")
)
_THINKS: Final = {
    "none": False,
    "low": True,
    "medium": True,
    "high": True,
    "xhigh": True,
    "max": True,
}
#: True if the model thinks, by the type that DeepSeek's, GLM's and Kimi's APIs have; None: as it
#: likes.
_THINKING: Final = {"enabled": True, "adaptive": None, "auto": None, "disabled": False}

#: The predecessor of ``reasoning_effort`` in chats: DeepSeek's, GLM's and Kimi's.
THINKING_MEMBER: Final = honoured(
    "thinking",
    Object(record({"type": word(_THINKING), "budget_tokens": {}}, required=("type",))),
    "Sets `enable_thinking`, and the variable `thinking` of templates.",
)

TEMPLATE_MEMBERS: Final[Members] = table(
    honoured(
        "chat_template_kwargs",
        Object(
            anything(
                propertyNames={"not": {"enum": sorted(RESERVED)}},
                properties={"add_generation_prompt": {"type": ["boolean", "null"]}},
            )
        ),
        "Variables of the chat template.",
    ),
    honoured(
        "add_generation_prompt",
        BOOLEAN,
        "End the prompt with the beginning of the assistant's turn; true unless"
        " `continue_final_message` is.",
    ),
    honoured(
        "continue_final_message",
        BOOLEAN,
        "Go on with the text of the last message, which stays open in the prompt. The answer has"
        " only what is new. Not with `add_generation_prompt: true`.",
    ),
    honoured("enable_thinking", BOOLEAN),
    honoured("reasoning_effort", EFFORT),
    honoured("verbosity", VERBOSITY),
    honoured("documents", Array(anything()), "What the answer is to be found in."),
)


def read_template_arguments(body: Mapping[str, Any]) -> TemplateArguments:
    """Resolve ``chat_template_kwargs``, and the members that set some of its variables.

    These are ``add_generation_prompt`` (which ``continue_final_message`` contradicts),
    ``enable_thinking``, ``reasoning_effort``, ``verbosity`` and ``documents``;
    ``chat_template_kwargs`` has precedence over them. An effort also sets ``enable_thinking``,
    which the templates of many models read.

    Raises:
        RequestError: a name is reserved, or a value has the wrong type.
    """
    values = dict(body.get("chat_template_kwargs") or {})
    for name in values:
        if name in RESERVED:
            raise fields.invalid(f"chat_template_kwargs.{name}", "the name is reserved")
    add_generation_prompt = fields.boolean(
        values, "add_generation_prompt", "chat_template_kwargs.add_generation_prompt"
    )
    values.pop("add_generation_prompt", None)
    at_the_top = body.get("add_generation_prompt")
    if add_generation_prompt is None:
        add_generation_prompt = at_the_top
    continues = body.get("continue_final_message", False)
    if continues and add_generation_prompt:
        raise fields.combined(
            "continue_final_message", "add_generation_prompt: true, which begins a new message"
        )
    thinking = body.get("enable_thinking")
    effort = body.get("reasoning_effort")
    if (switch := body.get("thinking")) is not None:
        thinks = _read_thinking(switch)
        thinking = thinks if thinking is None else thinking
        if thinks is not None:
            values.setdefault("thinking", thinks)
    if thinking is not None:
        values.setdefault("enable_thinking", thinking)
    if effort not in (None, "default"):
        values.setdefault("reasoning_effort", effort)
        if effort in _THINKS:
            values.setdefault("enable_thinking", _THINKS[effort])
    verbosity = body.get("verbosity")
    if verbosity is not None:
        values.setdefault("verbosity", verbosity)
    documents = _read_documents(body)
    if documents:
        values.setdefault("documents", documents)
    return TemplateArguments(values, add_generation_prompt, continues)


def _read_thinking(switch: Mapping[str, Any]) -> bool | None:
    kind = fields.string(switch, "type", "thinking.type")
    if kind is None:
        raise fields.missing("thinking.type")
    if kind not in _THINKING:
        words = ", ".join(f'"{word}"' for word in _THINKING)
        raise fields.invalid("thinking.type", f"{fields.describe(kind)} is none of {words}")
    return _THINKING[kind]


def _read_documents(body: Mapping[str, Any]) -> list[Any]:
    """Return the texts that answers should use, for templates that have this list."""
    documents: list[Any] = body.get("documents") or []
    for i, document in enumerate(documents):
        if not isinstance(document, dict):
            raise fields.wrong_type(f"documents[{i}]", "an object", document)
    return documents
