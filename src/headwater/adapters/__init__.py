"""A knowledge base -> a retriever of another framework. Each module needs that framework; nothing here imports it."""
