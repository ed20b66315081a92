/** A token with its probability, and the likeliest ones at its place where the server knows them. */
export interface Token {
  text: string
  logprob: number
  others: { text: string; logprob: number }[]
}

export interface ToolCall {
  id: string
  name: string
  /** JSON, as the model wrote it: it may be cut or wrong. */
  arguments: string
}

/** Times in milliseconds on one clock. `counts` are the numbers of tokens by the time of their event. */
export interface Timing {
  asked: number
  first: number | null
  last: number
  counts: [number, number][]
}

/** A model's answer, as far as it has come. */
export interface Answer {
  text: string
  reasoning: string
  refusal: string
  /** The text as sound: 16-bit samples at 24 kHz, or a WAV file, in Base64; "" without one. */
  sound: string
  tools: ToolCall[]
  tokens: Token[]
  finish: string
  promptTokens: number
  answerTokens: number
  timing: Timing
  /** The id of its request, if it is followed through the graph. */
  request: string
}

interface LogprobEntry {
  token: string
  logprob: number
  top_logprobs?: { token: string; logprob: number }[]
}

/** An event of a streamed chat; `message` stands in whole answers. */
export interface Chunk {
  error?: { message?: string } | string
  choices?: {
    index?: number
    delta?: Delta
    message?: Delta
    logprobs?: { content?: LogprobEntry[] | null } | null
    finish_reason?: string | null
  }[]
  usage?: { prompt_tokens?: number; completion_tokens?: number } | null
}

interface Delta {
  content?: string | null
  reasoning_content?: string | null
  reasoning?: string | null
  refusal?: string | null
  audio?: { data?: string; transcript?: string } | null
  tool_calls?: {
    index?: number
    id?: string
    function?: { name?: string; arguments?: string }
  }[]
}

export function newAnswer(now: number): Answer {
  return {
    text: "",
    reasoning: "",
    refusal: "",
    sound: "",
    tools: [],
    tokens: [],
    finish: "",
    promptTokens: 0,
    answerTokens: 0,
    timing: { asked: now, first: null, last: now, counts: [] },
    request: "",
  }
}

/**
 * Return the answer with an event added to it. Further choices than the first are left out.
 *
 * @throws Error with the server's words if the event is an error.
 */
export function withChunk(answer: Answer, chunk: Chunk, now: number): Answer {
  if (chunk.error !== undefined) {
    const { error } = chunk
    throw new Error((typeof error === "string" ? error : error.message) || "The answer broke off.")
  }
  const choice = chunk.choices?.find(({ index = 0 }) => index === 0)
  const delta = choice?.delta ?? choice?.message ?? {}
  const reasoning = delta.reasoning_content ?? delta.reasoning ?? ""
  const isContent = Boolean(delta.content || reasoning || delta.tool_calls?.length || delta.refusal)
  const answerTokens = chunk.usage?.completion_tokens ?? answer.answerTokens
  const entries = choice?.logprobs?.content ?? []
  return {
    // Answers for ears only have their text beside the sound.
    text: answer.text + (delta.content || (delta.audio?.transcript ?? "")),
    reasoning: answer.reasoning + reasoning,
    refusal: answer.refusal + (delta.refusal ?? ""),
    sound: answer.sound + (delta.audio?.data ?? ""),
    tools: withCalls(answer.tools, delta.tool_calls ?? []),
    tokens: entries.length ? [...answer.tokens, ...entries.map(tokenFrom)] : answer.tokens,
    finish: choice?.finish_reason ?? answer.finish,
    promptTokens: chunk.usage?.prompt_tokens ?? answer.promptTokens,
    answerTokens,
    timing: timed(answer.timing, isContent, answerTokens, now),
    request: answer.request,
  }
}

function timed(timing: Timing, isContent: boolean, tokens: number, now: number): Timing {
  const isMore = tokens > (timing.counts.at(-1)?.[1] ?? 0)
  if (!isContent && !isMore) return timing
  return {
    asked: timing.asked,
    first: timing.first ?? now,
    last: now,
    counts: isMore ? [...timing.counts, [now, tokens]] : timing.counts,
  }
}

function tokenFrom(entry: LogprobEntry): Token {
  const others = (entry.top_logprobs ?? []).map(({ token, logprob }) => ({ text: token, logprob }))
  return { text: entry.token, logprob: entry.logprob, others }
}

function withCalls(calls: ToolCall[], parts: NonNullable<Delta["tool_calls"]>): ToolCall[] {
  if (!parts.length) return calls
  const made = [...calls]
  for (const part of parts) {
    const at = part.index ?? made.length
    const before = made[at] ?? { id: "", name: "", arguments: "" }
    made[at] = {
      id: before.id || (part.id ?? ""),
      name: before.name + (part.function?.name ?? ""),
      arguments: before.arguments + (part.function?.arguments ?? ""),
    }
  }
  return made
}

/** The time to the first token in milliseconds; null before it. */
export function timeToFirst({ asked, first }: Timing): number | null {
  return first === null ? null : first - asked
}

// Events that were read together say nothing about the time between their tokens.
const SHORTEST = 20

/** Tokens per second after the first event with tokens; null where too few tell nothing. */
export function tokensPerSecond({ counts }: Timing): number | null {
  const [first, last] = [counts[0], counts.at(-1)]
  if (!first || !last || last[0] - first[0] < SHORTEST || last[1] <= first[1]) return null
  return ((last[1] - first[1]) / (last[0] - first[0])) * 1000
}

/** Tokens per second over time in `steps` equal parts from the request on. */
export function ratesOf(timing: Timing, steps: number): number[] {
  const width = (timing.last - timing.asked) / steps
  if (!(width > 0)) return []
  const rates = new Array<number>(steps).fill(0)
  let before = 0
  for (const [at, count] of timing.counts) {
    const step = Math.min(steps - 1, Math.floor((at - timing.asked) / width))
    rates[step]! += ((count - before) / width) * 1000
    before = count
  }
  return rates
}
