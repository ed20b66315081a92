import type { Schema } from "../members"
import type { Answer, ToolCall } from "./answer"
import { documentName, mediumOf } from "./attachments"

/**
 * A turn of a conversation. A person's has text, and pictures, sounds or documents (data: addresses), a
 * tool's an answer.
 */
export type Turn =
  | { role: "user"; text: string; pictures: string[] }
  | { role: "assistant"; answer: Answer; error: string }
  | { role: "tool"; call: ToolCall; text: string }

export interface ChatSettings {
  system: string
  /** Members from the form of parameters, by name. */
  parameters: Record<string, unknown>
  /** A JSON array of tools, or of functions; "" for none. */
  tools: string
  toolChoice: string
  /** A JSON schema for the answer; "" for none. */
  schema: string
  hasLogprobs: boolean
}

export const NO_SETTINGS: ChatSettings = {
  system: "",
  parameters: {},
  tools: "",
  toolChoice: "auto",
  schema: "",
  hasLogprobs: false,
}

/**
 * The body of a chat's request.
 *
 * @param known the members that the server's document names for chats: `continuous_usage_stats` and
 *   the number of alternatives follow from it.
 * @throws SyntaxError if tools or schema are not JSON.
 */
export function chatBody(
  model: string,
  turns: Turn[],
  settings: ChatSettings,
  known: Record<string, Schema>,
): Record<string, unknown> {
  const body: Record<string, unknown> = {
    model,
    messages: [
      ...(settings.system.trim() ? [{ role: "system", content: settings.system }] : []),
      ...turns.flatMap(messageFrom),
    ],
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
    ...settings.parameters,
  }
  if (settings.tools.trim()) {
    body.tools = toolsFrom(settings.tools)
    if (settings.toolChoice !== "auto") body.tool_choice = toolChoice(settings.toolChoice)
  }
  if (settings.schema.trim()) {
    const schema: unknown = JSON.parse(settings.schema)
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } }
  }
  if (settings.hasLogprobs) {
    body.logprobs = true
    const most = known.top_logprobs?.maximum ?? 0
    if (most > 0) body.top_logprobs = Math.min(5, most)
  }
  return body
}

function messageFrom(turn: Turn): Record<string, unknown>[] {
  if (turn.role === "tool") {
    return [{ role: "tool", tool_call_id: turn.call.id, content: turn.text }]
  }
  if (turn.role === "user") {
    if (!turn.pictures.length) return [{ role: "user", content: turn.text }]
    const pictures = turn.pictures.map((url) => {
      const filename = documentName(url)
      if (filename !== null) {
        const file_data = url.replace(/;name=[^;,]*/, "")
        return { type: "file", file: { filename, file_data } }
      }
      if (mediumOf(url) === "audio") return { type: "input_audio", input_audio: { data: url } }
      const type = mediumOf(url) === "video" ? "video_url" : "image_url"
      return { type, [type]: { url } }
    })
    const text = turn.text ? [{ type: "text", text: turn.text }] : []
    return [{ role: "user", content: [...pictures, ...text] }]
  }
  const { answer } = turn
  if (!answer.text && !answer.tools.length) return []
  const calls = answer.tools.map(({ id, name, arguments: words }) => ({
    id,
    type: "function",
    function: { name, arguments: words },
  }))
  return [
    {
      role: "assistant",
      content: answer.text || null,
      ...(calls.length ? { tool_calls: calls } : {}),
    },
  ]
}

function toolChoice(choice: string): unknown {
  if (choice === "none" || choice === "required") return choice
  return { type: "function", function: { name: choice } }
}

interface Tool {
  type: "function"
  function: { name: string; [member: string]: unknown }
}

/**
 * Read tools as a person writes them: a list of OpenAI's tools or of bare functions, or one of them.
 *
 * @throws SyntaxError if the text is not JSON; TypeError if a tool has no name.
 */
export function toolsFrom(text: string): Tool[] {
  const read: unknown = JSON.parse(text)
  return (Array.isArray(read) ? read : [read]).map((one: unknown, index) => {
    const tool = one as Partial<Tool> & { name?: string }
    const called = tool.function ?? (tool as Tool["function"] | undefined)
    if (typeof called?.name !== "string" || !called.name) {
      throw new TypeError(`Tool ${index + 1} has no name.`)
    }
    return { type: "function", function: called }
  })
}

/** Calls of the last answer that no turn has answered. */
export function openCalls(turns: Turn[]): ToolCall[] {
  const last = turns.findLastIndex(({ role }) => role === "assistant")
  const turn = turns[last]
  if (turn?.role !== "assistant") return []
  const answered = new Set(
    turns.slice(last + 1).map((after) => (after.role === "tool" ? after.call.id : "")),
  )
  return turn.answer.tools.filter(({ id }) => !answered.has(id))
}
