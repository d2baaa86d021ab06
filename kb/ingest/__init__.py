"""Folder → collection: what to do, and doing it so that an interruption costs nothing."""
