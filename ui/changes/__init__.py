"""The explorer's pages: all heads at once, two side by side, the one that was meant."""
