"""No special token is part of a form's text, unless the form asks for it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from calculators.llm.engine.constrained_decoding import open_form_tokenizer
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import FormError, form_grammar
from calculators.llm.grammars.formats import Format, Tool
from calculators.llm.grammars.grammar import AnswerForm, SpecialLetters
from calculators.llm.parsers.families import CallSyntax
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.grammars.answers import Answers, schema_of

#: <|endoftext|>, <|im_start|>, <|im_end|>; the model ends with the first and the last.
ENDS = (0, 2)
START = 1


@pytest.fixture(scope="module")
def special() -> SpecialLetters:
    return open_form_tokenizer(str(DEMO)).letters


def generated(
    answers: Answers, special: SpecialLetters, form: Format, **settings: Any
) -> tuple[list[int], str]:
    grammar = form_grammar(AnswerForm(json.dumps(form)), special).grammar
    way = GenerationSettings(max_new_tokens=100, grammar=grammar, **settings)
    ((ids, reason),) = answers.run("Hello", [way])
    assert reason is not None
    return ids, reason


def sampled(seed: int) -> dict[str, Any]:
    return {"do_sample": True, "temperature": 2.0, "rng_seed": seed}


@pytest.mark.parametrize("seed", range(3))
def test_letters_of_special_tokens_are_no_special_tokens(
    answers: Answers, special: SpecialLetters, seed: int
) -> None:
    ids, reason = generated(answers, special, formats.regex("[a-z<|>_]{60}"), **sampled(seed))
    assert reason == "stop"
    assert not {*ENDS, START}.intersection(ids[:-1])
    assert ids[-1] in ENDS
    assert len(answers.tokenizer.decode(ids[:-1], skip_special_tokens=False)) == 60


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_is_cut_off_in_its_form_with_length(
    answers: Answers, special: SpecialLetters, seed: int
) -> None:
    form = formats.json_schema(schema_of(foo={"type": "string"}), "s")
    ids, reason = generated(answers, special, form, **sampled(seed))
    if reason == "length":
        assert not {*ENDS, START}.intersection(ids)
    else:
        json.loads(answers.tokenizer.decode(ids[:-1], skip_special_tokens=False))


def test_each_end_token_may_end_a_form(answers: Answers, special: SpecialLetters) -> None:
    # Behind a letter the form may end; some seeds take one end token, some the other.
    form = formats.regex("[a-z]{1,9}")
    last = {generated(answers, special, form, **sampled(seed))[0][-1] for seed in range(24)}
    assert last >= {*ENDS}


def test_a_frame_has_the_token_itself(answers: Answers, special: SpecialLetters) -> None:
    form = formats.tag("<|im_start|>", formats.regex("[a-c]{2}"), "<|im_start|>")
    ids, _ = generated(answers, special, form)
    assert ids[0] == START
    assert ids.count(START) == 2


def test_marks_of_calls_are_the_tokens_themselves(
    answers: Answers, special: SpecialLetters
) -> None:
    form = CallSyntax(
        call="<|im_start|>{name}:{args}<|im_start|>.", argument="{key}={value}<|im_start|>"
    )
    tool = Tool("f", schema_of(a={"type": "string", "maxLength": 20}, b={"type": "integer"}), "t")
    for seed in range(3):
        asked = formats.calls(form, [tool], only_one=True)
        ids, reason = generated(answers, special, asked, **sampled(seed))
        assert ids[0] == START
        if reason == "stop":
            assert ids.count(START) == 4
            text = answers.tokenizer.decode(ids[:-1], skip_special_tokens=False)
            assert re.fullmatch(
                r"<\|im_start\|>f:a=(?s:.{0,20})<\|im_start\|>b=-?\d+<\|im_start\|><\|im_start\|>\.",
                text,
            )


def test_reasoning_has_no_special_tokens(answers: Answers, special: SpecialLetters) -> None:
    form = formats.sequence(formats.tag("<think>", formats.any_text(), "e"), formats.regex("[0-9]"))
    for seed in range(6):
        ids, reason = generated(answers, special, form, **sampled(seed))
        assert not {*ENDS, START}.intersection(ids[:-1])
        assert reason == "length" or ids[-1] in ENDS


def test_a_value_with_a_letter_of_a_special_token_is_written_with_escapes(
    answers: Answers, special: SpecialLetters
) -> None:
    value = f"a{special.letters['<|im_start|>']}b"
    ids, _ = generated(answers, special, formats.json_schema({"const": value}, "s"))
    assert START not in ids
    assert json.loads(answers.tokenizer.decode(ids[:-1])) == value


@pytest.mark.parametrize(
    "form",
    [
        formats.regex("a\U00100001"),
        formats.choice(["\U00100001"], "c"),
        formats.ebnf('root ::= "\U00100001"', "g"),
        formats.const("a\U00100001"),
    ],
)
def test_no_client_names_a_special_token_by_its_letter(form: Format) -> None:
    with pytest.raises(FormError, match="letter that no answer has"):
        form_grammar(AnswerForm(json.dumps(form)))
