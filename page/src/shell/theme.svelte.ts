/** The looks that a person may choose; `auto` follows the system. */
export const THEMES = ["auto", "light", "dark"] as const
export type Theme = (typeof THEMES)[number]

const STORED = "graphrt-theme"

function chosen(): Theme {
  let value: string | null = null
  try {
    value = localStorage.getItem(STORED)
  } catch {
    // A browser may refuse storage; the theme is then the system's.
  }
  return THEMES.find((theme) => theme === value) ?? "auto"
}

export const look = $state<{ theme: Theme; isDark: boolean }>({ theme: chosen(), isDark: false })

const system = matchMedia("(prefers-color-scheme: dark)")
system.addEventListener("change", applyTheme)

export function chooseTheme(theme: Theme): void {
  look.theme = theme
  try {
    localStorage.setItem(STORED, theme)
  } catch {
    // See `chosen`.
  }
  applyTheme()
}

export function applyTheme(): void {
  const root = document.documentElement
  if (look.theme === "auto") delete root.dataset.theme
  else root.dataset.theme = look.theme
  look.isDark = look.theme === "auto" ? system.matches : look.theme === "dark"
}
