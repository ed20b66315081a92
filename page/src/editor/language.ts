import {
  HighlightStyle,
  StreamLanguage,
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

export const colors = HighlightStyle.define([
  { tag: tags.comment, color: "var(--faint)" },
  { tag: tags.string, color: "var(--kind-own)" },
  { tag: tags.propertyName, color: "var(--kind-image)" },
  { tag: tags.typeName, color: "var(--kind-model)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--kind-flow)" },
  { tag: tags.punctuation, color: "var(--muted)" },
])
