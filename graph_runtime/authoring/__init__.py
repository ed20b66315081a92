"""The author's side: calculators, contracts, ports, packet types, services, executors."""
