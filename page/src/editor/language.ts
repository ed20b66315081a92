import {
  HighlightStyle,
  StreamLanguage,
  foldService,
  indentService,
  type StringStream,
} from "@codemirror/language"
import { tags } from "@lezer/highlight"

/** The colours of a graph's text. Names before a value or a message are fields. */
export const textproto = StreamLanguage.define({
  name: "textproto",
  languageData: {
    commentTokens: { line: "#" },
    closeBrackets: { brackets: ["{", "[", '"'] },
    indentOnInput: /^\s*\}$/,
  },
  token(stream: StringStream) {
    if (stream.eatSpace()) return null
    if (stream.match(/^#.*/)) return "comment"
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/)) return "string"
    if (stream.match(/^\[[^\]]*\]?/)) return "typeName"
    if (stream.match(/^-?\d[\w.+-]*/)) return "number"
    if (stream.match(/^\w+(?=\s*[:{<])/)) return "propertyName"
    if (stream.match(/^(?:true|false)\b/)) return "bool"
    if (stream.match(/^\w+/)) return "atom"
    stream.next()
    return "punctuation"
  },
})

/** Two spaces for each brace that is open at the beginning of the line. */
export const indentation = indentService.of((context, offset) => {
  const { from, text } = context.lineAt(offset)
  const before = context.state.doc.sliceString(0, from)
  const plain = before.replace(/#[^\n]*|"(?:[^"\\\n]|\\.)*"?/g, "")
  const open = (plain.match(/\{/g)?.length ?? 0) - (plain.match(/\}/g)?.length ?? 0)
  return Math.max(0, open - (text.trimStart().startsWith("}") ? 1 : 0)) * context.unit
})

/** A message with its braces on several lines folds to its first one. */
export const folding = foldService.of((state, from, to) => {
  const line = state.doc.sliceString(from, to)
  if (!/\{\s*(?:#.*)?$/.test(line)) return null
  let depth = 0
  for (let number = state.doc.lineAt(from).number; number <= state.doc.lines; number += 1) {
    const { text, from: start } = state.doc.line(number)
    const plain = text.replace(/"(?:[^"\\]|\\.)*"?|#.*/g, (found) => " ".repeat(found.length))
    for (let at = 0; at < plain.length; at += 1) {
      if (plain[at] === "{") depth += 1
      else if (plain[at] === "}") depth -= 1
      if (depth === 0 && plain[at] === "}") {
        return number > state.doc.lineAt(from).number ? { from: to, to: start + at } : null
      }
    }
  }
  return null
})

export const colors = HighlightStyle.define([
  { tag: tags.comment, color: "var(--faint)" },
  { tag: tags.string, color: "var(--kind-own)" },
  { tag: tags.propertyName, color: "var(--kind-image)" },
  { tag: tags.typeName, color: "var(--kind-model)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--kind-flow)" },
  { tag: tags.punctuation, color: "var(--muted)" },
])
