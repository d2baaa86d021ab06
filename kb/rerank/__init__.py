"""A second, closer look at the hits: one file here for each reranker."""
