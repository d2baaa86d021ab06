"""Fill a collection from a file that `pipelines.export` wrote: `python -m pipelines.import FILE`.

Exit status: 0 done, 2 an error with a message, 70 what nobody foresaw.
"""

from __future__ import annotations

from kb import command
from pipelines._importing import main

if __name__ == "__main__":
    command.leave(main())
