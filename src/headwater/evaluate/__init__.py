"""How good is retrieval? Test sets in, figures out: through the same search that people use."""
