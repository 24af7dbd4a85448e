"""HTTP itself: connections, routes, bodies, errors and idempotent requests. Nothing here knows what a route does."""
