"""Plotly charts: data in, Figure out; no Streamlit, no computing, no global state."""
