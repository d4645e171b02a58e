"""Adapters to places where documents live."""
