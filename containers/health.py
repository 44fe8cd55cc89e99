#!/opt/ddl/bin/python
"""The image's health check: JupyterLab answers. All but its version stays behind the token."""

import http.client
import os

port = int(os.environ.get("JUPYTER_PORT", 8888))
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
connection.request("GET", "/api")
answer = connection.getresponse()
if answer.status != 200:
    raise SystemExit(f"{answer.status} {answer.reason}")
