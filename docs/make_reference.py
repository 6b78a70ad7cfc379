#!/usr/bin/env python3
"""Makes one page of the public headers: what each is for, then what it declares.

    docs/make_reference.py build/include build/reference.html
"""

import html
import pathlib
import re
import sys

GROUPS = ["model.h", "operation.h", "training.h"]
STYLE = """body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
pre { font: 13px/1.4 monospace; background: #f6f6f4; padding: 1em; overflow-x: auto; }
nav { columns: 2; } h2 { border-top: 1px solid #ccc; padding-top: 1em; }"""


def split(text):
    """The opening comment as text, and the declarations between include guard and its end."""
    lines = text.splitlines()
    opening = []
    while lines and lines[0].startswith("//"):
        opening.append(lines.pop(0)[2:].removeprefix(" "))
    body = [l for l in lines if not re.match(r"#(include|ifndef REPRISE_|define REPRISE_\w+_H_|endif  // REPRISE_)", l)]
    return opening, re.sub(r"\n{3,}", "\n\n", "\n".join(body)).strip()


def prose(lines):
    """Paragraphs; what is indented is code."""
    out = []
    for part in re.split(r"\n\s*\n", "\n".join(lines)):
        tag = "pre" if part.startswith("  ") else "p"
        out.append(f"<{tag}>{html.escape(part)}</{tag}>")
    return "\n".join(out)


def main():
    folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = sorted(p for p in (folder / "reprise").rglob("*.h") if p.name != "version.h")
    names = {p: p.relative_to(folder).as_posix() for p in files}
    files.sort(key=lambda p: (p.name not in GROUPS or p.parent.name != "reprise", names[p]))
    links, sections = [], []
    for path in files:
        text = path.read_text(encoding="utf-8")
        name, (opening, body) = names[path], split(text)
        if path.parent.name == "reprise":
            body = "\n".join(re.findall(r"#include .*", text))
        links.append(f'<a href="#{name}">{name}</a><br>')
        code = re.sub(r"&quot;(reprise/[^&]+)&quot;", r'&quot;<a href="#\1">\1</a>&quot;', html.escape(body))
        sections.append(f'<h2 id="{name}">{name}</h2>\n{prose(opening)}\n<pre>{code}</pre>')
    target.write_text(
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>Reprise: headers</title>\n<style>{STYLE}</style>\n"
        f"<h1>Reprise: headers</h1>\n<nav>{''.join(links)}</nav>\n" + "\n".join(sections) + "\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
