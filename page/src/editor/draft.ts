/** A value of a field in a text that may be unfinished. Offsets are of the text. */
export interface Statement {
  name: string
  nameFrom: number
  /** As written, without quotes; "" for a message or a value that is not there yet. */
  value: string
  from: number
  to: number
  isString: boolean
  message: Message | null
}

/** What stands between braces, or the whole text. */
export interface Message {
  parent: Message | null
  /** The field or the `[type.name]` whose value it is; "" for the whole text. */
  name: string
  from: number
  to: number
  statements: Statement[]
}

const TOKEN =
  /(#[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|(\[[^\]{}:\n]*\]?)|([\w.+-]+)|([{}<>:;,\]])|\s+|./gy

/**
 * Read a graph's text as fields, values and braces. It never fails: strings end with their line, and
 * what is open at the end ends there.
 */
export function readDraft(text: string): Message {
  const root: Message = { parent: null, name: "", from: 0, to: text.length, statements: [] }
  let here = root
  let field: Statement | null = null
  for (const match of text.matchAll(TOKEN)) {
    const [token, comment, string, bracket, word, sign] = match
    const at = match.index
    const end = at + token.length
    if (comment !== undefined) continue
    if (sign === "{" || sign === "<") {
      const name = field?.name ?? ""
      const message: Message = { parent: here, name, from: end, to: text.length, statements: [] }
      if (field) field.message = message
      here = message
      field = null
    } else if (sign === "}" || sign === ">") {
      here.to = at
      here = here.parent ?? root
      field = null
    } else if (sign === ":") {
      if (field) field.from = field.to = end
    } else if (sign !== undefined) field = null
    else if (string !== undefined) {
      if (!field) continue
      const isClosed = token.length > 1 && token.endsWith(token[0]!)
      field.value = isClosed ? token.slice(1, -1) : token.slice(1)
      field.from = at + 1
      field.to = isClosed ? end - 1 : end
      field.isString = true
      field = null
    } else if (bracket !== undefined || word !== undefined) {
      // After a colon a word is a value: a number, an enum, true.
      if (field && field.from >= 0 && bracket === undefined) {
        field.value = token
        field.from = at
        field.to = end
        field = null
        continue
      }
      field = {
        name: token,
        nameFrom: at,
        value: "",
        from: -1,
        to: -1,
        isString: false,
        message: null,
      }
      here.statements.push(field)
    }
  }
  return root
}

/** The innermost message around an offset. */
export function messageAt(root: Message, offset: number): Message {
  for (const { message } of root.statements) {
    if (message && message.from <= offset && offset <= message.to) return messageAt(message, offset)
  }
  return root
}

/** The node around a message, or the message itself; null outside of nodes. */
export function nodeAround(message: Message): Message | null {
  for (let at: Message | null = message; at; at = at.parent) if (at.name === "node") return at
  return null
}

export function valueOf(message: Message, field: string): string {
  return message.statements.find(({ name }) => name === field)?.value ?? ""
}

/** The name in `TAG:0:name`, `TAG:name` or `name`. */
export function streamName(port: string): string {
  return port.slice(port.lastIndexOf(":") + 1)
}

/** The names that a text gives to streams, or to side packets: those that a node may take. */
export function producedNames(root: Message, isSide: boolean): string[] {
  const [from, out] = isSide
    ? ["input_side_packet", "output_side_packet"]
    : ["input_stream", "output_stream"]
  const nodes = root.statements.flatMap(({ name, message }) =>
    name === "node" && message ? message.statements : [],
  )
  const found = [
    ...root.statements.filter(({ name }) => name === from),
    ...nodes.filter(({ name }) => name === out),
  ]
  return [...new Set(found.map(({ value }) => streamName(value)).filter(Boolean))]
}

/** The names of all calculators in a text. */
export function calculatorsIn(root: Message): string[] {
  const names = root.statements.map(({ name, message }) =>
    name === "node" && message ? valueOf(message, "calculator") : "",
  )
  return [...new Set(names.filter(Boolean))]
}
