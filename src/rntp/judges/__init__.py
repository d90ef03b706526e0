"""Judges that are language models: what they are asked, how a verdict is read, and how far it agrees with the truth."""
