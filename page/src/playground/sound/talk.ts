import { openSocket } from "../../server/http.svelte"
import microphone from "./microphone.js?url"
import { Player } from "./player"

// What the server takes and sends: 16-bit samples, one channel.
const RATE = 24_000

export interface Turn {
  id: string
  isOwn: boolean
  text: string
}

interface Told {
  type: string
  item_id: string
  delta: string
  transcript: string
  session: { type: string }
  response: { status: string; status_details?: { type: string } }
  error: { message: string }
}

/** What a talk tells as it goes on. */
export interface Listener {
  /** Of one turn: its whole text so far. */
  turn: (turn: Turn) => void
  state: (words: string) => void
  failed: (message: string) => void
  ended: () => void
}

/**
 * A talk with a model: the microphone's sound goes to the server, answers are played. Who speaks
 * interrupts; a model that only listens writes down what is said.
 */
export class Talk {
  readonly #listener: Listener
  readonly #texts = new Map<string, string>()
  #socket: WebSocket | null = null
  #context: AudioContext | null = null
  #stream: MediaStream | null = null
  #player: Player | null = null
  /** The answer that is played, and seconds of its sound that have come. */
  #spoken = { id: "", seconds: 0 }

  constructor(listener: Listener) {
    this.#listener = listener
  }

  /** @throws DOMException if there is no microphone, or it is not allowed. */
  async start(model: string): Promise<void> {
    // Both in the click: browsers let nothing else begin to sound.
    const context = (this.#context = new AudioContext())
    this.#player = new Player(RATE)
    const audio = { echoCancellation: true, noiseSuppression: true }
    const stream = await navigator.mediaDevices.getUserMedia({ audio })
    if (this.#context !== context) {
      stream.getTracks().forEach((track) => track.stop())
      return
    }
    this.#stream = stream
    const socket = (this.#socket = openSocket(`v1/realtime?model=${encodeURIComponent(model)}`))
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data as string) as Told)
    socket.onclose = ({ reason }) => {
      if (reason) this.#listener.failed(reason)
      this.stop()
    }
    await context.audioWorklet.addModule(microphone)
    const pieces = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 })
    pieces.port.onmessage = ({ data }: MessageEvent<Float32Array>) =>
      this.#send(resampled(data, context.sampleRate))
    context.createMediaStreamSource(stream).connect(pieces)
  }

  /** End the talk; again does nothing. */
  stop(): void {
    if (!this.#context) return
    void this.#context.close()
    this.#context = null
    this.#stream?.getTracks().forEach((track) => track.stop())
    this.#player?.close()
    this.#socket?.close()
    this.#listener.ended()
  }

  #tell(event: Record<string, unknown>): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event))
  }

  #send(samples: Int16Array): void {
    const bytes = new Uint8Array(samples.buffer)
    this.#tell({ type: "input_audio_buffer.append", audio: btoa(String.fromCharCode(...bytes)) })
  }

  #take(event: Told): void {
    switch (event.type) {
      case "session.created": {
        const input = { turn_detection: { type: "server_vad" }, transcription: {} }
        const type = event.session.type
        this.#tell({ type: "session.update", session: { type, audio: { input } } })
        break
      }
      case "session.updated":
        this.#listener.state("Listening")
        break
      case "input_audio_buffer.speech_started":
        this.#listener.state("You speak")
        this.#interrupt()
        break
      case "input_audio_buffer.speech_stopped":
        this.#listener.state("Listening")
        break
      case "conversation.item.input_audio_transcription.delta":
        this.#add(event.item_id, event.delta, true)
        break
      case "conversation.item.input_audio_transcription.completed":
        this.#texts.delete(event.item_id)
        this.#add(event.item_id, event.transcript, true)
        break
      case "response.created":
        this.#listener.state("Thinking")
        break
      case "response.output_audio_transcript.delta":
        this.#listener.state("Answering")
        this.#add(event.item_id, event.delta, false)
        break
      case "response.output_audio.delta":
        this.#play(event)
        break
      case "response.done":
        this.#listener.state("Listening")
        break
      case "error":
        this.#listener.failed(event.error.message)
    }
  }

  #add(id: string, text: string, isOwn: boolean): void {
    const whole = (this.#texts.get(id) ?? "") + text
    this.#texts.set(id, whole)
    this.#listener.turn({ id, isOwn, text: whole })
  }

  #play({ item_id, delta }: Told): void {
    if (item_id !== this.#spoken.id) this.#spoken = { id: item_id, seconds: 0 }
    const samples = this.#player!.play(Uint8Array.from(atob(delta), (sign) => sign.charCodeAt(0)))
    this.#spoken.seconds += samples.length / RATE
  }

  /** Stop playing, and say how far the answer was heard. */
  #interrupt(): void {
    const left = this.#player!.left
    if (left <= 0) return
    this.#player!.close()
    this.#player = new Player(RATE)
    const heard = Math.max(0, Math.floor((this.#spoken.seconds - left) * 1000))
    this.#tell({
      type: "conversation.item.truncate",
      item_id: this.#spoken.id,
      content_index: 0,
      audio_end_ms: heard,
    })
  }
}

/** Samples from -1 to 1 at `rate`, as 16-bit ones at `RATE`. */
export function resampled(samples: Float32Array, rate: number): Int16Array<ArrayBuffer> {
  const step = rate / RATE
  const made = new Int16Array(Math.floor(samples.length / step))
  for (let at = 0; at < made.length; at += 1) {
    const place = at * step
    const first = Math.floor(place)
    const part = place - first
    const before = samples[first]!
    const value = before * (1 - part) + (samples[first + 1] ?? before) * part
    made[at] = Math.round(Math.max(-1, Math.min(1, value)) * 32767)
  }
  return made
}
