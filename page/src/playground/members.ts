import { getJson } from "../server/http.svelte"

/** A JSON schema, as far as members of requests need it. */
export interface Schema {
  $ref?: string
  type?: string | string[]
  description?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  oneOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  maxLength?: number
}

interface Media {
  schema: Schema
  examples?: Record<string, { value: Record<string, unknown> }>
}

export interface Document {
  paths: Record<string, { post?: { requestBody?: { content: Record<string, Media> } } } | undefined>
  components: { schemas: Record<string, Schema> }
}

/** A member of a request's body that a person may set in a form, with its bounds. */
export interface Member {
  name: string
  kind: "number" | "integer" | "boolean" | "choice" | "text" | "list"
  about: string
  choices: string[]
  lowest?: number
  highest?: number
  /** The bound itself is not allowed. */
  isAbove: boolean
  isBelow: boolean
}

// Larger bounds are those of a type, and tell a person nothing.
const TOLD_BOUND = 1e9

let loading: Promise<Document> | undefined

/** The server's OpenAPI document: read once, and again after a failure. */
export function loadDocument(): Promise<Document> {
  loading ??= getJson<Document>("openapi.json").catch((error: unknown) => {
    loading = undefined
    throw error
  })
  return loading
}

/** A body for a POST to the endpoint, as the document shows it; null if it shows none. */
export function exampleAt(document: Document, path: string): Record<string, unknown> | null {
  const content = document.paths[`/v3${path}`]?.post?.requestBody?.content["application/json"]
  return Object.values(content?.examples ?? {})[0]?.value ?? null
}

/** All members of the body of a POST to the endpoint, by name; empty if it is not described. */
export function schemasAt(document: Document, path: string): Record<string, Schema> {
  const content = document.paths[`/v3${path}`]?.post?.requestBody?.content ?? {}
  const schema = Object.values(content)[0]?.schema
  return (schema && resolved(document, schema).properties) ?? {}
}

function resolved(document: Document, schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1)
  return name === undefined ? schema : (document.components.schemas[name] ?? {})
}

/**
 * The members of an endpoint's body that are single values or lists of them, in the document's order.
 *
 * Members that change nothing, and those that are only accepted when empty, are left out, as are
 * those in `except`, which a view sets itself.
 */
export function membersAt(document: Document, path: string, except: string[]): Member[] {
  return Object.entries(schemasAt(document, path))
    .filter(([name]) => !except.includes(name))
    .map(([name, schema]) => memberFrom(name, schema))
    .filter((member) => member !== undefined)
}

export function memberFrom(name: string, schema: Schema): Member | undefined {
  const about = (schema.description ?? "").replaceAll("`", "")
  if (about.startsWith("Without effect") || about === "Changes nothing.") return undefined
  const told = schema.type ?? schema.anyOf?.flatMap((one) => one.type ?? [])
  const types = (told === undefined || Array.isArray(told) ? (told ?? []) : [told]).filter(
    (type) => type !== "null",
  )
  const base = { name, about, choices: [], isAbove: false, isBelow: false }
  const choices = schema.enum?.filter((value) => value !== null)
  if (choices) {
    const isText = choices.length > 1 && choices.every((value) => typeof value === "string")
    return isText ? { ...base, kind: "choice", choices } : undefined
  }
  if (types.includes("number") || types.includes("integer")) {
    const lowest = bound(schema.exclusiveMinimum ?? schema.minimum)
    const highest = bound(schema.exclusiveMaximum ?? schema.maximum)
    return {
      ...base,
      kind: types.includes("number") ? "number" : "integer",
      ...(lowest === undefined ? {} : { lowest }),
      ...(highest === undefined ? {} : { highest }),
      isAbove: schema.exclusiveMinimum !== undefined,
      isBelow: schema.exclusiveMaximum !== undefined,
    }
  }
  if (types.includes("array")) {
    const items = schema.items ?? schema.anyOf?.find((one) => one.items)?.items
    const isFlat = items?.type === "string" || items?.type === "integer"
    return isFlat && schema.items?.type !== "object" ? { ...base, kind: "list" } : undefined
  }
  if (types.includes("boolean")) return { ...base, kind: "boolean" }
  return types[0] === "string" ? { ...base, kind: "text" } : undefined
}

function bound(value: number | undefined): number | undefined {
  return value === undefined || Math.abs(value) >= TOLD_BOUND ? undefined : value
}

/** The bounds in words: "0 to 2", "above 0"; "" without any. */
export function boundsOf({ lowest, highest, isAbove, isBelow }: Member): string {
  const low = lowest === undefined ? "" : isAbove ? `above ${lowest}` : `${lowest}`
  const high = highest === undefined ? "" : isBelow ? `below ${highest}` : `${highest}`
  if (low && high)
    return isAbove || isBelow ? `${low}, ${isBelow ? "" : "at most "}${high}` : `${low} to ${high}`
  if (low) return isAbove ? low : `${low} or more`
  return high && (isBelow ? high : `${high} or less`)
}

/** The value that a person typed, or the reason why it is none. */
export type Typed = { value: unknown } | { wrong: string }

/** Read a field; an empty one has the value `undefined`: the member is not sent. */
export function typedValue(member: Member, text: string): Typed {
  const trimmed = text.trim()
  if (trimmed === "") return { value: undefined }
  switch (member.kind) {
    case "boolean":
      return { value: trimmed === "true" }
    case "choice":
      return { value: trimmed }
    case "text":
      return { value: text }
    case "list":
      return {
        value: text
          .split("\n")
          .filter((line) => line !== "")
          .map(listItem(member)),
      }
    default:
      return typedNumber(member, trimmed)
  }
}

function listItem(member: Member): (line: string) => unknown {
  return (line) => (member.name.endsWith("_ids") && /^\d+$/.test(line) ? Number(line) : line)
}

function typedNumber(member: Member, text: string): Typed {
  const value = Number(text.replace(",", "."))
  if (!Number.isFinite(value)) return { wrong: "a number" }
  if (member.kind === "integer" && !Number.isInteger(value)) return { wrong: "a whole number" }
  const { lowest, highest, isAbove, isBelow } = member
  const isLow = lowest !== undefined && (isAbove ? value <= lowest : value < lowest)
  const isHigh = highest !== undefined && (isBelow ? value >= highest : value > highest)
  return isLow || isHigh ? { wrong: boundsOf(member) } : { value }
}
