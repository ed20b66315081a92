/** Which panels stand around a chat: the same in all chats while the page is open. */
class Panels {
  history = $state(matchMedia("(min-width: 1200px)").matches)
  settings = $state(matchMedia("(min-width: 1000px)").matches)
  graph = $state(false)

  toggleGraph(): void {
    this.graph = !this.graph
    // There is room for two of the three on most screens.
    if (this.graph && innerWidth < 1600) this.settings = this.history = false
  }
}

export const panels = new Panels()
