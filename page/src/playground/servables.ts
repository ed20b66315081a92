import { getJson } from "../server/http.svelte"
import { KINDS, type Kind } from "./kinds"

/** A model or graph that may be asked: what the server says of it in /v1/models and /v1/config. */
export interface Servable {
  name: string
  task: string
  /** Ends of paths that its task answers; empty for graphs of authors and for plain models. */
  endpoints: string[]
  /** Further members of its entry in /v1/models: `max_model_len`, `labels`, `voices`. */
  facts: Record<string, unknown>
  isReady: boolean
  /** It answers requests with a JSON body; other graphs and models take tensors. */
  takesJson: boolean
}

interface Listed {
  data: ({ id: string; task?: string; endpoints?: string[] } & Record<string, unknown>)[]
}

type States = Record<string, { model_version_status: { state: string }[] }>

const ENVELOPE = new Set(["id", "object", "created", "owned_by", "task", "endpoints", "root"])

/** Join both answers: /v1/models has names of adapters too, /v1/config has plain models too. */
export function servablesFrom(listed: Listed, states: States): Servable[] {
  const found = listed.data.map((one): Servable => ({
    name: one.id,
    task: one.task ?? "",
    endpoints: one.endpoints ?? [],
    facts: Object.fromEntries(Object.entries(one).filter(([name]) => !ENVELOPE.has(name))),
    isReady: isReady(states, one.id) ?? true,
    takesJson: true,
  }))
  const names = new Set(found.map(({ name }) => name))
  for (const name of Object.keys(states)) {
    if (names.has(name)) continue
    found.push({
      name,
      task: "",
      endpoints: [],
      facts: {},
      isReady: isReady(states, name) ?? false,
      takesJson: false,
    })
  }
  return found
}

function isReady(states: States, name: string): boolean | undefined {
  return states[name]?.model_version_status.some(({ state }) => state === "AVAILABLE")
}

export async function loadServables(signal: AbortSignal): Promise<Servable[]> {
  const [listed, states] = await Promise.all([
    getJson<Listed>("v1/models", { signal }),
    getJson<States>("v1/config", { signal }),
  ])
  return servablesFrom(listed, states)
}

/**
 * The ways to talk to a servable. Graphs of authors say nothing of the form that they answer, so they
 * are offered a body of one's own, and chat.
 */
export function kindsOf({ endpoints, takesJson }: Servable): Kind[] {
  if (!takesJson) return [kind("tensors")]
  const answered = KINDS.filter(({ path }) => path && endpoints.includes(path))
  return answered.length ? [...answered, kind("request")] : [kind("request"), kind("chat")]
}

function kind(id: string): Kind {
  return KINDS.find((one) => one.id === id)!
}
