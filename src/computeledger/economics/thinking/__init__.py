"""Success against size, thinking tokens and samples: published tables, laws of few constants, and their tests."""
