import type { CalculatorView, OptionField } from "../live_types"
import { FIELDS, MESSAGES } from "./fields"
import {
  messageAt,
  nodeAround,
  producedNames,
  streamName,
  valueOf,
  type Message,
  type Statement,
} from "./draft"

/** Something to write at the cursor instead of the text from `from` on. */
export interface Offer {
  label: string
  detail?: string
  info?: string
  /** What is written, if it is not the label. */
  apply?: string
  kind: "calculator" | "field" | "stream" | "tag" | "value" | "type"
}

export interface Offers {
  from: number
  offers: Offer[]
}

/** The registered calculators, and the descriptions of those that are known already. */
export interface Known {
  calculators: { name: string; summary: string }[]
  subgraphs: string[]
  view(calculator: string): CalculatorView | undefined
}

const PORTS = ["input_stream", "output_stream", "input_side_packet", "output_side_packet"]
const WORD = /[\w.]*$/

/** What may be written at an offset of a text; null where nothing is known. */
export function offersAt(text: string, root: Message, offset: number, known: Known): Offers | null {
  if (isInComment(text, offset)) return null
  const message = messageAt(root, offset)
  const inside = message.statements.find(
    ({ from, to, isString }) => isString && from <= offset && offset <= to,
  )
  if (inside) return valueOffers(text, root, message, inside, offset, known)
  const before = text.slice(0, offset)
  const bracket = /\[[\w./]*$/.exec(before)
  if (bracket) return typeOffers(message, offset - bracket[0].length, known)
  const from = offset - WORD.exec(before)![0].length
  const ahead = before.slice(0, from).trimEnd()
  if (ahead.endsWith(":")) return enumOffers(message, ahead, from, known)
  return { from, offers: fieldOffers(message, known) }
}

function isInComment(text: string, offset: number): boolean {
  const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset)
  return line.replace(/"(?:[^"\\]|\\.)*"?/g, "").includes("#")
}

function valueOffers(
  text: string,
  root: Message,
  message: Message,
  statement: Statement,
  offset: number,
  known: Known,
): Offers | null {
  const isNode = message.name === "node"
  if (statement.name === "calculator" && isNode) {
    const calculators = known.calculators.map(({ name, summary }): Offer => ({
      label: name,
      detail: summary,
      kind: "calculator",
    }))
    const subgraphs = known.subgraphs.map((label): Offer => ({
      label,
      detail: "a subgraph",
      kind: "calculator",
    }))
    return { from: statement.from, offers: [...calculators, ...subgraphs] }
  }
  if (!PORTS.includes(statement.name)) return null
  const isSide = statement.name.endsWith("side_packet")
  const isInput = statement.name.startsWith("input")
  const written = text.slice(statement.from, offset)
  const colon = written.lastIndexOf(":")
  const from = statement.from + colon + 1
  const names = isNode === isInput ? producedNames(root, isSide) : outputsWanted(root, isSide)
  const streams = names
    .filter((name) => name !== streamName(statement.value) || offset < statement.to)
    .map((label): Offer => ({ label, detail: isSide ? "side packet" : "stream", kind: "stream" }))
  if (colon >= 0 || !isNode) return { from, offers: streams }
  const ports = known.view(valueOf(message, "calculator"))?.ports ?? []
  const tags = ports
    .filter(({ field, tag }) => field === statement.name && tag)
    .map(({ tag, type, doc, is_optional, name }): Offer => ({
      label: `${tag}:`,
      detail: is_optional ? `${type}, optional` : type,
      ...(doc ? { info: doc } : {}),
      // Without streams to choose from the port's own name is a beginning.
      ...(streams.length ? {} : { apply: `${tag}:${name.toLowerCase()}` }),
      kind: "tag",
    }))
  return { from, offers: [...tags, ...streams] }
}

/** Names that are read and not produced, for the outputs of nodes and the inputs of the graph. */
function outputsWanted(root: Message, isSide: boolean): string[] {
  const produced = new Set(producedNames(root, isSide))
  const field = isSide ? "input_side_packet" : "input_stream"
  const read = root.statements.flatMap(({ name, message }) =>
    name === "node" && message ? message.statements.filter((one) => one.name === field) : [],
  )
  const outputs = root.statements.filter(
    ({ name }) => name === (isSide ? "output_side_packet" : "output_stream"),
  )
  const names = [...read, ...outputs].map(({ value }) => streamName(value))
  return [...new Set(names)].filter((name) => name && !produced.has(name))
}

function optionsOf(message: Message, known: Known): CalculatorView["options"] {
  const node = nodeAround(message)
  return (node && known.view(valueOf(node, "calculator"))?.options) ?? []
}

function typeOffers(message: Message, from: number, known: Known): Offers | null {
  const isAny = message.name === "node_options"
  if (!isAny && message.name !== "options") return null
  const offers = optionsOf(message, known).map(({ message_type }): Offer => {
    const name = isAny ? `[type.googleapis.com/${message_type}]` : `[${message_type}.ext]`
    return { label: name, apply: `${name} {  }`, kind: "type" }
  })
  return { from, offers }
}

/** The fields of the options whose `[type]` is the message's name. */
function optionFields(message: Message, known: Known): OptionField[] {
  const type = message.name.replace(/^\[(?:type\.googleapis\.com\/)?|(?:\.ext)?\]$/g, "")
  const options = optionsOf(message, known).find(({ message_type }) => message_type === type)
  return options?.fields ?? []
}

function enumOffers(message: Message, ahead: string, from: number, known: Known): Offers | null {
  const field = /(\w+)\s*:$/.exec(ahead)?.[1] ?? ""
  const option = optionFields(message, known).find(({ name }) => name === field)
  // Enums are described by their values: "DEFAULT | STRETCH | FIT".
  const values = option?.type.includes(" | ") ? option.type.split(" | ") : []
  const isBool = option?.type === "bool" || field === "back_edge" || field === "report_deadlock"
  const words = isBool ? ["true", "false"] : values
  return words.length ? { from, offers: words.map((label) => ({ label, kind: "value" })) } : null
}

function fieldOffers(message: Message, known: Known): Offer[] {
  if (message.name.startsWith("[")) {
    return optionFields(message, known).map(({ name, type, doc, default: normal }): Offer => {
      const isText = type === "string" || type === "bytes"
      return {
        label: name,
        detail: [type, normal && `default ${normal}`].filter(Boolean).join(", "),
        ...(doc ? { info: doc } : {}),
        apply: isText ? `${name}: ""` : `${name}: `,
        kind: "field",
      }
    })
  }
  if (message.name === "node_options" || message.name === "options") {
    return typeOffers(message, 0, known)?.offers ?? []
  }
  const isGraph = message.parent === null
  const fields = FIELDS[isGraph ? "CalculatorGraphConfig" : (MESSAGES[message.name] ?? "")] ?? []
  return fields.map((name): Offer => ({
    label: name,
    apply: written(name, isGraph),
    kind: "field",
  }))
}

const NUMBERS = ["max_queue_size", "num_threads", "max_in_flight", "source_layer"]

function written(name: string, isGraph: boolean): string {
  if (name === "node" || name === "input_stream_info" || name === "input_stream_handler") {
    return `${name} {  }`
  }
  if (name === "options" || name === "node_options") return `${name} {  }`
  if (name === "executor" && isGraph) return `${name} {  }`
  if (NUMBERS.includes(name) || name === "back_edge" || name === "report_deadlock")
    return `${name}: `
  return `${name}: ""`
}
