"""`RayCluster`: the cluster that replicas run on, and its applications.

`ClusterStore`: small facts that all processes of a cluster share, in Ray's own table.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from graph_runtime import Code, GraphError
from servers.config.entries import Scale
from servers.replicas.routing_table import drop_table, table_of
from servers.replicas.wire import REASON_MARKS

_NAMESPACE: Final = b"graphrt"


class ClusterStore:
    """Bytes by keys. They last as long as the cluster. All methods block: for threads."""

    def __init__(self) -> None:
        self._kv = importlib.import_module("ray.experimental.internal_kv")

    def get(self, key: str) -> bytes | None:
        # Private names of Ray, so its minor version is pinned and checked (decision 0070).
        found: bytes | None = self._kv._internal_kv_get(key, namespace=_NAMESPACE)
        return found

    def put(self, key: str, value: bytes) -> None:
        self._kv._internal_kv_put(key, value, overwrite=True, namespace=_NAMESPACE)

    def delete(self, key: str) -> None:
        self._kv._internal_kv_del(key, namespace=_NAMESPACE)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with ``prefix``, in order."""
        found = self._kv._internal_kv_list(prefix, namespace=_NAMESPACE)
        return sorted(each.decode() for each in found)

    def items(self, prefix: str) -> dict[str, bytes]:
        """Return keys that begin with ``prefix``, without it, and their values."""
        found = {key.removeprefix(prefix): self.get(key) for key in self.keys(prefix)}
        return {key: value for key, value in found.items() if value is not None}


class ClusterFronts:
    """The fronts of a cluster: which of them serve a name, and which use an application.

    A front is a job of Ray. Entries of a dead front do not count, and are removed. All methods
    block: for threads.
    """

    def __init__(self, store: ClusterStore, config: str, job: str) -> None:
        """``config``: what this front serves, for people; ``job``: Ray's id of this process."""
        self._store = store
        self._config = config
        self._job = job

    def claim(self, name: str) -> dict[str, Any] | None:
        """Serve a name beside fronts of the same config.

        Returns:
            The front of another config that has the name, with ``pid``, ``host`` and ``config``;
            None if there is none. Of two that claim at once, the one whose job began first wins.
        """
        me = {"pid": os.getpid(), "host": os.uname().nodename, "config": self._config}
        # Ray's table has no comparison before it writes: each front puts its own key first and
        # looks at the others' then.
        self._store.put(f"name:{name}:{self._job}", json.dumps(me).encode())
        other = self._other(name, served_too=True)
        if other is None:
            value = json.dumps({**me, "serves": True}).encode()
            self._store.put(f"name:{name}:{self._job}", value)
            other = self._other(name, served_too=False)
        if other is not None:
            self.release(name)
        return other

    def _other(self, name: str, *, served_too: bool) -> dict[str, Any] | None:
        """Return a front of another config that comes first: an earlier job, or one that serves."""
        for job, value in self._alive(f"name:{name}:").items():
            found = _claim_in(value)
            if found is None:
                continue
            is_first = job < self._job or (served_too and "serves" in found)
            if found["config"] != self._config and is_first:
                return found
        return None

    def release(self, name: str) -> None:
        """Give a name back."""
        self._store.delete(f"name:{name}:{self._job}")

    def use(self, application: str) -> None:
        """Note that this front uses an application."""
        self._store.put(f"use:{application}:{self._job}", b"1")

    def leave(self, application: str) -> bool:
        """Note that this front does not use an application any more. True: no front does."""
        self._store.delete(f"use:{application}:{self._job}")
        # The last front ends an application; a job that is dead does not count (decision 0076).
        return not self._alive(f"use:{application}:")

    def _alive(self, prefix: str) -> dict[str, bytes]:
        """Return what other living fronts have put, by their jobs."""
        found = self._store.items(prefix)
        found.pop(self._job, None)
        if not found:
            return {}
        alive = _living_jobs()
        for job in found.keys() - alive:
            self._store.delete(prefix + job)
        return {job: value for job, value in found.items() if job in alive}


def _claim_in(value: bytes) -> dict[str, Any] | None:
    """Return what a front has put; None if it is damaged, or of another version."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    needed = {"pid": int, "host": str, "config": str}
    if not isinstance(found, dict):
        return None
    is_whole = all(isinstance(found.get(name), kind) for name, kind in needed.items())
    return found if is_whole else None


def _living_jobs() -> set[str]:
    jobs = importlib.import_module("ray._private.state").jobs()
    return {each["JobID"] for each in jobs if not each.get("IsDead")}


_log: Final = logging.getLogger(__name__)

#: The minor version whose private names are known here, and the extra that brings it.
RAY_VERSION: Final = "2.60"
EXTRA: Final = "pip install 'graphrt[ray]'"
#: The largest request and answer between front and replica; Ray's own limit is 4 MB.
MAX_MESSAGE_BYTES: Final = 512 << 20
#: Settings of Ray Serve, which it reads from the environment when it is imported.
_ENVIRONMENT: Final = {
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(MAX_MESSAGE_BYTES),
    # The servable runs in the replica's own loop: a thread would cost a switch per packet, and
    # child processes would die with the thread instead of with the process.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
}
#: Requests besides those that the front counts: parts of them, and requests of other fronts.
_ROOM_FOR_PARTS: Final = 64
_POLL_SECONDS: Final = 0.5
#: Seconds that a replica nobody needs may go on with its requests. A front that stops
#: has ended its own before.
_END_SECONDS: Final = 3600.0
#: Seconds after which a front says that a replica waits for room on the cluster.
_PATIENCE_SECONDS: Final = 15.0
#: Tries of a servable that cannot be loaded: the first try may have met a bad moment.
_TRIES: Final = 2
#: The address for a cluster that is started here.
_OWN: Final = "local"
#: Processes without which a cluster of one node does nothing new.
_VITAL: Final = ("gcs_server", "raylet")
#: Seconds for a connection to the head.
_CONNECT_SECONDS: Final = 2.0
_DEPLOYMENT: Final = "servable"
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.-]")


class ClusterError(GraphError):
    """The cluster cannot be used, or cannot run a servable; the text says why."""

    code = Code.FAILED_PRECONDITION


class RayMissingError(ClusterError):
    """Ray is not installed, or has another version."""


def import_ray() -> Any:
    """Return the module ``ray``.

    Raises:
        RayMissingError: it is not installed, or has another version.
    """
    for name, value in _ENVIRONMENT.items():
        # Ray Serve reads them when it is imported: not later than here.
        os.environ.setdefault(name, value)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a server tells nobody what it does
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.serve")
    except ImportError as error:
        raise RayMissingError(f"Ray Serve cannot be imported: {error}") from error
    if not ray.__version__.startswith(f"{RAY_VERSION}."):
        raise RayMissingError(
            f"Ray {ray.__version__} is installed, and graphrt works with {RAY_VERSION} only"
        )
    return ray


@dataclass(frozen=True, slots=True)
class Target:
    """The class that an application runs, and the argument that each replica makes it with."""

    replica: type
    work: object


class RayCluster:
    """A connection to a Ray cluster. Methods without ``async`` block: for threads.

    Attributes:
        store: the facts that all processes of the cluster share.
    """

    def __init__(self, config: str = "", *, is_inside: bool = False) -> None:
        """Connect to the cluster of ``RAY_ADDRESS`` or of this machine; start one if there is none.

        Args:
            config: what this front serves; fronts of the same share names and replicas.
            is_inside: this process is a replica of the cluster.

        Raises:
            ClusterError: Ray is missing, or the cluster cannot be reached.
        """
        self._ray = import_ray()
        self._serve = importlib.import_module("ray.serve")
        #: Ray makes one deployment at a time.
        self._deploying = threading.Lock()
        #: The servables of this front that hold a name: two, while one replaces the other.
        self._claims: Counter[str] = Counter()
        #: By an application's name, how many servables of this front use it.
        self._uses: Counter[str] = Counter()
        if not is_inside:
            self._start()
        self.store = ClusterStore()
        self._fronts = ClusterFronts(self.store, config, self._job)

    def _start(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.WARNING, "namespace": "graphrt"}
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        try:
            self._connect(quiet)
            # Ray's own ingress takes ASGI applications only, and would replace limits, errors and
            # slow-client rules of our fronts (decision 0070).
            self._serve.start(proxy_location="Disabled")
        except Exception as error:
            raise ClusterError(f"the Ray cluster cannot be used: {_first_line(error)}") from error

    def _connect(self, options: Mapping[str, Any]) -> None:
        if self._ray.is_initialized():
            return
        address = os.environ.get("RAY_ADDRESS") or "auto"
        if address != _OWN:
            try:
                self._ray.init(address=address, **options)
            except ConnectionError:
                if address != "auto":
                    raise
            else:
                return
        _log.info("starting a Ray cluster, which ends with this process")
        self._ray.init(address=_OWN, include_dashboard=False, **options)

    @property
    def address(self) -> str:
        """The address of the cluster's head, for the log."""
        return str(self._ray.get_runtime_context().gcs_address)

    def close(self) -> None:
        """Disconnect. A cluster that was started here ends."""
        self._ray.shutdown()

    @property
    def is_own(self) -> bool:
        """True if the cluster was started here, and ends with this process."""
        return self._own_node is not None

    @property
    def _own_node(self) -> Any:
        node = importlib.import_module("ray._private.worker")._global_node
        return node if node is not None and node.is_head() else None

    def abandon(self) -> None:
        """Kill the processes of a cluster that was started here. Nothing can be asked of it."""
        node = self._own_node
        if node is not None:
            # Ray's farewells would wait for the head that is gone (decision 0094).
            node.kill_all_processes(check_alive=False, allow_graceful=False)

    def is_lost(self) -> bool:
        """Return whether the cluster's head does not answer, or a process that it needs has died.

        Of a cluster that was started here the latter cannot be mended.
        """
        node = self._own_node
        if node is not None:
            # The operating system is asked, not Ray: its own calls wait for a minute when the head
            # is away (decision 0094).
            return any(kind in _VITAL for kind, _ in node.dead_processes())
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError:
            return True
        return False

    # Names ----------------------------------------------------------------------------------------

    def claim(self, name: str) -> None:
        """Take a name for this front, until `release` or the end of its process.

        Fronts of the same config have their names in common.

        Raises:
            ClusterError: a front of another config has it.
        """
        held = self._fronts.claim(name)
        if held is not None:
            raise ClusterError(
                f'the name "{name}" is taken on this Ray cluster by another graphrt, process '
                f"{held['pid']} on {held['host']}, which serves {held['config']}; choose another "
                "name, or stop that one"
            )
        self._claims[name] += 1

    def release(self, name: str) -> None:
        """Give a name back, once for each `claim`."""
        self._claims[name] -= 1
        if self._claims[name] <= 0:
            self._fronts.release(name)

    @property
    def _job(self) -> str:
        return str(self._ray.get_runtime_context().get_job_id())

    def use(self, application: str) -> None:
        """Note that this front uses an application, until `leave`."""
        self._uses[application] += 1
        self._fronts.use(application)

    def leave(self, application: str) -> bool:
        """End a use of an application. True: it was the last, of this front and of all others."""
        self._uses[application] -= 1
        if self._uses[application] > 0:
            return False
        drop_table(application)
        return self._fronts.leave(application)

    # Applications ---------------------------------------------------------------------------------

    def check_room(self, scale: Scale) -> None:
        """Check that some node has what a replica needs, whether it is in use or not.

        Raises:
            ClusterError: no node has it.
        """
        nodes = [each["Resources"] for each in self._ray.nodes() if each["Alive"]]
        demands = scale.demands
        for name, amount in demands.items():
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < amount:
                raise ClusterError(
                    f"a replica needs {amount:g} of the resource {name}, and no node of the Ray "
                    f"cluster has that: the most is {most:g}"
                )
        if not any(all(node.get(n, 0.0) >= a for n, a in demands.items()) for node in nodes):
            needed = ", ".join(f"{amount:g} {name}" for name, amount in demands.items())
            raise ClusterError(f"no node of the Ray cluster has all that a replica needs: {needed}")

    def application_of(self, name: str, fingerprint: str) -> str:
        """Return the application's name for a servable in one version."""
        # Each version is an application of its own. Ray's update in place stops a replica before it
        # knows that the next one loads (decision 0070).
        return f"graphrt-{_UNUSUAL.sub('_', name)[:80]}-{fingerprint[:12]}"

    def deploy(self, application: str, target: Target, scale: Scale, replicas: int) -> None:
        """Begin to run an application, or to change its scale. `wait_until_running` waits.

        ``replicas``: the number to start with.
        """
        with self._deploying:
            self._deploy(application, target, scale, replicas)

    def _deploy(self, application: str, wanted: Target, scale: Scale, replicas: int) -> None:
        serve = self._serve
        options = {
            "num_cpus": scale.num_cpus,
            "num_gpus": scale.num_gpus,
            "memory": scale.memory or None,
            "resources": dict(scale.resources),
            "runtime_env": {"env_vars": _ENVIRONMENT},
        }
        numbers: dict[str, Any] = {"num_replicas": scale.max_replicas}
        if scale.min_replicas != scale.max_replicas:
            numbers = {
                "autoscaling_config": {
                    "min_replicas": scale.min_replicas,
                    # A new version begins with as many replicas as the old one has, or it would
                    # take over with too few.
                    "initial_replicas": min(max(replicas, 1), scale.max_replicas),
                    "max_replicas": scale.max_replicas,
                    "target_ongoing_requests": scale.target_ongoing_requests,
                    "upscale_delay_s": scale.upscale_delay_s,
                    "downscale_delay_s": scale.downscale_delay_s,
                    "metrics_interval_s": 1.0,
                    "look_back_period_s": 2.0,
                }
            }
        deployment = serve.deployment(
            wanted.replica,
            name=_DEPLOYMENT,
            ray_actor_options=options,
            max_ongoing_requests=2 * scale.max_ongoing_requests + _ROOM_FOR_PARTS,
            max_queued_requests=-1,  # the front counts them, and knows the texts
            graceful_shutdown_timeout_s=_END_SECONDS,
            graceful_shutdown_wait_loop_s=0.2,
            max_constructor_retry_count=_TRIES,
            request_router_config={
                "request_router_class": "servers.replicas.request_router:TableRouter"
            },
            **numbers,
        )
        # Ray replaces the replicas of another version, and would make one up for each call.
        deployment = deployment.options(version=application, _internal=True)
        target = serve.RunTarget(
            target=deployment.bind(wanted.work), name=application, route_prefix=None
        )
        serve.run_many(
            [target],
            wait_for_ingress_deployment_creation=False,
            wait_for_applications_running=False,
        )

    async def wait_until_running(
        self,
        application: str,
        note: Callable[[str], object],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait until the first replicas answer.

        Args:
            note: gets a text when that takes long.
            meanwhile: called now and then, in a thread; its exception ends the waiting.

        Raises:
            ClusterError: the servable cannot be loaded.
        """
        began = time.monotonic()
        while True:
            await asyncio.to_thread(meanwhile)
            found = await asyncio.to_thread(self._status, application)
            if found is not None:
                status, message = found
                if status == "RUNNING":
                    return
                if status in ("DEPLOY_FAILED", "UNHEALTHY"):
                    raise ClusterError(_reason(message))
                if time.monotonic() - began > _PATIENCE_SECONDS and "resources" in message:
                    note("a replica waits for room: what it needs of the Ray cluster is in use")
            await asyncio.sleep(_POLL_SECONDS)

    def is_there(self, application: str) -> bool:
        """Return whether an application runs or is being started, such as by another front."""
        found = self._status(application)
        return found is not None and found[0] in ("RUNNING", "DEPLOYING")

    def _status(self, application: str) -> tuple[str, str] | None:
        found = self._serve.status().applications.get(application)
        if found is None:
            return None
        messages = [found.message, *(each.message for each in found.deployments.values())]
        return str(found.status.value), "\n".join(messages)

    def replicas(self, application: str) -> int:
        """Return the number of replicas that an application has now."""
        found = self._serve.status().applications.get(application)
        if found is None:
            return 0
        states = [each.replica_states for each in found.deployments.values()]
        return sum(count for each in states for name, count in each.items() if name == "RUNNING")

    def delete(self, application: str) -> None:
        """End an application after the requests that its replicas have."""
        with suppress(Exception):  # it may be gone, and so may be the cluster
            self._serve.delete(application, _blocking=False)

    def handle(self, application: str, max_ongoing: int) -> Any:
        """Return the handle of an application. Must be called on the loop that will use it.

        ``max_ongoing``: the most requests that this process has at one replica.
        """
        table_of(application).limit = max_ongoing
        handle = self._serve.get_deployment_handle(_DEPLOYMENT, application)
        if not handle.is_initialized:
            handle._init(_run_router_in_separate_loop=False)
        # Calls go over gRPC: an actor call would cost eight times as much for each packet, and
        # would run on when the front has died.
        return handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )

    def is_loss(self, error: BaseException) -> bool:
        """Return True if an error of a call says that its replica is gone."""
        return isinstance(error, self._ray.exceptions.RayActorError)


def _reason(message: str) -> str:
    """Return the reason in Ray's text about a replica that could not be started."""
    begin, end = REASON_MARKS
    _, found, rest = message.rpartition(begin)
    if found and end in rest:
        return rest.partition(end)[0]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return f"its replica could not be started: {lines[-1] if lines else 'Ray gives no reason'}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
