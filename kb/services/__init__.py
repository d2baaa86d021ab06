"""The outside world: chat and embedding clients, limits, retries; the only importers of `openai` and HTTP."""
