# SPDX-License-Identifier: Apache-2.0
"""A model server without a model: it makes a coding agent do one small task with the agent's own tools.

Purpose: the answers of Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, streamed or whole.
         Real agents are tried against it, with and without croft.
Task:    whoever says "MARK in DIRECTORY" in a message gets the task done there: read greet.sh, mend it, run check.sh and commit. Each step
         is a call of a tool that the request itself lists, found by its name and given the arguments that its schema
         has. Everything else is answered with a few words.
State:   none. How far the task is can be read from the request: the results of tools after the last MARK.
Trust:   it listens where it is told and believes everything. For tests only.

usage: model.py ADDRESS PORT LOG [CERTIFICATE KEY]     says "ready" when it listens
"""
import json
import os
import re
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARK = "mend the greeting"
TASK = re.compile(MARK + r" in (/[\w./-]*[\w/-])")
WRONG, RIGHT = 'echo "helo, world"', 'echo "hello, world"'
DONE = "The greeting is mended, checked and committed."
COMMIT = "sh check.sh && git commit -q -am 'mend the greeting'"
TOOLS_MAX = 40

# ---- tools: what an agent calls them, by what they do ----

SHELLS = ("Bash", "bash", "run_shell_command", "shell_command", "exec_command", "shell", "local_shell", "terminal",
          "developer__shell")
READS = ("Read", "read", "read_file", "view")
EDITS = ("Edit", "edit", "replace", "edit_file")
PATCHES = ("apply_patch",)
SCRIPTS = ("exec",)
PATCH = "*** Begin Patch\n*** Update File: greet.sh\n@@\n-%s\n+%s\n*** End Patch\n" % (WRONG, RIGHT)


class Tool:
    """One that the agent offers: its name, the schema of its arguments, or none (it takes plain text)."""

    def __init__(self, name, schema, plain=False):
        self.name, self.schema, self.plain = name, schema or {}, plain
        self.space = None  # of names, where it is in one

    def properties(self):
        return self.schema.get("properties") or {}


def first(tools, names):
    for name in names:
        for t in tools:
            if t.name == name:
                return t
    return None


def fill(tool, wanted):
    """The arguments that the schema has, of those that are wanted; its other required ones get a harmless value."""
    given = {}
    properties = tool.properties()
    for words, value in wanted:
        for word in words:
            if word in properties:
                kind = properties[word].get("type")
                given[word] = ["sh", "-c", value] if kind == "array" and isinstance(value, str) else value
                break
    for word in tool.schema.get("required") or []:
        if word not in given:
            kind = properties.get(word, {}).get("type")
            given[word] = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(kind, "the task")
    return given


def step_read(tools, root):
    t = first(tools, READS)
    return t and (t, fill(t, [(("file_path", "filePath", "absolute_path", "path"), root + "/greet.sh")]))


def step_edit(tools, root):
    t = first(tools, EDITS)
    if t:
        return t, fill(t, [(("file_path", "filePath", "absolute_path", "path"), root + "/greet.sh"),
                           (("old_string", "oldString", "old_str"), WRONG),
                           (("new_string", "newString", "new_str"), RIGHT)])
    t = first(tools, PATCHES)
    if t:
        return t, PATCH if t.plain else fill(t, [(("input", "patch", "patchText", "patch_text"), PATCH)])
    return step_shell(tools, "sed -i 's/helo/hello/' greet.sh")


def step_shell(tools, command):
    t = first(tools, SHELLS)
    if not t and first(tools, SCRIPTS):  # a tool that takes a program in JavaScript, whose functions are tools
        return first(tools, SCRIPTS), "text(await tools.exec_command(%s));\n" % json.dumps({"cmd": command})
    return t and (t, fill(t, [(("command", "cmd"), command), (("description",), "check and commit")]))


def next_step(tools, results, root):
    """(tool, arguments) of the next call, or None: the task is done."""
    steps = [step_read(tools, root), step_edit(tools, root), step_shell(tools, COMMIT)]
    steps = [s for s in steps if s]
    return steps[results] if results < len(steps) else None


# ---- what a request says, whatever its form ----

def text_of(content):
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(c.get("text") or "") for c in content if isinstance(c, dict))
    return ""


class Asked:
    """tools: what is offered; turns: ("said", text) and ("result", text) in their order."""

    def __init__(self, tools, turns):
        self.tools, self.turns = tools[:400], turns

    def answer(self):
        marked = [i for i, (kind, text) in enumerate(self.turns) if kind == "said" and TASK.search(text)]
        if not marked or not first(self.tools, SHELLS + SCRIPTS):
            return None
        results = sum(1 for kind, _ in self.turns[marked[-1]:] if kind == "result")
        return next_step(self.tools, results, TASK.findall(self.turns[marked[-1]][1])[-1])

    def results(self):
        return [text for kind, text in self.turns if kind == "result"]


def asked_anthropic(body):
    tools = [Tool(t.get("name", ""), t.get("input_schema")) for t in body.get("tools") or []]
    turns = []
    for m in body.get("messages") or []:
        content = m.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for p in parts:
            if p.get("type") == "tool_result":
                turns.append(("result", text_of(p.get("content"))))
            elif p.get("type") == "text" and m.get("role") == "user":
                turns.append(("said", p.get("text") or ""))
    return Asked(tools, turns)


def openai_tools(listed):
    found = []
    for t in listed or []:
        f = t.get("function") if isinstance(t.get("function"), dict) else t
        if t.get("type") == "namespace":
            for inner in openai_tools(t.get("tools")):
                inner.space = t.get("name")
                found.append(inner)
        else:
            found.append(Tool(f.get("name") or t.get("type", ""), f.get("parameters"), t.get("type") == "custom"))
    return found


def asked_responses(body):
    given = body.get("input")
    items = given if isinstance(given, list) else [{"role": "user", "content": given or ""}]
    turns, tools = [], openai_tools(body.get("tools"))
    for i in items:
        if i.get("type") == "additional_tools":
            tools += openai_tools(i.get("tools"))
        elif str(i.get("type", "")).endswith("_call_output"):
            output = i.get("output")
            turns.append(("result", output if isinstance(output, str) else json.dumps(output)))
        elif i.get("role") == "user":
            turns.append(("said", text_of(i.get("content"))))
    return Asked(tools, turns)


def asked_chat(body):
    turns = []
    for m in body.get("messages") or []:
        if m.get("role") == "tool":
            turns.append(("result", text_of(m.get("content"))))
        elif m.get("role") == "user":
            turns.append(("said", text_of(m.get("content"))))
    return Asked(openai_tools(body.get("tools")), turns)


def asked_gemini(body):
    tools = []
    for group in body.get("tools") or []:
        for f in group.get("functionDeclarations") or []:
            schema = f.get("parametersJsonSchema") or f.get("parameters") or {}
            tools.append(Tool(f.get("name", ""), lower_types(schema)))
    turns = []
    for c in body.get("contents") or []:
        for p in c.get("parts") or []:
            if "functionResponse" in p:
                turns.append(("result", json.dumps(p["functionResponse"].get("response"))))
            elif c.get("role", "user") == "user" and p.get("text"):
                turns.append(("said", p["text"]))
    return Asked(tools, turns)


def lower_types(schema):
    """Gemini's schemas say "STRING" where others say "string"."""
    if isinstance(schema, dict):
        return {k: v.lower() if k == "type" and isinstance(v, str) else lower_types(v) for k, v in schema.items()}
    return schema


def example(schema):
    """The smallest value that a schema allows, near enough."""
    schema = lower_types(schema)
    kind = schema.get("type")
    if schema.get("enum"):
        return schema["enum"][0]
    if kind == "object" or "properties" in schema:
        return {k: example(v) for k, v in (schema.get("properties") or {}).items()}
    return {"array": [], "boolean": False, "integer": 1, "number": 1}.get(kind, DONE)


def said_of(body):
    """What is said where no tool is called: words, or JSON where that is asked for."""
    wanted = body.get("generationConfig") or {}
    schema = wanted.get("responseJsonSchema") or wanted.get("responseSchema")
    return json.dumps(example(schema)) if schema else DONE


# ---- answers: a list of (event, data) to be streamed, and the same whole ----

def anthropic_answer(body, step):
    if step:
        block = {"type": "tool_use", "id": "toolu_%d" % next_number(), "name": step[0].name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
        whole = dict(block, input=step[1])
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": DONE}
        whole = {"type": "text", "text": DONE}
    stop = "tool_use" if step else "end_turn"
    message = {"id": "msg_%d" % next_number(), "type": "message", "role": "assistant", "model": body.get("model"),
               "content": [], "stop_reason": None, "stop_sequence": None,
               "usage": {"input_tokens": 10, "output_tokens": 1}}
    events = [{"type": "message_start", "message": message},
              {"type": "content_block_start", "index": 0, "content_block": block},
              {"type": "content_block_delta", "index": 0, "delta": delta},
              {"type": "content_block_stop", "index": 0},
              {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
               "usage": {"output_tokens": 10}},
              {"type": "message_stop"}]
    return [(e["type"], e) for e in events], dict(message, content=[whole], stop_reason=stop)


def responses_answer(body, step):
    number = next_number()
    if step and step[0].plain and step[0].space:
        item = {"type": "custom_tool_call", "id": "ctc_%d" % number, "call_id": "call_%d" % number,
                "name": step[0].name, "namespace": step[0].space, "input": step[1], "status": "completed"}
    elif step and step[0].plain:
        item = {"type": "custom_tool_call", "id": "ctc_%d" % number, "call_id": "call_%d" % number,
                "name": step[0].name, "input": step[1], "status": "completed"}
    elif step:
        item = {"type": "function_call", "id": "fc_%d" % number, "call_id": "call_%d" % number,
                "name": step[0].name, "arguments": json.dumps(step[1]), "status": "completed"}
    else:
        item = {"type": "message", "id": "msg_%d" % number, "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": DONE, "annotations": []}]}
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20}
    whole = {"id": "resp_%d" % number, "object": "response", "created_at": 1, "model": body.get("model"),
             "status": "completed", "output": [item], "usage": usage, "error": None, "incomplete_details": None}
    events = [{"type": "response.created", "response": dict(whole, status="in_progress", output=[], usage=None)}]
    if item["type"] == "message":
        begun = dict(item, status="in_progress", content=[])
        at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        events += [{"type": "response.output_item.added", "output_index": 0, "item": begun},
                   dict(at, type="response.content_part.added", part={"type": "output_text", "text": "", "annotations": []}),
                   dict(at, type="response.output_text.delta", delta=DONE),
                   dict(at, type="response.output_text.done", text=DONE),
                   dict(at, type="response.content_part.done", part=item["content"][0])]
    elif item["type"] == "function_call":
        at = {"item_id": item["id"], "output_index": 0}
        events += [{"type": "response.output_item.added", "output_index": 0, "item": dict(item, arguments="")},
                   dict(at, type="response.function_call_arguments.delta", delta=item["arguments"]),
                   dict(at, type="response.function_call_arguments.done", arguments=item["arguments"])]
    else:
        events.append({"type": "response.output_item.added", "output_index": 0, "item": item})
    events += [{"type": "response.output_item.done", "output_index": 0, "item": item},
               {"type": "response.completed", "response": whole}]
    for i, e in enumerate(events):
        e["sequence_number"] = i
    return [(e["type"], e) for e in events], whole


def chat_answer(body, step):
    number = next_number()
    if step:
        arguments = step[1] if isinstance(step[1], str) else json.dumps(step[1])
        call = {"id": "call_%d" % number, "type": "function",
                "function": {"name": step[0].name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        delta = {"role": "assistant", "content": None, "tool_calls": [dict(call, index=0)]}
    else:
        message = {"role": "assistant", "content": DONE}
        delta = message
    finish = "tool_calls" if step else "stop"
    head = {"id": "chatcmpl-%d" % number, "created": 1, "model": body.get("model")}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    chunk = dict(head, object="chat.completion.chunk")
    events = [dict(chunk, choices=[{"index": 0, "delta": delta, "finish_reason": None}]),
              dict(chunk, choices=[{"index": 0, "delta": {}, "finish_reason": finish}], usage=usage)]
    whole = dict(head, object="chat.completion", usage=usage,
                 choices=[{"index": 0, "message": message, "finish_reason": finish}])
    return [(None, e) for e in events] + [(None, "[DONE]")], whole


def gemini_answer(body, step):
    part = {"functionCall": {"name": step[0].name, "args": step[1]}} if step else {"text": said_of(body)}
    whole = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
             "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
             "modelVersion": "mock"}
    return [(None, whole)], whole


_number = [0]
_lock = threading.Lock()


def next_number():
    with _lock:
        _number[0] += 1
        return _number[0]


def model_list(names):
    return {"object": "list", "data": [{"id": n, "object": "model", "type": "model", "display_name": n,
                                        "created": 1, "owned_by": "mock"} for n in names]}


MODELS = ("claude-sonnet-4-5", "gpt-5", "gpt-5-codex", "gpt-4.1", "gemini-2.5-pro", "qwen3-coder-plus")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600

    def log_message(self, *args):
        pass

    def _note(self, body):
        headers = {k.lower(): v for k, v in self.headers.items()}
        entry = {"host": headers.get("host", ""), "method": self.command, "path": self.path, "headers": headers}
        if isinstance(body, dict):
            entry["tools"] = [t.name for t in self._asked(body).tools][:TOOLS_MAX] if self._form() else []
            entry["results"] = self._asked(body).results()[-1:] if self._form() else []
        if os.environ.get("MODEL_BODIES"):
            entry["body"] = body if isinstance(body, dict) else repr(body)[:2000]
        with _lock, open(self.server.log, "a", encoding="utf-8") as f:
            f.write(json.dumps(entry) + "\n")

    def _form(self):
        path = self.path.split("?")[0]
        for end, form in (("/messages", "anthropic"), ("/responses", "responses"), ("/chat/completions", "chat"),
                          ("enerateContent", "gemini")):
            if path.endswith(end):
                return form
        return None

    def _asked(self, body):
        return {"anthropic": asked_anthropic, "responses": asked_responses, "chat": asked_chat,
                "gemini": asked_gemini}[self._form()](body)

    def _body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                data += self.rfile.read(n)
                self.rfile.readline()
                if n == 0:
                    break
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            return json.loads(data or b"null")
        except ValueError:
            return data

    def _whole(self, answer, status=200):
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events:
            text = ("event: %s\n" % name if name else "") + "data: %s\n\n" % (
                data if isinstance(data, str) else json.dumps(data))
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        body = self._body()
        self._note(body)
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens") or path.endswith(":countTokens"):
            return self._whole({"input_tokens": 10, "totalTokens": 10})
        form = self._form()
        if not form or not isinstance(body, dict):
            return self._whole({})
        step = self._asked(body).answer()
        events, whole = {"anthropic": anthropic_answer, "responses": responses_answer, "chat": chat_answer,
                         "gemini": gemini_answer}[form](body, step)
        stream = "streamGenerateContent" in path or body.get("stream")
        return self._stream(events) if stream else self._whole(whole)

    def do_GET(self):
        self._note(None)
        path = self.path.split("?")[0]
        if self.headers.get("Upgrade"):  # whoever asks for a WebSocket goes on without one at once
            return self._whole({"error": {"message": "no WebSockets here", "type": "not_found_error"}}, 426)
        if path.endswith("/models"):
            return self._whole(model_list(MODELS))
        return self._whole({"error": {"message": "nothing here", "type": "not_found_error"}}, 404)

    def do_PUT(self):
        self._note(self._body())
        self._whole({})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, port, log, certificate=None):
        super().__init__((address, port), Handler)
        self.log = log
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        pass  # a client that goes away, or does not believe our certificate


def main():
    address, port, log = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    server = Server(address, port, log, sys.argv[4:6] or None)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
