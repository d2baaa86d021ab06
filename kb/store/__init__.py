"""Vector stores; a file of this folder is a store that `[store] use` can name."""
