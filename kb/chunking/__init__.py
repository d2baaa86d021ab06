"""Documents → chunks: one file here for each way to cut."""
