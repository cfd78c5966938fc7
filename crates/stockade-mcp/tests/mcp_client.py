#!/usr/bin/env python3
"""The main job, driven by the official Python MCP client.

    python3 -m venv venv && venv/bin/pip install mcp
    venv/bin/python mcp_client.py http URL KEY          # URL: http://127.0.0.1:8080
    venv/bin/python mcp_client.py stdio COMMAND [ARG…]  # COMMAND: stockade mcp

URL and KEY may also come from STOCKADE_URL and STOCKADE_ADMIN_KEY. Prints one line per check;
exits with 1 and a summary if one failed. Needs nothing but the `mcp` package.
"""

import asyncio
import base64
import os
import re
import sys
import traceback
import urllib.error
import urllib.parse
import urllib.request
import uuid
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOLS = [
    "run_code", "run_command", "continue_run", "read_file",
    "write_file", "list_files", "sandbox", "list_runtimes",
]
CSV = "city,year,sales\nOslo,2024,10\nOslo,2025,30\nRome,2024,25\nRome,2025,35\n"
ANALYSIS = """
import matplotlib.pyplot as plt
import pandas as pd

table = pd.read_csv("sales.csv")
total = table.groupby("city").sales.sum()
print(total.to_string())
total.plot.bar()
plt.tight_layout()
plt.savefig("chart.png")
total.to_csv("total.csv")
"""
TYPESCRIPT = """
import { readFileSync } from "node:fs";
interface Row { city: string; sales: number }
const rows: Row[] = readFileSync("total.csv", "utf8").trim().split("\\n").slice(1)
  .map((line) => { const [city, sales] = line.split(","); return { city, sales: Number(sales) }; });
await Promise.resolve();
console.log("typescript sees", rows.reduce((sum, row) => sum + row.sales, 0));
"""
GO = """
package main

import (
	"fmt"
	"os"
)

func main() {
	data, err := os.ReadFile("/workspace/sales.csv")
	fmt.Println("go sees", len(data), err)
}
"""


class Checks:
    """One line per check, and the failures for the end."""

    def __init__(self):
        self.failed = []
        self.count = 0

    def check(self, name, good, seen=""):
        self.count += 1
        print(f"{'ok' if good else 'FAILED'}: {name}", flush=True)
        if not good:
            self.failed.append(f"{name}\n    {str(seen)[:2000]}")

    def contains(self, name, text, *parts):
        missing = [part for part in parts if part not in text]
        self.check(name, not missing, f"{missing} not in:\n{text}")


class Caller:
    """Calls tools and looks at results in the way every version of the client has them."""

    def __init__(self, session):
        self.session = session

    async def call(self, tool, **arguments):
        return await self.session.call_tool(tool, arguments)

    async def text(self, tool, **arguments):
        return text_of(await self.call(tool, **arguments))


def field(item, *names):
    """The client's 1.x has camelCase attributes, its 2.x has snake_case ones."""
    return next((getattr(item, name) for name in names if hasattr(item, name)), None)


def is_error(result):
    return bool(field(result, "isError", "is_error"))


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def handle(text, label):
    found = re.search(rf"\b{label} (\S+)", text)
    return found.group(1) if found else ""


class Rest:
    """Upload and download over HTTP with the key."""

    def __init__(self, url, key):
        self.url = url.rstrip("/")
        self.key = key

    def request(self, method, path, body=None, key=None):
        request = urllib.request.Request(self.url + path, data=body, method=method)
        request.add_header("Authorization", f"Bearer {key or self.key}")
        request.add_header("Content-Type", "application/octet-stream")
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def fetch(uri):
    """A link's content, without a key."""
    if uri.startswith("file://"):
        with open(urllib.parse.unquote(uri[len("file://"):]), "rb") as file:
            return file.read()
    with urllib.request.urlopen(uri, timeout=60) as response:
        return response.read()


async def introduction(checks, caller):
    listed = (await caller.session.list_tools()).tools
    checks.check("the tools of the default profile", [tool.name for tool in listed] == TOOLS, listed)
    result = await caller.call("list_runtimes")
    checks.contains("list_runtimes knows the main languages", text_of(result),
                    "python", "typescript", "shell", "go")


async def analysis(checks, caller, workspace):
    result = await caller.call("run_code", language="python", code=ANALYSIS, workspace=workspace,
                               timeout_s=120)
    text = text_of(result)
    checks.check("pandas and matplotlib run", text.startswith("exit 0 · ") and not is_error(result), text)
    checks.contains("the printed text is there", text, "stdout:", "Oslo    40", "Rome    60")
    checks.contains("the changed files are named", text, "files changed:", "chart.png", "total.csv")
    images = [block for block in result.content if block.type == "image"]
    checks.check("the chart is an image block", len(images) == 1, result.content)
    image = base64.b64decode(images[0].data) if images else b""
    checks.check("the image is a PNG", image.startswith(b"\x89PNG\r\n\x1a\n"), image[:20])
    links = {block.name: str(block.uri) for block in result.content if block.type == "resource_link"}
    checks.check("the files are linked", {"chart.png", "total.csv"} <= set(links), links)
    if "chart.png" in links:
        checks.check("the link gives the same chart", fetch(links["chart.png"]) == image, links)
        checks.contains("the link stands in the text as well", text, links["chart.png"])
    return links.get("chart.png", ""), handle(text, "sandbox")


async def languages(checks, caller, workspace):
    for language, code, expected in [
        ("typescript", TYPESCRIPT, "typescript sees 100"),
        ("shell", "echo shell sees $(wc -l < sales.csv)", "shell sees 5"),
        ("go", GO, f"go sees {len(CSV)} <nil>"),
        ("py", "40 + 2", "42"),
    ]:
        text = await caller.text("run_code", language=language, code=code, workspace=workspace,
                                 timeout_s=120)
        checks.contains(f"{language} in the same workspace", text, "exit 0 · ", expected)
    text = await caller.text("run_command", command="ls | sort | head -1; pwd", workspace=workspace)
    checks.contains("run_command in the same workspace", text, "chart.png", "/workspace")


async def files(checks, caller, workspace):
    await caller.text("write_file", path="notes/a.txt", content="one\ntwo\n", workspace=workspace)
    text = await caller.text("write_file", path="notes/a.txt", content="TWO", old="two",
                             mode="replace", workspace=workspace)
    checks.contains("a file is changed", text, "changed: notes/a.txt")
    text = await caller.text("read_file", path="/workspace/notes/a.txt", workspace=workspace)
    checks.contains("a file is read", text, "one\nTWO\n")
    text = await caller.text("list_files", glob="**/*.txt", workspace=workspace)
    checks.contains("files are listed", text, "notes/a.txt · 8 bytes")
    result = await caller.call("read_file", path="chart.png", workspace=workspace)
    checks.check("an image is read as an image", result.content[-1].type == "image", result.content)


async def long_run(checks, caller):
    code = "import time\nfor n in range(4):\n    print('tick', n, flush=True)\n    time.sleep(1)\n"
    text = await caller.text("run_command", argv=["python3", "-c", code], yield_s=1.5)
    checks.check("a long run answers early", text.startswith("running · run-"), text)
    run, offset = handle(text, "run"), re.search(r"stdout_offset=(\d+)", text)
    text = await caller.text("continue_run", run=run, wait_s=30,
                             stdout_offset=int(offset.group(1)) if offset else 0)
    checks.contains("it is continued to its end", text, "exit 0 · ", "tick 3")
    checks.check("what was read is not repeated", "tick 0" not in text, text)
    text = await caller.text("run_command", command="read line; echo got $line", background=True)
    run = handle(text, "run")
    text = await caller.text("continue_run", run=run, input="this\n")
    checks.contains("input reaches a run", text, "got this")
    text = await caller.text("run_command", command="sleep 600", background=True, timeout_s=100)
    text = await caller.text("continue_run", run=handle(text, "run"), signal="KILL")
    checks.contains("a run is killed", text, "cancelled")


async def failures(checks, caller, sandbox):
    for name, tool, arguments, expected in [
        ("an unknown language", "run_code", {"language": "cobol", "code": "x"}, "error invalid: language"),
        ("a missing argument", "run_code", {"language": "python"}, "error invalid: code"),
        ("an unknown argument", "run_code", {"language": "python", "code": "1", "timeout": 3}, "`timeout_s`"),
        ("an unknown sandbox", "run_command", {"command": "ls", "sandbox": "none-such"}, "error not_found"),
        ("a huge limit", "run_command", {"command": "ls", "timeout_s": 1e9}, "error invalid: timeout_s"),
        ("a negative limit", "run_command", {"command": "ls", "timeout_s": -1}, "error invalid: timeout_s"),
        ("a path that leaves", "read_file", {"path": "../../etc/passwd", "sandbox": sandbox}, "error invalid: path"),
        ("what comes later", "sandbox", {"action": "fork", "sandbox": sandbox}, "error unsupported"),
    ]:
        result = await caller.call(tool, **arguments)
        text = text_of(result)
        checks.check(f"{name} is refused clearly", is_error(result) and expected in text, text)
    text = await caller.text("run_code", language="python", code="import nosuchmodule")
    checks.contains("a program that fails is a result", text, "exit 1 · ", "nosuchmodule", "hints:")
    text = await caller.text("run_command", command="sleep 30", timeout_s=1)
    checks.contains("a timeout says so", text, "timeout after 1")
    text = await caller.text("run_command", command="cat /etc/shadow; ls -A /root; echo tried")
    checks.check("the machine is out of reach", "root:" not in text and "tried" in text, text)


async def scenario(checks, session, rest):
    caller = Caller(session)
    workspace = f"check-{uuid.uuid4().hex[:8]}"
    await introduction(checks, caller)
    if rest:
        path = f"/api/workspaces/{workspace}/files/sales.csv"
        status, body = rest.request("POST", path, CSV.encode())
        checks.check("the CSV is uploaded", status in (200, 201, 204), (status, body))
        status, body = rest.request("GET", path)
        checks.check("the CSV is downloaded", (status, body) == (200, CSV.encode()), (status, body))
        status, body = rest.request("GET", path, key="wrong")
        checks.check("a wrong key is refused", status == 401, (status, body))
    else:
        text = await caller.text("write_file", path="sales.csv", content=CSV, workspace=workspace)
        checks.contains("the CSV is written", text, f"{len(CSV)} bytes")
    _, sandbox = await analysis(checks, caller, workspace)
    await languages(checks, caller, workspace)
    await files(checks, caller, workspace)
    await long_run(checks, caller)
    await failures(checks, caller, sandbox)
    text = await caller.text("sandbox", action="stop", sandbox=sandbox)
    checks.contains("a sandbox is stopped", text, "stopped: ")


@asynccontextmanager
async def over_http(url, key):
    headers = {"Authorization": f"Bearer {key}"}
    endpoint = url.rstrip("/") + "/mcp"
    try:  # The client's 2.x
        import httpx2 as httpx
        from mcp.client.streamable_http import streamable_http_client
    except ImportError:
        try:  # 1.24 and later
            import httpx
            from mcp.client.streamable_http import streamable_http_client
        except ImportError:
            from mcp.client.streamable_http import streamablehttp_client
            async with streamablehttp_client(endpoint, headers=headers) as streams:
                yield streams[0], streams[1]
            return
    async with httpx.AsyncClient(headers=headers, timeout=180) as client:
        async with streamable_http_client(endpoint, http_client=client) as streams:
            yield streams[0], streams[1]


@asynccontextmanager
async def over_stdio(command, arguments):
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(server) as (read, write):
        yield read, write


async def connected(checks, streams, rest):
    async with streams as (read, write):
        is_first = version("mcp").startswith("1.")
        patience = timedelta(seconds=180) if is_first else 180
        async with ClientSession(read, write, read_timeout_seconds=patience) as session:
            started = await session.initialize()
            info = field(started, "serverInfo", "server_info")
            checks.check("the server introduces itself", info.name == "stockade", started)
            checks.check("it has instructions", "run_code" in (started.instructions or ""), started)
            await scenario(checks, session, rest)


def main():
    match sys.argv[1:]:
        case ["http", *given]:
            url = given[0] if given else os.environ.get("STOCKADE_URL", "http://127.0.0.1:8080")
            key = given[1] if len(given) > 1 else os.environ["STOCKADE_ADMIN_KEY"]
            streams, rest = over_http(url, key), Rest(url, key)
        case ["stdio", command, *arguments]:
            streams, rest = over_stdio(command, arguments), None
        case _:
            sys.exit(__doc__)
    checks = Checks()
    try:
        asyncio.run(connected(checks, streams, rest))
    except Exception:  # The summary has to come, whatever happened.
        checks.check("the scenario runs to its end", False, traceback.format_exc()[-2000:])
    if checks.failed:
        print(f"\n{len(checks.failed)} of {checks.count} checks failed:")
        for failure in checks.failed:
            print(f"- {failure}")
        sys.exit(1)
    print(f"\nall {checks.count} checks passed")


if __name__ == "__main__":
    main()
