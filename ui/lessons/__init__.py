"""Glue of the lesson pages, one file a page: its controls, its cached doors, what it shows."""
