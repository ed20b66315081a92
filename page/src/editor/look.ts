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
  ".cm-foldPlaceholder": {
    border: "0",
    padding: "0 6px",
    backgroundColor: "var(--raised)",
    color: "var(--muted)",
  },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--bad)",
    textUnderlineOffset: "3px",
  },
  ".cm-lintRange-warning": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--warn)",
    textUnderlineOffset: "3px",
  },
  ".cm-lint-marker": { content: "none", width: "10px", height: "10px", borderRadius: "50%" },
  ".cm-lint-marker-error": { backgroundColor: "var(--bad)", borderRadius: "2px" },
  ".cm-lint-marker-warning": { backgroundColor: "var(--warn)" },
  ".cm-tooltip": panel,
  ".cm-diagnostic": { padding: "8px 12px", whiteSpace: "pre-wrap", maxWidth: "460px" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "3px solid var(--warn)" },
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
