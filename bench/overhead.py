#!/usr/bin/env python3
"""Overhead of isolation, in one interleaved run on this machine.

Each round runs every candidate once, in turn, so that a change of the machine's
speed meets all alike. Printed are medians, and the median of the ratios to the
bare command of the same round. Needs the release binary and bubblewrap.

  cold: a sandbox is made, one program runs in it, the sandbox is removed
  warm: one program runs in a sandbox that is there
"""

import argparse
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/stockade"
KEY = "bench-" + "0" * 40
PORT = 18180
BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
         "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc",
         "--dev", "/dev", "--tmpfs", "/tmp"]
PROGRAMS = {"true": ["/bin/true"], "python3 -c pass": ["/usr/bin/python3", "-c", "pass"]}


class Server:
    """A server with a data directory of its own, spoken to over one connection."""

    def __init__(self, data_dir):
        env = {"PATH": os.environ["PATH"], "STOCKADE_ADMIN_KEY": KEY, "STOCKADE_LOG_LEVEL": "error"}
        command = [BINARY, "serve", "--data-dir", data_dir, "--listen", f"127.0.0.1:{PORT}"]
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        self.connection = None
        self.wait_until_ready()

    def wait_until_ready(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
                self.connection.request("GET", "/healthz")
                if self.connection.getresponse().read():
                    return
            except OSError:
                time.sleep(0.05)
        sys.exit("the server did not start within 30 s")

    def call(self, tool, **arguments):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": tool, "arguments": arguments}}
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream"}
        self.connection.request("POST", "/mcp", json.dumps(body), headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            sys.exit(f"HTTP {response.status}: {text}")
        result = json.loads(text)["result"]
        if result.get("isError"):
            sys.exit(result["content"][0]["text"])
        return result["content"][0]["text"]

    def memory_kb(self, name):
        total = 0
        for pid in [self.process.pid, *children(self.process.pid)]:
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(name + ":"):
                    total += int(line.split()[1])
        return total

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def timed(work):
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def run(command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def handle(text):
    """The sandbox's handle in a tool's answer."""
    words = text.replace("·", " ").split()
    return words[words.index("sandbox") + 1]


def measure(server, rounds):
    sandbox = handle(server.call("sandbox", action="create"))
    for name, argv in PROGRAMS.items():
        def cold():
            made = handle(server.call("run_command", argv=argv))
            server.call("sandbox", action="stop", sandbox=made)

        candidates = {
            "bare": lambda: run(argv),
            "bwrap --unshare-all": lambda: run([*BWRAP, *argv]),
            "stockade warm (MCP)": lambda: server.call("run_command", argv=argv, sandbox=sandbox),
            "stockade cold (MCP)": cold,
        }
        times = {candidate: [] for candidate in candidates}
        for number in range(rounds + 3):
            for candidate, work in candidates.items():
                taken = timed(work)
                if number >= 3:
                    times[candidate].append(taken)
        print(f"\n{name}, {rounds} rounds")
        for candidate, taken in times.items():
            ratios = [a / b for a, b in zip(taken, times["bare"])]
            ordered = sorted(taken)
            print(f"  {candidate:22} median {statistics.median(taken):7.2f} ms   "
                  f"p95 {ordered[int(len(ordered) * 0.95) - 1]:7.2f} ms   "
                  f"ratio to bare {statistics.median(ratios):6.2f}")


def memory(server, count):
    """Of the server and everything below it, per live sandbox."""
    before = server.memory_kb("Pss")
    made = [handle(server.call("sandbox", action="create")) for _ in range(count)]
    after = server.memory_kb("Pss")
    print(f"\nmemory (proportional set size): idle {before / 1024:.1f} MiB, "
          f"per live sandbox {(after - before) / count / 1024:.2f} MiB ({count} live)")
    for sandbox in made:
        server.call("sandbox", action="stop", sandbox=sandbox)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    if not BINARY.exists() or not shutil.which("bwrap"):
        sys.exit("build the release binary first, and install bubblewrap")
    print(f"binary {BINARY.stat().st_size / (1 << 20):.1f} MiB")
    with tempfile.TemporaryDirectory() as data_dir:
        server = Server(data_dir)
        try:
            memory(server, 15)
            measure(server, arguments.rounds)
        finally:
            server.stop()


main()
