"""The messages of a chat request, as chat templates and media decoders take them.

What is accepted is OpenVINO Model Server's (``llm/apis/openai_completions.cpp``), but content or
tool calls of a wrong type are an error instead of being dropped, and so are a message without any
content that is not the assistant's, and arguments of a call that are not JSON.
"""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.requests.json_value import parsed_text
from calculators.requests.fields import invalid, missing, wrong_type

#: Members that a template may look at. All others are dropped, and so are these when they are no
#: text: a template would print anything.
_TEXT_MEMBERS: Final = frozenset({"role", "tool_call_id", "name", "reasoning_content"})


def normalise_messages(value: object) -> list[dict[str, Any]]:
    """The member ``messages`` of a request, checked and reduced to what templates know.

    Each message keeps, in its order, ``role`` (any text, also ``developer``), ``content``,
    ``tool_calls``, ``tool_call_id``, ``name`` and ``reasoning_content``. A member that is null is
    absent. Every message has ``content`` afterwards: text, empty where there was none, or the list
    of its parts as they came. Every tool call has ``arguments``, ``"{}"`` where there were none.

    Raises:
        RequestError: ``param`` is the place, such as ``messages[2].content[0].type``.
    """
    if value is None:
        raise missing("messages")
    if not isinstance(value, list):
        raise wrong_type("messages", "an array", value)
    if not value:
        raise invalid("messages", "expected at least one message")
    return [_message(each, f"messages[{place}]") for place, each in enumerate(value)]


def _message(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    if not isinstance(_required(value, "role", path), str):
        raise wrong_type(f"{path}.role", "a string", value["role"])
    message: dict[str, Any] = {}
    for name, member in value.items():
        if name == "content":
            message[name] = _content(member, f"{path}.content")
        elif name == "tool_calls" and member is not None:
            message[name] = _tool_calls(member, f"{path}.tool_calls")
        elif name in _TEXT_MEMBERS and isinstance(member, str):
            message[name] = member
    if "content" not in value and message["role"] != "assistant":
        # Only an assistant can have called tools instead of saying something.
        raise missing(f"{path}.content")
    if isinstance(value.get("reasoning"), str):
        # What newer clients of vLLM send back.
        message.setdefault("reasoning_content", value["reasoning"])
    message.setdefault("content", "")
    return message


def _required(value: dict[str, Any], name: str, path: str) -> Any:
    member = value.get(name)
    if member is None:
        raise missing(f"{path}.{name}")
    return member


def _content(value: object, path: str) -> str | list[Any]:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of parts", value)
    for place, part in enumerate(value):
        _check_part(part, f"{path}[{place}]")
    return value


def _check_part(part: object, path: str) -> None:
    if not isinstance(part, dict):
        raise wrong_type(path, "an object", part)
    kind = _required(part, "type", path)
    match kind:
        case "text":
            _check_string(part, "text", path)
        case "image_url":
            _check_string(_inner(part, "image_url", path), "url", f"{path}.image_url")
        case "input_audio":
            _check_string(_inner(part, "input_audio", path), "data", f"{path}.input_audio")
        case str():
            raise invalid(
                f"{path}.type", f'"{kind[:40]}" is none of "text", "image_url", "input_audio"'
            )
        case _:
            raise wrong_type(f"{path}.type", "a string", kind)


def _inner(part: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    inner = _required(part, name, path)
    if not isinstance(inner, dict):
        raise wrong_type(f"{path}.{name}", "an object", inner)
    return inner


def _check_string(value: dict[str, Any], name: str, path: str) -> None:
    member = _required(value, name, path)
    if not isinstance(member, str):
        raise wrong_type(f"{path}.{name}", "a string", member)


def _tool_calls(value: object, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    return [_tool_call(call, f"{path}[{place}]") for place, call in enumerate(value)]


def _tool_call(call: object, path: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise wrong_type(path, "an object", call)
    function = _inner(call, "function", path)
    arguments = function.get("arguments")
    if arguments is None:
        # Templates print arguments without asking whether there are any.
        return {**call, "function": {**function, "arguments": "{}"}}
    if isinstance(arguments, str) and arguments and not _is_json(arguments):
        raise invalid(
            f"{path}.function.arguments",
            "the text is no JSON value, nested too deeply, or has half of a surrogate pair",
        )
    return call


def _is_json(text: str) -> bool:
    try:
        parsed_text(text)
    except ValueError:
        return False
    return True
