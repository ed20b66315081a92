"""How model families write calls of tools and reasoning: a table of declarations, data only.

A form is a pattern, the canonical text of one call with fields in braces. White space of a pattern
is written by grammars and optional for the parser, also between two marks; all else is literal.

==============  ====================================================================================
``{name}``      the name of the tool
``{n}``         a running number
``{id}``        any id
``{object}``    a JSON object with name and arguments, in any order, other members ignored
``{keyed}``     ``{"NAME": {...}}``
``{json}``      the arguments as one JSON object
``{args}``      `CallSyntax.argument`, once for each: ``{key}``, ``{value}``, and as attributes
                ``{text}`` (true, or false where the value is JSON) or ``{type}``
``{python}``    ``a=1, b='x'``
``{gemma}``     ``k:v,k:v``, strings between quotes of their own
``{tree}``      elements named as the arguments, nested; the items of a list are ``item``
==============  ====================================================================================

Tokens that a parser must see, triggers of grammars and the beginnings of calls all follow from the
literals of a declaration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

#: A field of a pattern.
FIELD: Final = re.compile(
    r"\{(name|n|id|object|keyed|json|args|python|gemma|tree|key|value|text|type)\}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSyntax:
    """The form of the calls of a family.

    Attributes:
        call: the pattern of one call.
        accepts: further patterns, which the parser reads and no grammar writes.
        section: the texts around all calls; empty where there are none.
        section_accepts: further spellings of them.
        section_each: each call has a section of its own.
        separator: between calls.
        is_list: the calls are a list in brackets.
        is_bare: no mark begins the calls, so that they count at the beginning of an answer only.
        argument: the pattern of one argument.
        argument_accepts: further patterns of one argument.
        trims_lines: one line end at either end of the text of an argument is the form's.
        has_json_values: values are JSON, texts too.
        has_cdata: such a text may be ``<![CDATA[...]]>``.
        quote: around the strings of ``{gemma}``.
        name_key: the member of ``{object}`` with the name.
        argument_keys: those with the arguments, of which grammars write the first.
        only_one: there is no second call.
        header_is_id: the text before the arguments is the id of the call.
        has_json_words: ``{python}`` writes true, false and null as JSON does.
        lead_in: what a model writes before calls that it has to make, for grammars.
    """

    call: str
    accepts: tuple[str, ...] = ()
    section: tuple[str, str] = ("", "")
    section_accepts: tuple[tuple[str, str], ...] = ()
    section_each: bool = False
    separator: str = ""
    is_list: bool = False
    is_bare: bool = False
    argument: str = ""
    argument_accepts: tuple[str, ...] = ()
    trims_lines: bool = False
    has_json_values: bool = False
    has_cdata: bool = False
    quote: str = ""
    name_key: str = "name"
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    only_one: bool = False
    header_is_id: bool = False
    has_json_words: bool = False
    lead_in: str = ""

    def check(self) -> None:
        """Check that a declaration can be read back; forms that are found by trying need no check.

        Raises:
            ValueError: a pattern lacks a field or an end.
        """
        for pattern in (self.call, *self.accepts):
            self._check_call(pattern)
        if any("{args}" in pattern for pattern in (self.call, *self.accepts)):
            for pattern in (self.argument, *self.argument_accepts):
                _check_argument(pattern)

    def _check_call(self, pattern: str) -> None:
        fields = FIELD.findall(pattern)
        if not {"name", "object", "keyed"} & {*fields}:
            raise ValueError(
                f"the call {pattern!r} has no name of a tool: put {{name}}, {{object}} or {{keyed}}"
            )
        if fields[-1] in ("args", "tree") and not FIELD.split(pattern)[-1].strip():
            raise ValueError(
                f"the call {pattern!r} has no end: put a text after {{{fields[-1]}}} that no value "
                "has, such as </call>"
            )
        if "gemma" in fields and not self.quote:
            raise ValueError(
                f'the call {pattern!r} has strings without quotes: set quote, such as <|"|>'
            )


def _check_argument(pattern: str) -> None:
    fields = FIELD.findall(pattern)
    if not {"key", "value"} <= {*fields}:
        raise ValueError(f"the argument {pattern!r} lacks a field: put {{key}} and {{value}}")
    if fields[-1] != "value" or not FIELD.split(pattern)[-1].strip():
        raise ValueError(
            f"the argument {pattern!r} has no end: put a text after {{value}} that no value has, "
            "such as </parameter>"
        )
    between = pattern.partition("{key}")[2].partition("{value}")[0]
    if not FIELD.sub("", between).strip():
        raise ValueError(
            f"the argument {pattern!r} has nothing between {{key}} and {{value}}: put a text, such "
            "as > or ="
        )


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """The spellings of the marks around reasoning. Who writes the first is read off each prompt."""

    begin: tuple[str, ...]
    end: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFamily:
    """How a family of models writes its answers.

    Attributes:
        answer: pairs of marks around the answer, which are left out; either may be empty.
        stops: ends of turns, which are left out.
        models: who writes so.
        aliases: further names of the declaration.
    """

    name: str
    calls: CallSyntax | None = None
    reasoning: ReasoningMarks | None = None
    answer: tuple[tuple[str, str], ...] = ()
    stops: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


_THINK: Final = ReasoningMarks(("<think>",), ("</think>",))
_CHATML: Final = ("<|im_end|>", "<|endoftext|>")
_RESPONSE: Final = (("<response>", "</response>"),)
_LLAMA_ENDS: Final = ("<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>")
_PYTHON_MARKS: Final = (("<|python_start|>", "<|python_end|>"),)
_GLM_ENDS: Final = ("<|user|>", "<|observation|>", "<|endoftext|>")
_DEEPSEEK_END: Final = ("<｜end▁of▁sentence｜>",)
_DEEPSEEK_SECTION: Final = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_PAIR: Final = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>"
#: The token that comes before every mark of MiniMax M3.
_M3: Final = "]<]minimax[>["
_PLAMO: Final = "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}" + (
    "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
)
_PLAMO_END: Final = "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"


def _between(begin: str, end: str, separator: str = "\n") -> CallSyntax:
    return CallSyntax(call=f"{begin}\n{{object}}\n{end}", separator=separator)


def _listed(begin: str, end: str) -> CallSyntax:
    return CallSyntax(call="{object}", section=(begin, end), separator=", ", is_list=True)


def _functions(section: str, *, pads: bool = False) -> CallSyntax:
    pad = "\n" if pads else ""
    return CallSyntax(
        call="<function={name}>\n{args}</function>",
        argument=f"<parameter={{key}}>{pad}{{value}}{pad}</parameter>\n",
        section=(f"<{section}>\n", f"\n</{section}>"),
        section_each=True,
        separator="\n",
        trims_lines=pads,
    )


def _invokes(begin: str, end: str) -> CallSyntax:
    return CallSyntax(
        call='<invoke name="{name}">\n{args}</invoke>',
        argument='<parameter name="{key}">{value}</parameter>\n',
        section=(f"{begin}\n", f"\n{end}"),
        separator="\n",
    )


def _typed_invokes(word: str, section: str, *further: str) -> CallSyntax:
    """Return DeepSeek's markup, in which an attribute tells texts from JSON."""
    return CallSyntax(
        call=f'<{word}invoke name="{{name}}">\n{{args}}</{word}invoke>',
        argument=f'<{word}parameter name="{{key}}" string="{{text}}">{{value}}</{word}parameter>\n',
        section=(f"<{word}{section}>\n", f"\n</{word}{section}>"),
        section_accepts=tuple((f"<{word}{each}>", f"</{word}{each}>") for each in further),
        separator="\n",
    )


def _hunyuan3(suffix: str = "") -> CallSyntax:
    """Return Hy3's form, whose marks all carry the suffix of a tokenizer."""
    return CallSyntax(
        call=f"<tool_call{suffix}>{{name}}<tool_sep{suffix}>\n{{args}}</tool_call{suffix}>",
        accepts=(f"<tool_call{suffix}>{{name}}\n{{args}}</tool_call{suffix}>",),
        argument=f"<arg_key{suffix}>{{key}}</arg_key{suffix}>\n"
        f"<arg_value{suffix}>{{value}}</arg_value{suffix}>\n",
        section=(f"<tool_calls{suffix}>\n", f"\n</tool_calls{suffix}>"),
        separator="\n",
    )


_GLM: Final = CallSyntax(
    call="<tool_call>{name}\n{args}</tool_call>", argument=_PAIR + "\n", separator="\n"
)
_FAMILIES: Final = (
    # A JSON object between marks -----------------------------------------------------------------
    AnswerFamily(
        name="hermes",
        calls=_between("<tool_call>", "</tool_call>"),
        reasoning=_THINK,
        stops=_CHATML,
        models=(
            *("Qwen2.5", "Qwen3", "QwQ", "Hermes 2 Pro, 3, 4", "Granite 4.0, 4.1", "MiMo-VL"),
            *("Reka Edge", "Bielik 3", "Falcon H1", "Arcee", "Kolibri 1"),
        ),
        aliases=("hermes3", "qwen3", "qwen2.5"),
    ),
    AnswerFamily(
        name="exaone4",
        calls=_between("<tool_call>", "</tool_call>"),
        reasoning=_THINK,
        stops=("[|endofturn|]",),
        models=("EXAONE 4.0",),
    ),
    AnswerFamily(
        name="smollm3",
        calls=_between("<tool_call>", "</tool_call>"),
        reasoning=_THINK,
        stops=_CHATML,
        models=("SmolLM3",),
    ),
    AnswerFamily(
        name="ernie45",
        calls=_between("<tool_call>", "</tool_call>"),
        reasoning=_THINK,
        answer=_RESPONSE,
        stops=("</s>",),
        models=("ERNIE 4.5 Thinking", "ERNIE 5"),
    ),
    AnswerFamily(
        name="longcat",
        calls=_between("<longcat_tool_call>", "</longcat_tool_call>"),
        reasoning=ReasoningMarks(("<longcat_think>", "<think>"), ("</longcat_think>", "</think>")),
        stops=("</longcat_s>",),
        models=("LongCat-Flash",),
    ),
    AnswerFamily(
        name="granite20b",
        calls=CallSyntax(call="<function_call> {object}", separator="\n"),
        stops=("<|endoftext|>",),
        models=("Granite 20B Function Calling",),
    ),
    AnswerFamily(
        name="internlm2",
        calls=CallSyntax(
            call="<|action_start|><|plugin|>\n{object}<|action_end|>",
            argument_keys=("parameters", "arguments"),
        ),
        stops=("<|im_end|>",),
        models=("InternLM 2.5, 3", "Intern-S1"),
    ),
    AnswerFamily(
        name="gigachat3",
        calls=CallSyntax(
            call="<|function_call|>{object}",
            accepts=("function call<|role_sep|>\n{object}",),
            only_one=True,
        ),
        stops=("<|message_sep|>", "</s>"),
        models=("GigaChat 3, 3.1",),
    ),
    AnswerFamily(
        name="llama3",
        calls=CallSyntax(
            call="{object}",
            accepts=("<|python_tag|>{object}", "{name}({python})"),
            separator="; ",
            is_bare=True,
            argument_keys=("parameters", "arguments"),
        ),
        answer=_PYTHON_MARKS,
        stops=_LLAMA_ENDS,
        models=("Llama 3.1, 3.3", "Llama 3.2 3B", "Llama 4 (JSON)"),
        aliases=("llama3_json", "llama4_json"),
    ),
    AnswerFamily(
        name="minimax_m1",
        calls=CallSyntax(
            call="{object}", section=("<tool_calls>\n", "\n</tool_calls>"), separator="\n"
        ),
        reasoning=_THINK,
        stops=("<end_of_sentence>",),
        models=("MiniMax M1",),
    ),
    AnswerFamily(
        name="inkling",
        calls=CallSyntax(
            call="<|content_invoke_tool_json|>{object}<|end_message|>",
            accepts=("<|message_model|>{name}<|content_invoke_tool_json|>{object}<|end_message|>",),
            argument_keys=("args", "arguments"),
        ),
        reasoning=ReasoningMarks(("<|content_thinking|>",), ("<|end_message|>",)),
        answer=(("<|content_text|>", "<|end_message|>"),),
        stops=("<|message_model|>", "<|content_model_end_sampling|>"),
        models=("Inkling",),
    ),
    # JSON lists -----------------------------------------------------------------------------------
    AnswerFamily(
        name="mistral",
        calls=replace(
            _listed("[TOOL_CALLS]", ""),
            accepts=("{name}[ARGS]{json}", "{name}[CALL_ID]{id}[ARGS]{json}", "{name}{json}"),
            is_bare=True,
        ),
        stops=("</s>",),
        models=("Mistral 7B v0.3", "Mistral Nemo", "Mistral Small 2409", "Pixtral"),
    ),
    AnswerFamily(
        name="phi4mini",
        calls=_listed("functools", ""),
        stops=("<|end|>", "<|endoftext|>"),
        models=("Phi-4-mini",),
        aliases=("phi4", "phi4_mini_json"),
    ),
    AnswerFamily(
        name="hunyuan",
        calls=_listed("<tool_calls>", "</tool_calls>"),
        reasoning=_THINK,
        answer=(("<answer>\n", "\n</answer>"),),
        stops=("<|eos|>", "<|extra_0|>"),
        models=("Hunyuan A13B", "Hunyuan 4B, 7B"),
        aliases=("hunyuan_a13b",),
    ),
    AnswerFamily(
        name="jamba",
        calls=_listed("<tool_calls>", "</tool_calls>"),
        stops=("<|eom|>",),
        models=("Jamba 1.5, 1.6, 1.7", "Jamba Reasoning"),
    ),
    AnswerFamily(
        name="apriel",
        calls=_listed("<tool_calls>", "</tool_calls>"),
        reasoning=ReasoningMarks(("Here are my reasoning steps:\n",), ("[BEGIN FINAL RESPONSE]",)),
        answer=(("", "[END FINAL RESPONSE]"),),
        stops=("<|end|>",),
        models=("Apriel 1.5, 1.6",),
    ),
    AnswerFamily(
        name="nemotron_v2",
        calls=_listed("<TOOLCALL>", "</TOOLCALL>"),
        reasoning=_THINK,
        stops=("<SPECIAL_12>",),
        models=("Nemotron Nano v2",),
    ),
    AnswerFamily(
        name="granite3",
        calls=replace(
            _listed("<|tool_call|>", ""), section_accepts=(("<tool_call>", "</tool_call>"),)
        ),
        reasoning=ReasoningMarks(
            ("<think>", "Here is my thought process:", "Here's my thought process:"),
            ("</think>", "Here is my response:", "Here's my response:"),
        ),
        answer=_RESPONSE,
        stops=("<|end_of_text|>",),
        models=("Granite 3.0 to 3.3",),
        aliases=("granite",),
    ),
    AnswerFamily(
        name="cohere",
        calls=replace(
            _listed("<|START_ACTION|>", "<|END_ACTION|>"),
            name_key="tool_name",
            argument_keys=("parameters",),
        ),
        reasoning=ReasoningMarks(("<|START_THINKING|>",), ("<|END_THINKING|>",)),
        answer=(
            ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
            ("<|START_TEXT|>", "<|END_TEXT|>"),
        ),
        stops=("<|END_OF_TURN_TOKEN|>",),
        models=("Command R7B", "Command A", "Command A Reasoning", "Command A+", "North Mini Code"),
    ),
    AnswerFamily(
        name="command_r",
        calls=replace(
            _listed("Action:\n```json\n", "\n```"),
            name_key="tool_name",
            argument_keys=("parameters",),
        ),
        stops=("<|END_OF_TURN_TOKEN|>",),
        models=("Command R", "Command R+"),
    ),
    AnswerFamily(
        name="xlam",
        calls=CallSyntax(
            call="{object}",
            separator=", ",
            is_bare=True,
            is_list=True,
            section_accepts=(
                ("[TOOL_CALLS]", ""),
                ("<tool_call>", "</tool_call>"),
                ("```json\n", "\n```"),
                ("```\n", "\n```"),
            ),
        ),
        reasoning=_THINK,
        stops=("<|eot_id|>", "<|im_end|>"),
        models=("xLAM 1, 2",),
    ),
    AnswerFamily(
        name="apertus",
        calls=CallSyntax(
            call="{keyed}",
            section=("<|tools_prefix|>", "<|tools_suffix|>"),
            separator=", ",
            is_list=True,
        ),
        reasoning=ReasoningMarks(("<|inner_prefix|>",), ("<|inner_suffix|>",)),
        stops=("<|assistant_end|>",),
        models=("Apertus 8B, 70B",),
    ),
    # A name, then JSON ----------------------------------------------------------------------------
    AnswerFamily(
        name="devstral",
        calls=CallSyntax(
            call="[TOOL_CALLS]{name}[ARGS]{json}",
            accepts=(
                "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]{json}",
                "[TOOL_CALLS]{name}{json}",
                "{object}",
            ),
            section_accepts=(("[TOOL_CALLS]", ""),),
        ),
        reasoning=ReasoningMarks(("[THINK]",), ("[/THINK]",)),
        stops=("</s>",),
        models=(
            *("Mistral Small 3.2", "Devstral", "Magistral", "Ministral 3", "Mistral Large 3"),
            "Mistral Medium 3.5",
        ),
        aliases=("ministral3", "magistral"),
    ),
    AnswerFamily(
        name="kimi_k2",
        calls=CallSyntax(
            call="<|tool_call_begin|>functions.{name}:{n}<|tool_call_argument_begin|>{json}"
            "<|tool_call_end|>",
            section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
            section_accepts=(("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),),
            header_is_id=True,
        ),
        reasoning=_THINK,
        stops=("<|im_end|>",),
        models=("Kimi K2", "Kimi K2 Thinking", "Kimi K2.5, K2.6"),
    ),
    AnswerFamily(
        name="deepseek_v3",
        calls=CallSyntax(
            call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{json}\n```"
            "<｜tool▁call▁end｜>",
            section=_DEEPSEEK_SECTION,
            separator="\n",
        ),
        reasoning=_THINK,
        stops=_DEEPSEEK_END,
        models=("DeepSeek V3", "DeepSeek R1", "R1 distilled"),
        aliases=("deepseek_r1",),
    ),
    AnswerFamily(
        name="deepseek_v31",
        calls=CallSyntax(
            call="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{json}<｜tool▁call▁end｜>",
            section=_DEEPSEEK_SECTION,
        ),
        reasoning=_THINK,
        stops=_DEEPSEEK_END,
        models=("DeepSeek V3.1",),
    ),
    AnswerFamily(
        name="solar",
        calls=CallSyntax(
            call="<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{json}"
            "<|tool_call:end|>",
            section=("<|tool_calls|>", "<|calls|>"),
            lead_in="<|begin|>assistant",
        ),
        reasoning=ReasoningMarks(("<|think|>",), ("<|end|>",)),
        answer=(("<|content|>", "<|end|>"),),
        stops=("<|begin|>assistant", "<|flush|>"),
        models=("Solar Open 100B",),
    ),
    AnswerFamily(
        name="plamo3",
        calls=CallSyntax(
            call=f"{_PLAMO}<|plamo:constrain|>json<|plamo:msg|>{{json}}{_PLAMO_END}",
            accepts=(f"{_PLAMO}<|plamo:msg|>{{json}}{_PLAMO_END}", f"{_PLAMO}{{json}}{_PLAMO_END}"),
            section=(
                "<|plamo:begin_tool_requests:plamo|>",
                "<|plamo:end_tool_requests:plamo|>",
            ),
        ),
        reasoning=ReasoningMarks(("<|plamo:begin_think:plamo|>",), ("<|plamo:end_think:plamo|>",)),
        stops=("<|plamo:tag|>",),
        models=("PLaMo 3",),
    ),
    AnswerFamily(
        name="functionary31",
        calls=CallSyntax(call="<function={name}>{json}</function>"),
        stops=("<|eot_id|>", "<|eom_id|>"),
        models=("Functionary 3.1",),
    ),
    AnswerFamily(
        name="functionary32",
        calls=CallSyntax(call=">>>{name}\n{json}"),
        answer=((">>>all\n", ""),),
        stops=("<|eot_id|>", "<|eom_id|>"),
        models=("Functionary 3.2",),
    ),
    # A name, then pairs ---------------------------------------------------------------------------
    AnswerFamily(
        name="qwen3coder",
        calls=_functions("tool_call", pads=True),
        reasoning=_THINK,
        stops=_CHATML,
        models=(
            *("Qwen3-Coder", "Qwen3.5", "Qwen3.6", "Qwen3.8", "Nemotron 3", "Granite 4.2"),
            *("Step 3.5, 3.7", "Trinity", "Nanbeige"),
        ),
        aliases=("qwen3_coder", "qwen3_xml"),
    ),
    AnswerFamily(
        name="mimo",
        calls=_functions("tool_call"),
        reasoning=_THINK,
        stops=_CHATML,
        models=("MiMo V2, V2.6",),
    ),
    AnswerFamily(
        name="seed",
        calls=_functions("seed:tool_call"),
        reasoning=ReasoningMarks(("<seed:think>",), ("</seed:think>",)),
        stops=("<seed:eos>",),
        models=("Seed-OSS 36B",),
        aliases=("seed_oss",),
    ),
    AnswerFamily(
        name="glm45",
        calls=_GLM,
        reasoning=_THINK,
        stops=_GLM_ENDS,
        models=("GLM-4.5, 4.6", "Laguna XS", "Ring 2.6"),
    ),
    AnswerFamily(
        name="glm47",
        calls=CallSyntax(
            call="<tool_call>{name}{args}</tool_call>",
            argument="<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
        ),
        reasoning=_THINK,
        stops=_GLM_ENDS,
        models=("GLM-4.7", "GLM-5, 5.2, 5.3", "Laguna S", "Spark 2.5", "IQuest Q1"),
    ),
    AnswerFamily(
        name="ling3",
        calls=replace(_GLM, call="<tool_call>{name}\n{args}\n</tool_call>", argument=_PAIR),
        reasoning=_THINK,
        stops=("<|role_end|>",),
        models=("Ling 3", "Ring 3"),
    ),
    AnswerFamily(
        name="hy3",
        calls=_hunyuan3(),
        reasoning=_THINK,
        stops=("<｜hy_eos｜>",),
        models=("Hy3", "Hy4"),
        aliases=("hy4",),
    ),
    AnswerFamily(
        name="hy3_opensource",
        calls=_hunyuan3(":opensource"),
        reasoning=ReasoningMarks(("<think:opensource>",), ("</think:opensource>",)),
        stops=("<｜hy_eos:opensource｜>",),
        models=("Hy3 preview",),
    ),
    AnswerFamily(
        name="k2_horizon",
        calls=CallSyntax(
            call="<ifm|tool_call>{name}\n{args}</ifm|tool_call>",
            accepts=("<ifm|tool_call>{object}</ifm|tool_call>",),
            argument="<ifm|arg_key>{key}</ifm|arg_key>\n<ifm|arg_value>{value}</ifm|arg_value>\n",
            argument_accepts=(
                "<ifm|arg_key>{key}</ifm|arg_key>\n<ifm|arg_type>{type}</ifm|arg_type>\n"
                "<ifm|arg_value>{value}</ifm|arg_value>\n",
            ),
            section=("<ifm|tool_calls>\n", "\n</ifm|tool_calls>"),
            separator="\n",
        ),
        reasoning=ReasoningMarks(
            ("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"),
            ("</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"),
        ),
        stops=("<|ifm|im_end|>",),
        models=("K2 Horizon",),
    ),
    AnswerFamily(
        name="minimax_m2",
        calls=_invokes("<minimax:tool_call>", "</minimax:tool_call>"),
        reasoning=_THINK,
        stops=("[e~[",),
        models=("MiniMax M2, M2.1, M2.5",),
    ),
    AnswerFamily(
        name="dots",
        calls=_invokes("<dots_function_call>", "</dots_function_call>"),
        reasoning=_THINK,
        stops=("<|endofresponse|>",),
        models=("dots",),
    ),
    AnswerFamily(
        name="deepseek_v32",
        calls=_typed_invokes("｜DSML｜", "function_calls", "tool_calls"),
        reasoning=_THINK,
        stops=_DEEPSEEK_END,
        models=("DeepSeek V3.2",),
    ),
    AnswerFamily(
        name="deepseek_v4",
        calls=_typed_invokes("｜DSML｜", "tool_calls", "toolcalls", "tool", "function_calls"),
        reasoning=_THINK,
        stops=_DEEPSEEK_END,
        models=("DeepSeek V4",),
    ),
    AnswerFamily(
        name="deepseek_v41",
        calls=_typed_invokes("｜DSML｜ ", "calls"),
        reasoning=_THINK,
        stops=_DEEPSEEK_END,
        models=("DeepSeek V4.1",),
    ),
    AnswerFamily(
        name="gigachat35",
        calls=_typed_invokes("｜GCML｜", "tool_calls"),
        reasoning=_THINK,
        stops=("<|message_sep|>", "</s>"),
        models=("GigaChat 3.5",),
    ),
    AnswerFamily(
        name="step3",
        calls=CallSyntax(
            call='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">\n'
            "{args}</steptml:invoke><｜tool_call_end｜>",
            argument='<steptml:parameter name="{key}">{value}</steptml:parameter>\n',
            section=("<｜tool_calls_begin｜>\n", "\n<｜tool_calls_end｜>"),
            separator="\n",
        ),
        reasoning=_THINK,
        stops=("<|EOT|>",),
        models=("Step 3",),
    ),
    AnswerFamily(
        name="minicpm5",
        calls=CallSyntax(
            call='<function name="{name}">{args}</function>',
            argument='<param name="{key}">{value}</param>',
            separator="\n",
            trims_lines=True,
            has_cdata=True,
        ),
        reasoning=_THINK,
        stops=("<s>", *_CHATML),
        models=("MiniCPM 5",),
    ),
    AnswerFamily(
        name="kimi_k3",
        calls=CallSyntax(
            call='<|open|>call tool="{name}" index="{n}"<|sep|>{args}<|close|>call<|sep|>',
            argument='<|open|>argument key="{key}" type="{type}"<|sep|>{value}'
            "<|close|>argument<|sep|>",
            section=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
            lead_in="<|open|>response<|sep|><|close|>response<|sep|>",
        ),
        reasoning=ReasoningMarks(("<|open|>think<|sep|>",), ("<|close|>think<|sep|>",)),
        answer=(("<|open|>response<|sep|>", "<|close|>response<|sep|>"),),
        stops=("<|close|>message<|sep|>", "<|end_of_msg|>"),
        models=("Kimi K3",),
    ),
    AnswerFamily(
        name="minimax_m3",
        calls=CallSyntax(
            call=f'{_M3}<invoke name="{{name}}">{{tree}}{_M3}</invoke>',
            section=(f"{_M3}<tool_call>\n", f"\n{_M3}</tool_call>"),
            separator="\n",
        ),
        reasoning=ReasoningMarks(("<mm:think>",), ("</mm:think>",)),
        stops=("[e~[",),
        models=("MiniMax M3",),
    ),
    # Python ---------------------------------------------------------------------------------------
    AnswerFamily(
        name="lfm2",
        calls=CallSyntax(
            call="{name}({python})",
            accepts=("{object}",),
            section=("<|tool_call_start|>", "<|tool_call_end|>"),
            separator=", ",
            is_list=True,
        ),
        reasoning=_THINK,
        stops=("<|im_end|>",),
        models=("LFM2", "LFM2.5", "LFM2-8B-A1B"),
    ),
    AnswerFamily(
        name="pythonic",
        calls=CallSyntax(
            call="{name}({python})",
            accepts=("{object}",),
            separator=", ",
            is_bare=True,
            is_list=True,
            section_accepts=(("```tool_code\n", "\n```"),),
        ),
        answer=_PYTHON_MARKS,
        stops=(*_LLAMA_ENDS, "<end_of_turn>"),
        models=("Llama 3.2 1B, 3B", "Llama 4", "ToolACE", "Gemma 3"),
        aliases=("llama4_pythonic",),
    ),
    AnswerFamily(
        name="olmo3",
        calls=CallSyntax(
            call="{name}({python})",
            section=("<function_calls>\n", "\n</function_calls>"),
            separator="\n",
            has_json_words=True,
        ),
        reasoning=_THINK,
        stops=_CHATML,
        models=("Olmo 3",),
    ),
    # Gemma ----------------------------------------------------------------------------------------
    AnswerFamily(
        name="functiongemma",
        calls=CallSyntax(
            call="call:{name}{{gemma}}",
            section=("<start_function_call>", "<end_function_call>"),
            section_each=True,
            quote="<escape>",
        ),
        stops=("<end_of_turn>", "<start_function_response>"),
        models=("FunctionGemma 270M",),
    ),
    AnswerFamily(
        name="gemma4",
        calls=CallSyntax(
            call="call:{name}{{gemma}}",
            accepts=("call:{name}({python})",),
            section=("<|tool_call>", "<tool_call|>"),
            section_each=True,
            quote='<|"|>',
        ),
        reasoning=ReasoningMarks(("<|channel>thought\n",), ("<channel|>",)),
        stops=("<turn|>", "<|tool_response>"),
        models=("Gemma 4",),
    ),
)
#: All declarations by name, in the order in which a detector prefers them.
FAMILIES: Final = MappingProxyType({family.name: family for family in _FAMILIES})


def with_suffix(family: AnswerFamily, suffix: str) -> AnswerFamily:
    """Return Hy3's declaration for a tokenizer whose marks carry a suffix, ``:6124c78e`` say."""
    return replace(
        family,
        calls=_hunyuan3(suffix),
        reasoning=ReasoningMarks((f"<think{suffix}>",), (f"</think{suffix}>",)),
        stops=(f"<｜hy_eos{suffix}｜>",),
    )
