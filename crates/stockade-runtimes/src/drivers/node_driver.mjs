// Runs a JavaScript or TypeScript program on Node: node_driver.mjs PROGRAM [ARGUMENT...]
//
// esbuild turns the program and what it imports from the workspace into one
// module beside the program, so that Node finds packages from there; packages
// themselves are left to Node. The module removes itself as it starts.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const ESBUILD = "/opt/stockade/js/node_modules/esbuild/bin/esbuild";

// What a module needs to look like a script, and then to be gone. One line, and
// no name that a program is likely to use.
const BANNER = {
  cjs: `try { require("node:fs").unlinkSync(__filename); } catch {}`,
  esm: [
    `import { createRequire as __stockade_require } from "node:module";`,
    `import { unlinkSync as __stockade_unlink } from "node:fs";`,
    `const require = __stockade_require(import.meta.url);`,
    `try { __stockade_unlink(new URL(import.meta.url)); } catch {}`,
  ].join(" "),
};
const EXTENSION = { cjs: ".cjs", esm: ".mjs" };

const program = resolve(process.argv[2]);
const directory = dirname(program);
const extension = extname(program);
const name = `main${extension}`;
const source = readFileSync(program, "utf8");
process.argv.splice(1, 2, `${directory}/${name}`);

// Started and not awaited: what waits here would show in the program's traces.
if (existsSync(ESBUILD)) {
  startBuilt(build());
} else if (extension === ".js") {
  import(pathToFileURL(program));
} else {
  giveUp("Node alone does not run TypeScript, and esbuild is not installed; run: stockade up");
}

function startBuilt({ text, format }) {
  const built = program.slice(0, -extension.length) + EXTENSION[format];
  // For a module that never starts, because an import of it fails.
  process.once("exit", () => remove(built));
  writeFileSync(built, text);
  if (format === "cjs") {
    setImmediate(createRequire(import.meta.url)("node:module").runMain, built);
  } else {
    import(pathToFileURL(built));
  }
}

function build() {
  const looksCommon = /\brequire\.main\b|\bmodule\.exports\b|\bexports\.\w/.test(source);
  const formats = looksCommon ? ["cjs", "esm"] : ["esm"];
  // In `.ts`, `<T>value` is a cast; in `.tsx` it is an element.
  const loaders = extension === ".ts" ? ["ts", "tsx"] : ["jsx"];
  let complaint;
  for (const format of formats) {
    for (const loader of loaders) {
      const result = esbuild(format, loader);
      if (result.status === 0) return { text: result.stdout, format };
      complaint ??= result.error?.message ?? result.stderr;
    }
  }
  giveUp(complaint);
}

function esbuild(format, loader) {
  const args = [
    "--bundle",
    "--platform=node",
    `--target=node${process.versions.node}`,
    `--format=${format}`,
    `--loader=${loader}`,
    `--sourcefile=${name}`,
    "--packages=external",
    "--sourcemap=inline",
    `--source-root=${pathToFileURL(directory)}/`,
    "--jsx=automatic",
    "--log-level=error",
    "--define:import.meta.main=true",
    `--banner:js=${BANNER[format]}`,
  ];
  const options = { cwd: directory, input: source, encoding: "utf8", maxBuffer: 1 << 30 };
  return spawnSync(ESBUILD, args, options);
}

function giveUp(reason) {
  console.error(reason);
  process.exit(1);
}

function remove(file) {
  try {
    unlinkSync(file);
  } catch {}
}
