import { jsonFault } from "../playground/json"

/** An input of the graph in the form: its packets as JSON, one a line. */
export interface Field {
  name: string
  type: string
  isSide: boolean
}

interface Port {
  name: string
  type: string
}

/** The inputs that a description names. */
export function fieldsOf(description: Record<string, unknown> | null | undefined): Field[] {
  const ports = (name: string, isSide: boolean) =>
    ((description?.[name] as Port[] | undefined) ?? []).map(({ name, type }) => ({
      name,
      type,
      isSide,
    }))
  return [...ports("inputs", false), ...ports("input_side_packets", true)]
}

/** A first packet for an input, by its type. */
export function sampleOf({ type }: Field): string {
  if (/^(int|float|double|number)/i.test(type)) return "1\n2\n3"
  if (/^bool/i.test(type)) return "true\nfalse"
  if (/payload/i.test(type)) return '{"model": "graph"}'
  return '"first"\n"second"\n"third"'
}

/** What is wrong with the packets of an input; "" if nothing is. */
export function fieldFault({ isSide }: Field, text: string): string {
  if (isSide) return jsonFault(text)?.message ?? ""
  const lines = text.split("\n")
  for (const [at, line] of lines.entries()) {
    const fault = jsonFault(line)
    if (fault) return `Line ${at + 1}: ${fault.message}`
  }
  return ""
}

/**
 * The packets of a run. The n-th line of each stream has the timestamp n, and lines are in the order
 * of their timestamps, so that nodes with several inputs get their sets together. An empty line is a
 * timestamp without a packet.
 */
export function packetsFrom(
  fields: Field[],
  texts: Record<string, string>,
): { stream: string; ts: number; value: unknown }[] {
  return fields
    .filter(({ isSide }) => !isSide)
    .flatMap(({ name }) =>
      (texts[name] ?? "").split("\n").flatMap((line, ts) => {
        return line.trim() ? [{ stream: name, ts, value: JSON.parse(line) as unknown }] : []
      }),
    )
    .sort((a, b) => a.ts - b.ts)
}

export function sidePacketsFrom(
  fields: Field[],
  texts: Record<string, string>,
): Record<string, unknown> {
  return Object.fromEntries(
    fields
      .filter(({ name, isSide }) => isSide && (texts[name] ?? "").trim())
      .map(({ name }) => [name, JSON.parse(texts[name]!) as unknown]),
  )
}
