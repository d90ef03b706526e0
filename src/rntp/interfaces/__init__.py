"""What people and programs meet: the command ``rntp``."""
