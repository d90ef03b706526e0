"""``python -m rntp``."""

from rntp.interfaces.cli import main

if __name__ == "__main__":
    main()
