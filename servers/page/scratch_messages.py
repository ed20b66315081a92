"""Bodies and answers of ``/v1/scratch/...`` and ``/v1/calculators``, which the child has too."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from graph_runtime.options.options_text import OptionField
from servers.drawing.drawing import GraphDrawing


class DraftChange(Struct, forbid_unknown_fields=True):
    """A part of a text that is replaced. ``start`` and ``end`` count characters, from 0."""

    start: int
    end: int
    text: str


class DraftCheck(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/scratch/check``.

    Attributes:
        text: of a graph, which may be unfinished.
        edits: what could be done to the text, each tried alone; the text is not drawn then. The
            changes of one edit count in the text as it is and do not overlap.
    """

    text: str
    edits: list[list[DraftChange]] = field(default_factory=list)


class DraftFinding(Struct):
    """One error or warning, as ``graphrt validate --format json`` prints it.

    Attributes:
        line, column: from 1, in characters; None if the place is not known.
        end_line, end_column: the place after the word that is meant.
        field: the field whose value is meant, such as ``node.input_stream``.
        node: the name of the node, or its calculator.
    """

    severity: Literal["error", "warning"]
    message: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    field: str | None = None
    node: str | None = None
    hint: str | None = None


class DraftPlace(Struct):
    """The place of a node in the text; both from 1."""

    line: int
    column: int


class CheckedDraft(Struct):
    """The answer to a `DraftCheck`.

    Attributes:
        valid: the graph can be loaded.
        content: a summary, such as ``3 nodes``; "" for a graph with errors.
        description, layout: as in `GraphView`; None for a text that does not parse, and
            where edits are tried.
        places: of nodes, by their names in the description.
        refusals: for each edit the first error that it would add, "" if none. There are fewer of
            them than edits where the time was over; ask for the others again.
    """

    valid: bool
    content: str
    findings: list[DraftFinding]
    description: dict[str, Any] | None = None
    layout: GraphDrawing | None = None
    places: dict[str, DraftPlace] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)


class DraftRun(Struct, forbid_unknown_fields=True):
    """The body of ``POST /v1/scratch/run``.

    Attributes:
        text: of the graph.
        packets: operations as in the lines of ``graphrt run --feed``: ``{"stream": "in", "ts": 0,
            "value": 1}``, ``{"close": "in"}`` and others.
        side_packets: values by name, in the same form.
        observe: streams whose packets are wanted; by default the graph's outputs.
    """

    text: str
    packets: list[dict[str, Any]] = field(default_factory=list)
    side_packets: dict[str, Any] = field(default_factory=dict)
    observe: list[str] = field(default_factory=list)


class SentPacket(Struct):
    """A packet of an observed stream; ``value`` as ``graphrt run`` prints it."""

    stream: str
    ts: int | str
    value: Any


class DraftResult(Struct):
    """The answer to a `DraftRun`.

    Attributes:
        state: ``done``; ``failed``, in the graph; ``invalid``, the graph or a packet;
            ``stopped``, by a limit of time or memory.
        error: "" if it is done.
        packets: in the order in which they were sent.
        cut: how many further packets there were.
        side_packets: those that nodes made.
        trace: of the run, in the Trace Event Format; None if it did not begin.
    """

    state: Literal["done", "failed", "invalid", "stopped"]
    error: str = ""
    hint: str = ""
    findings: list[DraftFinding] = field(default_factory=list)
    packets: list[SentPacket] = field(default_factory=list)
    cut: int = 0
    side_packets: dict[str, Any] = field(default_factory=dict)
    trace: dict[str, Any] | None = None


class CalculatorEntry(Struct):
    """A calculator or subgraph of the list."""

    name: str
    summary: str


class Calculators(Struct):
    """``GET /v1/calculators``, as ``graphrt calculators --format json`` prints it."""

    calculators: list[CalculatorEntry]
    subgraphs: list[str]


class PortOfCalculator(Struct):
    """A declared port of a calculator. ``type`` is written as in messages."""

    field: str
    tag: str
    index: int
    name: str
    type: str
    is_optional: bool
    is_multiple: bool
    doc: str


class OptionsOfCalculator(Struct):
    """A type of options with its fields."""

    message_type: str
    fields: list[OptionField]


class CalculatorView(Struct):
    """``GET /v1/calculators/{name}``: its ports, options, and a node to paste.

    Attributes:
        ports: None if they depend on the graph, because the class overrides ``contract``.
        timestamp_offset: None if there is none, and for subgraphs, whose nodes have their own.
    """

    name: str
    summary: str
    doc: str
    place: str
    ports: list[PortOfCalculator] | None
    options: list[OptionsOfCalculator]
    timestamp_offset: int | None
    process_timestamp_bounds: bool
    input_stream_handler: str
    snippet: str


class Begin(Struct, tag="begin"):
    """The first message to the child.

    Attributes:
        modules, paths: calculators to import besides graphrt's own.
        memory: the most bytes that the child may take further; 0: no limit.
        cpu_seconds: its processor time; 0: no limit.
        run_seconds: a run is cancelled after this time.
        file_bytes: the most bytes of a file that it writes; 0: no limit.
        folder: an empty directory to work in.
    """

    modules: list[str]
    paths: list[str]
    memory: int = 0
    cpu_seconds: int = 0
    run_seconds: float = 0.0
    file_bytes: int = 0
    folder: str = ""


class Check(Struct, tag="check"):
    """A text to check; the child answers with a `CheckedDraft`."""

    body: DraftCheck


class ScratchRun(Struct, tag="run"):
    """A graph to run; the child answers with a `DraftResult`."""

    body: DraftRun


Message = Begin | Check | ScratchRun

#: For types in TypeScript and schemas.
SCRATCH_ANSWERS: tuple[type[Struct], ...] = (
    DraftCheck,
    CheckedDraft,
    DraftRun,
    DraftResult,
    Calculators,
    CalculatorView,
)
