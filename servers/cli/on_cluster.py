"""``graphrt serve --on``: servables whose replicas run on a cluster, fronts in this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from servers.cli.messages import CommandFailed, print_error
from servers.cli.serve_options import ServeOptions
from servers.server.lifecycle import ServerSettings

_log: Final = logging.getLogger(__name__)


def check_cluster(options: ServeOptions) -> None:
    """Check that the options go together with ``--on``.

    Raises:
        CommandFailed: they do not.
    """
    server = options.server
    if server.on is None:
        return
    if options.batches.batch_dir:
        raise CommandFailed(
            "--batch_dir is for one machine, and --on for a cluster: use one of them",
            hint="graphrt batch FILE.jsonl sends a file's requests to a server",
            status=2,
        )


@contextmanager
def on_cluster(
    settings: ServerSettings, options: ServeOptions, *, is_front: bool = True
) -> Iterator[ServerSettings]:
    """Yield the settings of a server whose servables run where ``--on`` says, if it is given.

    The process ends if the cluster is lost. ``is_front``: SIGTERM lets it end its requests first;
    otherwise it says that the same command goes on.

    Raises:
        CommandFailed: the cluster cannot be used.
    """
    cluster = options.server.on
    if cluster is None:
        yield settings
        return
    # Late: with it come modules that servers of one machine do not need.
    from servers.replicas.cluster import EXTRA, ClusterError, RayCluster, RayMissingError
    from servers.replicas.placement import HeadWatch, Placement

    try:
        ray = RayCluster(_config_of(options))
    except RayMissingError as error:
        raise CommandFailed(f"--on {cluster}: {error}", hint=EXTRA) from error
    except ClusterError as error:
        raise CommandFailed(
            f"--on {cluster}: {error}",
            hint="name its address in RAY_ADDRESS; if it has a token, set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN",
        ) from error
    try:
        address = ray.address
        _log.info("replicas run on the Ray cluster %s", address)

        def abandon() -> None:
            if not is_front:
                lost = f"--on {cluster}: the Ray cluster {address} is lost"
                print_error(lost, "the same command goes on from here")
            ray.abandon()

        with HeadWatch(ray.is_lost, abandon, address, is_own=ray.is_own, is_front=is_front):
            yield replace(settings, elsewhere=Placement(ray, settings, Path(os.getcwd())))
    finally:
        ray.close()


def _config_of(options: ServeOptions) -> str:
    """Return what is served, by which fronts of one config know each other."""
    server = options.server
    named = (*options.sources, server.config_path, server.model_path, options.source.source_model)
    words = [os.path.abspath(each) if os.path.exists(each) else each for each in named if each]
    return " ".join(words)
