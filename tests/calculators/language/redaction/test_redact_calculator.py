"""`RedactCalculator`: all channels, the order of blocks, and nothing that tells what was masked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from calculators.language import (
    Api,
    Arguments,
    Begun,
    CallDone,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Gained,
    Reasoning,
    Refused,
    RequestError,
    Source,
    TokenLogprob,
    ToolCall,
    ToolCalled,
    ToolRan,
    Usage,
    Verbose,
    call,
    delta_packets,
    request_for,
    text_of,
)
from calculators.language.redaction.redact_calculator import RedactCalculator
from calculators.language.testing import events_of, items_of
from graph_runtime import GraphConfigError
from protos.pool import message_class
from tests.calculators.language.nodes import run_node
from tests.calculators.language.redaction.cases import redacted_whole

_Options: Any = message_class("graphrt.RedactOptions")
_PASSWORD = _Options(words=["password"])
#: An expression that passes the checks and takes too long on some texts.
_SLOW = "(?:pq|qr|rs|st|ab|a|b){1,30}!"


def redact(packets: Sequence[Deltas], options: Any = _PASSWORD) -> list[Deltas]:
    """The packets of a node that gets these, with their order checked."""
    return run_node(RedactCalculator, packets, options=options)


def begun(choices: int = 1, **fields: Any) -> Begun:
    return Begun(choices, Usage(3, 0), request_for(n=choices), **fields)


def end(*choices: int) -> list[Delta]:
    return [*(Finished(each, FinishReason.STOP) for each in choices or (0,)), Ended(Usage(3, 5))]


def test_a_word_is_masked_however_the_pieces_cut_it() -> None:
    made = redact(delta_packets("The pass", "word is ", "hunter2", "."))
    assert text_of(made) == "The *** is hunter2."
    assert [len(packet) for packet in made] == [2, 1, 1, 3]


def test_text_that_is_held_back_at_the_end_comes_before_the_finish() -> None:
    made = redact(delta_packets("my pass"))
    assert [type(item) for item in items_of(made)] == [Begun, Gained, Gained, Finished, Ended]
    assert text_of(made) == "my pass"


def test_content_around_a_call_is_one_text_and_the_call_waits() -> None:
    made = redact(delta_packets("a pass", call("f", {"x": 1}), "word b"))
    assert events_of(made) == [
        Content("a "),
        Content("***"),
        ToolCall("f", "call00001"),
        Arguments('{"x": 1}'),
        CallDone('{"x": 1}', is_complete=True),
        Content(" b"),
    ]


def test_a_call_behind_text_that_is_no_match_comes_with_the_next_text() -> None:
    made = redact(delta_packets("a pass", call("f", {}), "ed"))
    events = events_of(made)
    assert [type(event) for event in events] == [
        *(Content, Content, ToolCall, Arguments, CallDone, Content)
    ]
    assert text_of(made) == "a passed"


def test_names_and_arguments_of_calls_are_masked() -> None:
    events = (
        ToolCall("get_password", "id1"),
        Arguments('{"password'),
        Arguments('": "pass'),
        Arguments('wor\\u0064"}'),
        CallDone('{"password": "password"}', is_complete=True),
    )
    made = redact(delta_packets(*[[event] for event in events]))
    assert events_of(made)[0] == ToolCall("get_***", "id1")
    assert text_of(made, kind="arguments") == '{"***": "***"}'
    assert events_of(made)[-1] == CallDone('{"***": "***"}', is_complete=True)


def test_a_call_that_nothing_ends_is_complete_before_the_finish() -> None:
    made = redact(delta_packets([ToolCall("f", "id1")], [Arguments('{"a": "pass')]))
    assert text_of(made, kind="arguments") == '{"a": "pass'
    assert type(items_of(made)[-2]) is Finished


def test_reasoning_is_a_text_of_its_own_and_ends_where_content_begins() -> None:
    made = redact(delta_packets([Reasoning("a pass")], [Reasoning("word pass")], "word"))
    assert text_of(made, kind="reasoning") == "a *** pass"
    assert text_of(made) == "word"
    assert [type(event) for event in events_of(made)][-2:] == [Reasoning, Content]


def test_channels_that_are_not_named_are_passed_on() -> None:
    packets = delta_packets([Reasoning("password")], "password", call("password", "password"))
    made = redact(packets, _Options(words=["password"], channels=["REASONING"]))
    assert text_of(made, kind="reasoning") == "***"
    assert text_of(made) == text_of(made, kind="arguments") == "password"
    made = redact(packets, _Options(words=["password"], channels=["CONTENT", "TOOL_CALLS"]))
    assert text_of(made, kind="reasoning") == "password"
    assert text_of(made) == text_of(made, kind="arguments") == "***"


def test_each_choice_is_a_text_of_its_own() -> None:
    packets = [
        Deltas([begun(2), Gained(0, (Content("pass"),)), Gained(1, (Content("word"),))]),
        Deltas([Gained(1, (Content(" pass"),)), Gained(0, (Content("word"),))]),
        Deltas([Gained(1, (Content("word"),)), *end(0, 1)]),
    ]
    made = redact(packets)
    assert text_of(made, choice=0) == "***"
    assert text_of(made, choice=1) == "word ***"


def test_each_text_of_random_answers_is_the_redaction_of_the_whole_text() -> None:
    words, expressions = ("ab", "bca"), (r"c{2,3}", r"\bb\b")
    options = _Options(words=words, patterns=expressions, mask="*")
    source = random.Random(7)
    for _ in range(150):
        events = [_random_event(source) for _ in range(source.randrange(12))]
        groups: list[list[Event]] = [[]]
        for event in events:
            if source.random() < 0.5:
                groups.append([])
            groups[-1].append(event)
        made = redact(delta_packets(*groups), options)
        content = "".join([event.text for event in events if isinstance(event, Content)])
        assert text_of(made) == redacted_whole(content, words, expressions)
        # Reasoning may be joined again where all content between two parts went into a mask.
        names = [redacted_whole(name, words, expressions) for name in _names(events)]
        assert _names(events_of(made)) == names
        assert text_of(made, kind="reasoning") == "".join(
            [redacted_whole(text, words, expressions) for text in _reasonings(events)]
        )


def _random_event(source: random.Random) -> Event:
    text = "".join(source.choices("abc ", k=source.randrange(1, 4)))
    kind = source.choice((Content, Content, Reasoning, ToolCall))
    return ToolCall(text, "id") if kind is ToolCall else kind(text)


def _names(events: Sequence[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, ToolCall)]


def _reasonings(events: Sequence[Event]) -> list[str]:
    """The texts of reasoning between other events."""
    texts = [""]
    for event in events:
        if isinstance(event, Reasoning):
            texts[-1] += event.text
        else:
            texts.append("")
    return texts


def _token(text: str | bytes) -> TokenLogprob:
    raw = text if isinstance(text, bytes) else text.encode()
    return TokenLogprob(raw.decode(errors="replace"), raw, -0.5)


def test_logprobs_are_shown_as_long_as_their_tokens_are_the_text() -> None:
    groups = [
        Gained(0, (Content("a "),), [_token(" a"), _token(" ")]),
        Gained(0, (), [_token(b"\xc3")]),
        Gained(0, (Content("éb"),), [_token(b"\xa9"), _token("b")]),
        Gained(0, (Content(" pass"),), [_token(" pass")]),
        Gained(0, (Content("ed"),), [_token("ed")]),
        Gained(0, (Content(" on"),), [_token(" on")]),
    ]
    packets = [Deltas([begun()]), *(Deltas([group]) for group in groups), Deltas(end())]
    made = [item for item in items_of(redact(packets)) if isinstance(item, Gained)]
    assert [item.logprobs is not None for item in made] == [True, True, True, False, False, False]
    assert "".join(event.text for item in made for event in item.events if type(event) is Content)


def test_a_token_that_comes_before_its_text_takes_the_logprobs_with_it() -> None:
    groups = [
        Gained(0, (), [_token("password")]),
        Gained(0, (Content("password"),), [_token(".")]),
    ]
    made = redact([Deltas([begun(), *groups, *end()])])
    assert "password" not in repr([item for item in items_of(made) if isinstance(item, Gained)])


def test_a_request_for_logprobs_is_refused_if_the_options_say_so() -> None:
    stopped: list[bool] = []
    request = request_for(wants_logprobs=True)
    packets = delta_packets("a", "b", request=request, stop=lambda: stopped.append(True))
    made = redact(packets, _Options(words=["x"], logprobs="REFUSE"))
    (item,) = items_of(made)
    assert isinstance(item, Failed)
    assert (item.error.param, stopped) == ("logprobs", [True])


def test_nothing_else_shows_what_was_masked() -> None:
    request = request_for(api=Api.RESPONSES, echo={"instructions": ["no password", 1, None]})
    first = Begun(
        1,
        Usage(3, 0),
        request,
        sources=(Source(1, "password.md", "the password"),),
        prompt_ids=(b"\0" * 8,),
    )
    ran = ToolRan(0, "id", "password", "files", '{"a": "password"}', "password", "password", 0.1)
    called = ToolCalled(0, "id", "password", "files", '{"a": "password"}')
    packets = [
        Deltas([first, Gained(0, (Content("password"),), None, (7, 8)), called, ran]),
        Deltas(
            [
                Finished(0, FinishReason.STOP, "password", Verbose("password", "password")),
                Ended(Usage(3, 2)),
            ]
        ),
    ]
    items = items_of(redact(packets))
    assert isinstance(items[0], Begun)
    assert items[0].prompt_ids is None
    assert items[0].request.echo == {"instructions": ["no ***", 1, None]}
    assert not [item for item in items if "password" in repr(item)]
    assert not [item for item in items if isinstance(item, Gained) and item.token_ids]


def test_a_refusal_is_masked_and_ends_the_texts_before_it() -> None:
    packets = [
        Deltas([begun(), Gained(0, (Content("a pass"),)), Gained(0, (Refused("password"),))]),
        Deltas([Finished(0, FinishReason.CONTENT_FILTER), Ended(Usage(3, 1))]),
    ]
    assert events_of(redact(packets))[-2:] == [Content("pass"), Refused("***")]


def test_text_before_a_failure_is_shown() -> None:
    error = RequestError("the engine failed")
    made = redact([Deltas([begun(), Gained(0, (Content("a pass"),))]), Deltas([Failed(error)])])
    assert text_of(made) == "a pass"
    assert items_of(made)[-1] == Failed(error)


def test_a_failure_before_the_answer_is_passed_on() -> None:
    failed = Failed(RequestError("the queue is full"))
    assert items_of(redact([Deltas([failed])])) == [failed]


def test_an_expression_that_takes_too_long_ends_the_answer_without_a_leak() -> None:
    stopped: list[bool] = []
    packets = delta_packets("x ", "ab" * 30, "?", stop=lambda: stopped.append(True))
    made = redact(packets, _Options(patterns=[_SLOW]))
    assert text_of(made) == "x "
    failed = items_of(made)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.message == "the redaction took too long"
    assert stopped == [True]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (_Options(), "set words or patterns: there is nothing to redact"),
        (_Options(words=["a", ""]), r"words\[1\]: the word is empty"),
        (_Options(patterns=["a", "b+"]), r"patterns\[1\]: 'b\+' has a repeat without a bound"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_the_graph_runs(
    options: Any, text: str
) -> None:
    with pytest.raises(GraphConfigError, match=text):
        redact(delta_packets("a"), options)
