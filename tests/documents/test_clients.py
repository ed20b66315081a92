"""The page of clients is made of the file that the tests of clients read."""

from __future__ import annotations

from servers.cli.launch import AGENTS
from tests.client_table import clients, page
from tests.support.checkout import ROOT
from tests.support.markdown import text_of


def test_the_page_is_that_of_the_table() -> None:
    assert text_of("docs/clients.md") == page(), "python -m tests.client_table > docs/clients.md"


def test_the_tests_that_it_names_exist() -> None:
    for client in clients():
        assert (ROOT / client.test).is_dir(), client.name


def test_each_agent_has_a_page_with_what_it_needs() -> None:
    overview = text_of("docs/agents/index.md")
    versions = {each.package: each.version for each in clients()}
    for name, agent in AGENTS.items():
        text = text_of(f"docs/agents/{name}.md")
        assert f"{agent.tokens:,} tokens of context" in text
        assert agent.install.removeprefix("see ") in text
        assert f"]({name}.md) | `graphrt launch {name}` |" in overview
        package = agent.install.rpartition(" ")[2]
        if package in versions:
            assert f"tried, version {versions[package]}" in text
            assert f"| {versions[package]} |" in overview
