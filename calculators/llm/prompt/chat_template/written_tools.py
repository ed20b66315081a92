"""`WrittenTools`: tools, calls and results as text, for chat templates that know no tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.llm.parsers.parser import CallForm, ParameterForm
from calculators.llm.prompt.chat_template.errors import ChatTemplateError

Message = Mapping[str, Any]

_RESULT: Final = "<tool_response>\n{}\n</tool_response>"


class WrittenTools:
    """Writes tools into the first message of a chat, and earlier calls and results as text.

    vLLM holds the answer to a form for such templates too, but leaves the tools out of the prompt;
    llama.cpp writes them, as here.
    """

    def __init__(self, form: CallForm, *, takes_system: bool) -> None:
        """Make the writer of one model.

        Args:
            form: the form of calls that the model's tool parser reads.
            takes_system: the template shows a system message. Otherwise the tools stand before
                the text of the first user message.
        """
        self._form = form
        self._takes_system = takes_system

    def messages(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
    ) -> list[dict[str, Any]]:
        """Return messages without tool calls and without the role "tool".

        Results that follow each other, and the user's text behind them, become one message of the
        user, as many templates demand that user and assistant take turns.

        Args:
            messages: as `prepare_history` returns them; their content is text or None.
            tools: OpenAI's tools; no tools, no description.

        Raises:
            ChatTemplateError: arguments are no JSON object, and the form has parameters.
        """
        written: list[dict[str, Any]] = []
        follows_result = False
        for message in messages:
            turn = self._as_text(message)
            if follows_result and turn["role"] == "user":
                written[-1]["content"] = _joined(written[-1]["content"], turn["content"], "\n")
            else:
                written.append(turn)
            follows_result = message["role"] == "tool"
        if tools:
            self._add_tools(written, self._description(tools))
        return written

    def _as_text(self, message: Message) -> dict[str, Any]:
        """Return the message with its calls, or its result, in its text."""
        text = message.get("content") or ""
        if message["role"] == "tool":
            return {"role": "user", "content": _RESULT.format(text)}
        written = {name: value for name, value in message.items() if name != "tool_calls"}
        if calls := message.get("tool_calls"):
            written["content"] = _joined(text, self._calls(calls), "\n")
        return written

    def _add_tools(self, messages: list[dict[str, Any]], text: str) -> None:
        if messages[0]["role"] in ("system", "developer"):
            messages[0]["content"] = _joined(messages[0]["content"], text, "\n\n")
        elif self._takes_system:
            messages.insert(0, {"role": "system", "content": text})
        else:
            for message in messages:
                if message["role"] == "user":
                    message["content"] = _joined(text, message["content"], "\n\n")
                    return
            messages.insert(0, {"role": "user", "content": text})

    def _description(self, tools: Sequence[Mapping[str, Any]]) -> str:
        form = self._form
        if form.parameters is None:
            example = _call(form, "NAME", "OBJECT")
        else:
            example = _call(form, "NAME", {"PARAMETER": "VALUE"})
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return (
            "These tools can be called, one JSON object per line:\n"
            f"<tools>\n{listed}\n</tools>\n"
            f"A call is written like this:\n{form.opening}{example}{form.closing}"
        )

    def _calls(self, calls: Sequence[Mapping[str, Any]]) -> str:
        form = self._form
        functions = [call.get("function") or {} for call in calls]
        written = (_call(form, str(each.get("name")), each.get("arguments")) for each in functions)
        return form.opening + form.separator.join(written) + form.closing


def _call(form: CallForm, name: str, arguments: Any) -> str:
    """Return the text of a call. ``arguments``: an object, or its JSON text."""
    if form.parameters is not None:
        written = _parameters(form.parameters, arguments)
    elif isinstance(arguments, str):
        written = arguments
    else:
        written = json.dumps(arguments, ensure_ascii=False)
    return form.begin.replace("NAME", name) + written + form.end


def _parameters(form: ParameterForm, arguments: Any) -> str:
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ChatTemplateError("the arguments of a tool call must be a JSON object")
    return form.separator.join(
        form.begin.replace("NAME", name) + _value(form, value) for name, value in values.items()
    )


def _value(form: ParameterForm, value: Any) -> str:
    if isinstance(value, str) and form.text_end:
        return form.text_begin + value + form.text_end
    return json.dumps(value, ensure_ascii=False) + form.end


def _joined(first: str | None, second: str | None, gap: str) -> str:
    return gap.join(text for text in (first, second) if text)
