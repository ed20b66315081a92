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
  pid?: number
  tid?: number
  args?: Record<string, unknown>
}

/** The calls of a trace in the Trace Event Format by node, in the order of their first calls. */
export function callsIn(trace: Record<string, unknown> | null | undefined): [string, Call[]][] {
  const events = (trace?.["traceEvents"] as TraceEvent[] | undefined) ?? []
  const threads = new Map(
    events
      .filter(({ ph, name }) => ph === "M" && name === "thread_name")
      .map(({ tid, args }) => [tid, String(args?.["name"])]),
  )
  const calls = events.filter(({ ph }) => ph === "X").sort((a, b) => a.ts - b.ts)
  const start = calls[0]?.ts ?? 0
  const found = new Map<string, Call[]>()
  for (const { name, ts, dur = 0, tid } of calls) {
    const node = threads.get(tid) ?? name
    const list = found.get(node) ?? []
    list.push({ began: ts - start, took: dur, name })
    found.set(node, list)
  }
  return [...found]
}
