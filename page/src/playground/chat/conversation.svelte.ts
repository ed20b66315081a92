import { leaving } from "../../kept/kept.svelte"
import { postBody, told } from "../../server/http.svelte"
import { readEvents } from "../../server/events"
import { loadDocument, schemasAt } from "../members"
import { newAnswer, withChunk, type Chunk, type ToolCall } from "./answer"
import { chatBody, type ChatSettings, type Turn } from "./request"

const PATH = "/chat/completions"

/** A conversation as it is kept. */
export interface KeptConversation {
  model: string
  turns: Turn[]
  /** Its last answer was on its way. */
  isBusy: boolean
}

/** A conversation with one model: its turns, and the answer that is on its way, seen or not. */
export class Conversation {
  #model = $state("")
  #turns = $state.raw<Turn[]>([])
  isBusy = $state(false)
  onchange: () => void = () => undefined
  /** The graph through which requests are followed, so that they have a timeline; "" for none. */
  graph = ""

  #abort: AbortController | null = null

  constructor(model: string, kept?: KeptConversation) {
    this.#model = model
    if (kept) this.#turns = kept.isBusy ? leftOff(kept.turns) : kept.turns
  }

  get model(): string {
    return this.#model
  }
  set model(model: string) {
    this.#model = model
    this.onchange()
  }
  get turns(): Turn[] {
    return this.#turns
  }
  set turns(turns: Turn[]) {
    this.#turns = turns
    this.onchange()
  }

  kept(): KeptConversation {
    return { model: this.model, turns: this.turns, isBusy: this.isBusy }
  }

  /** Say something, and let the model answer. */
  async say(turn: Turn, settings: ChatSettings): Promise<void> {
    this.turns = [...this.turns, turn]
    await this.answer(settings)
  }

  /** Replace the turn at an index, forget all after it, and let the model answer. */
  async edit(index: number, turn: Turn, settings: ChatSettings): Promise<void> {
    this.turns = [...this.turns.slice(0, index), turn]
    await this.answer(settings)
  }

  /** Forget the last answer, and let the model give another. */
  async regenerate(settings: ChatSettings): Promise<void> {
    const last = this.turns.findLastIndex(({ role }) => role !== "assistant")
    this.turns = this.turns.slice(0, last + 1)
    await this.answer(settings)
  }

  /** Give the answers of tools, by the ids of their calls. */
  async returnTools(results: [ToolCall, string][], settings: ChatSettings): Promise<void> {
    const turns = results.map(([call, text]): Turn => ({ role: "tool", call, text }))
    this.turns = [...this.turns, ...turns]
    await this.answer(settings)
  }

  stop(): void {
    this.#abort?.abort()
  }

  /** Ask the model for the next turn. What has come stays when it fails or is stopped. */
  async answer(settings: ChatSettings): Promise<void> {
    this.#abort?.abort()
    const abort = new AbortController()
    this.#abort = abort
    this.isBusy = true
    const before = this.turns
    const request = this.graph ? await this.#follow() : ""
    let answer = { ...newAnswer(performance.now()), request }
    let error = ""
    let frame = 0
    // The text is drawn once a frame, however many events come between two.
    const show = () => {
      frame = 0
      if (this.#abort === abort) this.turns = [...before, { role: "assistant", answer, error }]
    }
    show()
    try {
      for await (const chunk of await this.#chunks(before, settings, request, abort.signal)) {
        answer = withChunk(answer, chunk, performance.now())
        frame ||= requestAnimationFrame(show)
      }
    } catch (failure) {
      if (abort.signal.aborted) answer = { ...answer, finish: "stopped" }
      else error = told(failure)
    }
    cancelAnimationFrame(frame)
    if (this.#abort !== abort || leaving.isSo) return
    this.isBusy = false
    show()
  }

  async #chunks(
    turns: Turn[],
    settings: ChatSettings,
    request: string,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Chunk>> {
    const known = await loadDocument().then(
      (document) => schemasAt(document, PATH),
      () => ({}),
    )
    const body = chatBody(this.model, turns, settings, known)
    const headers: HeadersInit = request ? { "X-Request-Id": request } : {}
    return chunksOf(await postBody(`v3${PATH}`, body, { signal, headers }))
  }

  /** Ask the server to follow the next request; return its id, "" if it does not. */
  async #follow(): Promise<string> {
    const id = `page-${newId()}`
    try {
      await postBody(`v1/graphs/${encodeURIComponent(this.graph)}/follow`, { request_id: id })
      return id
    } catch {
      return ""
    }
  }
}

/** Turns whose last answer was cut by a reload. */
function leftOff(turns: Turn[]): Turn[] {
  return turns.map((turn, at) =>
    turn.role === "assistant" && at === turns.length - 1
      ? { ...turn, answer: { ...turn.answer, finish: "left" } }
      : turn,
  )
}

/** An id of 16 signs; crypto.randomUUID is there for secure addresses only. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8))
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")
}

/** The events of an answer; an answer that is one JSON object is one event. */
export async function* chunksOf(response: Response): AsyncGenerator<Chunk> {
  const isStream = response.headers.get("Content-Type")?.startsWith("text/event-stream")
  if (!isStream || !response.body) {
    yield (await response.json()) as Chunk
    return
  }
  for await (const { data } of readEvents(response.body)) {
    if (data === "[DONE]") return
    yield JSON.parse(data) as Chunk
  }
}
