"""Streamlit glue: registry, frame, controls, cached doors, text and the browser components."""
