"""The ledger: what is known about a collection, and what was paid for."""
