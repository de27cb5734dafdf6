"""What the text of a program says: its kernels and launches, their statements, variables, subscripts and pointers."""
