import { EditorView } from "@codemirror/view"

const panel = {
  border: "1px solid var(--line)",
  borderRadius: "8px",
  backgroundColor: "var(--surface)",
  color: "var(--text)",
  boxShadow: "var(--shadow)",
}

/** The page's look: its custom properties reach into the shadow root. */
export const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--surface)", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "13px", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--text)", padding: "12px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    backgroundColor: "var(--surface)",
    color: "var(--faint)",
    border: "0",
  },
  ".cm-activeLine": { backgroundColor: "color-mix(in oklab, var(--raised) 60%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { backgroundColor: "color-mix(in oklab, var(--accent) 30%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)" },
  ".finding": { textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".finding.warning": { textDecorationColor: "var(--warn)" },
  ".cm-tooltip": panel,
  ".told": {
    padding: "8px 12px",
    maxWidth: "460px",
    borderLeft: "3px solid var(--bad)",
    borderRadius: "8px",
    fontFamily: "var(--sans)",
    whiteSpace: "pre-wrap",
  },
  ".told.warning": { borderLeftColor: "var(--warn)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": {
    fontFamily: "var(--mono)",
    fontSize: "12px",
    maxHeight: "260px",
    maxWidth: "640px",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--accent-soft)",
    color: "var(--text)",
  },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", fontFamily: "var(--sans)" },
  ".cm-completionInfo": { ...panel, padding: "8px 12px", maxWidth: "360px" },
})
