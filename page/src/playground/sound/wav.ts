/** Sound as a WAV file of 16-bit samples, one channel. `samples` are from -1 to 1. */
export function wavFile(samples: Float32Array, rate: number): Blob {
  const view = new DataView(new ArrayBuffer(44 + samples.length * 2))
  const put = (at: number, text: string) =>
    [...text].forEach((sign, index) => view.setUint8(at + index, sign.charCodeAt(0)))
  put(0, "RIFF")
  view.setUint32(4, 36 + samples.length * 2, true)
  put(8, "WAVEfmt ")
  view.setUint32(16, 16, true)
  view.setUint16(20, 1, true)
  view.setUint16(22, 1, true)
  view.setUint32(24, rate, true)
  view.setUint32(28, rate * 2, true)
  view.setUint16(32, 2, true)
  view.setUint16(34, 16, true)
  put(36, "data")
  view.setUint32(40, samples.length * 2, true)
  samples.forEach((sample, index) => {
    const value = Math.max(-1, Math.min(1, sample))
    view.setInt16(44 + index * 2, Math.round(value * 32767), true)
  })
  return new Blob([view], { type: "audio/wav" })
}

/** 16-bit little-endian samples in pieces of any length; a half sample waits for the next piece. */
export class PcmReader {
  #rest: Uint8Array = new Uint8Array(0)

  read(piece: Uint8Array): Float32Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.#rest.length + piece.length)
    bytes.set(this.#rest)
    bytes.set(piece, this.#rest.length)
    const count = bytes.length >> 1
    this.#rest = bytes.slice(count * 2)
    const view = new DataView(bytes.buffer)
    const samples = new Float32Array(count)
    for (let at = 0; at < count; at += 1) samples[at] = view.getInt16(at * 2, true) / 32768
    return samples
  }
}
