#!/usr/bin/env python3
"""Drives the release binary as its users do.

Called by `cargo xtask test` with a Python that has the `mcp` package. Sets up a data
directory (kept in target/surfaces between runs, so that packages are installed
once), then: the command line; the main job over HTTP and over stdio by the
official client; a server killed in the middle of ten runs; and what is left afterwards.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = str(ROOT / "target/release/stockade")
CLIENT = str(ROOT / "crates/stockade-mcp/tests/mcp_client.py")
DATA = ROOT / "target/surfaces"
URL = "http://127.0.0.1:18181"
KEY = "surfaces-" + "k" * 40
ENV = {name: value for name, value in os.environ.items() if not name.startswith("STOCKADE_")}
ENV |= {"STOCKADE_DATA_DIR": str(DATA), "STOCKADE_ADMIN_KEY": KEY}
STARTED = []
FAILED = []
PASSED = 0


def check(name, good, detail=""):
    global PASSED
    if good:
        PASSED += 1
        print(f"ok      {name}", flush=True)
    else:
        FAILED.append(name)
        print(f"FAILED  {name}: {detail}", flush=True)


def stockade(*arguments, **options):
    return subprocess.run([BINARY, *arguments], env=ENV, capture_output=True, text=True,
                          timeout=options.pop("timeout", 120), **options)


def command_line():
    done = stockade("run", "python", "-c", "print(6*7)")
    check("run python prints 42", (done.returncode, done.stdout) == (0, "42\n"), done)
    done = stockade("run", "shell", "-c", "exit 7")
    check("run passes the exit code on", done.returncode == 7, done)
    done = stockade("run", "python", "--timeout", "0.5", "-c", "import time; time.sleep(60)")
    check("run ends at its time", done.returncode == 124, done)
    done = stockade("run", "python", "-", "--", "a b", input="import sys; print(sys.argv[1:])")
    check("run takes program and arguments", done.stdout == "['a b']\n", done)
    done = stockade("run", "shell", "--stdin", "-c", "wc -c", input="x" * 300_000)
    check("run feeds standard input", done.stdout.strip() == "300000", done)
    done = stockade("run", "shell", "-c", "head -c 50000000 /dev/zero | tr '\\0' x")
    check("run loses no output", len(done.stdout) == 50_000_000, len(done.stdout))
    done = stockade("run", "python", "-c", "-5 and print('minus')")
    check("run takes code that begins with a dash", done.stdout == "minus\n", done)
    begun = time.monotonic()
    open_input = subprocess.Popen([BINARY, "run", "--stdin", "shell", "-c", "exit 4"], env=ENV,
                                  stdin=subprocess.PIPE)
    check("run ends with its program though its input stays open",
          open_input.wait(timeout=30) == 4 and time.monotonic() - begun < 10)
    closed = subprocess.run([BINARY, "run", "shell", "-c", "echo e >&2; sleep 0.2; echo o; exit 5"],
                            env=ENV, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    check("run goes on when its standard error is closed",
          (closed.returncode, closed.stdout) == (5, b"o\n"), closed)
    done = stockade("run", "cobol", "-c", "x")
    check("an unknown language is refused with those that are known",
          done.returncode == 2 and "python" in done.stderr and "cobol" in done.stderr, done)
    outcome = json.loads(stockade("run", "--json", "python", "-c", "raise SystemExit(3)").stdout)
    check("run --json has the outcome", outcome["outcome"]["exit_code"] == 3, outcome)
    report = json.loads(stockade("doctor", "--json").stdout)
    broken = [runtime["language"] for runtime in report["runtimes"] if not runtime["works"]]
    check("doctor finds the level", report["isolation"]["level"] == "L2", report["isolation"])
    check("doctor finds every runtime working", not broken, report["runtimes"])
    check("doctor finds nothing missing", not report["problems"], report["problems"])
    done = stockade("config", "show")
    check("config show names origins", "STOCKADE" not in done.stdout or "$" in done.stdout, done)
    done = subprocess.run([BINARY, "config", "show"], env=ENV | {"STOCKADE_LISTNE": "x"},
                          capture_output=True, text=True)
    check("an unknown variable is refused with the nearest",
          done.returncode == 2 and "STOCKADE_LISTEN" in done.stderr, done)


def start_server():
    log = open(DATA / "server.log", "w")
    server = subprocess.Popen([BINARY, "serve", "--listen", "127.0.0.1:18181"], env=ENV,
                              stderr=log, stdout=subprocess.DEVNULL)
    STARTED.append(server)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(URL + "/healthz", timeout=5).read()
            return server
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not answer: " + (DATA / "server.log").read_text())


def call(tool, **arguments):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}
    request = urllib.request.Request(URL + "/mcp", json.dumps(body).encode(), {
        "Authorization": f"Bearer {KEY}", "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)["result"]


def client(name, *arguments):
    done = subprocess.run([sys.executable, CLIENT, *arguments], env=ENV, timeout=600,
                          capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    for line in lines:
        print(f"        {line}")
    check(f"the main job over {name}", done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])


def family(pid):
    """A process and all below it, each with its start time: ids are used again."""
    found = {}
    waiting = [pid]
    while waiting:
        pid = waiting.pop()
        try:
            found[pid] = started(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


def started(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def leftovers(processes):
    """What a server and everything below it must not leave once it has stopped or was killed."""
    left = []
    for pid, since in processes.items():
        try:
            if started(pid) == since:
                left.append(f"process {pid}")
        except OSError:
            pass
    groups = {f"stockade-{pid}" for pid in processes}
    for path, directories, _ in os.walk("/sys/fs/cgroup"):
        left += [f"cgroup {path}/{name}" for name in directories if name in groups]
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    left += [f"mount {line}" for line in mounts if str(DATA) in line]
    left += [f"workspace {entry}" for entry in (DATA / "workspaces").glob(".trash-*")]
    return left


def check_nothing_left(processes):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and leftovers(processes):
        time.sleep(0.1)
    check("nothing is left", not leftovers(processes), leftovers(processes))


def killed_in_the_middle():
    server = start_server()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        runs = [pool.submit(call, "run_command", command="sleep 61", yield_s=50) for _ in range(10)]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and len(sleepers()) < 4:
            time.sleep(0.1)
        check("runs are going on", len(sleepers()) >= 4, sleepers())
        first = family(server.pid)
        server.kill()
        server.wait()
        for run in runs:
            run.exception()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and sleepers():
        time.sleep(0.05)
    check("no program survives its killed server", not sleepers(), sleepers())
    server = start_server()
    listed = call("run_code", language="python", code="print('back')")
    check("a killed server comes back", "back" in listed["content"][0]["text"], listed)
    check_nothing_left(first)
    second = family(server.pid)
    server.send_signal(signal.SIGTERM)
    check("the server stops when asked", server.wait(timeout=30) == 0, server.returncode)
    check_nothing_left(second)


def sleepers():
    found = []
    for directory in pathlib.Path("/proc").iterdir():
        try:
            if directory.name.isdigit() and (directory / "cmdline").read_bytes() == b"sleep\x0061\x00":
                found.append(directory.name)
        except OSError:
            pass
    return found


def polite_stop():
    """A client that ends its server by a signal, its standard input still open."""
    server = subprocess.Popen([BINARY, "mcp"], env=ENV, stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    server.terminate()
    try:
        check("mcp stops when asked", server.wait(timeout=20) == 0, server.returncode)
    except subprocess.TimeoutExpired:
        server.kill()
        check("mcp stops when asked", False, "still running after 20 s")


def many():
    server = start_server()
    descriptors = lambda: len(os.listdir(f"/proc/{server.pid}/fd"))
    for _ in range(20):
        call("run_command", command="true")
    sandbox = re.search(r"sandbox (\S+)", call("sandbox", action="create")["content"][0]["text"])
    before = descriptors()
    begun = time.monotonic()
    wrong = 0
    for number in range(500):
        text = call("run_command", command=f"echo n{number}", sandbox=sandbox[1])["content"][0]["text"]
        wrong += f"n{number}" not in text or not text.startswith("exit 0")
    seconds = time.monotonic() - begun
    check(f"500 runs in a row ({seconds / 500 * 1000:.1f} ms each)", wrong == 0, wrong)
    check("no descriptor is lost", descriptors() <= before + 3, (before, descriptors()))
    processes = family(server.pid)
    server.send_signal(signal.SIGTERM)
    check("the server stops when asked", server.wait(timeout=30) == 0, server.returncode)
    check_nothing_left(processes)


def main():
    DATA.mkdir(parents=True, exist_ok=True, mode=0o700)
    DATA.chmod(0o700)
    for name in ["state.db", "state.db-wal", "state.db-shm"]:
        (DATA / name).unlink(missing_ok=True)
    prepared = stockade("up", "--no-serve", timeout=1800)
    check("up prepares", prepared.returncode == 0, prepared.stderr)
    again = time.monotonic()
    prepared = stockade("up", "--no-serve")
    check("up is quick when all is there", time.monotonic() - again < 10, prepared.stderr)
    command_line()
    server = start_server()
    client("HTTP", "http", URL, KEY)
    server.send_signal(signal.SIGTERM)
    check("the server stops when asked", server.wait(timeout=30) == 0, server.returncode)
    client("stdio", "stdio", BINARY, "mcp", "--data-dir", str(DATA))
    polite_stop()
    many()
    killed_in_the_middle()
    print(f"{PASSED} passed, {len(FAILED)} failed")
    sys.exit(1 if FAILED else 0)


try:
    main()
finally:
    for process in STARTED:
        process.kill()
