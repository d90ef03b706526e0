"""One part of the measurement in a process of its own."""

import sys

from rntp.gpu.report import child

if __name__ == "__main__":
    sys.exit(child(sys.argv[1:]))
