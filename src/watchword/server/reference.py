"""The OpenAPI document as a page: to read without scripts, and with a form for each endpoint to try it."""

import re
from html import escape
from typing import Any

Document = dict[str, Any]


def openapi_page(document: Document) -> str:
    """Everything comes from this server: style, script and what is tried."""
    title = f"{document['info']['title']} {document['info']['version']}"
    endpoints = [
        _endpoint(method, path, about)
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    ]
    names = sorted(document["components"]["schemas"])
    shapes = [_shape(name, document["components"]["schemas"][name]) for name in names]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: the API</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        '<link rel="icon" type="image/svg+xml" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">'
        '<script type="module" src="/static/try.js"></script></head><body><main class="reference">'
        f"<h1>{escape(title)}</h1><p>{escape(document['info'].get('summary', ''))} "
        'For programs: <a href="/api/openapi.json">openapi.json</a>. <a href="/">To the page</a>.</p>'
        f"<h2>Endpoints</h2>{''.join(endpoints)}<h2>Answers</h2>{''.join(shapes)}</main></body></html>"
    )


def _endpoint(method: str, path: str, about: Document) -> str:
    rows = [
        f"<li><code>{escape(one['name'])}</code> ({one['in']}{', needed' if one.get('required') else ''}): "
        f"{_kind(one['schema'])}. {_prose(one.get('description', ''))}</li>"
        for one in about.get("parameters", [])
    ]
    answers = []
    for status, answer in sorted(about["responses"].items()):
        kinds = [_content(kind, content) for kind, content in answer.get("content", {}).items()]
        answers.append(f"<li>{status}: {', '.join(kinds) or escape(answer['description'])}</li>")
    said = _prose(about.get("description") or about["summary"])
    return (
        f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{said}</p>"
        f"<ul>{''.join(rows)}</ul><p>Answers:</p><ul>{''.join(answers)}</ul>{_form(method, path, about)}</section>"
    )


def _form(method: str, path: str, about: Document) -> str:
    """A field for each parameter, and one for the body; try.js sends it."""
    fields = [_field(one) for one in about.get("parameters", [])]
    content = about.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        fields.append('<label>file <input type="file" name="file" data-in="file" required></label>')
    elif "application/json" in content:
        fields.append('<label>body, JSON <textarea name="body" data-in="body" rows="2" required>{}</textarea></label>')
    return (
        '<details class="try"><summary>Try it</summary>'
        f'<form data-method="{method.upper()}" data-path="{escape(path)}">'
        f'{"".join(fields)}<button class="button small" type="submit">Send</button>'
        '<pre class="answer" role="status" hidden></pre></form></details>'
    )


def _field(parameter: Document) -> str:
    name = escape(parameter["name"])
    needed = " required" if parameter.get("required") else ""
    return f'<label>{name} <input name="{name}" data-in="{escape(parameter["in"])}"{needed}></label>'


def _content(kind: str, content: Document) -> str:
    return f"{escape(kind)} {_kind(content['schema'])}" if content.get("schema") else escape(kind)


def _shape(name: str, schema: Document) -> str:
    needed = schema.get("required", [])
    rows = [
        f"<li><code>{escape(field)}</code>{'' if field in needed else ' (may be missing)'}: {_kind(about)}. "
        f"{_prose(about.get('description', ''))}</li>"
        for field, about in schema.get("properties", {}).items()
    ]
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3><ul>{"".join(rows)}</ul></section>'


def _prose(text: str) -> str:
    """What stands between backquotes is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


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
