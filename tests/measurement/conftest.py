"""Settings and fixtures of the measurement tests."""

import os

# PoCL reads this variable when its platform is first queried. `make test` sets it, too.
os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
