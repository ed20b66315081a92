"""Graphs that are not served, checked and run in child processes with limits."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from graph_runtime import UnavailableError
from servers.page.scratch import AuthorModules, Scratch
from servers.page.scratch_messages import DraftChange, DraftCheck, DraftRun
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE
from tests.support.processes import is_running

T = TypeVar("T")

PASSES = """\
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""

AUTHOR = '''\
import os
import subprocess
import sys
import time

from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Heavy(Calculator):
    """Does what the packet says."""

    what = In[str]()
    out = Out[object]()

    def process(self, cc: CalculatorContext) -> None:
        word = cc.get(self.what)
        if word == "sleep":
            time.sleep(600)
        if word == "compute":
            while True:
                pass
        if word == "allocate":
            cc.emit(self.out, len(bytearray(8 << 30)))
        if word == "die":
            os._exit(3)
        if word == "abort":
            os.abort()
        if word == "exit":
            sys.exit(3)
        if word == "write":
            with open("large", "wb") as file:
                file.seek(300 << 20)
                file.write(b"x")
        if word == "fail":
            raise ValueError("the packet says so")
        if word == "much":
            cc.emit(self.out, "x" * 1_000_000)
        if word == "start":
            cc.emit(self.out, subprocess.Popen(["sleep", "600"]).pid)
        if word == "key":
            cc.emit(self.out, os.environ.get("API_KEY", "no key"))


@calculator
class Hesitates(Calculator):
    """Never says what it needs."""

    @classmethod
    def contract(cls, contract):
        time.sleep(600)


@calculator
class Greedy(Calculator):
    """Takes all memory to say what it needs."""

    @classmethod
    def contract(cls, contract):
        bytearray(8 << 30)


@calculator
class Endless(Calculator):
    """A source that never ends."""

    out = Out[int]()

    def process(self, cc: CalculatorContext) -> None:
        self.count = getattr(self, "count", 0) + 1
        cc.emit(self.out, self.count, at=self.count)
'''
HEAVY = """\
input_stream: "in"
output_stream: "out"
node { calculator: "Heavy" input_stream: "in" output_stream: "out" }
"""


def done(work: Callable[[Scratch], Awaitable[T]], scratch: Scratch | None = None) -> T:
    """The result of work with a scratch, which leaves no process."""

    async def scenario() -> T:
        own = scratch or Scratch()
        try:
            async with asyncio.timeout(PATIENCE):
                return await work(own)
        finally:
            await own.close()

    return asyncio.run(scenario())


@pytest.fixture(autouse=True)
def nothing_left_on_the_disk(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


@pytest.fixture
def author(tmp_path: Path) -> Scratch:
    file = tmp_path / "heavy.py"
    file.write_text(AUTHOR)
    return Scratch(lambda: AuthorModules(paths=(file,)), run_seconds=1.0)


def feed(*words: str) -> DraftRun:
    packets = [{"stream": "in", "ts": time, "value": word} for time, word in enumerate(words)]
    return DraftRun(HEAVY, packets)


def test_a_check_has_findings_at_their_words_and_a_drawing() -> None:
    async def work(scratch: Scratch) -> None:
        good = await scratch.check(DraftCheck(PASSES))
        assert (good.valid, good.content, good.findings) == (True, "1 node", [])
        assert good.description is not None
        assert good.layout is not None
        assert good.description["nodes"][0]["name"] in good.places
        wrong = await scratch.check(DraftCheck(PASSES.replace("PassThrough", "PasThrough")))
        (finding,) = wrong.findings
        assert not wrong.valid
        assert (finding.line, finding.column, finding.end_line, finding.end_column) == (
            3,
            20,
            3,
            42,
        )
        assert finding.field == "node.calculator"
        assert 'Did you mean "PassThroughCalculator"?' in finding.message
        assert wrong.layout is not None  # drawn all the same
        broken = await scratch.check(DraftCheck("node {"))
        assert (broken.valid, broken.description) == (False, None)

    done(work)


def test_a_run_answers_with_packets_and_a_trace() -> None:
    packets = [{"stream": "in", "ts": time, "value": value} for time, value in ((0, "a"), (5, 2))]
    result = done(lambda scratch: scratch.run(DraftRun(PASSES, packets)))
    assert (result.state, result.error) == ("done", "")
    assert [(each.stream, each.ts, each.value) for each in result.packets] == [
        ("out", 0, "a"),
        ("out", 5, 2),
    ]
    assert result.trace is not None
    names = [event["name"] for event in result.trace["traceEvents"]]
    assert "PassThroughCalculator.process" in names


def test_a_graph_or_a_packet_with_errors_is_not_run() -> None:
    async def work(scratch: Scratch) -> None:
        wrong = await scratch.run(DraftRun('node { calculator: "Nothing" }'))
        assert (wrong.state, wrong.error) == ("invalid", "the graph has errors")
        assert len(wrong.findings) == 1
        late = [{"stream": "in", "ts": time, "value": 0} for time in (3, 1)]
        refused = await scratch.run(DraftRun(PASSES, late))
        assert refused.state == "failed"
        assert refused.error.startswith("packet:2: ")
        typo = await scratch.run(DraftRun(PASSES, [{"strem": "in"}]))
        assert typo.state == "invalid"
        assert 'Did you mean "stream"?' in typo.error
        unknown = await scratch.run(DraftRun(PASSES, observe=["aut"]))
        assert 'Did you mean "out"?' in unknown.error

    done(work)


def test_errors_of_calculators_are_those_of_the_run(author: Scratch) -> None:
    result = done(lambda scratch: scratch.run(feed("fail")), author)
    assert result.state == "failed"
    assert "the packet says so" in result.error


@pytest.mark.parametrize("word", ["sleep", "compute", "allocate", "die", "abort", "exit", "write"])
def test_no_run_takes_more_than_its_limits(author: Scratch, word: str) -> None:
    result = done(lambda scratch: scratch.run(feed(word)), author)
    assert result.state in ("stopped", "failed")
    assert result.error
    if word == "allocate":
        assert "MemoryError" in result.error
    if word == "write":
        assert "File too large" in result.error


def test_a_text_that_takes_long_delays_no_other(author: Scratch) -> None:
    async def work(scratch: Scratch) -> None:
        slow = asyncio.create_task(scratch.check(DraftCheck('node { calculator: "Hesitates" }')))
        await asyncio.sleep(0)
        for _ in range(2):
            assert (await scratch.check(DraftCheck(PASSES))).valid
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)

    done(work, author)


def test_a_check_has_a_limit_of_memory(author: Scratch) -> None:
    checked = done(
        lambda scratch: scratch.check(DraftCheck('node { calculator: "Greedy" }')), author
    )
    assert "MemoryError" in checked.findings[0].message


def test_a_thousand_drafts_at_once_are_checked_or_refused() -> None:
    async def work(scratch: Scratch) -> None:
        drafts = [DraftCheck(f'node {{ calculator: "C{each}" }}') for each in range(1000)]
        found = await asyncio.gather(*map(scratch.check, drafts), return_exceptions=True)
        refused = [each for each in found if isinstance(each, UnavailableError)]
        checked = [each for each in found if not isinstance(each, BaseException)]
        assert len(refused) + len(checked) == 1000
        assert checked
        assert (await scratch.check(DraftCheck(PASSES))).valid

    done(work)


def test_a_large_draft_is_drawn() -> None:
    nodes = "".join(
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{each}" '
        f'output_stream: "s{each + 1}" }}\n'
        for each in range(400)
    )
    draft = DraftCheck(f'input_stream: "s0"\n{nodes}')
    checked = done(lambda scratch: scratch.check(draft))
    assert checked.valid
    assert checked.layout is not None


def test_processes_that_a_run_starts_end_with_it(author: Scratch) -> None:
    result = done(lambda scratch: scratch.run(feed("start")), author)
    (packet,) = result.packets
    assert isinstance(packet.value, int)
    wait_until(lambda: not is_running(packet.value), "the process to end")


def test_a_source_without_end_is_stopped_and_its_first_packets_are_shown(author: Scratch) -> None:
    text = 'output_stream: "out" node { calculator: "Endless" output_stream: "out" }'
    result = done(lambda scratch: scratch.run(DraftRun(text)), author)
    assert result.state == "stopped"
    assert result.error == "the run took longer than 1 s and was stopped"
    assert [each.value for each in result.packets[:3]] == [1, 2, 3]
    assert len(result.packets) == 1000
    assert result.cut > 0


def test_a_large_value_is_shown_by_its_size(
    author: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "CANARY")
    result = done(lambda scratch: scratch.run(feed("much", "key")), author)
    large, key = (each.value for each in result.packets)
    assert (large["type"], large["bytes"]) == ("builtins.str", 1_000_000)
    assert len(large["repr"]) <= 1000
    assert key == "no key"


def test_only_some_graphs_run_at_a_time(author: Scratch) -> None:
    async def work(scratch: Scratch) -> None:
        runs = [asyncio.create_task(scratch.run(feed("sleep"))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="other graphs are being tried"):
            await scratch.run(feed())
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    done(work, author)


def test_changed_calculators_are_imported_anew(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    found = [AuthorModules(paths=(file,), version=1)]
    text = 'node { calculator: "Added" input_side_packet: "x" }'
    module = (
        "from graph_runtime import Calculator, SideIn, calculator\n\n\n"
        "@calculator\nclass Added(Calculator):\n    x = SideIn[int]()\n\n"
        "    def process(self, cc):\n        pass\n"
    )

    async def work(scratch: Scratch) -> None:
        file.write_text("")
        assert "Unable to find" in (await scratch.check(DraftCheck(text))).findings[0].message
        file.write_text(module)
        found[0] = AuthorModules(paths=(file,), version=2)
        messages = [each.message for each in (await scratch.check(DraftCheck(text))).findings]
        assert not any("Unable to find" in each for each in messages), messages

    done(work, Scratch(lambda: found[0]))


#: Two nodes that nothing is connected with; characters above U+FFFF come before them.
APART = """\
# \U0001f9e9
input_stream: "in"
node { calculator: "Endless" output_stream: "number" }
node { calculator: "Heavy" input_stream: "word" output_stream: "first" }
node { calculator: "Heavy" input_stream: "nothing" output_stream: "second" }
"""


def test_each_edit_is_tried_alone_and_refused_in_the_words_of_validation(author: Scratch) -> None:
    def taking(stream: str, name: str = "word") -> list[DraftChange]:
        start = APART.index(f'"{name}"') + 1
        return [DraftChange(start, start + len(name), stream)]

    edits = [taking("in"), taking("number"), taking("first"), taking("second"), taking("x")]
    both = [*taking("first", "nothing"), *taking("second", "word")]

    async def work(scratch: Scratch) -> list[str]:
        found: list[str] = []
        while len(found) <= len(edits):
            asked = DraftCheck(APART, [*edits, both][len(found) :])
            answer = await scratch.check(asked)
            assert [each.message for each in answer.findings if "nothing" in each.message]
            assert answer.refusals
            # A drawing takes longer than many edits, and the text has been drawn before.
            assert answer.layout is None
            found += answer.refusals
        return found

    fits, misfit, loop, other, missing, circle = done(work, author)
    assert fits == other == ""
    assert 'expects packets of type "string"' in misfit
    assert 'contain packets of type "int"' in misfit
    assert "cycle" in loop
    assert "cycle" in circle
    assert '"x"' in missing
