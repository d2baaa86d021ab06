"""Commands: each parses its arguments, calls kb, and prints."""
