"""The server: upload videos, caption them one after the other, keep and search the results. FastAPI; no torch here.

| file | content |
|---|---|
| `app`, `service` | the endpoints, and the objects behind them |
| `schemas`, `api_docs` | responses as OpenAPI and as a page |
| `auth` | access: host, origin, token; security headers |
| `uploads` | request bodies to files |
| `jobs`, `worker` | the queue, which survives a killed server, and the thread that works on it |
| `subprocesses` | processes with limits, in which videos are decoded |
| `probe_pool`, `caption_process` | what runs in them: checking files and reading frames; captioning |
| `storage` | where files lie, and their deletion |
"""
