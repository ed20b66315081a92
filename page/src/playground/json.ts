import { validate, type Schema } from "jsonschema"

/** A mistake in a text, with its line and column from 1; 0 if it has no place. */
export interface TextFault {
  message: string
  line: number
  column: number
}

/** The fault of a text that is to be JSON; null if it is, or is empty. */
export function jsonFault(text: string): TextFault | null {
  if (!text.trim()) return null
  try {
    JSON.parse(text)
    return null
  } catch {
    const [message, position] = faultIn(text)
    return { message, ...placeAt(text, position) }
  }
}

const SPACE = /[ \t\r\n]*/y
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/**
 * Find the first fault of a text that JSON.parse refuses: words, and its position. Engines name the
 * place in different words, or not at all.
 */
function faultIn(text: string): [string, number] {
  let at = 0
  const open: string[] = []
  let wanted: "value" | "name" | "after" | "item or end" | "name or end" = "value"
  const took = (pattern: RegExp) => {
    pattern.lastIndex = at
    const found = pattern.test(text)
    if (found) at = pattern.lastIndex
    return found
  }
  const close = (sign: string) => {
    if (text[at] !== sign) return false
    at += 1
    open.pop()
    wanted = "after"
    return true
  }
  for (;;) {
    took(SPACE)
    const isIn = open.at(-1)
    if (wanted === "after") {
      if (isIn === undefined) return ["Nothing may follow the value", at]
      if (close(isIn)) continue
      if (text[at] !== ",") return [`"," or "${isIn}" is missing`, at]
      at += 1
      wanted = isIn === "}" ? "name" : "value"
    } else if (wanted === "name" || wanted === "name or end") {
      if (wanted === "name or end" && close("}")) continue
      if (!took(STRING)) return ['A name in "quotes" is missing', at]
      took(SPACE)
      if (text[at] !== ":") return ['":" is missing', at]
      at += 1
      wanted = "value"
    } else {
      if (wanted === "item or end" && close("]")) continue
      if (text[at] === "{" || text[at] === "[") {
        open.push(text[at] === "{" ? "}" : "]")
        wanted = text[at] === "{" ? "name or end" : "item or end"
        at += 1
      } else if (took(STRING) || took(SCALAR)) wanted = "after"
      else return ["A value is missing or misspelt", at]
    }
  }
}

export function placeAt(text: string, position: number): { line: number; column: number } {
  const lines = text.slice(0, position).split("\n")
  return { line: lines.length, column: lines.at(-1)!.length + 1 }
}

const TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]

/** The fault of a text that is to be a JSON schema. The members that a validator would stumble over. */
export function schemaFault(text: string): TextFault | null {
  const fault = jsonFault(text)
  if (fault || !text.trim()) return fault
  const message = wrongInSchema(JSON.parse(text), "the schema")
  return message === "" ? null : { message, line: 0, column: 0 }
}

function wrongInSchema(schema: unknown, place: string): string {
  if (typeof schema === "boolean") return ""
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    return `${place} must be an object`
  }
  const { type, properties, required, items } = schema as Record<string, unknown>
  const types = Array.isArray(type) ? type : type === undefined ? [] : [type]
  const unknown = types.find((one) => !TYPES.includes(one as string))
  if (unknown !== undefined) {
    return `${place}: "type" is ${JSON.stringify(unknown)}; there are ${TYPES.join(", ")}`
  }
  if (required !== undefined && !Array.isArray(required))
    return `${place}: "required" must be a list`
  if (properties !== undefined) {
    if (typeof properties !== "object" || properties === null || Array.isArray(properties)) {
      return `${place}: "properties" must be an object`
    }
    for (const [name, one] of Object.entries(properties)) {
      const message = wrongInSchema(one, name)
      if (message) return message
    }
  }
  return items === undefined ? "" : wrongInSchema(items, `items of ${place}`)
}

/**
 * Check an answer against the schema that it was to follow.
 *
 * @returns the reasons why it does not, at most 4; empty if it does.
 */
export function misfits(answer: string, schema: string): string[] {
  const fault = jsonFault(answer)
  if (fault || !answer.trim())
    return [`The answer is not JSON: ${fault?.message ?? "it is empty"}.`]
  const { errors } = validate(JSON.parse(answer), JSON.parse(schema) as Schema)
  return errors
    .slice(0, 4)
    .map(({ path, message }) => `${path.length ? path.join(".") : "The answer"} ${message}.`)
}
