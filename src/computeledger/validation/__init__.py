"""Prediction against the published world: the claims of the source documents, recomputed."""
