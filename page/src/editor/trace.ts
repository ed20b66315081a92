/** A call of a node in a run, in microseconds since the run began. */
export interface Call {
  began: number
  took: number
  name: string
}

interface TraceEvent {
  ph: string
  name: string
  ts: number
  dur?: number
}

/** The calls of a trace in the Trace Event Format by node, in the order of their first calls. */
export function callsIn(trace: Record<string, unknown> | null | undefined): [string, Call[]][] {
  const events = (trace?.["traceEvents"] as TraceEvent[] | undefined) ?? []
  const calls = events.filter(({ ph }) => ph === "X").sort((a, b) => a.ts - b.ts)
  const start = calls[0]?.ts ?? 0
  const found = new Map<string, Call[]>()
  for (const { name, ts, dur = 0 } of calls) {
    // "limiter.process": the node, and the method that was called.
    const dot = name.lastIndexOf(".")
    const node = name.slice(0, dot)
    const list = found.get(node) ?? []
    list.push({ began: ts - start, took: dur, name: name.slice(dot + 1) })
    found.set(node, list)
  }
  return [...found]
}
