"""The vocabulary of requests that every task reads: payload, record, readers of fields."""
