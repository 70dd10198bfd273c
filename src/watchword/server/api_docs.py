"""The API for people who read: its OpenAPI as one plain page, which needs no network and no script."""

from html import escape
from typing import Any

Document = dict[str, Any]


def as_page(document: Document) -> str:
    """HTML without style or script: a browser's own is enough to read by."""
    title = f"{document['info']['title']} {document['info']['version']}"
    endpoints = [
        _endpoint(method, path, about, document)
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    ]
    names = sorted(document["components"]["schemas"])
    shapes = [_shape(name, document["components"]["schemas"][name]) for name in names]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: the API</title>'
        '<meta name="viewport" content="width=device-width"></head><body>'
        f"<h1>{escape(title)}</h1><p>{escape(document['info'].get('summary', ''))} "
        'For programs: <a href="/api/openapi.json">openapi.json</a>.</p>'
        f"<h2>Endpoints</h2>{''.join(endpoints)}<h2>Answers</h2>{''.join(shapes)}</body></html>"
    )


def _endpoint(method: str, path: str, about: Document, document: Document) -> str:
    rows = [
        f"<li><code>{escape(one['name'])}</code> ({one['in']}{', needed' if one.get('required') else ''}): "
        f"{_kind(one['schema'])}. {escape(one.get('description', ''))}</li>"
        for one in about.get("parameters", [])
    ]
    answers = []
    for status, answer in about["responses"].items():
        kinds = [_content(kind, content) for kind, content in answer.get("content", {}).items()]
        answers.append(f"<li>{status}: {', '.join(kinds) or escape(answer['description'])}</li>")
    said = escape(about.get("description") or about["summary"])
    return (
        f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{said}</p>"
        f"<ul>{''.join(rows)}</ul><p>Answers:</p><ul>{''.join(answers)}</ul></section>"
    )


def _content(kind: str, content: Document) -> str:
    return f"{escape(kind)} {_kind(content['schema'])}" if content.get("schema") else escape(kind)


def _shape(name: str, schema: Document) -> str:
    needed = schema.get("required", [])
    rows = [
        f"<li><code>{escape(field)}</code>{'' if field in needed else ' (may be missing)'}: {_kind(about)}. "
        f"{escape(about.get('description', ''))}</li>"
        for field, about in schema.get("properties", {}).items()
    ]
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3><ul>{"".join(rows)}</ul></section>'


def _kind(schema: Document) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return escape(", ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    return escape(" ".join([schema.get("type", "anything"), *limits]))
