"""Claims of the source documents, recomputed."""
