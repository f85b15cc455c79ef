"""Settings and fixtures of the measurement tests."""

import os

# PoCL reads it when its platform is first looked at; `make test` sets it too.
os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "1")
