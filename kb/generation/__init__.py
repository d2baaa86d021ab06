"""Hits → an answer with numbered sources: one file here for each generator."""
