/** One server-sent event. */
export interface ServerEvent {
  event: string
  data: string
}

/**
 * Read server-sent events from an answer's body, as they come. `EventSource` cannot send a key.
 *
 * Lines end with LF, CR LF or CR; fields other than `event` and `data`, and comments, are left out
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
 */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader()
  let rest = ""
  let event = ""
  let data: string[] = []
  try {
    for (;;) {
      const { value, done } = (await reader.read()) as { value?: string; done: boolean }
      if (done) return
      rest += value
      // A CR at the end may be the half of a CR LF.
      const complete = rest.endsWith("\r") ? rest.slice(0, -1) : rest
      const lines = complete.split(/\r\n|\n|\r/)
      rest = (lines.pop() ?? "") + rest.slice(complete.length)
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield { event: event || "message", data: data.join("\n") }
          event = ""
          data = []
        } else if (line.startsWith("event:")) event = line.slice(6).replace(/^ /, "")
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""))
      }
    }
  } finally {
    reader.cancel().catch(() => undefined)
  }
}
