"""Lines of the log and the processes, in ``GET /v1/live`` where the operator allows it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from servers.page.feed import MOST_LINES, LastLines
from servers.page.settings import PageSettings
from tests.servers.page.watching import Page, on_page


def test_lines_and_processes_are_sent_where_the_operator_allows_it(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.watching("") as watched:
            logging.getLogger("author").warning("the %s is \u202eodd", "disk")
            await watched.until(lambda seen: bool(seen.named("processes") and seen.named("log")))
            await watched.until(lambda seen: any("odd" in line for line in texts(seen)))
            assert "the disk is \\u202eodd" in texts(watched)
            [own] = watched.named("processes")[-1]["processes"]
            assert (own["name"], own["pid"]) == ("server", os.getpid())
            assert own["cpu_seconds"] > 0
            assert own["memory_bytes"] > 1 << 20
            assert watched.named("hello")[0]["operations"] is True

    def texts(seen: object) -> list[str]:
        return [line["text"] for each in seen.named("log") for line in each["lines"]]  # type: ignore[attr-defined]

    on_page(tmp_path, scenario, page=PageSettings(operations=True))


def test_nothing_of_them_is_sent_by_default(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.watching("graphs=echo") as watched:
            logging.getLogger("author").warning("the disk is odd")
            await page.echo()
            await watched.until(lambda seen: bool(seen.named("request")))
            assert watched.named("hello")[0]["operations"] is False
            assert not watched.named("log")
            assert not watched.named("processes")

    on_page(tmp_path, scenario)


def test_prompts_and_tracebacks_are_left_out_and_old_lines_forgotten() -> None:
    lines = LastLines()
    log = logging.Logger("graphrt.prompts")
    log.addHandler(lines)
    log.info("prompt 1 of request_id=x: a secret")
    assert lines.count == 0
    log = logging.Logger("graphrt.node")
    log.addHandler(lines)
    try:
        raise ValueError("a secret")
    except ValueError:
        log.exception("the node failed")
    [line] = lines.since(0)
    assert line.text == "the node failed (ValueError; the traceback is in the log)"
    for number in range(MOST_LINES):
        log.info("line %d", number)
    assert lines.count == MOST_LINES + 1
    assert [line.text for line in lines.since(MOST_LINES)] == [f"line {MOST_LINES - 1}"]
    assert lines.since(0)[0].text == "line 0"
