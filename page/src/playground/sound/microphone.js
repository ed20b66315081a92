/* global AudioWorkletProcessor, registerProcessor */
// Runs beside the page, in the thread that has the sound: a file of its own.

const PIECE = 2048

/** Posts the samples of its input in pieces. */
class Microphone extends AudioWorkletProcessor {
  #piece = new Float32Array(PIECE)
  #count = 0

  process([[samples]]) {
    if (!samples) return true
    this.#piece.set(samples, this.#count)
    this.#count += samples.length
    if (this.#count >= PIECE) {
      this.port.postMessage(this.#piece)
      this.#count = 0
    }
    return true
  }
}

registerProcessor("microphone", Microphone)
