"""Glue of the pages on which a model is changed or made to write, one file a page: controls, cached doors, pictures."""
