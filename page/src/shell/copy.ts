/** Copy a text. Pages of servers without TLS have no clipboard but the old one. */
export async function copy(text: string): Promise<void> {
  if (isSecureContext) return navigator.clipboard.writeText(text)
  const area = document.createElement("textarea")
  area.value = text
  // Nothing outside of an open dialog can be selected.
  const place = document.activeElement?.closest("dialog") ?? document.body
  place.append(area)
  area.select()
  document.execCommand("copy")
  area.remove()
}

/** Copy when a button is pressed, and say so on it for a while. */
export function copiesTo(button: HTMLButtonElement, text: () => string): void {
  button.onclick = async () => {
    await copy(text())
    button.textContent = "Copied"
    setTimeout(() => (button.textContent = "Copy"), 2000)
    button.focus()
  }
}
