//! Every entry of the table, as far as its tool is on this machine.

use crate::inside::Inside;

const HELLO: &[(&str, &str)] = &[
    ("python", "import sys; print('hello', *sys.argv[1:])"),
    ("javascript", "console.log('hello', ...process.argv.slice(2))"),
    ("shell", "echo hello \"$@\""),
    (
        "go",
        "package main\nimport (\"fmt\"; \"os\"; \"strings\")\nfunc main() { fmt.Println(\"hello\", strings.Join(os.Args[1:], \" \")) }",
    ),
    (
        "c",
        "#include <stdio.h>\nint main(int c, char **v) { printf(\"hello %s %s\\n\", v[1], v[2]); }",
    ),
    (
        "cpp",
        "#include <iostream>\nint main(int c, char **v) { std::cout << \"hello \" << v[1] << ' ' << v[2] << '\\n'; }",
    ),
    (
        "rust",
        "fn main() { println!(\"hello {}\", std::env::args().skip(1).collect::<Vec<_>>().join(\" \")) }",
    ),
    (
        "java",
        "public class Anything { public static void main(String[] a) { System.out.println(\"hello \" + String.join(\" \", a)); } }",
    ),
    ("ruby", "puts(['hello', *ARGV].join(' '))"),
    ("perl", "print join(' ', 'hello', @ARGV), \"\\n\";"),
    ("php", "<?php echo implode(' ', ['hello', ...array_slice($argv, 1)]), \"\\n\";"),
    ("r", "cat('hello', commandArgs(trailingOnly = TRUE), '\\n', sep = ' ')"),
];

#[test]
fn every_language_says_hello_with_its_arguments() {
    let inside = Inside::bare();
    for (language, code) in HELLO {
        let Some(tool) = inside.tool(language) else {
            println!("skipped: {language} has none of its tools on this machine");
            continue;
        };
        let ended = inside.run_with(language, code, &["a", "b c"], &[]);
        println!("{language}: {tool} {:?}", ended.took);
        assert_eq!(ended.code, Some(0), "{language}: {}", ended.stderr);
        assert_eq!(ended.stdout.trim_end(), "hello a b c", "{language}: {}", ended.stderr);
    }
    assert_eq!(inside.files(), Vec::<String>::new(), "a program file was left behind");
}

const FAILURES: &[(&str, &str)] = &[
    ("python", "raise SystemExit(3)"),
    ("javascript", "process.exit(3)"),
    ("shell", "exit 3"),
    ("go", "package main\nimport \"os\"\nfunc main() { os.Exit(3) }"),
    ("c", "int main() { return 3; }"),
    ("cpp", "int main() { return 3; }"),
    ("rust", "fn main() { std::process::exit(3) }"),
    ("java", "class A { public static void main(String[] a) { System.exit(3); } }"),
    ("ruby", "exit 3"),
    ("perl", "exit 3;"),
    ("php", "<?php exit(3);"),
    ("r", "quit(status = 3)"),
];

#[test]
fn exit_codes_are_those_of_the_program() {
    let inside = Inside::bare();
    for (language, code) in FAILURES {
        if inside.tool(language).is_none() {
            println!("skipped: {language} has none of its tools on this machine");
            continue;
        }
        let ended = inside.run(language, code);
        assert_eq!(ended.code, Some(3), "{language}: {}", ended.stderr);
    }
}

#[test]
fn every_version_can_be_asked_for() {
    let inside = Inside::bare();
    for runtime in stockade_runtimes::table(Vec::new()).unwrap() {
        let Some(tool) = inside.tool(&runtime.id) else {
            println!("skipped: {} has none of its tools on this machine", runtime.id);
            continue;
        };
        let mut argv = vec![tool];
        argv.extend(runtime.version_args.clone());
        let ended = inside.command(&argv, &runtime.env);
        let words = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(0), "{}: {words}", runtime.id);
        assert!(words.contains(|c: char| c.is_ascii_digit()), "{}: {words}", runtime.id);
    }
}

#[test]
fn headers_of_the_workspace_are_found_from_c() {
    let inside = Inside::bare();
    if inside.tool("c").is_none() {
        println!("skipped: there is no C compiler on this machine");
        return;
    }
    inside.write("answer.h", "#define ANSWER 42\n");
    let code =
        "#include <stdio.h>\n#include \"answer.h\"\nint main() { printf(\"%d\\n\", ANSWER); }";
    inside.run("c", code).expect(0, "42\n");
    assert_eq!(inside.run("c", "int main( {").code, Some(1));
}

#[test]
fn go_honours_the_module_of_the_workspace() {
    let inside = Inside::bare();
    if inside.tool("go").is_none() {
        println!("skipped: there is no Go on this machine");
        return;
    }
    inside.write("go.mod", "module example.com/shop\n\ngo 1.18\n");
    inside.write("price/price.go", "package price\n\nfunc Of(n int) int { return n * 3 }\n");
    let code = "package main\nimport (\"fmt\"; \"example.com/shop/price\")\nfunc main() { fmt.Println(price.Of(4)) }";
    inside.run("go", code).expect(0, "12\n");
}
