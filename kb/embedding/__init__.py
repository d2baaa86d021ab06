"""Texts → vectors: one file here for each embedder."""
