"""What the routes of a server share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from kb.settings import WebSection
from kb.web.collections import Collections
from kb.web.jobs import Jobs
from kb.web.page_images import PageImages
from kb.web.pool import Pool
from kb.web.uploads import go_on


@dataclass(frozen=True, slots=True)
class Served:
    """The parts of one server."""

    collections: Collections
    """For reading ledgers and folders; questions are the pool's."""
    pool: Pool
    jobs: Jobs
    section: WebSection
    images: PageImages

    async def start(self) -> None:
        """Start the workers, bring the collection in step if that is wanted, and go on with what was uploaded."""
        await self.pool.start()
        if self.section.ingest_at_start:
            self.jobs.bring_in_step()
        await asyncio.to_thread(go_on, self.collections, self.jobs)

    async def close(self) -> None:
        """Let what is being answered end for a moment, then end the workers and the ingest."""
        await self.pool.close()
        self.jobs.close()
        self.images.close()
        self.collections.close()


def _served(request: Request) -> Served:
    return cast(Served, request.app.state.served)


Here = Annotated[Served, Depends(_served)]
"""For a route's parameter: the server that it belongs to."""
