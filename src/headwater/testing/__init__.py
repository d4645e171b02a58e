"""Shipped with the package so that whoever writes a backend runs the same suites we do."""
