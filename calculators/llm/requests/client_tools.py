"""The tools of OpenAI's APIs, as functions for the model, and its calls in the client's form.

A client of responses offers tools of several types, one of chats functions and custom tools. Each
that the client itself runs becomes one or more functions, which is all that chat templates know,
and a call of such a function is written in the answer as the client expects calls of that type
(`ClientCallForm`):

======================  ============================  ========================================
type of the tool        for the model                 a call in the answer
======================  ============================  ========================================
``function``            the function                  ``function_call``
``namespace``           ``NAMESPACE__FUNCTION`` each  ``function_call`` with ``namespace``
``custom``              a function of one text        ``custom_tool_call`` with ``input``
``local_shell``         ``local_shell(command, ..)``  ``local_shell_call`` with ``action``
``shell``               ``shell(commands, ...)``      ``shell_call`` with ``action``
``apply_patch``         ``apply_patch(type, ...)``    ``apply_patch_call`` with ``operation``
``tool_search``         ``tool_search(query, ...)``   ``tool_search_call`` with ``arguments``
======================  ============================  ========================================

A client that searches for its tools itself says so (``"execution": "client"``), and brings its own
parameters for the search; what it finds are tools of the next request.

In chats a call of a custom tool has the type ``custom``, and calls of all others are functions'.

In responses tools of the type ``mcp`` name servers (`calculators.llm.requests.tools`). Tools
of all other types run at OpenAI, such as ``web_search``. They are left out with a warning, unless
the choice forces one: a model that is free to call tools does without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from calculators.kit.requests import fields
from calculators.kit.requests.members import check_object, leave_out_type
from calculators.language.generation_request import TextGrammar, Tools
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.tools import (
    LONGEST_NAME,
    NO_SUCH_TOOL,
    check_name,
    is_mcp,
    read_tools,
    shown_mcp_tool,
)

CallKind = Literal[
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "tool_search_call",
]


@dataclass(frozen=True, slots=True)
class ClientCallForm:
    """How the answer writes a call of one function.

    Attributes:
        kind: the type of the item.
        name: of the tool, as the client knows it; "" for types that have no names.
        namespace: of the function; "" without one.
    """

    kind: CallKind
    name: str
    namespace: str = ""


NO_FORMS: Final[Mapping[str, ClientCallForm]] = {}
#: The one argument of the function that a custom tool becomes.
CUSTOM_INPUT: Final = "input"

_TEXT: Final = {"type": "string"}
_TIME_LIMIT: Final = {"type": "integer", "description": "The time limit in milliseconds."}
_LOCAL_SHELL: Final[dict[str, Any]] = {
    "description": "Run a command on the user's computer and return its output.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {
                "type": "array",
                "items": _TEXT,
                "description": "The program and its arguments.",
            },
            "working_directory": {**_TEXT, "description": "The folder to run it in."},
            "timeout_ms": _TIME_LIMIT,
            "env": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "Further variables of the environment.",
            },
            "user": {**_TEXT, "description": "The user to run it as."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
}
_SHELL: Final[dict[str, Any]] = {
    "description": "Run shell commands and return their output.",
    "parameters": {
        "type": "object",
        "properties": {
            "commands": {
                "type": "array",
                "items": _TEXT,
                "description": "Command lines; they may run at the same time.",
            },
            "timeout_ms": _TIME_LIMIT,
            "max_output_length": {
                "type": "integer",
                "description": "The most characters of output to return.",
            },
        },
        "required": ["commands"],
        "additionalProperties": False,
    },
}
_APPLY_PATCH: Final[dict[str, Any]] = {
    "description": "Create, update or delete a file by a V4A diff.",
    "parameters": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": {**_TEXT, "description": "The path of the file."},
            "diff": {**_TEXT, "description": "The diff; not for delete_file."},
        },
        "required": ["type", "path"],
        "additionalProperties": False,
    },
}
_TOOL_SEARCH: Final[dict[str, Any]] = {
    "description": "Search for tools, which can be called afterwards.",
    "parameters": {
        "type": "object",
        "properties": {
            "query": {**_TEXT, "description": "What the tools should do."},
            "limit": {"type": "integer", "description": "The most tools to return."},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}
#: The functions of tools that have no schema of their own, by the tool's type.
_BUILT_IN: Final[Mapping[str, tuple[CallKind, dict[str, Any]]]] = {
    "local_shell": ("local_shell_call", _LOCAL_SHELL),
    "shell": ("shell_call", _SHELL),
    "apply_patch": ("apply_patch_call", _APPLY_PATCH),
    "tool_search": ("tool_search_call", _TOOL_SEARCH),
}
_PLAIN: Final = (None, "function")
TOOL_TYPES: Final = ("function", "namespace", "custom", "mcp", *_BUILT_IN)


class _Offered(NamedTuple):
    """A function for the model.

    Attributes:
        path: of the client's tool that it is made of.
        grammar: of its one argument, which is a text.
    """

    path: str
    function: dict[str, Any]
    form: ClientCallForm
    grammar: TextGrammar | None = None

    @property
    def name(self) -> str:
        """The name that the model knows; "" if the function has none, which is checked later."""
        name = _function(self.function).get("name")
        return name if isinstance(name, str) else ""


def flat_name(namespace: str, name: str) -> str:
    """Return the name by which the model knows a function of a namespace."""
    if not namespace:
        return name
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"


def has_only_functions(body: Mapping[str, Any]) -> bool:
    """Return True if `read_tools` alone reads the tools and the choice of a chat."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    is_plain = not isinstance(choice, dict) or choice.get("type") in _PLAIN
    return is_plain and not (
        isinstance(tools, list)
        and any(isinstance(each, dict) and each.get("type") not in _PLAIN for each in tools)
    )


def read_client_tools(
    body: Mapping[str, Any],
    limits: RequestLimits,
    *,
    more: Sequence[tuple[str, Any]] = (),
    takes_servers: bool = True,
    has_servers: bool = False,
    longest_name: int = LONGEST_NAME,
) -> Tools:
    """Read ``tools`` and ``tool_choice``, and nest the functions as templates expect them.

    Args:
        more: tools that items of the input add, each after its path.
        takes_servers: tools of the type "mcp" are allowed, and read elsewhere.
        has_servers: some are there.
        longest_name: the most characters of a name.

    Raises:
        RequestError: a tool or the choice is wrong, or the choice forces a tool that is not here.
    """
    if body.get("tool_choice") == "none" or (
        not more and body.get("tools") is None and body.get("tool_choice") is None
    ):
        return read_tools(body, limits)
    offered = list(_all_offered(body, more, takes_servers=takes_servers))
    choice = _plain_choice(body.get("tool_choice"), offered)
    asked = {"tools": [each.function for each in offered], "tool_choice": choice}
    paths = [each.path for each in offered]
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        everything = read_tools(
            {**asked, "tool_choice": "auto"}, limits, paths=paths, longest_name=longest_name
        )
        own = replace(limits, may_get_tools=False)  # the list is of the client's functions
        tools = read_tools(_only_allowed(choice, everything, offered), own)
        left = {_function(tool)["name"] for tool in tools.items}
        pairs = zip(everything.items, everything.schema_paths, strict=True)
        schema_paths = tuple(path for tool, path in pairs if _function(tool)["name"] in left)
    else:
        tools = read_tools(
            asked, limits, paths=paths, has_servers=has_servers, longest_name=longest_name
        )
        schema_paths = tools.schema_paths
    names = {_function(tool)["name"] for tool in tools.items}
    return replace(
        tools,
        schema_paths=schema_paths,
        grammars={
            each.name: each.grammar
            for each in offered
            if each.grammar is not None and each.name in names
        },
    )


def call_forms(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, ClientCallForm]:
    """Return the forms of calls that are not plain, by the names that the model knows.

    ``tools``: the tools of the answer, as `shown_tools` returns them.
    """
    return {
        each.name: each.form
        for tool in tools
        if tool["type"] not in ("function", "mcp")
        for each in _offered(dict(tool), "tools")
    }


def shown_tools(
    body: Mapping[str, Any], tools: Tools, more: Sequence[tuple[str, Any]] = ()
) -> list[dict[str, object]]:
    """Return the tools as the answer repeats them: flat, with the members that clients read.

    These are all tools of the request that are not left out, or only servers if no tool of the
    client may be called.
    """
    # A server that an item of the input adds has been left out.
    added = (tool for _, tool in more if not is_mcp(tool))
    given = [*(body.get("tools") or ()), *added]
    return [
        shown_mcp_tool(tool) if is_mcp(tool) else _shown(tool)
        for tool in given
        if is_mcp(tool) or (tools.choice != "none" and not _is_hosted(tool))
    ]


def shown_tool_choice(body: Mapping[str, Any]) -> Any:
    """Return ``tool_choice`` as the answer repeats it; it has been checked."""
    match _as_mode(body.get("tool_choice")):
        case None:
            return "auto"
        case {"type": "tool", "name": name}:
            return {"type": "function", "name": name}
        case {"function": {"name": name}}:
            return {"type": "function", "name": name}
        case choice:
            return choice


# Tools --------------------------------------------------------------------------------------------


def _all_offered(
    body: Mapping[str, Any], more: Sequence[tuple[str, Any]], *, takes_servers: bool
) -> Iterator[_Offered]:
    """Yield the functions of all tools that the client runs.

    A tool that an item of the input adds replaces one of its name: a client that searches for
    tools sends those again that it has found before.
    """
    added = {each.name: each for path, tool in more for each in _offered(tool, path)}
    for i, tool in enumerate(fields.array(body, "tools") or ()):
        if not (takes_servers and is_mcp(tool)):
            yield from (each for each in _offered(tool, f"tools[{i}]") if each.name not in added)
    yield from added.values()


def _offered(tool: object, path: str) -> Iterator[_Offered]:
    """Yield the functions that the model knows a tool as.

    Functions are checked later, by `read_tools`; a tool that runs at OpenAI is left out.

    Raises:
        RequestError: the tool is wrong, or its type is a misspelt one.
    """
    if not isinstance(tool, dict):
        raise fields.wrong_type(path, "an object", tool)
    kind = fields.string(tool, "type", f"{path}.type")
    match kind:
        case None | "function":
            name = _function(tool).get("name")
            form = ClientCallForm("function_call", name if isinstance(name, str) else "")
            yield _Offered(path, tool, form)
        case "namespace":
            yield from _of_namespace(tool, path)
        case "custom":
            yield _custom(tool, path)
        case _ if kind in _BUILT_IN and not _is_hosted(tool):
            call, function = _BUILT_IN[kind]
            own = ("description", "parameters") if kind == "tool_search" else ()
            given = {name: tool[name] for name in own if tool.get(name) is not None}
            made = {"type": "function", "name": kind, **function, **given}
            yield _Offered(path, made, ClientCallForm(call, ""))
        case _:
            # A shell or a search of OpenAI's own has a type that is known, and is left out.
            known = () if kind in TOOL_TYPES else TOOL_TYPES
            leave_out_type(kind, known, path, NO_SUCH_TOOL)


def _of_namespace(tool: dict[str, Any], path: str) -> Iterator[_Offered]:
    namespace = _tool_name(tool, path)
    fields.string(tool, "description", f"{path}.description")
    check_object(tool, path, ("type", "name", "description", "tools", "defer_loading"))
    for i, inner in enumerate(fields.array(tool, "tools", f"{path}.tools") or ()):
        place = f"{path}.tools[{i}]"
        for each in _offered(inner, place):
            function = _function(each.function)
            name = _tool_name(function, place)
            renamed = {**function, "type": "function", "name": flat_name(namespace, name)}
            form = replace(each.form, namespace=namespace)
            yield _Offered(place, renamed, form, each.grammar)


def _tool_name(tool: Mapping[str, Any], path: str) -> str:
    name = fields.string(tool, "name", f"{path}.name")
    if name is None:
        raise fields.missing(f"{path}.name")
    check_name(name, f"{path}.name", LONGEST_NAME)
    return name


def _custom(tool: dict[str, Any], path: str) -> _Offered:
    """Return the function of a tool that takes a text, which may have a grammar."""
    # Chat requests nest it; the flat form is that of responses.
    inner = fields.json_object(tool, "custom", f"{path}.custom") or tool
    name = _tool_name(inner, path)
    about = fields.string(inner, "description", f"{path}.description") or ""
    text: dict[str, Any] = {"type": "string"}
    place = path if inner is tool else f"{path}.custom"
    check_object(inner, place, ("type", "name", "description", "format", "defer_loading"))
    grammar = _grammar(fields.json_object(inner, "format", f"{place}.format"), f"{place}.format")
    if grammar is not None:
        text["description"] = f"It follows this grammar ({grammar.syntax}):\n{grammar.definition}"
    function: dict[str, Any] = {"type": "function", "name": name}
    if about:
        function["description"] = about
    function["parameters"] = {
        "type": "object",
        "properties": {CUSTOM_INPUT: text},
        "required": [CUSTOM_INPUT],
        "additionalProperties": False,
    }
    return _Offered(path, function, ClientCallForm("custom_tool_call", name), grammar)


def _grammar(form: dict[str, Any] | None, path: str) -> TextGrammar | None:
    """Read the format of a custom tool's text; None if it may be any.

    The grammar itself is read where one is made of it, in a process of its own.
    """
    kind = None if form is None else fields.string(form, "type", f"{path}.type")
    if form is None or kind == "text":
        return None
    if kind != "grammar":
        raise fields.invalid(
            f"{path}.type", f'{fields.describe(kind)} is neither "text" nor "grammar"'
        )
    nested = fields.json_object(form, "grammar", f"{path}.grammar")
    given, place = (form, path) if nested is None else (nested, f"{path}.grammar")
    syntax = fields.string(given, "syntax", f"{place}.syntax")
    if syntax not in ("lark", "regex"):
        if syntax is None:
            raise fields.missing(f"{place}.syntax", '"lark" or "regex"')
        raise fields.invalid(
            f"{place}.syntax", f'{fields.describe(syntax)} is neither "lark" nor "regex"'
        )
    definition = fields.string(given, "definition", f"{place}.definition")
    if definition is None:
        raise fields.missing(f"{place}.definition")
    return TextGrammar(CUSTOM_INPUT, syntax, definition, f"{place}.definition")


def _is_hosted(tool: Mapping[str, Any]) -> bool:
    """Return True if a tool that is well formed would run at OpenAI."""
    kind = tool.get("type")
    if kind == "shell":
        environment = tool.get("environment")
        place = environment.get("type") if isinstance(environment, dict) else None
        return place not in (None, "local")
    if kind == "tool_search":
        return tool.get("execution") != "client"
    return kind is not None and kind not in TOOL_TYPES


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the name of a function."""
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


def _shown(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") not in (None, "function"):
        return tool
    function = _function(tool)
    members = ("name", "description", "parameters", "strict")
    return {"type": "function", **{name: function.get(name) for name in members}}


# The text of a custom tool ------------------------------------------------------------------------


def custom_input(arguments: str) -> str:
    """Return the text of a call of a custom tool; arguments of another form are the text."""
    text = arguments_object(arguments).get(CUSTOM_INPUT)
    return text if isinstance(text, str) else arguments


class CustomInput:
    """The text of a custom tool's call, out of its arguments while they are written.

    The pieces joined are `custom_input` of the whole.
    """

    __slots__ = ("_arguments", "_form", "_rest", "_sent")

    #: The beginning of the arguments, and the complete characters of a JSON string.
    _HEAD: Final = re.compile(rf'\s*\{{\s*"{CUSTOM_INPUT}"\s*:\s*"')
    _UNITS: Final = re.compile(
        r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
        r"|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"
    )

    def __init__(self) -> None:
        self._arguments = ""
        self._rest = ""
        self._sent = 0
        self._form = "unknown"

    def add(self, piece: str) -> str:
        """Take a piece of the arguments, and return the text that is certain now."""
        self._arguments += piece
        self._rest += piece
        if self._form == "unknown" and (head := self._HEAD.match(self._rest)) is not None:
            self._form, self._rest = "text", self._rest[head.end() :]
        if self._form != "text":
            return ""
        units = self._UNITS.match(self._rest)
        assert units is not None
        text: str = json.loads(f'"{units[0]}"', strict=False)
        self._rest = self._rest[units.end() :]
        if self._rest.startswith('"'):
            self._form = "ended"
        self._sent += len(text)
        return text

    def end(self) -> str:
        """Return the text that has not been returned yet; the arguments are complete."""
        return custom_input(self._arguments)[self._sent :]


def arguments_object(arguments: str) -> dict[str, Any]:
    """Return arguments as an object; {} if the model has written something else."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# The choice ---------------------------------------------------------------------------------------


def _plain_choice(choice: Any, offered: Sequence[_Offered]) -> Any:
    """Return a choice of one tool as that of a function that the model knows; others unchanged.

    Raises:
        RequestError: it forces a tool that this server does not have.
    """
    match _as_mode(choice):
        case {"type": "tool"}:
            return _plain_choice({**choice, "type": "function"}, offered)
        case {"type": "function" | "custom" | None} | {"function": _} | {"custom": _}:
            name = _chosen_name(choice, offered)
            return choice if name is None else {"type": "function", "name": name}
        case {"type": "allowed_tools", "allowed_tools": dict(inner)}:
            return {"type": "allowed_tools", **inner}
        case {"type": "allowed_tools"}:
            return choice
        case {"type": str(kind)} if kind in _BUILT_IN:
            return {"type": "function", "name": kind}
        case {"type": str(kind)}:
            raise fields.invalid(
                "tool_choice.type",
                f"{fields.describe(kind)} cannot be forced: this server has no such tool",
            )
        case usual:
            return usual


def _as_mode(choice: Any) -> Any:
    """Return the word for a mode that is an object, as in Anthropic's API; other choices as is."""
    match choice:
        case {"type": "any"}:
            return "required"
        case {"type": "none" | "auto" | "required" as mode}:
            return mode
        case _:
            return choice


def _chosen_name(choice: Mapping[str, Any], offered: Sequence[_Offered]) -> str | None:
    """Return the name that the model knows a chosen tool by, or None if it is chosen wrongly."""
    inner = choice.get("function") or choice.get("custom") or choice
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str):
        return None
    namespace = inner.get("namespace")
    if isinstance(namespace, str):
        return flat_name(namespace, name)
    if any(each.name == name for each in offered):
        return name
    short = [each.name for each in offered if each.form.name == name]
    return short[0] if len(short) == 1 else name


def _only_allowed(
    choice: Mapping[str, Any], everything: Tools, offered: Sequence[_Offered]
) -> dict[str, Any]:
    """Return the body with only the allowed tools."""
    mode = choice.get("mode")
    if mode not in ("auto", "required"):
        raise fields.invalid(
            "tool_choice.mode", f'{fields.describe(mode)} is neither "auto" nor "required"'
        )
    allowed = set()
    for i, tool in enumerate(fields.array(choice, "tools", "tool_choice.tools") or []):
        match tool:
            case {"type": "function" | "custom"} | {"function": _} if (
                name := _chosen_name(tool, offered)
            ) is not None:
                allowed.add(name)
            case {"type": "namespace", "name": str(namespace)}:
                allowed |= {each.name for each in offered if each.form.namespace == namespace}
            case {"type": str(kind)} if kind in _BUILT_IN:
                allowed.add(kind)
            case {"type": str(kind)} if kind not in TOOL_TYPES:
                pass  # left out, as the tool itself is
            case _:
                raise fields.invalid(
                    f"tool_choice.tools[{i}]", 'expected {"type": "function", "name": ...}'
                )
    tools = [tool for tool in everything.items if _function(tool)["name"] in allowed]
    return {"tools": tools, "tool_choice": mode}
