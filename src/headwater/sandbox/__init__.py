"""Bytes of files that nobody vouches for -> documents, parsed in processes that can be killed."""
