"""Forked commands and children behave as those that Python starts."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.process.server_process import DEMO, ENGINE, PROMPTS, ServerProcess
from tests.servers.cli.process import COMMAND, commands, environment, graphrt
from tests.support.patience import PATIENCE


@pytest.mark.parametrize("words", [["--help"], ["validate", "nothing"], ["serve", "--nothing"]])
def test_a_forked_command_says_what_any_command_says(tmp_path: Path, words: list[str]) -> None:
    real = subprocess.run(
        [*COMMAND, *words],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    forked = graphrt(*words, cwd=tmp_path)
    assert forked.stdout == real.stdout
    assert forked.stderr == real.stderr
    assert forked.returncode == real.returncode


def test_the_process_that_forks_has_one_thread() -> None:
    # Others would be missing in its forks.
    graphrt("--help")
    assert len(list(Path(f"/proc/{commands.pid}/task").iterdir())) == 1


def test_forked_children_die_with_a_server_that_is_killed() -> None:
    with ServerProcess(DEMO) as server:
        children = server.lasting_children()
        assert sorted(children.values()) == [ENGINE, PROMPTS]
        ends = [os.pidfd_open(child) for child in children]
        os.kill(server.pid, signal.SIGKILL)
        for end in ends:
            assert select.select([end], [], [], PATIENCE)[0], children
            os.close(end)
