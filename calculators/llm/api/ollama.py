"""Ollama's API: requests to ``/api/chat`` and ``/api/generate``, and their answers. No transport.

The members about sampling are in ``options``, some under names of their own; `_flat` puts them
where the neutral request has them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields, schema
from calculators.kit.requests.fields import INT32_MAX
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.keep_alive import KEEP_ALIVE
from calculators.kit.requests.members import (
    BOOLEAN,
    COUNT,
    EVERYWHERE,
    STRING,
    TOKEN_ID,
    Array,
    Integer,
    Member,
    Members,
    Object,
    Value,
    check_object,
    honoured,
    ignored,
    leave_out,
    left_out,
    refused,
    table,
)
from calculators.kit.requests.request_record import RequestRecord
from calculators.language.delta import (
    Begun,
    FinishReason,
    TokenLogprob,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
)
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.generation_request import Api, Infill, StructuredOutput, TemplateArguments
from calculators.llm.answers.response import (
    AnswerChoice,
    AnswerDetails,
    MadeCall,
    answering_model,
    logprob_items_json,
    object_json,
    quote,
    verbose_json,
)
from calculators.llm.requests.checked_request import CheckedRequest, read_body, read_generation
from calculators.llm.requests.completions_request import ChatRequest, CompletionRequest
from calculators.llm.requests.messages import MediaCheck, check_arguments, required_string
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import (
    CHAT_LOGPROBS_MEMBERS,
    SAMPLING_MEMBERS,
    read_token_id,
    stop_member,
)
from calculators.llm.requests.structured_output import read_text_format
from calculators.llm.requests.tools import read_tools

#: The names of options that the neutral request has under another name.
_NAMES: Final = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}
_OWN_NAMES: Final = {name: own for own, name in _NAMES.items()}
#: Samplers that the engine does not have, and the value with which they do nothing.
_OTHER_SAMPLERS: Final[Mapping[str, float]] = {"tfs_z": 1, "typical_p": 1, "mirostat": 0}


def _other_sampler(name: str) -> Member:
    def read(value: Any, path: str) -> None:
        if value != _OTHER_SAMPLERS[name]:
            leave_out(fields.invalid(path, "this engine has no such sampling"))

    return honoured(name, Value(check=read), "Left out with a warning: the engine has none.")


OPTION_MEMBERS: Final[Members] = table(
    *(
        honoured(name, SAMPLING_MEMBERS[name].reader, SAMPLING_MEMBERS[name].about)
        for name in (
            *("temperature", "top_p", "top_k", "min_p", "seed"),
            *("frequency_penalty", "presence_penalty"),
        )
    ),
    honoured("repeat_penalty", SAMPLING_MEMBERS["repetition_penalty"].reader),
    honoured(
        "num_predict",
        Integer(minimum=-2, maximum=INT32_MAX),
        "How many tokens the answer may have; 0 and less are all that the model has room for.",
    ),
    honoured(
        "num_ctx",
        COUNT,
        "Tokens of prompt and answer. The model holds as many as it was loaded for; a warning says "
        "so if these are more.",
    ),
    stop_member("stop"),
    *map(_other_sampler, _OTHER_SAMPLERS),
    ignored("belongs to a sampling that the engine does not have", "mirostat_tau mirostat_eta"),
    ignored(
        "is about how a model is loaded, which the operator decides",
        "numa num_batch num_gpu main_gpu low_vram f16_kv logits_all vocab_only use_mmap use_mlock "
        "embedding_only num_thread draft_num_predict",
    ),
    ignored("changes nothing: a conversation is taken whole", "num_keep"),
    ignored("changes nothing: penalties count the whole text", "repeat_last_n penalize_newline"),
)


def options_schema() -> schema.Schema:
    """Return the schema of ``options``."""
    return schema.record({name: member.schema() for name, member in OPTION_MEMBERS.items()})


_THINK: Final = ("low", "medium", "high", "max")
_FORMAT: Final = schema.one_of(schema.word(("", "json")), schema.anything("A JSON schema."))


def _think(value: Any, path: str) -> bool | str:
    if isinstance(value, bool) or value in _THINK:
        return value  # type: ignore[no-any-return]
    words = ", ".join(f'"{each}"' for each in _THINK)
    raise fields.invalid(path, f"{fields.describe(value)} is none of true, false, {words}")


_SHARED: Final[Members] = table(
    EVERYWHERE,
    CHAT_LOGPROBS_MEMBERS,
    KEEP_ALIVE,
    honoured("stream", BOOLEAN, "Answer in lines; false: in one piece. The default is true."),
    honoured("format", Value(_FORMAT), "`json`, or the JSON schema that the answer must follow."),
    honoured("options", Object(schema.ref("OllamaOptions"))),
    honoured(
        "think",
        Value(schema.one_of(schema.flag(), schema.word(_THINK)), _think),
        "Whether, or how long, the model thinks; by default as it likes. With false the answer "
        "shows no thoughts.",
    ),
    ignored("changes nothing: a conversation that is too long is refused", "truncate shift"),
    refused("is not supported", "_debug_render_only"),
)
CHAT_MEMBERS: Final[Members] = table(
    _SHARED,
    honoured(
        "messages",
        Value(schema.array(schema.ref("OllamaMessage"), maxItems=LIMITS.max_messages)),
        "The conversation. Without any the model is loaded.",
    ),
    honoured("tools", Array(schema.ref("Tool"), {"maxItems": LIMITS.max_tools})),
)
GENERATE_MEMBERS: Final[Members] = table(
    _SHARED,
    honoured("prompt", STRING, "Without any the model is loaded."),
    honoured(
        "suffix",
        STRING,
        "The answer is the text between `prompt` and this one. The model must have tokens for "
        "that, as models for code have.",
    ),
    honoured("system", STRING, "The text of a message of the system before it."),
    honoured("images", Array(schema.string(contentEncoding="base64"))),
    honoured("raw", BOOLEAN, "The prompt is what the model gets, without a template."),
    honoured(
        "context",
        Array(TOKEN_ID.schema("")),
        "The `context` of an earlier answer: what was said before.",
    ),
    refused("is not accepted from a request: the model's own template is used", "template"),
    left_out("is about pictures, which /v3/images/generations draws", "width height steps"),
)


def _flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body's members about sampling by their names in the neutral request.

    Values are as the client wrote them; options that change nothing are left out.
    """
    made = {
        name: body[name] for name in CHAT_LOGPROBS_MEMBERS if body.get(name) not in (None, False, 0)
    }
    given = body.get("options")
    options: dict[str, Any] = given if isinstance(given, dict) else {}
    for name, value in options.items():
        if name == "num_predict" and isinstance(value, int | float) and value <= 0:
            continue
        if value is not None and name in OPTION_MEMBERS:
            made[_NAMES.get(name, name)] = value
    return made


def _read_generation(
    body: Mapping[str, Any], limits: RequestLimits, defaults: ModelDefaults
) -> CheckedRequest:
    """Return what `read_generation` does; its errors name the members that the client has."""
    options: dict[str, Any] = body.get("options", {})
    check_object(options, "options", OPTION_MEMBERS)
    read: dict[str, Any] = {"model": body["model"], "stream": body.get("stream", True)}
    for name, value in options.items():
        member = OPTION_MEMBERS.get(name)
        if member is not None and value is not None:
            checked = member.read(value, f"options.{name}")
            if checked is not None and not (name == "num_predict" and checked <= 0):
                read[_NAMES.get(name, name)] = checked
    length, asked = limits.max_model_length, read.pop("num_ctx", 0)
    if length is not None and asked > length:
        why = f"{asked} tokens are more than this model holds, {length}"
        leave_out(fields.invalid("options.num_ctx", why))
    if body.get("logprobs"):
        read["logprobs"] = True
    if body.get("top_logprobs"):
        read["top_logprobs"] = body["top_logprobs"]
    try:
        generation = read_generation(read, defaults, limits)
    except RequestError as error:
        at = error.param or ""
        if at.partition("[")[0] not in read or at in CHAT_LOGPROBS_MEMBERS:
            raise
        own = f"options.{_OWN_NAMES.get(at, at)}"
        text = error.message.replace(f'"{at}"', f'"{own}"', 1)
        raise RequestError(text, param=own, code=error.code, detail=error.detail) from None
    # A model that has less room than `num_predict` stops where the room ends, as at Ollama.
    return structs.replace(
        generation, limits_itself=False, structured=_read_format(body), members=_flat(body)
    )


def _read_format(body: Mapping[str, Any]) -> StructuredOutput | None:
    asked = body.get("format")
    if asked in (None, ""):
        return None
    if asked == "json":
        return read_text_format({"type": "json_object"}, "format")
    if not isinstance(asked, dict):
        raise fields.wrong_type("format", '"json" or a JSON schema', asked)
    form = {"type": "json_schema", "name": "answer", "strict": True, "schema": asked}
    return read_text_format(form, "format")


def _read_template(body: Mapping[str, Any], *, continues: bool = False) -> TemplateArguments:
    think = body.get("think")
    values: dict[str, Any] = {}
    if think is not None:
        values["enable_thinking"] = think is not False
    if isinstance(think, str):
        values["reasoning_effort"] = think
    return TemplateArguments(values, continues=continues)


def parse_chat_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ChatRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, CHAT_MEMBERS)
    generation = _read_generation(body, limits, defaults)
    media = MediaCheck(limits)
    messages = _read_messages(body.get("messages"), limits, media)
    return ChatRequest(
        **structs.asdict(generation),
        messages=messages,
        images=tuple(media.images),
        tools=read_tools({"tools": body.get("tools")}, limits),
        template=_read_template(body, continues=messages[-1]["role"] == "assistant"),
        logprobs=generation.settings.logprobs,
        shows_thinking=body.get("think") is not False,
    )


def parse_generate_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> ChatRequest | CompletionRequest:
    """Check a parsed body: a conversation of one message, a raw prompt, or a gap in a text.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, GENERATE_MEMBERS)
    generation = _read_generation(body, limits, defaults)
    prompt, suffix = body.get("prompt", ""), body.get("suffix")
    if body.get("raw") or suffix:
        for name in ("system", "context", "images"):
            if body.get(name):
                raise fields.combined(name, f"{'suffix' if suffix else 'raw'}, without a template")
        if not prompt and not suffix:
            raise fields.missing("prompt")
        return CompletionRequest(
            **structs.asdict(generation),
            prompts=(prompt,),
            infill=Infill(suffix) if suffix else None,
            logprobs=0 if generation.settings.logprobs else None,
        )
    media = MediaCheck(limits)
    messages = [{"role": "user", "content": _content(prompt, body.get("images"), "", media)}]
    if body.get("system"):
        messages.insert(0, {"role": "system", "content": body["system"]})
    context = [read_token_id(f"context[{i}]", id) for i, id in enumerate(body.get("context", ()))]
    return ChatRequest(
        # For the `context` of the answer.
        **structs.asdict(structs.replace(generation, returns_token_ids=True)),
        messages=messages,
        images=tuple(media.images),
        tools=read_tools({}, limits),
        template=_read_template(body),
        logprobs=generation.settings.logprobs,
        shows_thinking=body.get("think") is not False,
        context=tuple(context),
    )


_MESSAGE: Final = frozenset(
    {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id", "name"}
)


def _read_messages(value: object, limits: RequestLimits, media: MediaCheck) -> list[dict[str, Any]]:
    """Return the conversation as templates take it; ``media`` gathers the images.

    A result of a tool without an id belongs to the first call of its name that has none yet.
    """
    if not isinstance(value, list) or not value:
        raise fields.missing("messages", "the conversation, an array of messages")
    if len(value) > limits.max_messages:
        raise fields.invalid(
            "messages", f"{len(value)} messages are more than the maximum {limits.max_messages}"
        )
    messages: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []
    for place, each in enumerate(value):
        path = f"messages[{place}]"
        if not isinstance(each, dict):
            raise fields.wrong_type(path, "an object", each)
        check_object(each, path, _MESSAGE)
        role = required_string(each, "role", path).lower()
        text = fields.string(each, "content", f"{path}.content") or ""
        images = fields.array(each, "images", f"{path}.images")
        message: dict[str, Any] = {"role": role, "content": _content(text, images, path, media)}
        if thought := fields.string(each, "thinking", f"{path}.thinking"):
            message["reasoning_content"] = thought
        calls = fields.array(each, "tool_calls", f"{path}.tool_calls")
        if calls:
            message["tool_calls"] = [
                # Nine characters, as Mistral's templates want, and the same in each turn.
                _call(call, f"{path}.tool_calls[{i}]", f"call{place:03}{i:02}")
                for i, call in enumerate(calls)
            ]
            pending = list(message["tool_calls"])
        name = fields.string(each, "tool_name", f"{path}.tool_name")
        name = name or fields.string(each, "name", f"{path}.name")
        call_id = fields.string(each, "tool_call_id", f"{path}.tool_call_id")
        if role == "tool":
            _add_call(message, name, call_id, pending)
        messages.append(message)
    return messages


def _add_call(
    message: dict[str, Any],
    name: str | None,
    call_id: str | None,
    pending: list[dict[str, Any]],
) -> None:
    """Add to a result the id of its call, and the name of the tool."""
    for call in pending:
        if call_id in (None, call["id"]) and name in (None, "", call["function"]["name"]):
            pending.remove(call)
            call_id, name = call["id"], call["function"]["name"]
            break
    if call_id:
        message["tool_call_id"] = call_id
    if name:
        message["name"] = name


def _call(call: object, path: str, made_id: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise fields.wrong_type(path, "an object", call)
    call_id = fields.string(call, "id", f"{path}.id") or made_id
    function = fields.json_object(call, "function", f"{path}.function") or {}
    name = required_string(function, "name", f"{path}.function")
    if (index := function.get("index")) is not None:
        COUNT.read(index, f"{path}.function.index")
    arguments = function.get("arguments")
    path = f"{path}.function.arguments"
    if isinstance(arguments, str):
        check_arguments(arguments, path)
    elif arguments is None or isinstance(arguments, dict):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    else:
        raise fields.wrong_type(path, "an object", arguments)
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments or "{}"},
    }


def _content(
    text: str, images: list[Any] | None, path: str, media: MediaCheck
) -> str | list[dict[str, Any]]:
    """Return the content of a message: its text, or its images and its text."""
    if not images:
        return text
    parts: list[dict[str, Any]] = []
    for place, image in enumerate(images):
        member = f"images[{place}]"
        where = f"{path}.{member}" if path else member
        if not isinstance(image, str):
            raise fields.wrong_type(where, "a picture in Base64", image)
        url = image if image[:5].lower() == "data:" else f"data:;base64,{image}"
        media.image(where, url, "")
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return [*parts, {"type": "text", "text": text}] if text else parts


#: The last part of all lines but the last one; the front knows an answer that is cut by it.
_GOES_ON: Final = ',"done":false}\n'


class OllamaAnswerWriter:
    """An `AnswerWriter` of one message or text.

    A call is written when it is complete, because its arguments are an object in a line.
    """

    __slots__ = (
        "_after",
        "_begun",
        "_call",
        "_calls",
        "_head",
        "_reason",
        "_said",
        "_shows_thinking",
        "_text",
        "_thought",
        "details",
        "verbose",
        "wants_logprobs",
    )

    def __init__(self, begun: Begun, details: AnswerDetails | None) -> None:
        request = begun.request
        self.verbose: Verbose | None = None
        self.wants_logprobs = request.wants_logprobs
        self.details = details
        self._begun = begun
        self._head = _head(answering_model(begun))
        self._shows_thinking = request.shows_thinking
        is_chat = request.api is Api.OLLAMA_CHAT
        # The JSON before a piece of text, before one of the thoughts, and after both.
        self._text = ',"message":{"role":"assistant","content":' if is_chat else ',"response":'
        self._thought = f'{self._text}"","thinking":'
        self._after = "}" if is_chat else ""
        #: The call that is not complete yet, and the number of calls.
        self._call: MadeCall | None = None
        self._calls = 0
        self._said = False
        self._reason = FinishReason.STOP

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        choice = choices[0]
        content = choice.content
        if not content and choice.refusal is not None:
            content = choice.refusal.text
        members = f"{self._text}{quote(content)}"
        if self._shows_thinking and (reasoning := choice.reasoning):
            members += f',"thinking":{quote(reasoning)}'
        if calls := choice.tool_calls:
            written = ",".join(_call_json(call, place) for place, call in enumerate(calls))
            members += f',"tool_calls":[{written}]'
        members += self._after + _logprobs(choice.logprobs)
        context = "" if self.details is None else self.details.context(choice.token_ids)
        return self._head + members + self._ending(choice.finish_reason, context, usage)

    def start(self, usage: Usage) -> str:
        return ""

    def begin(self, index: int) -> str:
        return ""

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        written = ""
        # A group has its tokens in its first line.
        extra = _logprobs(logprobs) if logprobs else ""
        for event in events:
            kind = type(event)
            if kind is Content:
                written += self._finished_call()
                self._said = True
                written += f"{self._head}{self._text}{quote(event.text)}"  # type: ignore[union-attr]
            elif kind is Reasoning:
                if not self._shows_thinking:
                    continue
                written += self._finished_call()
                written += f"{self._head}{self._thought}{quote(event.text)}"  # type: ignore[union-attr]
            elif isinstance(event, Arguments):
                if self._call is not None:
                    self._call.arguments += event.text
                continue
            else:
                assert isinstance(event, ToolCall)
                written += self._finished_call()
                self._call = MadeCall(event.call_id, event.name)
                continue
            written += self._after + extra + _GOES_ON
            extra = ""
        if extra:
            written += f'{self._head}{self._text}""{self._after}{extra}{_GOES_ON}'
        return written

    def tool(self, item: ToolCalled | ToolRan) -> str:
        return ""  # a client would run the call itself

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def refuse(self, index: int, refused: Refused) -> str:
        if self._said or not refused.text:
            return ""
        return f"{self._head}{self._text}{quote(refused.text)}{self._after}{_GOES_ON}"

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        """Write the last call; the reason goes into the line of `end`."""
        self._reason = reason
        return self._finished_call()

    def end(self, usage: Usage) -> str:
        context = "" if self.details is None else self.details.context()
        ending = self._ending(self._reason, context, usage)
        return f'{self._head}{self._text}""{self._after}{ending}\n'

    def failure(self, error: RequestError) -> str:
        return ""  # the front knows the form

    def _finished_call(self) -> str:
        """Return the line of the call that is complete now, if there is one."""
        call = self._call
        if call is None:
            return ""
        self._call = None
        member = f'"","tool_calls":[{_call_json(call, self._calls)}]'
        self._calls += 1
        return f"{self._head}{self._text}{member}{self._after}{_GOES_ON}"

    def _ending(self, reason: FinishReason, context: str, usage: Usage) -> str:
        why = "length" if reason is FinishReason.LENGTH else "stop"
        return (
            f',"done":true,"done_reason":"{why}"{context}'
            f"{_metrics(self._begun.request.record, usage)}{verbose_json(self.verbose)}}}"
        )


def ollama_writer(begun: Begun) -> OllamaAnswerWriter:
    """Return the writer of an answer that begins."""
    details = None
    if begun.request.returns_token_ids:
        details = AnswerDetails(begun.request, begun.prompt_ids, begun.choices)
    return OllamaAnswerWriter(begun, details)


def loaded_answer(api: Api, members: Mapping[str, Any]) -> str:
    """Return the answer to a request that only loads a model, or lets it go.

    Raises:
        RequestError: its ``keep_alive`` is wrong.
    """
    keeps = members.get(KEEP_ALIVE.name)
    is_over = keeps is not None and KEEP_ALIVE.read(keeps, KEEP_ALIVE.name) == 0
    said = '"message":{"role":"assistant","content":""}'
    if api is Api.OLLAMA_GENERATE:
        said = '"response":""'
    why = "unload" if is_over else "load"
    return f'{_head(str(members.get("model")))},{said},"done":true,"done_reason":"{why}"}}'


def _head(model: str) -> str:
    now = datetime.fromtimestamp(time.time(), UTC)
    return f'{{"model":{quote(model)},"created_at":"{now:%Y-%m-%dT%H:%M:%S.%fZ}"'


def _metrics(record: RequestRecord | None, usage: Usage) -> str:
    """Return counts and durations, in nanoseconds.

    Loading is the time until a model has the request: also its wait for other requests of the
    graph, and for a model that loads on demand.
    """
    counts = f',"prompt_eval_count":{usage.prompt_tokens},"eval_count":{usage.completion_tokens}'
    if record is None or not record.generations:
        return counts
    now = time.perf_counter_ns()
    last = record.generations[-1]
    first_token = last.first_token or now
    return (
        f',"total_duration":{now - record.began}'
        f',"load_duration":{record.generations[0].began - record.began}'
        f'{counts},"prompt_eval_duration":{first_token - last.began}'
        f',"eval_duration":{max(1, now - first_token)}'
    )


def _logprobs(logprobs: Sequence[TokenLogprob] | None) -> str:
    return f',"logprobs":[{logprob_items_json(logprobs)}]' if logprobs else ""


def _call_json(call: MadeCall, place: int) -> str:
    arguments = object_json(call.arguments)
    if len(arguments.splitlines()) > 1:
        # Models write line ends between members.
        arguments = json.dumps(json.loads(arguments))
    return (
        f'{{"id":{quote(call.call_id)},"function":{{"index":{place},"name":{quote(call.name)}'
        f',"arguments":{arguments}}}}}'
    )
