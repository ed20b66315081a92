"""``docs/clients.md``, made of `tests/clients.toml` and the lock of the developers' packages.

``python -m tests.client_table > docs/clients.md`` writes it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from typing import Final, NamedTuple

from tests.support.checkout import ROOT

_HEAD: Final = """\
# Clients

The tests run these clients unmodified, with nothing but a base URL, each in a process of its own.
Made by `python -m tests.client_table`; do not edit. CI runs the packages of Python, `make agents`
runs the packages of npm, Aider, and the clients that rely on kept responses.

| client | version | API | what it does there | test |
|---|---|---|---|---|
"""
_TAIL: Final = """
[Coding agents](agents/index.md) has a page for each. [Serving](serving.md#endpoints) says what each
API takes, and [differences](differences.md) what is left out.
"""


class Client(NamedTuple):
    """One client; `package` is its name in the registry, and ``npm`` whether that is npm's."""

    name: str
    package: str
    version: str
    npm: bool
    apis: str
    job: str
    test: str


@cache
def clients() -> tuple[Client, ...]:
    """Return all clients, in the order of the file."""
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)$", lock, re.M))
    with (ROOT / "tests" / "clients.toml").open("rb") as file:
        rows = tomllib.load(file)["client"]
    return tuple(
        Client(
            row["name"],
            row.get("npm") or row["pip"],
            row.get("version") or locked[row["pip"]],
            "npm" in row,
            row["apis"],
            row["job"],
            row["test"],
        )
        for row in rows
    )


def page() -> str:
    """Return the page in Markdown."""
    rows = (
        f"| {each.name} | {each.version} | {each.apis} | {each.job} | `{each.test}/` |"
        for each in clients()
    )
    return "\n".join([_HEAD.rstrip(), *rows, _TAIL])


if __name__ == "__main__":
    sys.stdout.write(page())
