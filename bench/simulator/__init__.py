"""A discrete-event Crossplane around the function in this process: what a fleet costs, and what its races do.

Time is simulated, processor time and bytes are measured. What core does is taken from its sources (docs/facts.md,
Crossplane): one queue for each kind, dependants by name and by label, answers of the last reconcile sent with the first
call, rounds until requirements repeat, a cache that lags behind the API server, writes that conflict. The function is
the real one, from the bytes of a request to the bytes of a response. Left out: admission, defaults and pruning of
schemas, the circuit breaker (its tokens are counted), managed fields.
"""
