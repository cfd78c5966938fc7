"""Runs a program as `__main__`, as if it lay in the working directory.

Usage: python_driver.py PROGRAM [ARGUMENT...]

Every run compiles this file, so it holds only what every run needs. The rest
is in python_hooks.py, loaded when a program first touches what needs it. The
same file serves the children of multiprocessing as `__mp_main__`.
"""

import sys


class Program:
    """The program, and a finder that notices the few modules that must know of it."""

    def __init__(self, path, drivers):
        import posix

        self.path = path
        self.drivers = drivers
        self.driver_files = [Program.__init__.__code__.co_filename, drivers + "/python_hooks.py"]
        self.name = path.rpartition("/")[2]
        self.cwd = posix.getcwd()
        self.echo = posix.environ.get(b"STOCKADE_ECHO") == b"1"
        self.file = self.cwd.rstrip("/") + "/" + self.name
        self.hooks = None
        with open(path, "rb") as file:
            self.source = file.read()

    def find_spec(self, fullname, path=None, target=None):
        if fullname in WATCHED:
            return self.load_hooks().find_spec(fullname, path)
        return None

    def load_hooks(self):
        if self.hooks is None:
            file = self.driver_files[1]
            with open(file, "rb") as source:
                code = compile(source.read(), file, "exec")
            namespace = {"__name__": "stockade_hooks"}
            exec(code, namespace)
            self.hooks = namespace["Hooks"](self)
        return self.hooks

    def excepthook(self, kind, error, trace):
        self.load_hooks().excepthook(kind, error, trace)

    def install(self):
        sys.meta_path.insert(0, self)
        sys.excepthook = self.excepthook
        for name in WATCHED:
            if name in sys.modules:
                self.load_hooks().loaded(sys.modules[name])

    def compile(self):
        """The code to run, in parts, and whether a part waits for something."""
        try:
            if self.echo:
                return self.load_hooks().compile_with_echo()
            return [compile(self.source, self.name, "exec", 0, True)], False
        except SyntaxError:
            if b"await" in self.source or b"async" in self.source:
                return self.load_hooks().compile_with_await()
            raise

    def main_module(self):
        module = type(sys)("__main__")
        module.__file__ = self.file
        module.__builtins__ = sys.modules["builtins"]
        module.__annotations__ = {}
        module.__cached__ = None
        sys.modules["__main__"] = module
        return module.__dict__


WATCHED = frozenset(
    (
        "linecache",
        "matplotlib",
        "matplotlib.figure",
        "matplotlib.pyplot",
        "multiprocessing.spawn",
        "threading",
        "traceback",
    )
)



def main():
    program = Program(sys.argv[1], sys.path[0])
    sys.argv[:] = [program.name, *sys.argv[2:]]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.orig_argv[0], *sys.argv]
    sys.path[0] = program.cwd
    program.install()
    namespace = program.main_module()
    try:
        parts, waits = program.compile()
        scope = {"__name__": "sys", "parts": parts, "namespace": namespace}
        text = "for part in parts: exec(part, namespace)"
        if waits:
            text = "run(parts, namespace)"
            scope["run"] = program.load_hooks().run_async
        # Python calls what lies below the oldest frame "sys", line 1; warnings
        # that point there then read as they always do.
        exec(compile(text, "sys", "exec"), scope)
    except SystemExit:
        raise
    except BaseException:
        # Imported while the exception is reported, these would make Python
        # forget that it was a KeyboardInterrupt and has to end by the signal.
        program.load_hooks().get_ready()
        if sys.excepthook != program.excepthook:
            program.load_hooks().strip_for(sys.excepthook)
        raise
    finally:
        if program.hooks is not None:
            program.hooks.ended()


if __name__ == "__main__":
    main()
