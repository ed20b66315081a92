"""`graphrt calculators`: the list, and one calculator in full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calculators
from graph_runtime import REGISTRY, Registry, parse_graph_text, validate_graph
from graph_runtime.plan.subgraph import Subgraph
from servers.page.calculator_page import make_page, make_subgraph_page
from tests.servers.cli.process import graphrt

AUTHOR = '''\
from graph_runtime import Calculator, In, Options, Out, SideIn, calculator, options
from dataclasses import field


@options("acme.RedactOptions")
class RedactOptions:
    words: tuple[str, ...] = field(default=(), metadata={"doc": "what to hide"})
    mask: str = "*"


@calculator("acme.Redact")
class Redact(Calculator):
    """Hides words.

    Longer text.
    """

    options = Options(RedactOptions)
    text = In[str]("TEXT", doc="what comes in")
    others = In[list[int]]("OTHERS", multiple=True, optional=True)
    clean = Out[str]("TEXT")
    copy = Out("COPY", same_as=text, optional=True)
    model = SideIn[bytes]("MODEL")

    def process(self, cc): ...


@calculator
class Dynamic(Calculator):
    @classmethod
    def contract(cls, contract): raise RuntimeError("never called")


@calculator("Also")
def also(left: int, *, right: float = 0.0) -> float:
    """Adds."""
    return left + right
'''


@pytest.fixture
def author(tmp_path: Path) -> Path:
    (tmp_path / "author.py").write_text(AUTHOR)
    return tmp_path


def test_the_list_has_names_and_first_lines(author: Path) -> None:
    done = graphrt("calculators", "--calculators", "author.py", cwd=author)
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(line.partition("  ")[::2] for line in done.stdout.splitlines())
    assert rows["acme.Redact"].strip() == "Hides words."
    assert rows["Dynamic"].strip() == ""
    assert "PassThroughCalculator" in rows
    subgraphs = [name for name, text in rows.items() if text.strip() == "(subgraph)"]
    assert "SwitchContainer" in subgraphs
    calculators = list(rows)[: -len(subgraphs)]
    assert [*sorted(calculators), *sorted(subgraphs)] == list(rows)


def test_the_list_as_json(author: Path) -> None:
    done = graphrt("calculators", "--format", "json", "--calculators", "author.py", cwd=author)
    found = json.loads(done.stdout)
    assert {"name": "Also", "summary": "Adds."} in found["calculators"]
    assert "SwitchContainer" in found["subgraphs"]


def test_one_calculator_with_ports_options_and_a_node(author: Path) -> None:
    done = graphrt("calculators", "acme.Redact", "--calculators", "author.py", cwd=author)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for part in (
        "Longer text.",
        "TEXT string what comes in",
        "OTHERS:0..n vector<int> optional",
        "COPY same as input_stream TEXT optional",
        "Input side packets: MODEL bytes",
        "Options (acme.RedactOptions):",
        "words repeated string what to hide",
        'mask string default "*"',
        "Timestamp offset: 0",
    ):
        assert part in text
    snippet = done.stdout.partition("A node to paste:\n\n")[2]
    assert '  input_stream: "TEXT:text"  # string; what comes in\n' in snippet


def test_the_node_to_paste_makes_a_graph(author: Path) -> None:
    done = graphrt(
        "calculators", "acme.Redact", "--format", "json", "--calculators", "author.py", cwd=author
    )
    snippet = json.loads(done.stdout)["snippet"]
    (author / "graph.pbtxt").write_text('input_stream: "text" input_stream: "others_0"\n' + snippet)
    done = graphrt("validate", "graph.pbtxt", "--calculators", "author.py", cwd=author)
    assert done.stdout == "graph.pbtxt: ok (1 node)\n"


def test_a_function_is_shown_by_its_parameters(author: Path) -> None:
    done = graphrt("calculators", "Also", "--calculators", "author.py", cwd=author)
    assert 'input_stream: "left"  # int' in done.stdout
    assert 'input_stream: "RIGHT:right"  # float; optional' in done.stdout
    assert 'output_stream: "out"  # float' in done.stdout


def test_ports_declared_in_code_are_not_guessed(author: Path) -> None:
    done = graphrt("calculators", "Dynamic", "--calculators", "author.py", cwd=author)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Its ports depend on the node" in done.stdout
    assert 'calculator: "Dynamic"' in done.stdout


def test_an_unknown_name_gets_a_suggestion() -> None:
    done = graphrt("calculators", "PasThroughCalculator")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'Did you mean "PassThroughCalculator"' in done.stderr


def _core() -> Registry:
    calculators.register_all(REGISTRY)
    return REGISTRY


@pytest.mark.parametrize("name", sorted(_core().calculators()))
def test_the_node_of_every_core_calculator_validates(name: str) -> None:
    config = parse_graph_text(make_page(name, _core().calculators()[name]).snippet)
    node = config.node[0]
    assert node.calculator == name
    made = {entry.rpartition(":")[2] for entry in node.output_stream}
    used = {entry.rpartition(":")[2] for entry in node.input_stream}
    config.input_stream.extend(sorted(used - made))
    assert validate_graph(config, registry=_core()).nodes


def test_a_subgraph_is_shown_by_its_ports() -> None:
    text = (
        'input_stream: "IN:a" input_stream: "b" output_stream: "OUT:1:d" output_stream: "OUT:0:c"'
    )
    page = make_subgraph_page(Subgraph.of(text, "Sub"))
    assert page.snippet == (
        'node {\n  calculator: "Sub"\n  input_stream: "b"\n  input_stream: "IN:a"\n'
        '  output_stream: "OUT:c"\n  output_stream: "OUT:1:d"\n}\n'
    )
    made = make_subgraph_page(Subgraph.of(lambda context: context.node.name, "Made"))
    assert made.ports is None
