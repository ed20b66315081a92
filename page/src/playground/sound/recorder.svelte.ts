import { wavFile } from "./wav"

const RATE = 16_000

/** The microphone's sound as a WAV file: browsers record formats that servers may not read. */
export class Recorder {
  isOn = $state(false)

  #media: MediaRecorder | null = null

  /** @throws DOMException if there is no microphone, or it is not allowed. */
  async start(): Promise<void> {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
    this.#media = new MediaRecorder(stream)
    this.#media.start()
    this.isOn = true
  }

  /** End the recording and return it: one channel, 16,000 samples a second. */
  async stop(): Promise<File> {
    const media = this.#media!
    const pieces: Blob[] = []
    const ended = new Promise<void>((resolve) => {
      media.ondataavailable = ({ data }) => pieces.push(data)
      media.onstop = () => resolve()
    })
    media.stop()
    await ended
    this.release()
    const encoded = await new Blob(pieces, { type: media.mimeType }).arrayBuffer()
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
