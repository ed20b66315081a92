import { expect, it } from "vitest"
import { resampled } from "../../src/playground/sound/talk"

it("brings a microphone's sound to 24,000 samples a second", () => {
  const tone = Float32Array.from({ length: 480 }, (_, at) => Math.sin((2 * Math.PI * at) / 48))
  const made = resampled(tone, 48_000)
  expect(made.length).toBe(240)
  expect(made[6]).toBe(32767)
  expect(resampled(tone, 24_000).length).toBe(480)
  expect(resampled(Float32Array.of(2, -2), 24_000)).toEqual(Int16Array.of(32767, -32767))
})

it("takes values between samples where the rates do not fit", () => {
  const ramp = Float32Array.from({ length: 441 }, (_, at) => at / 441)
  const made = resampled(ramp, 44_100)
  expect(made.length).toBe(240)
  for (let at = 1; at < made.length; at += 1) expect(made[at]).toBeGreaterThan(made[at - 1]!)
})
