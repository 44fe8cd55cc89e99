"""``python -m ddl.cli`` is `ddl`."""

import sys

from ddl.cli import main

sys.exit(main())
