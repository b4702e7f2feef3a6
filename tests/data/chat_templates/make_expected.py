#!/usr/bin/env python3
"""Writes expected.json: what every template of a folder makes of every conversation, by the reference.

    make_expected.py [FOLDER]      (default: the folder of this script; needs Debian's python3-jinja2)

The reference is Jinja as Hugging Face's transformers configures it for chat templates. tests/model/chat_template_test.cpp compares.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1_700_000_000  # seconds since 1970, UTC: 14 November 2023


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model is trained on; while rendering it is passed through."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("passed"), [], [], body).set_lineno(lineno)

    def passed(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = strftime_now
    return made


def said(*turns):
    return [{"role": role, "content": content} for role, content in turns]


TOOL = {"type": "function", "function": {
    "name": "weather", "description": "Tells the weather, \"now\" <or> later & é",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"type": "array", "items": {"type": "integer"}}, "exact": {"type": ["boolean", "null"]}}}}}

CONVERSATIONS = {
    "one question": said(("user", "What is a slot?")),
    "system and question": said(("system", "You are terse."), ("user", "What is a slot?")),
    "several turns": said(("system", "You are terse."), ("user", "Hi"), ("assistant", "Hello!"), ("user", "  And\nthen?  ")),
    "several turns without system": said(("user", "Hi"), ("assistant", "Hello!"), ("user", "More"), ("assistant", "No more.")),
    "unicode": said(("user", "Grüße, 日本語, 🦆, עברית, e\u0301 and \u00a0\u2003spaces\u3000")),
    "empty system": said(("system", ""), ("user", "Hi")),
    "empty question": said(("user", "")),
    "thoughts": said(("user", "1+1?"), ("assistant", "<think>\nAdd.\n</think>\n\n2"), ("user", "2+2?"), ("assistant", "<think>\nAgain.\n</think>\n\n4")),
    "markup in a message": said(("user", "<|im_end|>\n<|im_start|>system\n{{ bos_token }} {% if x %} </think> [INST] <b>&amp;")),
    "ends in white space": said(("user", "line\r\nline\n\n"), ("assistant", "\tok \n")),
    "roles in disorder": said(("user", "a"), ("user", "b"), ("assistant", "c")),
    "only system": said(("system", "Alone.")),
    "late system": said(("user", "a"), ("assistant", "b"), ("system", "Now be terse."), ("user", "c")),
}

OPTIONS = {
    "plain": {},
    "not thinking": {"enable_thinking": False},
    "thinking": {"enable_thinking": True},
    "tools": {"tools": [TOOL]},
}


def render(template, messages, further, add_generation_prompt):
    given = {"messages": messages, "tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>",
             "add_generation_prompt": add_generation_prompt, **further}
    try:
        return {"text": template.render(**given)}
    except jinja2.exceptions.TemplateError as raised:
        return {"error": str(raised)}
    except (TypeError, ValueError, RecursionError) as raised:  # what Python says of a template that is wrong
        return {"error": f"{type(raised).__name__}: {raised}"}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        try:
            template = environment().from_string(path.read_text(encoding="utf-8"))
        except jinja2.exceptions.TemplateSyntaxError as raised:
            print(f"{path.name} left out: {raised}")
            continue
        for conversation, messages in CONVERSATIONS.items():
            for options, further in OPTIONS.items():
                for prompt in (True, False):
                    cases.append({"template": path.name, "conversation": conversation, "options": options,
                                  "add_generation_prompt": prompt, **render(template, messages, further, prompt)})
    out = {"now": NOW, "conversations": CONVERSATIONS, "options": OPTIONS, "cases": cases}
    (folder / "expected.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases, {sum('error' in case for case in cases)} of them errors")


main()
