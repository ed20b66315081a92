import type { NodeCalls, Timeline } from "../live_types"

/** A line of the picture: the calls of a node, or the phases of a generation. */
export interface Row {
  name: string
  kind: "node" | "subgraph" | "generation"
  bars: Bar[]
  calls: number
  /** Microseconds in calls; overlapping ones count each. */
  sum: number
  /** Microseconds from the first begin to the last end. */
  wall: number
  first: number
}

export interface Bar {
  start: number
  end: number
  /** `process`, `open`, `close`, or the name of a phase. */
  what: string
  time: number | string
}

/** The lines of a followed request: nodes in the order of their first calls, subgraphs above theirs. */
export function rowsOf(timeline: Timeline): Row[] {
  const nodes = timeline.nodes.map(rowOf).sort((a, b) => a.first - b.first)
  const rows: Row[] = []
  const seen = new Set<string>()
  for (const row of nodes) {
    const subgraph = row.name.includes("__") ? row.name.split("__")[0]! : ""
    if (subgraph && !seen.has(subgraph)) {
      seen.add(subgraph)
      rows.push(
        together(
          subgraph,
          nodes.filter((one) => one.name.startsWith(`${subgraph}__`)),
        ),
      )
    }
    rows.push(row)
    for (const generation of timeline.generations) {
      if (generation.node !== row.name) continue
      rows.push(generationRow(generation, timeline.ended_us))
    }
  }
  return rows
}

function rowOf(node: NodeCalls): Row {
  const bars = node.calls.map(([start, end, what, time]) => ({ start, end, what, time }))
  return { name: node.name, kind: "node", ...figuresOf(bars), bars }
}

function figuresOf(bars: Bar[]): Pick<Row, "calls" | "sum" | "wall" | "first"> {
  const first = Math.min(...bars.map((bar) => bar.start))
  const last = Math.max(...bars.map((bar) => bar.end))
  return {
    calls: bars.length,
    sum: bars.reduce((sum, bar) => sum + bar.end - bar.start, 0),
    wall: bars.length ? last - first : 0,
    first: bars.length ? first : Infinity,
  }
}

/** A subgraph takes from the first begin to the last end of its nodes, not their sum. */
function together(name: string, rows: Row[]): Row {
  const bars = rows.flatMap((row) => row.bars)
  const figures = figuresOf(bars)
  const bar = { start: figures.first, end: figures.first + figures.wall, what: "", time: "" }
  return {
    name,
    kind: "subgraph",
    ...figures,
    bars: bars.length ? [bar] : [],
  }
}

function generationRow(generation: Timeline["generations"][number], end: number): Row {
  const { submitted_us, first_token_us, ended_us } = generation
  const bars: Bar[] = []
  if (submitted_us)
    bars.push({
      start: submitted_us,
      end: first_token_us || end,
      what: "queue and prompt",
      time: "",
    })
  if (first_token_us)
    bars.push({ start: first_token_us, end: ended_us || end, what: "tokens", time: "" })
  return { name: "generation", kind: "generation", ...figuresOf(bars), bars }
}

/** Round times for the marks of an axis: about `count` of them, in microseconds. */
export function marks(start: number, end: number, count: number): number[] {
  const rough = (end - start) / Math.max(1, count)
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)))
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? 10 * power
  const found: number[] = []
  for (let at = Math.ceil(start / step) * step; at <= end; at += step) found.push(at)
  return found
}
