"""``python -m computeledger``."""

from computeledger.interfaces.cli import main

if __name__ == "__main__":
    main()
