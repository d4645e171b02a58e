"""A document -> its passages, by one strategy a module. Each fits the protocol `Chunker`; `auto` chooses among them."""
