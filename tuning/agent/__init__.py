"""A language model that drives the tools, the traces of its runs, and training samples from them and from searches."""
