"""What a few modules must know about the program: loaded only when needed.

Source lines of the program, tracebacks without the driver, children of
multiprocessing, the ready font list of matplotlib, figures that were left open.
"""

import sys

ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
COROUTINE = 0x80
FUTURES = 0x1FE0000


class Hooks:
    def __init__(self, program):
        import posix

        self.program = program
        self.pid = posix.getpid()
        self.lines = None

    # Modules as they are imported.

    def find_spec(self, fullname, path):
        for finder in sys.meta_path:
            if finder is self.program or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path)
            if spec is not None:
                self.notice(spec)
                return spec
        return None

    def notice(self, spec):
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None or isinstance(loader, type):
            return

        def exec_module(module):
            del loader.exec_module
            execute(module)
            self.loaded(module)

        loader.exec_module = exec_module

    def loaded(self, module):
        adapt = getattr(self, "adapt_" + module.__name__.replace(".", "_"), None)
        if adapt is not None:
            adapt(module)

    def adapt_linecache(self, linecache):
        if self.lines is None:
            from importlib.util import decode_source

            try:
                self.lines = decode_source(self.program.source).splitlines(True)
            except (SyntaxError, UnicodeDecodeError):
                self.lines = []
        # Entries without a time are never checked against the disk, where a
        # file of the same name may hold something else.
        for name in (self.program.name, self.program.file):
            entry = (len(self.program.source), None, self.lines, name)
            linecache.cache[name] = entry

    def adapt_traceback(self, traceback):
        walk_stack = traceback.walk_stack

        def walk_program_stack(frame):
            if frame is None:
                return walk_stack(None)
            return self.without_driver(walk_stack(frame))

        traceback.walk_stack = walk_program_stack

    def without_driver(self, stack):
        for frame, line in stack:
            if not self.is_driver(frame):
                yield frame, line

    def is_driver(self, frame):
        name = frame.f_code.co_filename
        return name in self.program.driver_files or (
            name == "sys" and frame.f_globals.get("__name__") == "sys"
        )

    def adapt_threading(self, threading):
        def excepthook(args):
            if args.exc_type is SystemExit or sys.stderr is None:
                return
            thread = args.thread
            name = thread.name if thread is not None else threading.get_ident()
            print(f"Exception in thread {name}:", file=sys.stderr)
            self.show(args.exc_type, args.exc_value, args.exc_traceback)

        threading.excepthook = threading.__excepthook__ = excepthook

    def adapt_multiprocessing_spawn(self, spawn):
        get_preparation_data = spawn.get_preparation_data

        def get_program_data(name):
            data = get_preparation_data(name)
            if data.get("init_main_from_path") == self.program.file:
                data["init_main_from_path"] = self.child_file()
            return data

        spawn.get_preparation_data = get_program_data

    def child_file(self):
        """A file that makes the program's definitions in a new interpreter."""
        import os

        path = os.path.dirname(self.program.path) + "/.child.py"
        if not os.path.exists(path):
            text = CHILD.format(program=self.program.path, drivers=self.program.drivers)
            temporary = f"{path}.{os.getpid()}"
            with open(temporary, "w") as file:
                file.write(text)
            os.rename(temporary, path)
        return path

    def run_child(self, namespace):
        for name in list(namespace):
            if not name.startswith("__"):
                del namespace[name]
        namespace["__file__"] = self.program.file
        exec(compile(self.program.source, self.program.name, "exec", 0, True), namespace)

    # Compiling.

    def compile_with_echo(self, flags=0):
        program = self.program
        tree = compile(program.source, program.name, "exec", ONLY_AST | flags, True)
        body = tree.body
        is_expression = body and type(body[-1]).__name__ == "Expr"
        if not is_expression or program.source.rstrip().endswith(b";"):
            return self.parts(tree, None, flags)
        import _ast

        return self.parts(tree, _ast.Interactive([body.pop()]), flags)

    def parts(self, tree, last, flags):
        name = self.program.name
        parts = [compile(tree, name, "exec", flags, True)]
        if last is not None:
            flags |= parts[0].co_flags & FUTURES
            parts.append(compile(last, name, "single", flags, True))
        return parts, any(part.co_flags & COROUTINE for part in parts)

    def compile_with_await(self):
        if self.program.echo:
            return self.compile_with_echo(TOP_LEVEL_AWAIT)
        source, name = self.program.source, self.program.name
        code = compile(source, name, "exec", TOP_LEVEL_AWAIT, True)
        return [code], bool(code.co_flags & COROUTINE)

    def run_async(self, parts, namespace):
        import asyncio

        async def run():
            for part in parts:
                waiting = eval(part, namespace)
                if waiting is not None:
                    await waiting

        asyncio.run(run())

    # Exceptions.

    def get_ready(self):
        import traceback  # noqa: F401

    def excepthook(self, kind, error, trace):
        self.show(kind, error, self.stripped(trace))

    def show(self, kind, error, trace):
        import traceback

        traceback.print_exception(kind, error, trace)

    def stripped(self, trace):
        """The part of a traceback that begins in the program."""
        while trace is not None and trace.tb_frame.f_code.co_filename != self.program.name:
            trace = trace.tb_next
        return trace

    def strip_for(self, excepthook):
        sys.excepthook = lambda kind, error, trace: excepthook(kind, error, self.stripped(trace))

    # Matplotlib.

    def adapt_matplotlib(self, matplotlib):
        import os

        ready = os.path.join(sys.prefix, "share", "stockade-matplotlib")
        try:
            cache = matplotlib.get_cachedir()
            for name in os.listdir(ready):
                if name.startswith("fontlist") and cache is not None:
                    os.symlink(os.path.join(ready, name), os.path.join(cache, name))
        except OSError:
            # Then matplotlib makes its own list.
            pass

    def adapt_matplotlib_figure(self, figure):
        if not self.program.echo:
            return
        savefig = figure.Figure.savefig

        def savefig_and_note(self, *args, **kwargs):
            result = savefig(self, *args, **kwargs)
            self._stockade_saved = True
            return result

        savefig_and_note.__doc__ = savefig.__doc__
        savefig_and_note.__wrapped__ = savefig
        figure.Figure.savefig = savefig_and_note

    def adapt_matplotlib_pyplot(self, pyplot):
        if not self.program.echo:
            return
        show = pyplot.show

        def show_as_file(*args, **kwargs):
            if pyplot.get_backend().lower() != "agg":
                return show(*args, **kwargs)
            self.save_figures(pyplot)
            pyplot.close("all")
            return None

        show_as_file.__doc__ = show.__doc__
        pyplot.show = show_as_file

    def save_figures(self, pyplot):
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            is_blank = not figure.axes and not figure.texts and not figure.images
            if is_blank or getattr(figure, "_stockade_saved", False):
                continue
            with self.new_file() as file:
                figure.savefig(file, format="png")

    def new_file(self):
        from itertools import count

        for number in count(1):
            try:
                return open(f"{self.program.cwd}/figure-{number}.png", "xb")
            except FileExistsError:
                continue

    def ended(self):
        import posix

        pyplot = sys.modules.get("matplotlib.pyplot")
        if not self.program.echo or pyplot is None or self.pid != posix.getpid():
            return
        try:
            self.save_figures(pyplot)
        except Exception as error:
            print(f"a figure could not be saved: {error}", file=sys.stderr)


CHILD = """\
import sys
with open({drivers!r} + "/python_driver.py", "rb") as file:
    code = compile(file.read(), {drivers!r} + "/python_driver.py", "exec")
space = {{"__name__": "stockade_driver"}}
exec(code, space)
program = space["Program"]({program!r}, {drivers!r})
program.install()
program.load_hooks().run_child(globals())
"""
