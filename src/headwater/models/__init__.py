"""Adapters to models. Each file wraps one model or one way of reaching models."""
