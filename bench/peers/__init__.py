"""The stores that the scale benchmark compares, each behind the same few methods."""
