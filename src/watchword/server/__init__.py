"""The server: upload videos, caption them one after the other, keep and search the results. FastAPI; no torch here.

| file | content |
|---|---|
| `app` | the endpoints |
| `service` | the objects behind them, and the thread that works on the queue |
| `schemas` | the responses, and the OpenAPI document as a page |
| `auth` | access: host, origin, token; security headers |
| `draining` | the rest of a refused upload |
| `jobs` | the queue, which survives a killed server |
| `storage` | uploads to files, where they lie, and their deletion |
| `subprocesses` | processes with limits, in which videos are decoded |
| `probe_pool`, `caption_process` | what runs in them: checking files and reading frames; captioning |
"""
