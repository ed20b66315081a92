import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete"
import {
  history,
  historyKeymap,
  indentWithTab,
  isolateHistory,
  redo,
  redoDepth,
  standardKeymap,
  undo,
  undoDepth,
} from "@codemirror/commands"
import { indentOnInput, syntaxHighlighting } from "@codemirror/language"
import { EditorState, type Extension } from "@codemirror/state"
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view"
import type { DraftFinding } from "../live_types"
import { offersAt, type Known } from "./completions"
import { readDraft } from "./draft"
import type { Change } from "./edits"
import { colors, indentation, textproto } from "./language"
import { look } from "./look"
import { findings, offsetOf, showFindings } from "./marks"

const KINDS = {
  calculator: "class",
  field: "property",
  stream: "variable",
  tag: "keyword",
  value: "enum",
  type: "type",
}

/** An editor of a graph's text in an element's shadow root: style sheets cannot enter the document. */
export class GraphEditor {
  readonly #view: EditorView
  readonly #extensions: Extension[]

  constructor(host: HTMLElement, text: string, known: Known, onchange: (text: string) => void) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" })
    this.#extensions = [
      lineNumbers(),
      history(),
      indentOnInput(),
      closeBrackets(),
      highlightActiveLine(),
      textproto,
      indentation,
      syntaxHighlighting(colors),
      autocompletion({ override: [(context) => completed(context, known)], icons: false }),
      keymap.of([
        ...closeBracketsKeymap,
        ...completionKeymap,
        ...historyKeymap,
        // Escape, then Tab leaves the editor: CodeMirror's own way out for keyboards.
        indentWithTab,
        ...standardKeymap,
      ]),
      EditorView.domEventHandlers({ beforeinput: replaceSelected }),
      EditorView.contentAttributes.of({ "aria-label": "Text of the graph", tabindex: "0" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onchange(update.state.doc.toString())
      }),
      findings,
      look,
    ]
    this.#view = new EditorView({ parent: root, root, state: this.#state(text) })
  }

  #state(text: string): EditorState {
    return EditorState.create({ doc: text, extensions: this.#extensions })
  }

  /** Show another text: what was done to the one before cannot be undone here. */
  begin(text: string): void {
    this.#view.setState(this.#state(text))
  }

  get text(): string {
    return this.#view.state.doc.toString()
  }

  set text(text: string) {
    if (text === this.text) return
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } })
  }

  /** Change parts of the text, as one step of undo. */
  change(changes: Change[]): void {
    this.#view.dispatch({ changes, userEvent: "input", annotations: isolateHistory.of("full") })
  }

  undo(): void {
    undo(this.#view)
  }
  redo(): void {
    redo(this.#view)
  }
  /** Whether there is something to undo, and to redo. */
  get depths(): [number, number] {
    const { state } = this.#view
    return [undoDepth(state), redoDepth(state)]
  }

  /** Underline findings at their words. */
  show(found: DraftFinding[]): void {
    showFindings(this.#view, found)
  }

  /** Bring a place into view, and the cursor to it. Both from 1. */
  goTo(line: number, column: number, isFocused = true): void {
    const anchor = offsetOf(this.#view.state, line, column)
    this.#view.dispatch({
      selection: { anchor },
      effects: EditorView.scrollIntoView(anchor, { y: "center" }),
    })
    if (isFocused) this.#view.focus()
  }

  destroy(): void {
    this.#view.destroy()
  }
}

/**
 * Replace selected text by what is typed. Chromium would keep the look of the text that goes in a
 * style attribute, which the Content-Security-Policy refuses.
 */
function replaceSelected(event: InputEvent, view: EditorView): boolean {
  const { data, inputType } = event
  if (inputType !== "insertText" || !data || view.composing) return false
  if (view.state.selection.main.empty) return false
  event.preventDefault()
  view.dispatch(view.state.replaceSelection(data), { userEvent: "input.type" })
  return true
}

function completed(context: CompletionContext, known: Known): CompletionResult | null {
  const text = context.state.doc.toString()
  const found = offersAt(text, readDraft(text), context.pos, known)
  if (!found || (!context.explicit && found.from === context.pos && !opens(text, context.pos))) {
    return null
  }
  return {
    from: found.from,
    options: found.offers.map((offer) => ({
      label: offer.label,
      type: KINDS[offer.kind],
      ...(offer.detail ? { detail: offer.detail } : {}),
      ...(offer.info ? { info: offer.info } : {}),
      ...(offer.apply ? { apply: written(offer.apply) } : {}),
    })),
    validFor: /^[\w./[\]]*$/,
  }
}

/** Offers come by themselves after an opening quote, a tag's colon, and at words. */
function opens(text: string, offset: number): boolean {
  return /[":[]$/.test(text.slice(Math.max(0, offset - 1), offset))
}

/** Write an offer, with the cursor in its empty braces or quotes. */
function written(text: string) {
  return (view: EditorView, _completion: unknown, from: number, to: number) => {
    const empty = /\{ {2}\}|""/.exec(text)
    const inside = empty ? empty.index + (empty[0] === '""' ? 1 : 2) : text.length
    view.dispatch({
      changes: { from, to, insert: text },
      selection: { anchor: from + inside },
      userEvent: "input.complete",
    })
  }
}
