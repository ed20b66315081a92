"""`TableRouter`: Ray Serve's router by the front's own `RoutingTable`.

Ray takes the class with a copy of this module, so it has no state here, and imports in methods what
it shares with the front.
"""

from __future__ import annotations

from typing import Any

try:
    from ray.serve.request_router import RequestRouter
except ImportError:  # without Ray nothing uses the class
    RequestRouter = object

#: Calls that begin a request; all others belong to one that a replica has.
BEGINNING = frozenset({"answer", "infer", "open_stream"})


class TableRouter(RequestRouter):  # type: ignore[misc]  # Ray need not be installed
    """Chooses the cheapest replica for a request. The first argument of each call is its key."""

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """Return the replicas for a call, each a rank of its own, the best first."""
        from servers.replicas.routing_table import table_of

        if pending_request is None:
            return [candidate_replicas]
        # Without it, Ray would ask again at once, for ever.
        pending_request.routing_context.should_backoff = True
        found = {each.replica_id.unique_id: each for each in candidate_replicas}
        offers = table_of(self._deployment_id.app_name).offers(
            pending_request.args[0],
            found.keys(),
            pinned=pending_request.metadata.call_method not in BEGINNING,
        )
        return [[found[name]] for name in offers]

    def on_request_routed(self, pending_request: Any, replica_id: Any, result: Any) -> None:
        """Note the replica that has taken a request. It may be over already."""
        from servers.replicas.routing_table import table_of

        if pending_request.metadata.call_method in BEGINNING:
            table = table_of(self._deployment_id.app_name)
            table.note_sent(pending_request.args[0], replica_id.unique_id)
