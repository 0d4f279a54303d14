"""A real server on loopback that speaks the protocol of OpenAI-compatible endpoints, faults included."""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODES = ("json_schema", "json_object", "text")


class Answer:
    """What is sent back: a status, headers, a body; ``missing`` bytes of it are announced and never sent."""

    def __init__(self, body, *, status=200, missing=0, hang=False, **headers):
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.missing = missing
        self.hang = hang
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def said(text, *, finish="stop", model="test-model-1", usage=None, **message):
    """Return a completion whose only choice says *text*; a value that is no text is sent as JSON in one."""
    content = text if isinstance(text, str | None) else json.dumps(text)
    return Answer(
        {
            "id": "c-1",
            "object": "chat.completion",
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": content, **message},
                }
            ],
            "usage": {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
            if usage is None
            else usage,
        }
    )


class ModelServer:
    """Gives *answers* in order, each to one request whose form it knows; others are refused with 400.

    Attributes:
        requests: The bodies of all requests, oldest first.
        keys: Their Authorization headers.
    """

    def __init__(self, *answers, knows=MODES):
        self.answers = [a if isinstance(a, Answer) else said(a) for a in answers]
        self.knows = knows
        self.requests = []
        self.keys = []
        self.over = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.keys.append(self.headers["Authorization"])
                outer.requests.append(body)
                with suppress(OSError):
                    outer.answer(self, outer.take(self.path, body))

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def take(self, path, body):
        if path != "/v1/chat/completions":
            return Answer({"error": {"message": "there is no such path"}}, status=404)
        mode = body.get("response_format", {"type": "text"})["type"]
        if mode not in self.knows:
            return Answer({"error": {"message": f"response_format {mode} is not supported"}}, status=400)
        if not self.answers:
            return Answer({"error": {"message": "out of answers"}}, status=500)
        return self.answers.pop(0)

    def answer(self, handler, answer):
        if answer.hang:
            self.over.wait(20)
            return
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(answer.body) + answer.missing))
        handler.end_headers()
        handler.wfile.write(answer.body)
        if answer.missing:
            handler.close_connection = True

    def prompt(self, number=-1):
        """Return everything that a request said, as one text."""
        return "\n".join(message["content"] for message in self.requests[number]["messages"])

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.over.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
