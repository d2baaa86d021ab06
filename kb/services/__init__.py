"""The outside world: chat and embedding clients, retries; the only importers of `openai` and HTTP."""
