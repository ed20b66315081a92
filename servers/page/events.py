"""Events and answers that the page receives, as JSON.

Counters are totals since a graph was loaded, so a missed event loses nothing, and each page chooses
its own window. Times called ``..._us`` are microseconds of one clock that begins anywhere; `Hello`
has its present value. The types of `page/src/live_types.ts` are made from these classes.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from servers.drawing.drawing import GraphDrawing
from servers.page.scratch_messages import SCRATCH_ANSWERS, CalculatorView

# Events of GET /v1/live ---------------------------------------------------------------------------


class GraphShape(Struct):
    """The nodes and streams of a loaded graph. `GraphCounts` names them by their index here.

    Attributes:
        revision: changes whenever the graph is loaded again; counters then begin at 0.
        nodes: names of nodes with subgraphs expanded, in the order of the plan.
        streams: names of streams, the graph's inputs first.
    """

    revision: str
    nodes: list[str]
    streams: list[str]


class Hello(Struct):
    """Event ``hello``: the first of a stream, and again when a watched graph is reloaded.

    Attributes:
        v: the version of these events.
        server: name and version.
        now_us: the present time of the clock of all other times.
        hz: the highest number of ``graph`` events per second and graph.
        contents, edit, control: the server shows contents, checks and tries other graphs, and lets
            clients load and unload.
        operations: it sends ``processes`` and ``log``.
        graphs: the watched graphs that are loaded.
    """

    v: int
    server: str
    now_us: int
    hz: float
    contents: bool
    edit: bool
    control: bool
    operations: bool
    graphs: dict[str, GraphShape]


class Moment(Struct):
    """Some seconds in which requests of models ended.

    Attributes:
        end_us: the end, of the clock of all other times.
        tokens: of the requests that ended.
        ttft_ms, tpot_ms: medians of their times to the first token, and per further token.
        running, waiting: requests in the engines, at the first end.
        cache: the used fraction of the fullest cache then, from 0 to 1.
    """

    end_us: int
    tokens: int
    ttft_ms: float | None
    tpot_ms: float | None
    running: int
    waiting: int
    cache: float | None
    requests: int
    errors: int


class Hour(Struct):
    """Event ``hour``: the last hour before the stream began, sent once, after the first ``hello``.

    Attributes:
        seconds: the length of a moment.
        moments: those in which requests ended, the oldest first.
    """

    seconds: int
    moments: list[Moment]


class ProcessNow(Struct):
    """A process of the server.

    Attributes:
        name: in words, such as ``engine of "demo"``; "server" for the one that answers.
        cpu_seconds: its processor time since it started; None if the system does not say.
        memory_bytes: resident; None if the system does not say.
    """

    name: str
    pid: int
    cpu_seconds: float | None
    memory_bytes: int | None


class Processes(Struct):
    """Event ``processes``, if the operator allows it: all of them, at ``t_us``."""

    t_us: int
    processes: list[ProcessNow]


class LogLine(Struct):
    """A line of the log. ``number`` counts from 1; ``time`` is Unix time in seconds."""

    number: int
    time: float
    level: str
    logger: str
    text: str


class LogLines(Struct):
    """Event ``log``, if the operator allows it: lines since the last such event."""

    lines: list[LogLine]


class FilePlace(Struct):
    """A place in a file, without its directory. Lines and columns begin at 1."""

    file: str
    line: int
    column: int


class ServableNow(Struct):
    """A graph, or a version of a plain model.

    Attributes:
        state: as in ``GET /v1/config``, and FAILED and ON_DEMAND, which it shows as others.
        phase, percent: the step of loading, and how much of the expected work is done; "" and 0
            unless it is loading.
        reason: why it failed, or cannot answer now.
        since: when it was loaded, Unix time in seconds; 0 if it never was.
        place: where in its file the reason is.
        in_flight, limit: requests now, and the most at a time; None if there is no limit.
        memory_bytes: of its engines' processes, in steps of MiB; None without one.
        task: the name of its task; "" for graphs of authors of their own, and for plain models.
        replaced_by_failed: why newer files could not be loaded, so that this one goes on; "" if
            they could.
    """

    name: str
    kind: Literal["graph", "model"]
    version: str
    state: Literal["START", "LOADING", "FAILED", "AVAILABLE", "UNLOADING", "END", "ON_DEMAND"]
    phase: str
    percent: int
    reason: str
    since: int
    place: FilePlace | None
    in_flight: int
    limit: int | None
    memory_bytes: int | None
    task: str
    adapters: list[str]
    replaced_by_failed: str


class Servables(Struct):
    """Event ``servables``: all that is configured, first and when something has changed."""

    servables: list[ServableNow]


class NodeCounts(Struct):
    """A node, summed over all runs of its graph, ended ones and running ones.

    Attributes:
        c: calls of open, process and close.
        b: time in calls in microseconds. Waiting of coroutines is included, and overlapping calls
            count each.
        f: runs in which it is being called.
        q: packets that wait in its inputs.
        w: runs in which it waits for more input while some is there.
        e: runs that it has failed.
        h: pairs of a bucket of times of process and its count since somebody began to look; only
            buckets that have changed. Bucket 0 ends at 1.024 us, bucket 1 at 1.536, bucket 2 at
            2.048: two for each doubling.
    """

    c: int
    b: int
    f: int
    q: int
    w: int
    e: int
    h: list[tuple[int, int]]


class StreamCounts(Struct):
    """A stream, summed over all runs of its graph.

    Attributes:
        p: packets.
        q: packets that wait at its receivers.
        full: full queues of it, over all runs, that hold something back.
    """

    p: int
    q: int
    full: int


class GraphCounts(Struct):
    """Event ``graph``: the changes of a watched graph since the event before.

    Attributes:
        g: the graph's name.
        t_us: when this was counted.
        runs, ended, failed: runs now, all that have ended, and the ended ones that failed.
        throttled: streams into the graph, and nodes without inputs, that a full queue holds back.
        n: changed nodes by their index in `GraphShape.nodes`.
        s: changed streams by their index in `GraphShape.streams`.
    """

    g: str
    t_us: int
    runs: int
    ended: int
    failed: int
    throttled: list[str]
    n: dict[int, NodeCounts]
    s: dict[int, StreamCounts]


class EngineNow(Struct):
    """Event ``engine``: the engine of a language model's node.

    Attributes:
        running, waiting: requests in the present step, and those that are not begun.
        cache: the used fraction of the cache, from 0 to 1.
        cache_bytes: its size.
        generated: tokens of all answers since the server began.
        up: it can work now.
        restarts: how often it was started again.
    """

    g: str
    node: str
    running: int
    waiting: int
    cache: float
    cache_bytes: int
    generated: int
    up: bool
    restarts: int


class RequestNow(Struct, rename={"in_": "in"}):
    """Event ``request``: a request has begun, has its first token, or has ended.

    Attributes:
        id: its ``x-request-id``.
        g: the model that it names; "" until that is known.
        op: at the end the method and path, ``POST /v3/chat/completions``; before, the endpoint of
            a language model, or "".
        began_us: when its headers were complete.
        ms: the time since then.
        status: as sent; 0 before the end; a word for gRPC.
        wait_ms: from its arrival at the engine's queue to the first token, prompt included; None
            without a language model.
        ttft_ms: from the arrival at the node to the first token.
        tpot_ms: the mean time between tokens after the first.
        in: tokens of prompts.
        out: generated tokens.
        followed: ``GET /v1/requests/{id}`` has its timeline.
        error: a word or sentence about its failure, which repeats nothing of the request.
        skipped: how many events of other requests were left out before this one.
    """

    id: str
    g: str
    op: str
    at: Literal["begin", "first_token", "end"]
    began_us: int
    ms: float
    status: int | str
    wait_ms: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    in_: int
    out: int
    followed: bool
    error: str
    skipped: int


class PacketSeen(Struct):
    """A packet that a node received or sent.

    Attributes:
        s: the stream.
        ts: the timestamp; a name for special ones.
        type: the name of the value's class.
        bytes: the size of a text or of an array's data; None for others.
        shape, dtype: of an array.
        value: the value as text, cut; None unless contents are shown.
    """

    s: str
    ts: int | str
    type: str
    bytes: int | None
    shape: list[int] | None
    dtype: str | None
    value: str | None


class LastPackets(Struct):
    """Event ``packets``: the last packets of a focused node, twice a second at most."""

    g: str
    node: str
    last: list[PacketSeen]


class End(Struct):
    """Event ``end``: the server ends the stream."""

    reason: Literal["draining"]


# Answers ------------------------------------------------------------------------------------------


class GraphView(Struct):
    """``GET /v1/graphs/{model}``.

    Attributes:
        revision: as in `GraphShape`.
        file: the name of its file.
        description: what ``graphrt describe --format json`` prints.
        layout: places of nodes and wires, with paths of subgraphs that can be opened.
        places: where each node stands in the file, by its name.
        text: the file; None unless contents are shown.
    """

    name: str
    revision: str
    file: str
    description: dict[str, Any]
    layout: GraphDrawing
    places: dict[str, FilePlace]
    text: str | None


class Waiting(Struct):
    """A run of a graph in which a node waits.

    Attributes:
        seconds: since the run began.
        state: of the node.
        reasons: in words; empty if the node does not wait.
    """

    seconds: float
    state: str
    reasons: list[str]


class NodeError(Struct):
    """A run that a node has failed. ``text`` is "" unless contents are shown."""

    t_us: int
    code: str
    text: str


class NodeView(Struct):
    """``GET /v1/graphs/{model}/nodes/{node}``.

    Attributes:
        options: in the text form of protobuf.
        docs: the description of the calculator.
        waits: the oldest running runs, 8 at most.
        last: the last packets, if a live stream focuses on the node.
        errors: the last runs that it has failed, 8 at most.
    """

    name: str
    calculator: str
    options: str
    docs: CalculatorView
    waits: list[Waiting]
    last: list[PacketSeen]
    errors: list[NodeError]


class FollowRequest(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/graphs/{model}/follow``. It has one of the members.

    Attributes:
        next: the number of coming requests of the graph to follow, 1 to 16.
        request_id: the ``x-request-id`` of a coming request.
    """

    next: int | UnsetType = UNSET
    request_id: str | UnsetType = UNSET


class Following(Struct):
    """The answer to a `FollowRequest`: requests that are going to be followed."""

    graph: str
    next: int
    request_ids: list[str]


class NodeCalls(Struct):
    """The calls of one node in a followed request.

    Attributes:
        calls: begin and end in microseconds since the request began, the method, the timestamp.
    """

    name: str
    calls: list[tuple[int, int, str, int | str]]


class Generation(Struct, rename={"in_": "in"}):
    """A language model's part of a followed request; times in microseconds, 0: not reached."""

    node: str
    submitted_us: int
    first_token_us: int
    ended_us: int
    in_: int
    out: int


class Timeline(Struct):
    """``GET /v1/requests/{id}``: a followed request. Times are since it began.

    Attributes:
        status: 0 while it runs.
        cut: how many calls are left out: the earliest ones.
        packets: stream, timestamp, when it was sent, producer ("" for the graph's inputs) and
            receiver.
    """

    id: str
    graph: str
    began_us: int
    ended_us: int
    status: int | str
    nodes: list[NodeCalls]
    cut: int
    packets: list[tuple[str, int | str, int, str, str]]
    generations: list[Generation]


#: The events of ``GET /v1/live``, by the name in their ``event:`` line.
EVENTS: dict[str, type[Struct]] = {
    "hello": Hello,
    "hour": Hour,
    "servables": Servables,
    "graph": GraphCounts,
    "engine": EngineNow,
    "request": RequestNow,
    "packets": LastPackets,
    "processes": Processes,
    "log": LogLines,
    "end": End,
}
#: Bodies of the other routes.
ANSWERS: tuple[type[Struct], ...] = (
    GraphView,
    NodeView,
    FollowRequest,
    Following,
    Timeline,
    *SCRATCH_ANSWERS,
)
