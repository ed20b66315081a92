"""Nodes of a Ray cluster on this machine, by a process of their own.

    python -m tests.ray.nodes [PORT]

It prints the address, and takes a command with each line of its standard input: ``kill`` ends the
second node at once, ``add`` starts another one. Each is answered by a line. PORT: of the head, 0
for any.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Self


class Nodes:
    """Two nodes with a core each, ``left`` and ``right``, by the names of a resource of each.

    Use it as a context manager.

    Attributes:
        address: of the cluster, for ``RAY_ADDRESS``.
        pid: the process that started them.
    """

    def __init__(self, port: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.ray.nodes", str(port)],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.address = self._answer()

    def kill(self) -> None:
        """End the second node, with all that runs there."""
        self._tell("kill")

    def add(self) -> None:
        """Start a node like the second one."""
        self._tell("add")

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("> "):
                return line.removeprefix("> ").strip()
        raise AssertionError("the nodes could not be started")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # closes its input, which ends it


def main() -> None:
    """Start the nodes, and obey."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "resources": {"left": 1},
            "include_dashboard": False,
            "gcs_server_port": int("".join(sys.argv[1:]) or 0) or None,
        },
    )
    try:
        right = cluster.add_node(num_cpus=1, resources={"right": 1})
        print(">", cluster.address, flush=True)
        for line in sys.stdin:
            if line.strip() == "kill":
                cluster.remove_node(right, allow_graceful=False)
            else:
                right = cluster.add_node(num_cpus=1, resources={"right": 1})
            print("> done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
