import type { Servable } from "./servables"

/** What the server says of a model's bounds, in words: "text_generation · 2,048 tokens". */
export function limitsOf({ task, facts }: Servable): string {
  const words = [task]
  const { max_model_len: length, labels, voices, parent } = facts
  if (typeof length === "number") words.push(`${length.toLocaleString("en")} tokens`)
  if (Array.isArray(labels)) words.push(`${labels.length} labels`)
  if (Array.isArray(voices)) words.push(voices.length === 1 ? "1 voice" : `${voices.length} voices`)
  if (typeof parent === "string") words.push(`adapter of ${parent}`)
  return words.filter(Boolean).join(" · ")
}
