"""How good the answers are: questions whose answers are known, asked of a KnowledgeBase and scored."""
