"""The server: one open home over HTTP."""
