"""Looking after a collection: status, check, repair, copy, prune, delete, export and import. Nothing here embeds."""
