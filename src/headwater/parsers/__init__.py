"""Adapters from bytes to documents. Each file reads one family of formats."""
