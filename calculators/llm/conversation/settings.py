"""The settings of a conversation and of one response, read from events of the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Enumeration, Integer, Number
from calculators.language.generation_request import NO_TOOLS, Tools
from calculators.speech.speech_to_text.realtime.audio_format import PCM, AudioFormat
from calculators.speech.speech_to_text.realtime.session_settings import (
    SessionSettings,
    described_input,
    read_format,
    with_input,
)

#: Characters of instructions, of a tool's name and of all tools as JSON.
MOST_INSTRUCTIONS: Final = 64 * 1024
MOST_TOOLS: Final = 128
_LONGEST_NAME: Final = 64
_MODES: Final = ("auto", "none", "required")
_MODALITIES: Final = ("audio", "text")
_TOKENS: Final = Integer(minimum=1)
_SPEED: Final = Number(minimum=0.25, maximum=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSettings(SessionSettings):
    """The settings of a session that answers.

    Attributes:
        instructions: the system message.
        speaks: answers are sound; False: they are text.
        output: the format of that sound.
        speaker: the voice as the client wrote it; a name that the model does not have is its own.
        speed: 1.0 is natural.
        tools: functions of the client, as it wrote them.
        tool_choice: as the client wrote it.
        max_tokens: of one answer; None: the model's limit.
        answers_turns: the end of speech asks for an answer.
        is_interrupted: the beginning of speech ends the answer that is given.
        metadata: of one response, as the client wrote it.
    """

    transcribes: bool = False
    instructions: str = ""
    speaks: bool = True
    output: AudioFormat = PCM
    speaker: str = ""
    speed: float = 1.0
    tools: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    tool_choice: Any = "auto"
    max_tokens: int | None = None
    answers_turns: bool = True
    is_interrupted: bool = True
    metadata: Mapping[str, str] | None = None

    def chosen_tools(self) -> Tools:
        """Return the tools as language models take them."""
        if not self.tools or self.tool_choice == "none":
            return NO_TOOLS
        tools, choice = self.tools, self.tool_choice
        is_named = not isinstance(choice, str)
        if is_named:
            tools = tuple(each for each in tools if each["name"] == choice["name"])
        items = [{"type": "function", "function": _function(each)} for each in tools]
        if is_named:
            return Tools(items=items, choice="named")
        return Tools(items=items, choice="required" if choice == "required" else "auto")


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tool[name] for name in ("name", "description", "parameters") if name in tool}


def updated(settings: ConversationSettings, session: Mapping[str, Any]) -> ConversationSettings:
    """Return the settings after ``session.update``; members that are absent stay as they are.

    Raises:
        RequestError: a member is wrong; ``param`` is its path.
    """
    kind = fields.string(session, "type", "session.type")
    if kind not in (None, "realtime"):
        raise fields.invalid("session.type", 'this model converses: expected "realtime"')
    audio = fields.json_object(session, "audio", "session.audio") or {}
    given = _as_served(fields.json_object(audio, "input", "session.audio.input") or {})
    changed = with_input(settings, session, given, "session.audio.input")
    assert isinstance(changed, ConversationSettings)
    turns = given.get("turn_detection")
    if isinstance(turns, dict):
        at = "session.audio.input.turn_detection"
        answers = fields.boolean(turns, "create_response", f"{at}.create_response")
        interrupts = fields.boolean(turns, "interrupt_response", f"{at}.interrupt_response")
        changed = replace(
            changed, answers_turns=answers is not False, is_interrupted=interrupts is not False
        )
    return _with_answer(changed, session, audio, "session")


def _as_served(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object of a client's sound without what one can only choose at OpenAI.

    That is detection of turns by their meaning, for which the energy stands, and the model that
    writes down what is said.
    """
    changed = dict(given)
    turns, texts = given.get("turn_detection"), given.get("transcription")
    if isinstance(turns, dict) and turns.get("type") == "semantic_vad":
        changed["turn_detection"] = {**turns, "type": "server_vad"}
    if isinstance(texts, dict):
        changed["transcription"] = {name: texts[name] for name in texts if name != "model"}
    return changed


def of_response(settings: ConversationSettings, asked: Mapping[str, Any]) -> ConversationSettings:
    """Return the settings of one response: the session's, changed by ``response.create``.

    Raises:
        RequestError: a member is wrong; ``param`` is its path.
    """
    audio = fields.json_object(asked, "audio", "response.audio") or {}
    changed = _with_answer(settings, asked, audio, "response")
    metadata = fields.json_object(asked, "metadata", "response.metadata")
    if metadata is not None:
        if len(metadata) > 16 or not all(
            isinstance(value, str) and len(name) <= 64 and len(value) <= 512
            for name, value in metadata.items()
        ):
            text = "expected at most 16 texts of up to 512 characters"
            raise fields.invalid("response.metadata", text)
        changed = replace(changed, metadata=metadata)
    return changed


def _with_answer(
    settings: ConversationSettings, given: Mapping[str, Any], audio: Mapping[str, Any], at: str
) -> ConversationSettings:
    """Return settings with the members that a session and a response have in common."""
    instructions = fields.string(given, "instructions", f"{at}.instructions")
    if instructions is not None:
        fields.check_most(f"{at}.instructions", len(instructions), "characters", MOST_INSTRUCTIONS)
        settings = replace(settings, instructions=instructions)
    modalities = fields.array(given, "output_modalities", f"{at}.output_modalities")
    if modalities is not None:
        if len(modalities) != 1 or modalities[0] not in _MODALITIES:
            raise fields.invalid(f"{at}.output_modalities", 'expected ["audio"] or ["text"]')
        settings = replace(settings, speaks=modalities == ["audio"])
    output = fields.json_object(audio, "output", f"{at}.audio.output") or {}
    if output.get("format") is not None:
        settings = replace(settings, output=read_format(output, f"{at}.audio.output"))
    voice = output.get("voice")
    if isinstance(voice, dict):
        voice = voice.get("id")
    if voice is not None:
        if not isinstance(voice, str) or len(voice) > 256:
            raise fields.invalid(f"{at}.audio.output.voice", "expected the name of a voice")
        settings = replace(settings, speaker=voice)
    if output.get("speed") is not None:
        speed = _SPEED.read(output["speed"], f"{at}.audio.output.speed")
        settings = replace(settings, speed=speed)
    if given.get("prompt") is not None:
        raise fields.invalid(f"{at}.prompt", "this server keeps no prompts: use instructions")
    most = given.get("max_output_tokens")
    if most is not None:
        path = f"{at}.max_output_tokens"
        limit = None if most == "inf" else _TOKENS.read(most, path)
        settings = replace(settings, max_tokens=limit)
    if given.get("tools") is not None:
        settings = replace(settings, tools=_tools(given, at))
    if given.get("tool_choice") is not None:
        settings = replace(settings, tool_choice=given["tool_choice"])
    _check_choice(settings, f"{at}.tool_choice")
    return settings


def _tools(given: Mapping[str, Any], at: str) -> tuple[Mapping[str, Any], ...]:
    tools = fields.array(given, "tools", f"{at}.tools") or []
    fields.check_most(f"{at}.tools", len(tools), "tools", MOST_TOOLS)
    for place, tool in enumerate(tools):
        path = f"{at}.tools[{place}]"
        if not isinstance(tool, dict) or tool.get("type") != "function":
            raise fields.invalid(path, 'expected {"type": "function", "name": ...}')
        name = fields.string(tool, "name", f"{path}.name")
        if not name or len(name) > _LONGEST_NAME:
            raise fields.invalid(f"{path}.name", f"expected 1 to {_LONGEST_NAME} characters")
        fields.string(tool, "description", f"{path}.description")
        fields.json_object(tool, "parameters", f"{path}.parameters")
    return tuple(tools)


def _check_choice(settings: ConversationSettings, path: str) -> None:
    choice = settings.tool_choice
    if isinstance(choice, str):
        Enumeration(_MODES).read(choice, path)
        return
    names = {each["name"] for each in settings.tools}
    if not isinstance(choice, dict) or choice.get("type") != "function":
        raise fields.invalid(path, f"expected one of {', '.join(_MODES)}, or a function")
    if choice.get("name") not in names:
        raise fields.invalid(path, "it names none of the tools")


def described(settings: ConversationSettings, voice: str) -> Mapping[str, Any]:
    """Return the members of a session object. ``voice``: the one that speaks."""
    turns = described_input(settings)
    if isinstance(turns["turn_detection"], dict):
        turns["turn_detection"] |= {
            "create_response": settings.answers_turns,
            "interrupt_response": settings.is_interrupted,
        }
    return {
        "type": "realtime",
        "object": "realtime.session",
        "model": settings.model or None,
        "output_modalities": described_modalities(settings),
        "instructions": settings.instructions,
        "tools": list(settings.tools),
        "tool_choice": settings.tool_choice,
        "max_output_tokens": settings.max_tokens or "inf",
        "audio": {"input": turns, "output": described_output(settings, voice)},
        "include": list(settings.include) or None,
    }


def described_modalities(settings: ConversationSettings) -> list[str]:
    """Return the forms of answers, of which there is one."""
    return ["audio" if settings.speaks else "text"]


def described_output(settings: ConversationSettings, voice: str) -> Mapping[str, Any]:
    """Return the object of the sound of answers."""
    return {
        "format": settings.output.described(),
        "voice": voice,
        "speed": settings.speed,
    }
