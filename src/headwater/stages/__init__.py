"""The stages of a search, each a Retriever around another: `retrieve.compose` nests them as a request asks."""
