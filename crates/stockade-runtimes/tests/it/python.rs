//! The Python driver: a program must not notice that it is there.

use crate::inside::{Ended, Inside};

fn run(code: &str) -> Ended {
    Inside::bare().run("python", code)
}

fn echo(code: &str) -> Ended {
    Inside::bare().run_with("python", code, &[], &[("STOCKADE_ECHO", "1")])
}

/// No word of how the program is run, in whatever it printed.
#[track_caller]
fn check_clean(ended: &Ended) {
    for word in ["driver", "/tmp/run", "hooks", "stockade", "\"sys\""] {
        let shows = ended.stdout.contains(word) || ended.stderr.contains(word);
        assert!(!shows, "{word} shows in {ended:#?}");
    }
}

#[test]
fn the_program_is_main_in_the_workspace() {
    let inside = Inside::bare();
    let code =
        "import sys\nprint(__name__, __file__, sys.argv, sys.path[0])\nprint(sorted(globals()))";
    let ended = inside.run_with("python", code, &["a", "b"], &[]);
    ended.expect(
        0,
        "__main__ /workspace/main.py ['main.py', 'a', 'b'] /workspace\n\
         ['__annotations__', '__builtins__', '__cached__', '__doc__', '__file__', '__loader__', \
         '__name__', '__package__', '__spec__', 'sys']\n",
    );
}

#[test]
fn modules_of_the_workspace_are_imported_and_the_users_main_stays() {
    let inside = Inside::bare();
    inside.write("main.py", "VALUE = 'the users own'\n");
    inside.write("shop.py", "PRICE = 12\n");
    inside
        .run("python", "import shop, main\nprint(shop.PRICE, main.VALUE)")
        .expect(0, "12 the users own\n");
    assert_eq!(inside.files(), ["main.py", "shop.py"]);
}

#[test]
fn a_traceback_shows_the_program_and_nothing_below() {
    let inside = Inside::bare();
    inside.write("main.py", "not this line\n");
    let ended = inside.run("python", "def f():\n    raise ValueError('bad')\n\nf()\n");
    assert_eq!(ended.code, Some(1));
    check_clean(&ended);
    assert!(
        ended.stderr.starts_with(
            "Traceback (most recent call last):\n  File \"main.py\", line 4, in <module>\n    f()\n"
        ),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("line 2, in f\n    raise ValueError('bad')\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.ends_with("ValueError: bad\n"), "{}", ended.stderr);
}

#[test]
fn a_program_that_prints_its_own_stack_sees_only_itself() {
    let ended = run("import traceback, warnings, inspect, threading\n\
        traceback.print_stack()\n\
        try: 1 / 0\n\
        except ZeroDivisionError: traceback.print_exc()\n\
        def f(): raise KeyError('in thread')\n\
        t = threading.Thread(target=f); t.start(); t.join()\n\
        print(inspect.getsource(f), end='')\n");
    check_clean(&ended);
    ended.expect(0, "def f(): raise KeyError('in thread')\n");
    assert!(ended.stderr.contains("traceback.print_stack()\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("Exception in thread Thread-1"), "{}", ended.stderr);
    assert!(ended.stderr.contains("def f(): raise KeyError('in thread')\n"), "{}", ended.stderr);
}

#[test]
fn a_warning_points_into_the_program_or_below_it() {
    let ended =
        run("import warnings\nwarnings.warn('here')\nwarnings.warn('below', stacklevel=2)\n");
    check_clean(&ended);
    assert!(ended.stderr.contains("main.py:2: UserWarning: here\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("sys:1: UserWarning: below\n"), "{}", ended.stderr);
}

#[test]
fn an_excepthook_of_the_program_sees_only_the_program() {
    let ended = run("import sys\n\
        sys.excepthook = lambda kind, error, trace: print(kind.__name__, trace.tb_frame.f_code.co_filename)\n\
        1 / 0\n");
    ended.expect(1, "ZeroDivisionError main.py\n");
}

#[test]
fn a_syntax_error_is_told_as_python_tells_it() {
    let ended = run("x = 1\ndef f(:\n");
    assert_eq!(ended.code, Some(1));
    check_clean(&ended);
    assert!(
        ended.stderr.starts_with("  File \"main.py\", line 2\n    def f(:\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("SyntaxError: "), "{}", ended.stderr);
    let late = run("await x\ndef f(:\n");
    assert!(
        late.stderr.contains("line 2") && late.stderr.contains("SyntaxError"),
        "{}",
        late.stderr
    );
    let outside = run("def f():\n    await x\n");
    assert!(outside.stderr.contains("'await' outside async function"), "{}", outside.stderr);
}

#[test]
fn ends_are_exact() {
    for (code, expected) in [
        ("", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit(None)", 0),
        ("import os; os._exit(9)", 9),
        ("1 / 0", 1),
    ] {
        assert_eq!(run(code).code, Some(expected), "{code:?}");
    }
    let words = run("import sys; sys.exit('bye')");
    assert_eq!((words.code, words.stderr.as_str()), (Some(1), "bye\n"));
    let at_exit = run("import atexit; atexit.register(print, 'last'); print('first')");
    at_exit.expect(0, "first\nlast\n");
}

#[test]
fn a_keyboard_interrupt_ends_by_the_signal() {
    let code = "import subprocess, sys, signal\n\
        signal.signal(signal.SIGINT, signal.SIG_DFL)\n\
        open('inner.py', 'w').write('raise KeyboardInterrupt')\n\
        for argv in (['inner.py'], ['/opt/stockade/drivers/python_driver.py', 'inner.py']):\n\
        \x20   print(subprocess.run([sys.executable, *argv], stderr=subprocess.DEVNULL).returncode)\n";
    run(code).expect(0, "-2\n-2\n");
}

#[test]
fn await_works_outside_of_functions() {
    let code = "import asyncio\nx = await asyncio.sleep(0, 5)\nasync def f(): return x + 1\nprint(await f())\n1 / 0\n";
    let ended = run(code);
    check_clean(&ended);
    ended.expect(1, "6\n");
    assert!(
        ended.stderr.starts_with("Traceback (most recent call last):\n  File \"main.py\", line 5"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_last_expression_is_echoed_when_asked_for() {
    for (code, expected) in [
        ("6 * 7", "42\n"),
        ("x = 1\nx", "1\n"),
        ("'text'", "'text'\n"),
        ("None", ""),
        ("print('once')", "once\n"),
        ("x = 1", ""),
        ("5;", ""),
        ("", ""),
        ("for i in range(2): i", ""),
        ("from __future__ import annotations\nimport asyncio\nawait asyncio.sleep(0, 3)", "3\n"),
        ("if __name__ == '__main__':\n    print('main')\n'end'", "main\n'end'\n"),
    ] {
        echo(code).expect(0, expected);
    }
    run("6 * 7").expect(0, "");
    let failed = echo("x = 1\nx / 0");
    check_clean(&failed);
    assert!(failed.stderr.contains("line 2, in <module>\n    x / 0"), "{}", failed.stderr);
}

#[test]
fn classes_of_the_program_are_pickled_and_sent_to_children() {
    let ended = run("import multiprocessing as mp, pickle\n\
        class Box:\n\
        \x20   def __init__(self, n): self.n = n\n\
        def square(box): return Box(box.n ** 2)\n\
        def fail(box): raise ValueError('in child')\n\
        if __name__ == '__main__':\n\
        \x20   print(pickle.loads(pickle.dumps(Box(3))).n)\n\
        \x20   for method in ('fork', 'spawn', 'forkserver'):\n\
        \x20       with mp.get_context(method).Pool(2) as pool:\n\
        \x20           print(method, [box.n for box in pool.map(square, [Box(1), Box(2)])])\n\
        \x20   child = mp.get_context('spawn').Process(target=fail, args=(Box(1),))\n\
        \x20   child.start(); child.join(); print(child.exitcode)\n");
    check_clean(&ended);
    ended.expect(0, "3\nfork [1, 4]\nspawn [1, 4]\nforkserver [1, 4]\n1\n");
    assert!(ended.stderr.contains("File \"main.py\", line 5, in fail"), "{}", ended.stderr);
}

#[test]
fn output_arrives_without_waiting_for_the_end() {
    let code = "import subprocess, sys\n\
        open('slow.py', 'w').write('import time; print(\"now\"); time.sleep(30)')\n\
        argv = [sys.executable, '/opt/stockade/drivers/python_driver.py', 'slow.py']\n\
        child = subprocess.Popen(argv, stdout=subprocess.PIPE)\n\
        print(child.stdout.readline()); child.kill()\n";
    let ended = run(code);
    ended.expect(0, "b'now\\n'\n");
    assert!(ended.took.as_secs() < 20, "{:?}", ended.took);
}

#[test]
fn odd_sources_are_read_as_python_reads_them() {
    run("# -*- coding: latin-1 -*-\nprint('ok')").expect(0, "ok\n");
    run("\u{feff}print('bom')").expect(0, "bom\n");
    run("print('w')\r\nprint('x')\r\n").expect(0, "w\nx\n");
    let nul = run("print(1)\0");
    assert_eq!(nul.code, Some(1));
    check_clean(&nul);
    assert!(nul.stderr.contains("null byte"), "{}", nul.stderr);
}
