import { StateEffect, StateField, type EditorState, type Range } from "@codemirror/state"
import { Decoration, EditorView, hoverTooltip, type DecorationSet } from "@codemirror/view"
import type { DraftFinding } from "../live_types"

const replaced = StateEffect.define<DraftFinding[]>()

/** The words that findings are about, which move with the text until the next findings come. */
const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(set, transaction) {
    const effect = transaction.effects.find((one) => one.is(replaced))
    if (!effect) return set.map(transaction.changes)
    const ranges = effect.value.map((finding) => range(transaction.state, finding))
    return Decoration.set(
      ranges.filter((one) => one !== null),
      true,
    )
  },
  provide: (field) => EditorView.decorations.from(field),
})

function range(state: EditorState, finding: DraftFinding): Range<Decoration> | null {
  const { line, column, end_line, end_column, hint, message, severity } = finding
  const from = offsetOf(state, line ?? 1, column ?? 1)
  const end = offsetOf(state, end_line ?? line ?? 1, end_column ?? 1)
  // A finding without an end is about what begins there.
  const to = end > from ? end : state.doc.lineAt(from).to
  if (to <= from) return null
  const words = hint ? `${message}\n${hint}` : message
  return Decoration.mark({ class: `finding ${severity}`, words, severity }).range(from, to)
}

/** The offset of a place from 1, in a text that may be another one by now. */
export function offsetOf(state: EditorState, line: number, column: number): number {
  const found = state.doc.line(Math.max(1, Math.min(state.doc.lines, line)))
  return Math.min(found.to, found.from + column - 1)
}

const told = hoverTooltip((view, offset) => {
  let tooltip: { pos: number; end: number; words: string; severity: string } | null = null
  view.state.field(marks).between(offset, offset, (from, to, mark) => {
    const { words, severity } = mark.spec as { words: string; severity: string }
    tooltip = { pos: from, end: to, words, severity }
    return false
  })
  if (!tooltip) return null
  const {
    pos,
    end,
    words,
    severity,
  }: { pos: number; end: number; words: string; severity: string } = tooltip
  return {
    pos,
    end,
    create() {
      const dom = document.createElement("div")
      dom.className = `told ${severity}`
      dom.textContent = words
      return { dom }
    },
  }
})

/** Underlines findings, and shows their words to a mouse; the list beside the text has them too. */
export const findings = [marks, told]

export function showFindings(view: EditorView, found: DraftFinding[]): void {
  view.dispatch({ effects: replaced.of(found) })
}
