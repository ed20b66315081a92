/** A text with a model's word for it and a figure for each word that it knows. */
export interface Labelled {
  text: string
  label: string
  /** The badge's color, where the label is good or bad news. */
  tone?: "ok" | "bad"
  bars: { name: string; value: number; note?: string }[]
}
