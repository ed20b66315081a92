// Made by `python -m servers.page.typescript` from servers/page/events.py. Do not edit.
import type { GraphDrawing } from "./graph_types"

/**
 * Event ``hello``: the first of a stream, and again when a watched graph is reloaded.
 *
 * Attributes:
 *     v: the version of these events.
 *     server: name and version.
 *     now_us: the present time of the clock of all other times.
 *     hz: the highest number of ``graph`` events per second and graph.
 *     contents, edit, control: the server shows contents, checks and tries other graphs, and lets
 *         clients load and unload.
 *     operations: it sends ``processes`` and ``log``.
 *     graphs: the watched graphs that are loaded.
 */
export interface Hello {
  v: number
  server: string
  now_us: number
  hz: number
  contents: boolean
  edit: boolean
  control: boolean
  operations: boolean
  graphs: Record<string, GraphShape>
}

/**
 * The nodes and streams of a loaded graph. `GraphCounts` names them by their index here.
 *
 * Attributes:
 *     revision: changes whenever the graph is loaded again; counters then begin at 0.
 *     nodes: names of nodes with subgraphs expanded, in the order of the plan.
 *     streams: names of streams, the graph's inputs first.
 */
export interface GraphShape {
  revision: string
  nodes: string[]
  streams: string[]
}

/**
 * Event ``hour``: the last hour before the stream began, sent once, after the first ``hello``.
 *
 * Attributes:
 *     seconds: the length of a moment.
 *     moments: those in which requests ended, the oldest first.
 */
export interface Hour {
  seconds: number
  moments: Moment[]
}

/**
 * Some seconds in which requests of models ended.
 *
 * Attributes:
 *     end_us: the end, of the clock of all other times.
 *     tokens: of the requests that ended.
 *     ttft_ms, tpot_ms: medians of their times to the first token, and per further token.
 *     running, waiting: requests in the engines, at the first end.
 *     cache: the used fraction of the fullest cache then, from 0 to 1.
 */
export interface Moment {
  end_us: number
  tokens: number
  ttft_ms: number | null
  tpot_ms: number | null
  running: number
  waiting: number
  cache: number | null
  requests: number
  errors: number
}

/**
 * Event ``servables``: all that is configured, first and when something has changed.
 */
export interface Servables {
  servables: ServableNow[]
}

/**
 * A graph, or a version of a plain model.
 *
 * Attributes:
 *     state: as in ``GET /v1/config``, and FAILED and ON_DEMAND, which it shows as others.
 *     phase, percent: the step of loading, and how much of the expected work is done; "" and 0
 *         unless it is loading.
 *     reason: why it failed, or cannot answer now.
 *     since: when it was loaded, Unix time in seconds; 0 if it never was.
 *     place: where in its file the reason is.
 *     in_flight, limit: requests now, and the most at a time; None if there is no limit.
 *     memory_bytes: of its engines' processes, in steps of MiB; None without one.
 *     task: the name of its task; "" for graphs of authors of their own, and for plain models.
 *     replaced_by_failed: why newer files could not be loaded, so that this one goes on; "" if
 *         they could.
 */
export interface ServableNow {
  name: string
  kind: "graph" | "model"
  version: string
  state: "AVAILABLE" | "END" | "FAILED" | "LOADING" | "ON_DEMAND" | "START" | "UNLOADING"
  phase: string
  percent: number
  reason: string
  since: number
  place: FilePlace | null
  in_flight: number
  limit: number | null
  memory_bytes: number | null
  task: string
  adapters: string[]
  replaced_by_failed: string
}

/**
 * A place in a file, without its directory. Lines and columns begin at 1.
 */
export interface FilePlace {
  file: string
  line: number
  column: number
}

/**
 * Event ``graph``: the changes of a watched graph since the event before.
 *
 * Attributes:
 *     g: the graph's name.
 *     t_us: when this was counted.
 *     runs, ended, failed: runs now, all that have ended, and the ended ones that failed.
 *     throttled: streams into the graph, and nodes without inputs, that a full queue holds back.
 *     n: changed nodes by their index in `GraphShape.nodes`.
 *     s: changed streams by their index in `GraphShape.streams`.
 */
export interface GraphCounts {
  g: string
  t_us: number
  runs: number
  ended: number
  failed: number
  throttled: string[]
  n: Record<string, NodeCounts>
  s: Record<string, StreamCounts>
}

/**
 * A node, summed over all runs of its graph, ended ones and running ones.
 *
 * Attributes:
 *     c: calls of open, process and close.
 *     b: time in calls in microseconds. Waiting of coroutines is included, and overlapping calls
 *         count each.
 *     f: runs in which it is being called.
 *     q: packets that wait in its inputs.
 *     w: runs in which it waits for more input while some is there.
 *     e: runs that it has failed.
 *     h: pairs of a bucket of times of process and its count since somebody began to look; only
 *         buckets that have changed. Bucket 0 ends at 1.024 us, bucket 1 at 1.536, bucket 2 at
 *         2.048: two for each doubling.
 */
export interface NodeCounts {
  c: number
  b: number
  f: number
  q: number
  w: number
  e: number
  h: [number, number][]
}

/**
 * A stream, summed over all runs of its graph.
 *
 * Attributes:
 *     p: packets.
 *     q: packets that wait at its receivers.
 *     full: full queues of it, over all runs, that hold something back.
 */
export interface StreamCounts {
  p: number
  q: number
  full: number
}

/**
 * Event ``engine``: the engine of a language model's node.
 *
 * Attributes:
 *     running, waiting: requests in the present step, and those that are not begun.
 *     cache: the used fraction of the cache, from 0 to 1.
 *     cache_bytes: its size.
 *     generated: tokens of all answers since the server began.
 *     up: it can work now.
 *     restarts: how often it was started again.
 */
export interface EngineNow {
  g: string
  node: string
  running: number
  waiting: number
  cache: number
  cache_bytes: number
  generated: number
  up: boolean
  restarts: number
}

/**
 * Event ``request``: a request has begun, has its first token, or has ended.
 *
 * Attributes:
 *     id: its ``x-request-id``.
 *     g: the model that it names; "" until that is known.
 *     op: at the end the method and path, ``POST /v3/chat/completions``; before, the endpoint of
 *         a language model, or "".
 *     began_us: when its headers were complete.
 *     ms: the time since then.
 *     status: as sent; 0 before the end; a word for gRPC.
 *     wait_ms: from its arrival at the engine's queue to the first token, prompt included; None
 *         without a language model.
 *     ttft_ms: from the arrival at the node to the first token.
 *     tpot_ms: the mean time between tokens after the first.
 *     in: tokens of prompts.
 *     out: generated tokens.
 *     followed: ``GET /v1/requests/{id}`` has its timeline.
 *     error: a word or sentence about its failure, which repeats nothing of the request.
 *     skipped: how many events of other requests were left out before this one.
 */
export interface RequestNow {
  id: string
  g: string
  op: string
  at: "begin" | "end" | "first_token"
  began_us: number
  ms: number
  status: number | string
  wait_ms: number | null
  ttft_ms: number | null
  tpot_ms: number | null
  in: number
  out: number
  followed: boolean
  error: string
  skipped: number
}

/**
 * Event ``packets``: the last packets of a focused node, twice a second at most.
 */
export interface LastPackets {
  g: string
  node: string
  last: PacketSeen[]
}

/**
 * A packet that a node received or sent.
 *
 * Attributes:
 *     s: the stream.
 *     ts: the timestamp; a name for special ones.
 *     type: the name of the value's class.
 *     bytes: the size of a text or of an array's data; None for others.
 *     shape, dtype: of an array.
 *     value: the value as text, cut; None unless contents are shown.
 */
export interface PacketSeen {
  s: string
  ts: number | string
  type: string
  bytes: number | null
  shape: number[] | null
  dtype: string | null
  value: string | null
}

/**
 * Event ``processes``, if the operator allows it: all of them, at ``t_us``.
 */
export interface Processes {
  t_us: number
  processes: ProcessNow[]
}

/**
 * A process of the server.
 *
 * Attributes:
 *     name: in words, such as ``engine of "demo"``; "server" for the one that answers.
 *     cpu_seconds: its processor time since it started; None if the system does not say.
 *     memory_bytes: resident; None if the system does not say.
 */
export interface ProcessNow {
  name: string
  pid: number
  cpu_seconds: number | null
  memory_bytes: number | null
}

/**
 * Event ``log``, if the operator allows it: lines since the last such event.
 */
export interface LogLines {
  lines: LogLine[]
}

/**
 * A line of the log. ``number`` counts from 1; ``time`` is Unix time in seconds.
 */
export interface LogLine {
  number: number
  time: number
  level: string
  logger: string
  text: string
}

/**
 * Event ``end``: the server ends the stream.
 */
export interface End {
  reason: "draining"
}

/**
 * ``GET /v1/graphs/{model}``.
 *
 * Attributes:
 *     revision: as in `GraphShape`.
 *     file: the name of its file.
 *     description: what ``graphrt describe --format json`` prints.
 *     layout: places of nodes and wires, with paths of subgraphs that can be opened.
 *     places: where each node stands in the file, by its name.
 *     text: the file; None unless contents are shown.
 */
export interface GraphView {
  name: string
  revision: string
  file: string
  description: Record<string, unknown>
  layout: GraphDrawing
  places: Record<string, FilePlace>
  text: string | null
}

/**
 * ``GET /v1/graphs/{model}/nodes/{node}``.
 *
 * Attributes:
 *     options: in the text form of protobuf.
 *     docs: the description of the calculator.
 *     waits: the oldest running runs, 8 at most.
 *     last: the last packets, if a live stream focuses on the node.
 *     errors: the last runs that it has failed, 8 at most.
 */
export interface NodeView {
  name: string
  calculator: string
  options: string
  docs: CalculatorView
  waits: Waiting[]
  last: PacketSeen[]
  errors: NodeError[]
}

/**
 * ``GET /v1/calculators/{name}``: its ports, options, and a node to paste.
 *
 * Attributes:
 *     ports: None if they depend on the graph, because the class overrides ``contract``.
 *     timestamp_offset: None if there is none, and for subgraphs, whose nodes have their own.
 */
export interface CalculatorView {
  name: string
  summary: string
  doc: string
  place: string
  ports: PortOfCalculator[] | null
  options: OptionsOfCalculator[]
  timestamp_offset: number | null
  process_timestamp_bounds: boolean
  input_stream_handler: string
  snippet: string
}

/**
 * A declared port of a calculator. ``type`` is written as in messages.
 */
export interface PortOfCalculator {
  field: string
  tag: string
  index: number
  name: string
  type: string
  is_optional: boolean
  is_multiple: boolean
  doc: string
}

/**
 * A type of options with its fields.
 */
export interface OptionsOfCalculator {
  message_type: string
  fields: OptionField[]
}

/**
 * One field as shown: ``default`` as a graph writes it, None when there is none.
 */
export interface OptionField {
  name: string
  type: string
  default: string | null
  doc: string
  required: boolean
}

/**
 * A run of a graph in which a node waits.
 *
 * Attributes:
 *     seconds: since the run began.
 *     state: of the node.
 *     reasons: in words; empty if the node does not wait.
 */
export interface Waiting {
  seconds: number
  state: string
  reasons: string[]
}

/**
 * A run that a node has failed. ``text`` is "" unless contents are shown.
 */
export interface NodeError {
  t_us: number
  code: string
  text: string
}

/**
 * The body of ``POST /v1/graphs/{model}/follow``. It has one of the members.
 *
 * Attributes:
 *     next: the number of coming requests of the graph to follow, 1 to 16.
 *     request_id: the ``x-request-id`` of a coming request.
 */
export interface FollowRequest {
  next?: number
  request_id?: string
}

/**
 * The answer to a `FollowRequest`: requests that are going to be followed.
 */
export interface Following {
  graph: string
  next: number
  request_ids: string[]
}

/**
 * ``GET /v1/requests/{id}``: a followed request. Times are since it began.
 *
 * Attributes:
 *     status: 0 while it runs.
 *     cut: how many calls are left out: the earliest ones.
 *     packets: stream, timestamp, when it was sent, producer ("" for the graph's inputs) and
 *         receiver.
 */
export interface Timeline {
  id: string
  graph: string
  began_us: number
  ended_us: number
  status: number | string
  nodes: NodeCalls[]
  cut: number
  packets: ([string, number | string, number, string, string])[]
  generations: Generation[]
}

/**
 * The calls of one node in a followed request.
 *
 * Attributes:
 *     calls: begin and end in microseconds since the request began, the method, the timestamp.
 */
export interface NodeCalls {
  name: string
  calls: ([number, number, string, number | string])[]
}

/**
 * A language model's part of a followed request; times in microseconds, 0: not reached.
 */
export interface Generation {
  node: string
  submitted_us: number
  first_token_us: number
  ended_us: number
  in: number
  out: number
}

/**
 * The body of ``POST /v1/scratch/check``.
 *
 * Attributes:
 *     text: of a graph, which may be unfinished.
 *     edits: what could be done to the text, each tried alone; the text is not drawn then. The
 *         changes of one edit count in the text as it is and do not overlap.
 */
export interface DraftCheck {
  text: string
  edits?: DraftChange[][]
}

/**
 * A part of a text that is replaced. ``start`` and ``end`` count characters, from 0.
 */
export interface DraftChange {
  start: number
  end: number
  text: string
}

/**
 * The answer to a `DraftCheck`.
 *
 * Attributes:
 *     valid: the graph can be loaded.
 *     content: a summary, such as ``3 nodes``; "" for a graph with errors.
 *     description, layout: as in `GraphView`; None for a text that does not parse, and
 *         where edits are tried.
 *     places: of nodes, by their names in the description.
 *     refusals: for each edit the first error that it would add, "" if none. There are fewer of
 *         them than edits where the time was over; ask for the others again.
 */
export interface CheckedDraft {
  valid: boolean
  content: string
  findings: DraftFinding[]
  description?: Record<string, unknown> | null
  layout?: GraphDrawing | null
  places?: Record<string, DraftPlace>
  refusals?: string[]
}

/**
 * One error or warning, as ``graphrt validate --format json`` prints it.
 *
 * Attributes:
 *     line, column: from 1, in characters; None if the place is not known.
 *     end_line, end_column: the place after the word that is meant.
 *     field: the field whose value is meant, such as ``node.input_stream``.
 *     node: the name of the node, or its calculator.
 */
export interface DraftFinding {
  severity: "error" | "warning"
  message: string
  line?: number | null
  column?: number | null
  end_line?: number | null
  end_column?: number | null
  field?: string | null
  node?: string | null
  hint?: string | null
}

/**
 * The place of a node in the text; both from 1.
 */
export interface DraftPlace {
  line: number
  column: number
}

/**
 * The body of ``POST /v1/scratch/run``.
 *
 * Attributes:
 *     text: of the graph.
 *     packets: operations as in the lines of ``graphrt run --feed``: ``{"stream": "in", "ts": 0,
 *         "value": 1}``, ``{"close": "in"}`` and others.
 *     side_packets: values by name, in the same form.
 *     observe: streams whose packets are wanted; by default the graph's outputs.
 */
export interface DraftRun {
  text: string
  packets?: Record<string, unknown>[]
  side_packets?: Record<string, unknown>
  observe?: string[]
}

/**
 * The answer to a `DraftRun`.
 *
 * Attributes:
 *     state: ``done``; ``failed``, in the graph; ``invalid``, the graph or a packet;
 *         ``stopped``, by a limit of time or memory.
 *     error: "" if it is done.
 *     packets: in the order in which they were sent.
 *     cut: how many further packets there were.
 *     side_packets: those that nodes made.
 *     trace: of the run, in the Trace Event Format; None if it did not begin.
 */
export interface DraftResult {
  state: "done" | "failed" | "invalid" | "stopped"
  error?: string
  hint?: string
  findings?: DraftFinding[]
  packets?: SentPacket[]
  cut?: number
  side_packets?: Record<string, unknown>
  trace?: Record<string, unknown> | null
}

/**
 * A packet of an observed stream; ``value`` as ``graphrt run`` prints it.
 */
export interface SentPacket {
  stream: string
  ts: number | string
  value: unknown
}

/**
 * ``GET /v1/calculators``, as ``graphrt calculators --format json`` prints it.
 */
export interface Calculators {
  calculators: CalculatorEntry[]
  subgraphs: string[]
}

/**
 * A calculator or subgraph of the list.
 */
export interface CalculatorEntry {
  name: string
  summary: string
}

/** The data of events by the name in their `event:` line. */
export interface LiveEvents {
  hello: Hello
  hour: Hour
  servables: Servables
  graph: GraphCounts
  engine: EngineNow
  request: RequestNow
  packets: LastPackets
  processes: Processes
  log: LogLines
  end: End
}
