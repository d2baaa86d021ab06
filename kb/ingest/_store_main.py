"""A process that has a store open for an ingest; `kb.ingest.store_process` starts it by this file's path.

The first line on stdin says where modules are and who the parent is. Then pickles: the place of a store,
and calls of it; each is answered by one, `(True, what it gave)` or `(False, the error)`. Both sides are
this project's own code, and what comes from outside is in the store already, so pickles are no risk here.

It must not write when nobody holds the collection's lock any more. Its parent's death ends it: at once on
Linux, elsewhere when a call has ended; the lock, which it has inherited, is held until then.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
"""From <sys/prctl.h>."""


def main() -> None:
    """Answer calls until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent as well, which ends this process
    requests = sys.stdin.buffer
    setup = json.loads(requests.readline())
    _die_with(setup["parent"])
    sys.path[:] = setup["path"]
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # whatever a library prints is no answer
        _serve(requests, answers)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has died before that
        os._exit(0)


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    from kb.components import Parts, build_component

    use, options, place = pickle.load(requests)
    store = _answered(answers, build_component, "store", use, options, Parts(place=place), keep=True)
    while store is not None:
        try:
            name, arguments = pickle.load(requests)
        except EOFError:  # the parent has gone, or has no more to say
            return
        _answered(answers, getattr(store, name), *arguments)


def _answered(answers: IO[bytes], call: Callable[..., Any], *arguments: Any, keep: bool = False) -> Any:
    """Call, and send what it gives, or its error; what is kept here is not sent."""
    from kb.errors import KbError

    given: Any = None
    try:
        given = call(*arguments)
        answer = (True, None if keep else list(given) if isinstance(given, Iterator) else given)
    except KbError as error:
        answer = (False, error)
    except Exception as error:  # noqa: BLE001  the parent has to say it, whatever it is
        answer = (False, KbError(f"the process that writes the index failed: {type(error).__name__}: {error}"))
    pickle.dump(answer, answers)
    answers.flush()
    return given


if __name__ == "__main__":
    main()
