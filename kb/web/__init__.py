"""The knowledge base over HTTP: an API, an OpenAI-compatible endpoint and a page. Needs the extra `web`.

One process takes requests and never computes; questions go to a pool of worker processes (`kb.web.pool`), ingests to a
thread (`kb.web.jobs`). So many readers are served while documents are read, and a slow client holds nobody up.
"""
