import { PcmReader } from "./wav"

/** Plays samples as they come, one piece after the other without gaps. */
export class Player {
  readonly #context: AudioContext
  readonly #reader = new PcmReader()
  #next = 0

  constructor(rate: number) {
    this.#context = new AudioContext({ sampleRate: rate })
  }

  play(piece: Uint8Array): Float32Array {
    const samples = this.#reader.read(piece)
    if (!samples.length) return samples
    const buffer = this.#context.createBuffer(1, samples.length, this.#context.sampleRate)
    buffer.copyToChannel(samples, 0)
    const source = this.#context.createBufferSource()
    source.buffer = buffer
    source.connect(this.#context.destination)
    // A little room, so that the next piece is there before this one ends.
    this.#next = Math.max(this.#next, this.#context.currentTime + 0.08)
    source.start(this.#next)
    this.#next += buffer.duration
    return samples
  }

  /** Seconds of sound that are still to be played. */
  get left(): number {
    return Math.max(0, this.#next - this.#context.currentTime)
  }

  close(): void {
    if (this.#context.state !== "closed") void this.#context.close()
  }
}
