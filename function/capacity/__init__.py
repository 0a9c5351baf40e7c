"""Who has which GPUs: the pools, the ledger of an environment, admission by it, and the quota of a namespace."""
