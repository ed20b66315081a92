"""The chains of `bench.graph_throughput` on MediaPipe 0.10.21, through its Python binding.

Run by bench/graph_throughput.py with a Python that has the mediapipe package; prints table rows.
"""

import statistics
import sys
import time
from typing import Any

REPEATS = 5
CHAINS = ((1, 20_000), (10, 10_000), (50, 4_000))
EXECUTORS = (
    ("MediaPipe 0.10.21, default executor", ""),
    ("MediaPipe 0.10.21, application thread", 'executor { type: "ApplicationThreadExecutor" }'),
)


def chain(nodes: int, extra: str) -> str:
    lines = [
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{i}" '
        f'output_stream: "s{i + 1}" }}'
        for i in range(nodes)
    ]
    return "\n".join(['input_stream: "s0"', extra, *lines])


def run(
    calculator_graph: Any,
    packet_creator: Any,
    timestamp: Any,
    nodes: int,
    packets: int,
    extra: str,
) -> float:
    graph = calculator_graph.CalculatorGraph(graph_config=chain(nodes, extra))
    seen = [0]

    def count(stream: str, packet: Any) -> None:
        seen[0] += 1

    graph.observe_output_stream(f"s{nodes}", count)
    graph.start_run()
    packet = packet_creator.create_int(1)
    times = [timestamp.Timestamp(i) for i in range(packets)]
    add = graph.add_packet_to_input_stream
    started = time.perf_counter()
    for at in times:
        add("s0", packet, at)
    graph.wait_until_idle()
    elapsed = time.perf_counter() - started
    graph.close_all_packet_sources()
    graph.wait_until_done()
    assert seen[0] == packets
    return elapsed


def main() -> None:
    from mediapipe.python import packet_creator
    from mediapipe.python._framework_bindings import calculator_graph, timestamp

    for name, extra in EXECUTORS:
        for nodes, packets in CHAINS:
            times = sorted(
                run(calculator_graph, packet_creator, timestamp, nodes, packets, extra)
                for _ in range(REPEATS)
            )
            rates = sorted(packets / each for each in times)
            per_node = [each / packets / nodes * 1e6 for each in times]
            print(
                f"| {name} | {nodes} | {statistics.median(rates):,.0f} ({rates[0]:,.0f} to "
                f"{rates[-1]:,.0f}) | {statistics.median(per_node):.2f} ({per_node[0]:.2f} to "
                f"{per_node[-1]:.2f}) |"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
