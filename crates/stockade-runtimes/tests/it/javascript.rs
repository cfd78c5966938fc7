//! TypeScript and JavaScript on Bun and on Node with esbuild. What both must do
//! is in one table, run by each.

use crate::inside::{Ended, Inside};
use crate::packages;

struct Case {
    name: &'static str,
    language: &'static str,
    code: &'static str,
    stdout: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "types without a build step",
        language: "typescript",
        code: "enum Kind { A = 3 }\nconst k: Kind = Kind.A;\nconsole.log(<number>k, process.argv.slice(2).join());",
        stdout: "3 a,b\n",
    },
    Case {
        name: "top-level await",
        language: "typescript",
        code: "const n: number = await Promise.resolve(4);\nconsole.log(n);",
        stdout: "4\n",
    },
    Case {
        name: "imports from the workspace, with and without extension",
        language: "typescript",
        code: "import { twice } from './lib/twice';\nimport data from './data.json';\nconsole.log(twice(data.n));",
        stdout: "42\n",
    },
    Case {
        name: "require beside import",
        language: "typescript",
        code: "import { basename } from 'node:path';\nconst os = require('node:os');\nconsole.log(basename('/a/b'), typeof os.cpus);",
        stdout: "b function\n",
    },
    Case {
        name: "JSX in a program without a factory of its own",
        language: "typescript",
        code: "const view = (n: number) => <p class='x'>{n}</p>;\nconst { type, props } = view(5) as any;\nconsole.log(type, props.children);",
        stdout: "p 5\n",
    },
    Case {
        name: "a closing tag in a string is no JSX",
        language: "typescript",
        code: "const cast = <string>'</p>';\nconsole.log(cast);",
        stdout: "</p>\n",
    },
    Case {
        name: "the program is the main module",
        language: "typescript",
        code: "if (import.meta.main) console.log('main');",
        stdout: "main\n",
    },
    Case {
        name: "CommonJS",
        language: "javascript",
        code: "const fs = require('fs');\nmodule.exports = {};\nif (require.main === module) console.log(typeof fs.readFileSync);",
        stdout: "function\n",
    },
    Case {
        name: "ESM with await",
        language: "javascript",
        code: "import { setTimeout } from 'node:timers/promises';\nconsole.log(await setTimeout(1, 'slept'));",
        stdout: "slept\n",
    },
    Case {
        name: "packages of the set",
        language: "javascript",
        code: "import Papa from 'papaparse';\nconst { Client } = require('pg');\nconst csv = require('csv-parser');\nconsole.log(Papa.parse('a,b').data[0].length, typeof Client, typeof csv);",
        stdout: "2 function function\n",
    },
];

fn check_all(inside: &Inside, tool: &str) {
    inside.write("lib/twice.ts", "export const twice = (n: number): number => 2 * n;\n");
    inside.write("data.json", "{ \"n\": 21 }\n");
    let before = inside.files();
    for case in CASES {
        let ended = inside.run_by(tool, case.language, case.code, (&["a", "b"], &[]));
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), case.stdout),
            "{} on {tool}: {}",
            case.name,
            ended.stderr
        );
    }
    let failed = inside.run_by(tool, "typescript", FAILING, (&[], &[]));
    check_trace(&failed);
    let broken = inside.run_by(tool, "typescript", "const x: = 5;\n", (&[], &[]));
    assert_eq!(broken.code, Some(1), "{broken:#?}");
    assert!(broken.stderr.contains(".ts:1:"), "{}", broken.stderr);
    let ended = inside.run_by(tool, "javascript", "process.exit(7)", (&[], &[]));
    assert_eq!(ended.code, Some(7), "{ended:#?}");
    assert_eq!(inside.files(), before, "{tool} left something in the workspace");
}

const FAILING: &str = "interface A { n: number }\nfunction boom(a: A): never {\n  throw new Error('bad ' + a.n);\n}\nboom({ n: 1 });\n";

#[track_caller]
fn check_trace(ended: &Ended) {
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("bad 1"), "{}", ended.stderr);
    assert!(ended.stderr.contains("boom (/workspace/"), "{}", ended.stderr);
    assert!(ended.stderr.contains(".ts:3:"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("/opt/stockade/drivers"), "{}", ended.stderr);
}

#[test]
fn programs_run_on_bun() {
    let Some(inside) = packages::inside() else { return };
    let tool = inside.tool("typescript").expect("the package set holds Bun");
    assert!(tool.ends_with("bun.exe"), "{tool}");
    check_all(&inside, &tool);
}

#[test]
fn programs_run_on_node_with_esbuild() {
    let Some(inside) = packages::inside() else { return };
    let Some(tool) = ["/usr/bin/node", "/usr/local/bin/node"]
        .into_iter()
        .find(|file| std::path::Path::new(file).exists())
    else {
        println!("skipped: there is no Node in /usr on this machine");
        return;
    };
    check_all(&inside, tool);
}

#[test]
fn a_package_that_is_not_there_is_an_error_at_once() {
    let Some(inside) = packages::inside() else { return };
    let ended = inside.run("typescript", "import x from 'left-pad-of-nobody';\nconsole.log(x);");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("left-pad-of-nobody"), "{}", ended.stderr);
    assert!(ended.took.as_secs() < 10, "{:?}", ended.took);
}
