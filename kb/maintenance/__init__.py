"""Looking after a collection: status, check, repair, prune, delete, export and import. Nothing here embeds."""
