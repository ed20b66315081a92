import type { Servable } from "../servables"

/** Three first prompts: short ones that small models can answer too. */
export function examplesFor({ name }: Servable): string[] {
  return [
    `Who are you, ${name}?`,
    "Explain in two sentences how a dataflow graph works.",
    "Write a limerick about a patient server.",
  ]
}
