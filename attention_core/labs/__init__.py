"""One idea of self-attention a file, computed live, usable from a notebook."""
