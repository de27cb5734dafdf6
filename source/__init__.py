"""One reader of HIP text: parsing through libclang, what is declared and launched, and tolerant outlines."""
