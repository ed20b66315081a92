import type { DrawnNode, DrawnPort } from "../graph_types"
import type { CalculatorView, OptionField, PortOfCalculator } from "../live_types"
import { streamName, type Message, type Statement } from "./draft"

/** A replacement in a text, by offsets of the text before. All else stays: comments, spaces, order. */
export interface Change {
  from: number
  to: number
  insert: string
}

const FIELDS = ["input_stream", "input_side_packet", "output_stream", "output_side_packet"] as const
export type PortField = (typeof FIELDS)[number]

/** The statements of nodes by their names in the drawing; null if the places are of another text. */
export function nodesOf(
  root: Message,
  places: Record<string, { line: number; column: number }>,
): Map<string, Statement> | null {
  const nodes = root.statements.filter(({ name, message }) => name === "node" && message)
  const names = Object.entries(places)
    .sort(([, a], [, b]) => a.line - b.line || a.column - b.column)
    .map(([name]) => name)
  if (names.length !== nodes.length) return null
  return new Map(names.map((name, at) => [name, nodes[at]!]))
}

/** The tag and index of a port as drawings label it: `TAG`, `TAG:2`, or the stream's name. */
function labelOf(value: string): string {
  const [name, index, tag] = value.split(":").reverse()
  if (tag !== undefined) return index === "0" ? tag : `${tag}:${index}`
  return index ?? name!
}

/** The statement that makes a port of a node, or an input or output of the graph. */
export function statementOf(
  root: Message,
  nodes: ReadonlyMap<string, Statement>,
  node: DrawnNode,
  port: DrawnPort,
  isOutput: boolean,
): Statement | undefined {
  const message = nodes.get(node.id)?.message
  const direction = message
    ? isOutput
      ? "output"
      : "input"
    : node.kind === "output"
      ? "output"
      : "input"
  const field = `${direction}_${port.is_side_packet ? "side_packet" : "stream"}`
  return (message ?? root).statements.find(
    ({ name, value }) =>
      name === field &&
      streamName(value) === port.stream &&
      (!message || labelOf(value) === port.label),
  )
}

/** Let an input, or an output of the graph, take another stream; its tag stays. */
export function connected(target: Statement, stream: string): Change {
  return { from: target.to - streamName(target.value).length, to: target.to, insert: stream }
}

/** Give a stream or side packet another name, wherever the text has it. */
export function renamed(root: Message, from: string, to: string, isSide: boolean): Change[] {
  return portStatements(root)
    .filter(({ name, value }) => name.includes("side") === isSide && streamName(value) === from)
    .map((statement) => connected(statement, to))
}

function unusedName(wanted: string, used: Set<string>): string {
  let name = wanted
  for (let at = 2; used.has(name); at++) name = `${wanted}_${at}`
  used.add(name)
  return name
}

/** All statements of ports, of the graph and of its nodes. */
function portStatements(root: Message): Statement[] {
  const messages = root.statements.map(({ name, message }) => (name === "node" ? message : null))
  return [root, ...messages].flatMap((message) =>
    (message?.statements ?? []).filter(({ name }) => (FIELDS as readonly string[]).includes(name)),
  )
}

/** All names of streams and side packets in a text, read or made. */
function usedNames(root: Message): Set<string> {
  return new Set(portStatements(root).map(({ value }) => streamName(value)))
}

/** Names like those that are wanted, which no stream or side packet has. */
export function unusedNames(root: Message, wanted: string[]): string[] {
  const used = usedNames(root)
  return wanted.map((name) => unusedName(name, used))
}

/**
 * Add a node at the end, from the calculator's own example. Its streams get names of their own, so that
 * nothing is connected by accident.
 */
export function nodeAdded(text: string, root: Message, view: CalculatorView): Change {
  const used = usedNames(root)
  const names = new Map<string, string>()
  const snippet = (view.snippet || `node {\n  calculator: "${view.name}"\n}\n`).replace(
    /^(\s*(?:input|output)_(?:stream|side_packet):\s*")((?:[\w]*:)*)(\w+)"/gm,
    (_all, head: string, tag: string, name: string) => {
      // A loop of the example stays one.
      if (!names.has(name)) names.set(name, unusedName(name, used))
      return `${head}${tag}${names.get(name)}"`
    },
  )
  const before = text === "" || text.endsWith("\n\n") ? "" : text.endsWith("\n") ? "\n" : "\n\n"
  return { from: text.length, to: text.length, insert: before + snippet.trimEnd() + "\n" }
}

/** The ports that a node may have besides those in its text: a field with `TAG:index:`. */
export function furtherPorts(
  node: Message,
  ports: PortOfCalculator[] | null,
): { field: PortField; prefix: string; name: string }[] {
  // Such calculators decide by the node.
  if (!ports)
    return (["input_stream", "output_stream"] as const).map((field) => ({
      field,
      prefix: "",
      name: field.startsWith("in") ? "input" : "output",
    }))
  return ports.flatMap((port) => {
    const field = port.field as PortField
    const values = node.statements.filter(({ name }) => name === field).map(({ value }) => value)
    const there = values.filter((value) =>
      port.tag ? value.startsWith(`${port.tag}:`) : !value.includes(":"),
    ).length
    if (there > port.index && !port.is_multiple) return []
    const at = Math.max(there, port.index)
    const prefix = port.tag ? `${port.tag}:${at ? `${at}:` : ""}` : ""
    return [{ field, prefix, name: port.name || port.tag.toLowerCase() }]
  })
}

/** Add a port to a node, with a name of its own. */
export function portAdded(
  text: string,
  root: Message,
  node: Message,
  { field, prefix, name }: { field: PortField; prefix: string; name: string },
): Change {
  const [unused] = unusedNames(root, [name])
  const line = `${field}: "${prefix}${unused}"`
  const last = node.statements.filter((one) => one.name === field).at(-1)
  if (!last) return lineInside(text, node, line)
  const lineStart = text.lastIndexOf("\n", last.nameFrom - 1) + 1
  const lineEnd = text.indexOf("\n", last.to)
  const indent = text.slice(lineStart, last.nameFrom)
  if (indent.trim() !== "" || lineEnd < 0 || lineEnd > node.to)
    return { from: last.to + 1, to: last.to + 1, insert: ` ${line}` }
  return { from: lineEnd + 1, to: lineEnd + 1, insert: `${indent}${line}\n` }
}

/** Add an input or output of the graph after those that are there. */
export function endAdded(
  text: string,
  root: Message,
  field: "input_stream" | "output_stream",
): Change {
  const name = unusedName(field === "input_stream" ? "input" : "output", usedNames(root))
  const ends = root.statements.filter((one) => /^(in|out)put_stream$/.test(one.name))
  const after = ends.filter((one) => one.name === field).at(-1) ?? ends.at(-1)
  const line = `${field}: "${name}"\n`
  if (after) {
    const end = text.indexOf("\n", after.to)
    return end < 0
      ? { from: text.length, to: text.length, insert: `\n${line}` }
      : { from: end + 1, to: end + 1, insert: line }
  }
  // Before the first node, and after the comments that stand above all.
  const first = root.statements[0]?.nameFrom ?? text.length
  const from = text.lastIndexOf("\n", first - 1) + 1
  return { from, to: from, insert: line }
}

/** Delete a statement, with its line if nothing else stands on it. Comments above it stay. */
export function removed(text: string, statement: Statement): Change {
  let to = statement.message
    ? statement.message.to + 1
    : statement.to + (statement.isString ? 1 : 0)
  let from = statement.nameFrom
  const lineStart = text.lastIndexOf("\n", from - 1) + 1
  const lineEnd = text.indexOf("\n", to)
  const rest = text.slice(to, lineEnd < 0 ? text.length : lineEnd)
  if (text.slice(lineStart, from).trim() === "" && rest.trim() === "") {
    from = lineStart
    to = lineEnd < 0 ? text.length : lineEnd + 1
    // Of two empty lines around it one is enough.
    if (/(^|\n)[ \t]*\n$/.test(text.slice(0, from)) && text[to] === "\n") to += 1
  } else if (text[to] === " ") to += 1
  return { from, to, insert: "" }
}

/** What a calculator's options have at a field: their statement, and the message where it belongs. */
export function optionAt(
  node: Message,
  type: string,
  field: string,
): { options: Message | undefined; statement: Statement | undefined } {
  for (const { name, message } of node.statements) {
    if (!message || (name !== "node_options" && name !== "options")) continue
    const options = message.statements.find(
      (one) =>
        one.message &&
        one.name.replace(/^\[(?:type\.googleapis\.com\/)?|(?:\.ext)?\]$/g, "") === type,
    )?.message
    if (options) return { options, statement: options.statements.find((one) => one.name === field) }
  }
  return { options: undefined, statement: undefined }
}

/** The kind of a form's field; null for what is written in the text only. */
export function fieldKind({
  type,
}: OptionField): "bool" | "choice" | "number" | "integer" | "text" | null {
  if (type === "bool") return "bool"
  if (/^\w+( \| \w+)+$/.test(type)) return "choice"
  if (/^(u?int|s?fixed|sint)(32|64)$/.test(type)) return "integer"
  if (/^(float|double)$/.test(type)) return "number"
  return type === "string" ? "text" : null
}

/** A typed value as a graph writes it; null if it is none of the field's kind. */
export function optionText(field: OptionField, typed: string): string | null {
  const kind = fieldKind(field)
  if (kind === "text") return JSON.stringify(typed)
  const word = typed.trim()
  if (kind === "integer")
    return /^-?\d+$/.test(word) && !(field.type.startsWith("u") && word.startsWith("-"))
      ? word
      : null
  if (kind === "number") return word !== "" && Number.isFinite(Number(word)) ? word : null
  return word
}

/** Set an option of a node, or leave it out with `null`; the options' message is made where needed. */
export function optionSet(
  text: string,
  node: Message,
  type: string,
  field: string,
  value: string | null,
): Change | null {
  const { options, statement } = optionAt(node, type, field)
  if (statement) {
    if (value === null) return removed(text, statement)
    const quotes = statement.isString ? 1 : 0
    return { from: statement.from - quotes, to: statement.to + quotes, insert: value }
  }
  if (value === null) return null
  const line = `${field}: ${value}`
  if (options) return lineInside(text, options, line)
  return lineInside(
    text,
    node,
    `node_options {\n  [type.googleapis.com/${type}] {\n    ${line}\n  }\n}`,
  )
}

/** Give a node a name, before its first field if it has none yet. */
export function named(text: string, node: Message, name: string): Change | null {
  const known = node.statements.find((one) => one.name === "name")
  if (known) return { from: known.from, to: known.to, insert: name }
  const first = node.statements[0]?.nameFrom
  if (first === undefined) return null
  const before = text.slice(text.lastIndexOf("\n", first - 1) + 1, first)
  const space = before.trim() === "" ? `\n${before}` : " "
  return { from: first, to: first, insert: `name: "${name}"${space}` }
}

/** Write lines at the end of a message, indented as it is. */
function lineInside(text: string, message: Message, lines: string): Change {
  const lineStart = text.lastIndexOf("\n", message.to - 1) + 1
  const before = text.slice(lineStart, message.to)
  if (before.trim() === "") {
    const indent = before + "  "
    const insert = lines
      .split("\n")
      .map((line) => `${indent}${line}\n`)
      .join("")
    return { from: lineStart, to: lineStart, insert }
  }
  // Braces of one line: the new lines go before the closing one.
  const space = text[message.to - 1] === " " ? "" : " "
  const flat = lines.replace(/\s*\n\s*/g, " ")
  return { from: message.to, to: message.to, insert: `${space}${flat} ` }
}
