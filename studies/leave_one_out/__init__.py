"""Leave one kind of kernel out: refit the constants on the other kinds, then score the one that was left out."""
