// Lets a TypeScript program with JSX in it run although its file ends in `.ts`.
//
// In `.ts`, `<T>value` is a cast; in `.tsx` it is an element. So the program is
// read as TypeScript first, and with JSX only if that is not what it is. The
// file is mapped, since loading node:fs takes longer than starting Bun.
const main = Bun.main;
let code;
if (main.endsWith(".ts")) {
  try {
    code = new TextDecoder().decode(Bun.mmap(main));
  } catch {}
}
if (code !== undefined && /<\/|\/>/.test(code) && !parses("ts") && parses("tsx")) {
  Bun.plugin({
    name: "stockade",
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) =>
        path === main ? { contents: code, loader: "tsx" } : undefined,
      );
    },
  });
}

function parses(loader) {
  try {
    new Bun.Transpiler({ loader }).scan(code);
    return true;
  } catch {
    return false;
  }
}
