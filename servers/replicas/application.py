"""A server as an application of Ray Serve: for ``serve deploy``, and for KubeRay's RayService.

The application is a front: `graphrt serve --on ray` as a process of one replica, which starts the
applications of what it serves. ::

    applications:
      - name: graphrt
        route_prefix: null
        import_path: servers.replicas.application:application
        args: {config: /models/config.json, arguments: [--rest_bind_address, 0.0.0.0]}
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.child_process.early_start import child_environment, python_module
from servers.model_store import ended_with_parent
from servers.replicas.cluster import import_ray

#: Seconds between SIGTERM and SIGKILL besides those for requests in flight.
_END_SECONDS: Final = 60.0
_KEYS: Final = frozenset({"arguments", "config", "num_cpus", "resources"})


def application(args: Mapping[str, Any]) -> Any:
    """Return the application that Ray Serve runs.

    Args:
        args: ``config``, the path of a config.json or what else `graphrt serve` takes;
            ``arguments``, its further ones; and what the front reserves on its node, ``num_cpus``
            (default 0) and ``resources``.

    Raises:
        ValueError: ``args`` has another key, or a value of another type.
    """
    words = [args.get("config"), *args.get("arguments", ())]
    if unknown := args.keys() - _KEYS:
        raise ValueError(f"args has the unknown key {min(unknown)}; keys are {sorted(_KEYS)}")
    if not all(isinstance(each, str) for each in words):
        raise ValueError(
            "config has to be the path of a config.json, and arguments a list of strings"
        )
    import_ray()
    deployment = importlib.import_module("ray.serve").deployment(
        FrontReplica,
        name="front",
        num_replicas=1,
        max_ongoing_requests=1,
        graceful_shutdown_timeout_s=_END_SECONDS,
        ray_actor_options={
            "num_cpus": args.get("num_cpus", 0),
            "resources": dict(args.get("resources", {})),
        },
    )
    return deployment.bind(tuple(words))


class FrontReplica:
    """`graphrt serve --on ray` as a child process of a replica."""

    async def __init__(self, words: tuple[str, ...]) -> None:  # type: ignore[misc]  # as Ray allows
        """Start the server.

        Raises:
            RuntimeError: it ends at once.
        """
        address = importlib.import_module("ray").get_runtime_context().gcs_address
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", ended_with_parent.__file__, str(os.getpid())),
            *(*python_module("servers.cli"), "serve", *words, "--on", "ray"),
            env={**child_environment({}), "RAY_ADDRESS": address},
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 3)
        self.check_health()

    def check_health(self) -> None:
        """
        Raises:
            RuntimeError: the server has ended; Ray starts another replica.
        """
        if self._process.returncode is not None:
            raise RuntimeError(f"graphrt serve has ended with code {self._process.returncode}")

    async def __del__(self) -> None:
        """End the server after its requests in flight. Ray waits for it."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await self._process.wait()
