import DOMPurify, { type Config } from "dompurify"
import { Marked, type Token } from "marked"
import { copiesTo } from "../shell/copy"

// Nothing that loads, nothing that looks like the page's own parts, and no address but of links.
const ALLOWED: Config = {
  ALLOWED_TAGS:
    "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong del a table thead tbody tr th td".split(
      " ",
    ),
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`)
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // HTML in an answer is text. A picture is a link to it: to load it would tell its host.
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || "picture")}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
})

/** The blocks of a text: all but the last stay as they are while the text grows. */
export function blocksOf(text: string): Token[] {
  return marked.lexer(text)
}

/**
 * Return a block as nodes for the document. DOMPurify is the only one that makes nodes of a model's
 * words; it works under Trusted Types by its own policy.
 */
export function renderedBlock(block: Token): DocumentFragment {
  const fragment = DOMPurify.sanitize(
    marked.parser([block]),
    ALLOWED,
  ) as unknown as DocumentFragment
  for (const link of fragment.querySelectorAll("a")) {
    if (link.hasAttribute("href")) {
      link.rel = "noopener noreferrer"
      link.target = "_blank"
    } else link.replaceWith(...link.childNodes)
  }
  // Wide code and tables scroll; a keyboard has to reach them.
  for (const wide of fragment.querySelectorAll<HTMLElement>("pre, table")) wide.tabIndex = 0
  for (const code of fragment.querySelectorAll("pre")) {
    const button = document.createElement("button")
    button.textContent = "Copy"
    copiesTo(button, () => code.textContent)
    const box = document.createElement("div")
    code.replaceWith(box)
    box.append(code, button)
  }
  return fragment
}

/** Shows a text as markdown in an element, and only what is new of it when it grows. */
export class MarkdownText {
  readonly #element: HTMLElement
  #shown: { raw: string; nodes: ChildNode[] }[] = []

  constructor(element: HTMLElement) {
    this.#element = element
  }

  show(text: string): void {
    const blocks = blocksOf(text)
    let same = 0
    while (same < this.#shown.length && this.#shown[same]!.raw === blocks[same]?.raw) same += 1
    for (const { nodes } of this.#shown.splice(same)) for (const node of nodes) node.remove()
    for (const block of blocks.slice(same)) {
      const fragment = renderedBlock(block)
      const nodes = [...fragment.childNodes]
      this.#element.append(fragment)
      this.#shown.push({ raw: block.raw, nodes })
    }
  }
}
