"""A model that predicts counters and durations by calling tools: compiler, recorded launches, preview, execution.

tools.toml has the tools and their prices. `policy` finds the cheapest way to a right answer of a labelled sample,
`traces` makes training chats of it, `train` and `agent` train a model and let it answer.
"""
