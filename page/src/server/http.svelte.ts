import { readEvents, type ServerEvent } from "./events"

/** An answer that is an error, with the server's own words. */
export class ServerError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.name = "ServerError"
    this.status = status
  }
}

// Never stored: it goes with the tab.
let key = ""

/**
 * `wanted`: the server answered 401. `refused`: a key was sent and is not known. `generation` changes
 * with each new key, so that views begin again.
 */
export const access = $state({ wanted: false, refused: false, generation: 0 })

/** Whether this server wanted a key, so that code for it has to send one. */
export const hasKey = (): boolean => key !== ""

export function useKey(value: string): void {
  key = value.trim()
  access.wanted = false
  access.refused = false
  access.generation += 1
}

/** The address of a path of this server, behind any prefix. */
export function address(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI).href.replace(/#.*$/, "")
}

/**
 * Send a request to this server, with the key.
 *
 * @throws ServerError for any status but 2xx; TypeError if the server cannot be reached.
 */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  if (key) headers.set("Authorization", `Bearer ${key}`)
  const response = await fetch(address(path), { ...init, headers, credentials: "omit" })
  if (response.ok) return response
  if (response.status === 401) {
    access.refused = key !== ""
    access.wanted = true
  }
  throw new ServerError(response.status, await words(response))
}

export async function getJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await request(path, init)).json()) as T
}

export async function postJson<T>(path: string, body: unknown, init: RequestInit = {}): Promise<T> {
  return (await (await postBody(path, body, init)).json()) as T
}

/** Send JSON, and return the answer with its body unread. */
export function postBody(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  headers.set("Content-Type", "application/json")
  return request(path, { method: "POST", ...init, headers, body: JSON.stringify(body) })
}

/** A WebSocket of this server, with the key, which pages can send as a subprotocol only. */
export function openSocket(path: string): WebSocket {
  const protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"]
  return new WebSocket(address(path).replace(/^http/, "ws"), protocols)
}

/** The server-sent events of an answer; ends with the stream, or when `init.signal` is aborted. */
export async function* stream(path: string, init: RequestInit = {}): AsyncGenerator<ServerEvent> {
  const response = await request(path, init)
  if (response.body) yield* readEvents(response.body)
}

/** What went wrong, as a sentence for a person. */
export function told(error: unknown): string {
  if (error instanceof ServerError) return error.message
  if (error instanceof TypeError) return "The server cannot be reached."
  return error instanceof Error ? error.message : String(error)
}

async function words(response: Response): Promise<string> {
  const text = await response.text().catch(() => "")
  try {
    const { error } = JSON.parse(text) as { error?: string | { message?: string } }
    const message = typeof error === "string" ? error : error?.message
    if (message) return message
  } catch {
    // Not JSON: the status says it.
  }
  return `The server answered ${response.status} ${response.statusText}`.trim() + "."
}
