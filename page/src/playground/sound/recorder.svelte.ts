import { wavFile } from "./wav"

const RATE = 16_000
// Milliseconds of each piece.
const PIECE = 250

/** The microphone's sound as a WAV file: browsers record formats that servers may not read. */
export class Recorder {
  isOn = $state(false)
  /** Of sound that is recorded so far. */
  seconds = $state(0)

  #media: MediaRecorder | null = null
  #pieces: Blob[] = []

  /** @throws DOMException if there is no microphone, or it is not allowed. */
  async start(): Promise<void> {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
    const media = new MediaRecorder(stream)
    this.#media = media
    this.#pieces = []
    this.seconds = 0
    media.ondataavailable = ({ data }) => {
      if (data.size) this.#pieces.push(data)
      this.seconds = (this.#pieces.length * PIECE) / 1000
    }
    media.start(PIECE)
    this.isOn = true
  }

  /**
   * End the recording and return it: one channel, 16,000 samples a second.
   *
   * @throws Error if nothing was recorded.
   */
  async stop(): Promise<File> {
    const media = this.#media!
    const ended = new Promise((resolve) => (media.onstop = resolve))
    media.stop()
    await ended
    this.release()
    if (!this.#pieces.length) throw new Error("Nothing was recorded.")
    const encoded = await new Blob(this.#pieces, { type: media.mimeType }).arrayBuffer()
    // A context at this rate resamples what it decodes.
    const sound = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(encoded)
    const mixed = new OfflineAudioContext(1, Math.max(1, sound.length), RATE)
    const source = mixed.createBufferSource()
    source.buffer = sound
    source.connect(mixed.destination)
    source.start()
    const samples = (await mixed.startRendering()).getChannelData(0)
    return new File([wavFile(samples, RATE)], "recording.wav", { type: "audio/wav" })
  }

  /** Let the microphone go. */
  release(): void {
    this.#media?.stream.getTracks().forEach((track) => track.stop())
    this.#media = null
    this.isOn = false
  }
}
