"""`weir serve` started for a test, and spoken to over HTTP."""
# SPDX-License-Identifier: Apache-2.0
import http.client
import json
import signal
import subprocess
import urllib.parse

# Two nodes of eight devices: 4 (tensor) x 2 (pipeline) x 2 (data).
SCRIPT = """#!/bin/bash
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
  --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 \\
  --global-batch-size 128 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --bf16 \\
  --use-flash-attn --swiglu --vocab-size 32000 --foo-bar 3
"""


class Served:
    def __init__(self, weir, folder):
        self.process = subprocess.Popen([weir, "serve", folder], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.link = self.process.stdout.readline().strip()
        if not self.link:
            raise RuntimeError(self.process.stderr.read())
        parts = urllib.parse.urlsplit(self.link)
        self.host, self.port = parts.hostname, parts.port
        self.token = urllib.parse.parse_qs(parts.query)["token"][0]

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def raw(self, method, path, body=None, headers=None):
        """(status, headers, bytes); what `headers` says of a name is sent in place of the usual."""
        sent = {"Host": f"{self.host}:{self.port}", "X-Weir-Token": self.token,
                "Content-Type": "application/json", **(headers or {})}
        connection = self.connect()
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        told = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return told

    def post(self, name, body):
        status, _, text = self.raw("POST", f"/api/{name}", json.dumps(body).encode())
        return status, json.loads(text)

    def ask(self, name, body):
        status, told = self.post(name, body)
        assert status == 200, (name, body, status, told)
        return told

    def events(self, method, path, body=None):
        """(name, data) of each event, until the stream ends."""
        connection = self.connect()
        connection.request(method, path, body and json.dumps(body),
                           {"Content-Type": "application/json", "X-Weir-Token": self.token})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.getheader("Content-Type") == "text/event-stream"
        name = None
        try:
            for line in answer:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    yield name, json.loads(line[6:])
        finally:  # who needs no more closes the stream
            answer.close()
            connection.close()

    def end(self, what=signal.SIGINT, within=30):
        self.process.send_signal(what)
        try:
            return self.process.wait(timeout=within)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()
