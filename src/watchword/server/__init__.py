"""Watchword on a page: films are dropped in, described one after the other, kept, found again. FastAPI; no torch here.

| file | what it does |
|---|---|
| `server`, `service` | the endpoints, and what they work with |
| `answers`, `reference` | what they answer, as OpenAPI and as a page to read |
| `guarding` | who may ask: host, origin, token; what browsers may do with the answers |
| `uploads` | bytes of a stranger to a file of ours |
| `jobs`, `working` | what waits, what is being described; survives a killed server |
| `children` | processes that a film may break |
| `looking`, `telling` | what runs in them: is it a film, a picture of it; what is to be seen in it |
| `shelf` | where everything lies, and clean deletion |
"""
