"""`ChatRenderer`: the prompt of a chat request, by a model's template.

It converts messages from the form of OpenAI's clients to the form that templates expect
(`prepare_history`, in OpenVINO Model Server's order), writes tools into messages where the template
knows none (`WrittenTools`), and ends prompts within their last message for
``continue_final_message``: a template writes marks after each message, so the last one is rendered
with a marker after its text, and the prompt is cut there. Hugging Face's ``apply_chat_template``
(``utils/chat_template_utils.py``) does the same.

Each step takes messages and returns new ones; no argument is changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final

from calculators.images.media.tags import is_tag
from calculators.llm.grammars.notation import written_calls
from calculators.llm.parsers.families import AnswerFamily, CallSyntax
from calculators.llm.parsers.registry import MADE, NO_PARSER, tool_parser
from calculators.llm.prompt.chat_template.analysis import (
    TemplateAnalysis,
    analyze,
    needs_whole_tools,
    shows_system_message,
    shows_tools,
    whole_tool,
)
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.detector import tool_variables
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from calculators.llm.prompt.chat_template.text_guard import TextGuard
from calculators.llm.prompt.chat_template.thinking import content_with_thought
from calculators.llm.prompt.chat_template.unseen import ShownRoles, UnseenParts, turns_joined

Message = Mapping[str, Any]
#: Reads the calls of models whose templates know no tools. Many models have seen its form.
_USUAL_PARSER: Final = "hermes"
#: Processor time of all probes of a template. A template of many models takes a tenth.
_PROBE_SECONDS: Final = 4.0


class ChatRenderer:
    """Renders chats as OpenAI's clients send them.

    Around the template it does what templates leave to servers: it puts messages into the form
    that the template expects, refuses parts that the template would leave out, and writes tools
    into the messages where the template knows none.

    Attributes:
        analysis: the facts that the template reveals.
        tool_parser: the name of the form of calls, as `TemplateAnalysis` has it, or the usual one
            of a template that knows no tools; "" where it is unknown.
        knows_tools: the template shows tools. Otherwise they are written into the messages.
    """

    def __init__(
        self,
        template: ChatTemplate,
        *,
        vocabulary: Container[str] = (),
        architecture: str = "",
    ) -> None:
        """Analyze the template; ``vocabulary`` and ``architecture`` as `analyze` takes them."""
        self._template = template
        with template.probed(_PROBE_SECONDS):
            self._probe(template, vocabulary, architecture)

    def _probe(self, template: ChatTemplate, vocabulary: Container[str], architecture: str) -> None:
        self._roles = ShownRoles.of(template)
        template.of_parts = self._roles.of_parts
        self._unseen = UnseenParts(template)
        self.analysis = analyze(template, vocabulary=vocabulary, architecture=architecture)
        shows = shows_tools(template)
        self._names_tools_otherwise = not shows and bool(shows_tools(template, other_names=True))
        # One that refuses every probe may show them.
        self.knows_tools = shows is not False or self._names_tools_otherwise
        self.tool_parser = self.analysis.tool_parser or ""
        self._needs_whole_tools = self.knows_tools and needs_whole_tools(template)
        self._takes_system = False
        if not self.knows_tools:
            if not self.tool_parser and not self.analysis.supports_tool_calls:
                self.tool_parser = _USUAL_PARSER
            self._takes_system = shows_system_message(template)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        continues: bool = False,
        calls: CallSyntax | None = None,
        guard: TextGuard | None = None,
    ) -> str:
        """Render a prompt.

        Args:
            messages: as `normalise_messages` returns them; images are tags.
            tools: OpenAI's tools.
            template_kwargs: further variables for the template.
            continues: the prompt ends with the last message, which the model goes on with.
            calls: the form in which the model writes calls, for a template that knows no tools, or
                shows no calls; None: what it does not show is left out of the prompt.
            guard: marks the texts of the request; the prompt has the marks. None: nothing does.

        Raises:
            ChatTemplateError: the template refuses the chat, or would leave out a part of it.
        """
        arguments = self.analysis.switches.applied(template_kwargs or {})
        self._unseen.check_documents(arguments)
        if tools and self._needs_whole_tools:
            tools = [whole_tool(tool) for tool in tools]
        writes_tools = not self.knows_tools and calls is not None

        def render(messages: Sequence[Mapping[str, Any]]) -> str:
            if not writes_tools or calls is None:
                if not self.analysis.takes_many_calls:
                    messages = one_call_a_turn(messages)
                variables = arguments
                if self._names_tools_otherwise:
                    variables = {**tool_variables(tools or ()), **arguments}
                if calls is not None:
                    messages = self._with_hidden_calls(messages, calls)
                return self._template.render(messages, tools=tools, template_kwargs=variables)
            writer = WrittenTools(calls, takes_system=self._takes_system)
            written = writer.messages(messages, tools)
            return self._template.render(written, template_kwargs=arguments)

        history = prepare_history(messages, self.analysis)
        if guard is not None:
            history = guard.messages(history, continues=continues)
            tools = tools and guard.value(tools)
            if "documents" in arguments:
                arguments["documents"] = guard.value(arguments["documents"])
        if bool(tools) in self._roles.without_results and not writes_tools:
            history = _results_as_text(history)
        self._roles.check(history, has_tools=bool(tools), writes_tools=writes_tools)

        def prompt(history: Sequence[dict[str, Any]]) -> str:
            known = self._unseen.with_known_roles(history, render, has_tools=bool(tools))
            return cut_at_marker(render(with_marker(known))) if continues else render(known)

        try:
            return prompt(history)
        except ChatTemplateError as error:
            # Agents send several messages of the user in turn, which many templates refuse.
            joined = turns_joined(history, range(1, len(history)))
            if len(joined) == len(history):
                raise
            try:
                return prompt(joined)
            except ChatTemplateError:
                raise error from None

    def _with_hidden_calls(
        self, messages: Sequence[Message], form: CallSyntax
    ) -> Sequence[Message]:
        """Write the calls that the template would leave out into the text of their messages."""
        if self.analysis.hides_calls:
            return [with_written_calls(each, form) for each in messages]
        if self.analysis.hides_calls_beside_text:
            return [
                with_written_calls(each, form) if each.get("content") else each for each in messages
            ]
        return messages


def calls_of(name: str, made: AnswerFamily | None = None) -> CallSyntax | None:
    """Return the form of the calls that a parser reads; None if it is unknown.

    ``made``: the declaration of the name `MADE`.

    Raises:
        UnknownParser: there is no such parser, or its package is broken.
    """
    if name == MADE:
        return None if made is None else made.calls
    return None if name in ("", NO_PARSER) else tool_parser(name).calls


def prepare_history(
    messages: Sequence[Message], analysis: TemplateAnalysis | None = None
) -> list[dict[str, Any]]:
    """Return the messages for `ChatTemplate.render`. Media parts were replaced before."""
    prepared = []
    for message in messages:
        made = dict(message)
        parts = made.get("content")
        if parts == []:
            made["content"] = None
        elif isinstance(parts, list) and all(map(_is_text, parts)):
            made["content"] = _joined_text(parts)
        if made.get("tool_calls") == []:
            # Templates that look at the first call would fail.
            del made["tool_calls"]
        if analysis is not None:
            _adapt(made, analysis)
        prepared.append(made)
    if analysis is not None and (analysis.ids_are_headers or not analysis.takes_any_id):
        _rename_ids(prepared, analysis)
    return prepared


def _joined_text(parts: Sequence[Mapping[str, str]]) -> str:
    """Join parts that are all texts.

    Texts follow each other as in other servers, without anything between them. The tag of an image
    has a line of its own.
    """
    joined: list[str] = []
    for text in filter(None, (part["text"] for part in parts)):
        if joined and (is_tag(text) or is_tag(joined[-1])):
            joined.append("\n")
        joined.append(text)
    return "".join(joined)


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _adapt(message: dict[str, Any], analysis: TemplateAnalysis) -> None:
    """Put arguments and reasoning where this template looks for them."""
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [_with_arguments(call, analysis) for call in calls]
        if analysis.hides_calls_beside_text and not message.get("content"):
            message["content"] = None
    field = analysis.misnamed_reasoning_field
    thought = message.get("reasoning_content")
    if field and "reasoning_content" in message and not _excludes(analysis, message):
        message[field] = thought
    if analysis.reasoning_form and isinstance(thought, str) and thought:
        content = message.get("content")
        message["content"] = content_with_thought(analysis.reasoning_form, thought, content)


_SHORT_ID: Final = re.compile(r"[0-9A-Za-z]{9}")
_HEADER: Final = re.compile(r"functions\..+:\d+")


def _rename_ids(messages: list[dict[str, Any]], analysis: TemplateAnalysis) -> None:
    """Give calls and their results ids that the template takes.

    Clients change ids, and a chat may have begun with another model.
    """
    names: dict[str, str] = {}
    count = 0
    for message in messages:
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            renamed = []
            for call in calls:
                given = call.get("id") if isinstance(call, dict) else None
                if isinstance(given, str):
                    call = {**call, "id": _id(call, given, count, analysis)}
                    names[given] = call["id"]
                renamed.append(call)
                count += 1
            message["tool_calls"] = renamed
        if (result_of := message.get("tool_call_id")) in names:
            message["tool_call_id"] = names[result_of]


def _id(call: Mapping[str, Any], given: str, count: int, analysis: TemplateAnalysis) -> str:
    if analysis.ids_are_headers:
        name = (call.get("function") or {}).get("name")
        return given if _HEADER.fullmatch(given) else f"functions.{name}:{count}"
    if _SHORT_ID.fullmatch(given):
        return given
    return hashlib.sha256(given.encode(errors="replace")).hexdigest()[:9]


def one_call_a_turn(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with a turn for each call, and its results after it."""
    turns: list[Message] = []
    waiting = list(reversed(messages))
    while waiting:
        message = waiting.pop()
        calls = message.get("tool_calls")
        if not isinstance(calls, list) or len(calls) < 2:
            turns.append(message)
            continue
        results: list[Message] = []
        while waiting and waiting[-1].get("role") == "tool":
            results.append(waiting.pop())
        for place, call in enumerate(calls):
            first = message if place == 0 else {"role": message["role"], "content": ""}
            turns.append({**first, "tool_calls": [call]})
            own = [each for each in results if each.get("tool_call_id") == call.get("id")]
            turns += own
            results = [each for each in results if each not in own]
        turns += results
    return turns


def _excludes(analysis: TemplateAnalysis, message: Message) -> bool:
    """Return True if the template would refuse the reasoning because of the text beside it."""
    has_both = bool(message.get("content")) and bool(message.get("tool_calls"))
    return analysis.reasoning_excludes_content and has_both


def _with_arguments(call: Any, analysis: TemplateAnalysis) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments, str | dict):
        return call
    if isinstance(arguments, dict):
        if analysis.requires_object_arguments:
            return call
        arguments = json.dumps(arguments, ensure_ascii=False)
    parsed = _object_of(arguments)
    if parsed is not None:
        adapted: Any = parsed if analysis.requires_object_arguments else arguments
    elif arguments.strip() and analysis.takes_broken_arguments:
        adapted = arguments  # a call that was cut, or a model's bad JSON, which it sees again
    else:
        adapted = {} if analysis.requires_object_arguments else "{}"
    return {**call, "function": {**function, "arguments": adapted}}


def _object_of(text: str) -> dict[str, Any] | None:
    """Return the object in a JSON text; None if there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_RESULT: Final = "<tool_response>\n{}\n</tool_response>"


def _results_as_text(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages without the role "tool", for a template that does not show it.

    Results that follow each other, and the user's text after them, become one message of the user,
    as many templates demand that user and assistant take turns.
    """
    turns: list[dict[str, Any]] = []
    follows_result = False
    for message in messages:
        turn, is_result = dict(message), message["role"] == "tool"
        if is_result:
            turn = {"role": "user", "content": _RESULT.format(_text_of(message))}
        if follows_result and turn["role"] == "user":
            turns[-1]["content"] = _joined(turns[-1]["content"], _text_of(turn), "\n")
        else:
            turns.append(turn)
        follows_result = is_result
    return turns


def _text_of(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


class WrittenTools:
    """Writes tools into the first message of a chat, and earlier calls and results as text.

    vLLM holds the answer to a form for such templates too, but leaves the tools out of the prompt;
    llama.cpp writes them, as here.
    """

    def __init__(self, form: CallSyntax, *, takes_system: bool) -> None:
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
        """Return messages without tool calls and without the role "tool"; see `_results_as_text`.

        Args:
            messages: as `prepare_history` returns them; their content is text or None.
            tools: OpenAI's tools; no tools, no description.

        Raises:
            ChatTemplateError: the form cannot write an argument.
        """
        written = [with_written_calls(each, self._form) for each in _results_as_text(messages)]
        if tools:
            self._add_tools(written, self._description(tools))
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
        fields = ("{object}", "{keyed}", "{json}")
        is_json = any(field in self._form.call for field in fields)
        example = "OBJECT" if is_json else {"PARAMETER": "VALUE"}
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return (
            "These tools can be called, one JSON object per line:\n"
            f"<tools>\n{listed}\n</tools>\n"
            f"A call is written like this:\n{written_calls(self._form, [('NAME', example)])}"
        )


def with_written_calls(message: Message, form: CallSyntax) -> dict[str, Any]:
    """Return the message with its calls in its text.

    Raises:
        ChatTemplateError: the form cannot write an argument.
    """
    written = {name: value for name, value in message.items() if name != "tool_calls"}
    if calls := message.get("tool_calls"):
        functions = [call.get("function") or {} for call in calls]
        pairs = [(str(each.get("name")), each.get("arguments")) for each in functions]
        try:
            text = written_calls(form, pairs)
        except ValueError as error:
            raise ChatTemplateError(f"a call of a tool cannot be written: {error}") from None
        written["content"] = _joined(message.get("content"), text, "\n")
    return written


def _joined(first: str | None, second: str | None, gap: str) -> str:
    return gap.join(text for text in (first, second) if text)


MEMBER: Final = "continue_final_message"
_MARKER: Final = "continue_here_xK9m"
#: Behind the marker: a template that strips the text strips this too.
_SPACE: Final = " "


def with_marker(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages with the marker after the text of the last one.

    Raises:
        ChatTemplateError: the last message has no text that could be continued.
    """
    if not messages:
        raise ChatTemplateError(
            "there is no message, so there is no text at its end that could be continued",
            param=MEMBER,
        )
    last = messages[-1]
    place = f"messages[{len(messages) - 1}]"
    if last.get("tool_calls"):
        raise ChatTemplateError(
            "the last message calls tools, so it cannot be continued; only a text can",
            param=f"{place}.tool_calls",
        )
    content = last.get("content")
    if isinstance(content, str) and content:
        return [*messages[:-1], {**last, "content": content + _MARKER + _SPACE}]
    if isinstance(content, list) and content and content[-1].get("type") == "text":
        part = {**content[-1], "text": content[-1]["text"] + _MARKER + _SPACE}
        return [*messages[:-1], {**last, "content": [*content[:-1], part]}]
    raise ChatTemplateError(
        "the last message has no text at its end that could be continued",
        param=f"{place}.content",
    )


def cut_at_marker(text: str) -> str:
    """Return the prompt up to the marker.

    Raises:
        ChatTemplateError: the template did not write the end of the last message.
    """
    prompt, marker, rest = text.rpartition(_MARKER)
    if not marker or not prompt:
        raise ChatTemplateError(
            "the last message cannot be continued: the chat template of this model does not write"
            " the end of its text",
            param=MEMBER,
        )
    return prompt if rest.startswith(_SPACE) else prompt.rstrip()
