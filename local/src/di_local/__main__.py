"""Entry point of `python -m di_local`."""

import sys

from di_local.main import main

sys.exit(main())
