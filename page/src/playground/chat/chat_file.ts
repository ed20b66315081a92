import type { KeptChat } from "./chats.svelte"
import { newAnswer, type Answer, type ToolCall } from "./answer"
import type { KeptConversation } from "./conversation.svelte"
import { NO_SETTINGS, type ChatSettings, type Turn } from "./request"

const FORMAT = "graphrt chats"
const VERSION = 1

/** Chats as the text of a file. */
export function fileOf(chats: KeptChat[]): string {
  return JSON.stringify({ format: FORMAT, version: VERSION, chats }, null, 1)
}

/**
 * Read a file of chats. It may come from anywhere: each member is checked or left out, and pictures
 * and sounds are those that stand in the file.
 *
 * @throws Error with the place and what is wrong there.
 */
export function chatsFrom(text: string): KeptChat[] {
  let read: unknown
  try {
    read = JSON.parse(text)
  } catch {
    throw new Error("This file is not JSON; a file that was exported here is wanted.")
  }
  const { format, version, chats } = fields(read)
  if (format !== FORMAT || !Array.isArray(chats)) {
    throw new Error(`This file has no chats; "format" would be "${FORMAT}".`)
  }
  if (version !== VERSION)
    throw new Error(`This file has version ${String(version)}; this page reads ${VERSION}.`)
  return chats.map((one, at) => chatFrom(one, `Chat ${at + 1}`))
}

type Fields = Record<string, unknown>

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {}
}
function text(value: unknown): string {
  return typeof value === "string" ? value : ""
}
function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0
}
function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function chatFrom(value: unknown, place: string): KeptChat {
  const chat = fields(value)
  if (!/^[\w-]{1,64}$/.test(text(chat.id))) throw new Error(`${place} has no "id".`)
  const conversations = list(chat.conversations)
    .slice(0, 2)
    .map((one, at) => conversationFrom(one, `${place}, conversation ${at + 1}`))
  const [first] = conversations
  if (!first) throw new Error(`${place} has no "conversations".`)
  const draft = fields(chat.draft)
  return {
    id: text(chat.id),
    title: text(chat.title).slice(0, 200),
    isNamed: chat.isNamed === true,
    changed: number(chat.changed),
    model: first.model,
    conversations,
    settings: settingsFrom(chat.settings),
    draft: { text: text(draft.text), pictures: picturesFrom(draft.pictures) },
  }
}

function conversationFrom(value: unknown, place: string): KeptConversation {
  const { model, turns } = fields(value)
  if (!text(model)) throw new Error(`${place} has no "model".`)
  return {
    model: text(model),
    isBusy: false,
    turns: list(turns).map((one, at) => turnFrom(one, `${place}, turn ${at + 1}`)),
  }
}

function turnFrom(value: unknown, place: string): Turn {
  const turn = fields(value)
  if (turn.role === "user")
    return { role: "user", text: text(turn.text), pictures: picturesFrom(turn.pictures) }
  if (turn.role === "tool")
    return { role: "tool", call: callFrom(turn.call), text: text(turn.text) }
  if (turn.role === "assistant")
    return { role: "assistant", answer: answerFrom(turn.answer), error: text(turn.error) }
  throw new Error(`${place}: "role" is ${JSON.stringify(turn.role)}; user, assistant or tool.`)
}

function picturesFrom(value: unknown): string[] {
  return list(value)
    .map(text)
    .filter((address) => /^data:(image|audio|video|text|application)\//.test(address))
}

function callFrom(value: unknown): ToolCall {
  const { id, name, arguments: words } = fields(value)
  return { id: text(id), name: text(name), arguments: text(words) }
}

function answerFrom(value: unknown): Answer {
  const answer = fields(value)
  const timing = fields(answer.timing)
  const token = (one: unknown) => ({
    text: text(fields(one).text),
    logprob: number(fields(one).logprob),
  })
  return {
    ...newAnswer(number(timing.asked)),
    text: text(answer.text),
    reasoning: text(answer.reasoning),
    refusal: text(answer.refusal),
    sound: /^[A-Za-z0-9+/]*={0,2}$/.test(text(answer.sound)) ? text(answer.sound) : "",
    tools: list(answer.tools).map(callFrom),
    tokens: list(answer.tokens).map((one) => ({
      ...token(one),
      others: list(fields(one).others).map(token),
    })),
    finish: text(answer.finish),
    promptTokens: number(answer.promptTokens),
    answerTokens: number(answer.answerTokens),
    timing: {
      asked: number(timing.asked),
      first: timing.first === null ? null : number(timing.first),
      last: number(timing.last),
      counts: list(timing.counts).map((pair) => [number(list(pair)[0]), number(list(pair)[1])]),
    },
  }
}

function settingsFrom(value: unknown): ChatSettings {
  const settings = fields(value)
  return {
    system: text(settings.system),
    parameters: fields(settings.parameters),
    tools: text(settings.tools),
    toolChoice: text(settings.toolChoice) || NO_SETTINGS.toolChoice,
    schema: text(settings.schema),
    hasLogprobs: settings.hasLogprobs === true,
  }
}
