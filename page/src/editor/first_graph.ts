/** A graph to begin with: it keeps a queue short, and can be tried as it stands. */
export const FIRST_GRAPH = `# Packets of "frames" go through, while the node behind has room for them.
input_stream: "frames"
output_stream: "seen"

node {
  calculator: "FlowLimiterCalculator"
  input_stream: "frames"
  input_stream: "FINISHED:seen"
  input_stream_info { tag_index: "FINISHED" back_edge: true }
  output_stream: "limited"
  node_options {
    [type.googleapis.com/mediapipe.FlowLimiterCalculatorOptions] {
      max_in_flight: 1
      max_in_queue: 1
    }
  }
}

node {
  calculator: "PassThroughCalculator"
  input_stream: "limited"
  output_stream: "seen"
}
`
