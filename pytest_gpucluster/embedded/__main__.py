"""The control plane as a process: one JSON line in, one JSON line out, and it ends with its parent."""

import sys

from pytest_gpucluster.embedded.process import main

if __name__ == "__main__":
    sys.exit(main())
