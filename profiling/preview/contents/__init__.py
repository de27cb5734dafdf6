"""What buffers hold at a launch: loops of the host code that fill arrays, translated and run in order."""
