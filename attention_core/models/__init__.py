"""Which models there are, where their files lie, and how they are loaded."""
