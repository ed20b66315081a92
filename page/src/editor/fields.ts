// The fields that graphs are written with, by the message around them. A test holds them against the
// compiled protos (tests/page/test_editor_fields.py).
export const FIELDS: Record<string, string[]> = {
  CalculatorGraphConfig: [
    "input_stream",
    "output_stream",
    "input_side_packet",
    "output_side_packet",
    "node",
    "type",
    "executor",
    "max_queue_size",
    "num_threads",
    "report_deadlock",
    "input_stream_handler",
    "status_handler",
  ],
  Node: [
    "name",
    "calculator",
    "input_stream",
    "output_stream",
    "input_side_packet",
    "output_side_packet",
    "input_stream_info",
    "input_stream_handler",
    "node_options",
    "options",
    "executor",
    "max_in_flight",
    "source_layer",
  ],
  InputStreamInfo: ["tag_index", "back_edge"],
  InputStreamHandlerConfig: ["input_stream_handler", "options"],
  ExecutorConfig: ["name", "type", "options"],
}

/** The fields whose values are messages: a brace follows them, not a colon. */
export const MESSAGES: Record<string, string> = {
  node: "Node",
  input_stream_info: "InputStreamInfo",
  input_stream_handler: "InputStreamHandlerConfig",
  executor: "ExecutorConfig",
}
