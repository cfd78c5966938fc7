//! What each tool does, through the whole server.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::ProtocolVersion;
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use stockade_mcp::McpOptions;

use crate::bench::{Bench, after, kinds, text_of};

/// The smallest whole PNG there is.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn tools_are_listed_with_versions_in_a_stable_order() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let tools = client.service.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    let expected =
        "run_code run_command continue_run read_file write_file list_files sandbox list_runtimes";
    assert_eq!(names.join(" "), expected);
    let description = tools[0].description.as_ref().unwrap();
    assert!(description.contains("Languages: fake 1.0."), "{description}");
    assert!(description.contains("fake: tables"), "{description}");
    assert_eq!(client.service.list_all_tools().await.unwrap(), tools);
}

#[tokio::test]
async fn code_runs_and_its_answer_has_everything() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let code = "echo hello; err careful; write a.csv 1,2";
    let arguments = json!({ "code": code, "language": "fake", "workspace": "w" });
    let result = client.call("run_code", arguments).await;
    let text = text_of(&result);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("exit 0 · "), "{text}");
    assert!(lines[1].starts_with("sandbox "), "{text}");
    assert!(lines[1].contains(" · run run-") && lines[1].ends_with(" · workspace w"), "{text}");
    assert_eq!(&lines[2..6], ["stdout:", "hello", "stderr:", "careful"]);
    assert_eq!(lines[6], "files changed:");
    assert!(lines[7].starts_with("a.csv · created · "), "{text}");
    assert!(lines[7].contains(" · http://files.example/"), "{text}");
    assert_eq!(kinds(&result), ["text", "link"]);
    let link = result.content[1].as_resource_link().unwrap();
    assert!(link.uri.ends_with("/a.csv") && text.contains(&link.uri));
    assert_eq!(link.name, "a.csv");
}

#[tokio::test]
async fn links_are_text_only_for_protocols_without_them() {
    let bench = Bench::new().await;
    let client = bench.client_of(ProtocolVersion::V_2025_03_26, Bench::options()).await;
    let arguments = json!({ "code": "write a.csv 1", "language": "fake", "workspace": "w" });
    let result = client.call("run_code", arguments).await;
    assert_eq!(kinds(&result), ["text"]);
    assert!(text_of(&result).contains("http://files.example/"));
}

#[tokio::test]
async fn without_a_server_files_have_local_addresses() {
    let bench = Bench::new().await;
    let root = Some("/srv/work spaces".into());
    let options = McpOptions { workspace_root: root, ..McpOptions::default() };
    let client = bench.client_of(ProtocolVersion::V_2025_11_25, options).await;
    let arguments = json!({ "code": "write a.csv 1", "language": "fake", "workspace": "w" });
    let text = client.text("run_code", arguments).await;
    assert!(text.contains("file:///srv/work%20spaces/"), "{text}");
}

#[tokio::test]
async fn images_are_shown_and_false_ones_are_named() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let place = |path: &str, content: &str| json!({ "path": path, "content": content, "encoding": "base64", "workspace": "w" });
    client.text("write_file", place("a.png", PNG)).await;
    let result = client.call("read_file", json!({ "path": "a.png", "workspace": "w" })).await;
    assert_eq!(kinds(&result), ["text", "image"]);
    let image = result.content[1].as_image().unwrap();
    assert_eq!((image.mime_type.as_str(), image.data.as_str()), ("image/png", PNG));
    let arguments = json!({ "code": "write b.png no image", "language": "fake", "workspace": "w" });
    let result = client.call("run_code", arguments).await;
    assert_eq!(kinds(&result), ["text", "link"]);
    let text = text_of(&result);
    assert!(text.contains("image b.png is not shown: it is not a PNG"), "{text}");
}

#[tokio::test]
async fn failures_of_programs_are_results_and_not_errors() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    for (command, expected) in [
        ("exit 3", "exit 3 · "),
        ("die-signal 11", "ended by SIGSEGV · "),
        ("balloon 100000", "out of memory · "),
    ] {
        let text = client.text("run_command", json!({ "command": command })).await;
        assert!(text.starts_with(expected), "{text}");
    }
    let arguments = json!({ "command": "hang", "timeout_s": "0.05" });
    let text = client.text("run_command", arguments).await;
    assert!(text.starts_with("timeout after "), "{text}");
}

/// Each call is refused with an error that has this text.
async fn refuses(rows: &[(&str, Value, &str)]) {
    let bench = Bench::new().await;
    let client = bench.client().await;
    for (tool, arguments, expected) in rows {
        let text = client.refusal(tool, arguments.clone()).await;
        assert!(text.contains(expected), "{tool} {arguments}: {text}");
    }
}

#[tokio::test]
async fn bad_code_is_refused_with_field_cause_and_next_step() {
    refuses(&[
        ("run_code", json!({ "code": "echo", "language": "cobol" }), "error invalid: language: "),
        ("run_code", json!({ "language": "fake" }), "error invalid: code: is missing"),
        (
            "run_code",
            json!({ "code": "x", "language": "fake", "timeout": 3 }),
            "did you mean `timeout_s`?",
        ),
        (
            "run_code",
            json!({ "code": "x", "language": "fake", "timeout_s": 0 }),
            "error invalid: timeout_s: ",
        ),
        (
            "run_code",
            json!({ "code": "x", "language": "fake", "timeout_s": -5 }),
            "error invalid: timeout_s: ",
        ),
        (
            "run_code",
            json!({ "code": "x", "language": "fake", "timeout_s": 1e12 }),
            "error invalid: timeout_s: ",
        ),
        ("run_code", json!({ "code": "a\0b", "language": "fake" }), "error invalid: code: "),
        ("run_code", json!({ "code": "x", "language": "fake", "network": "packages" }), "error "),
        (
            "run_code",
            json!({ "code": "x", "language": "fake", "sandbox": "no-such" }),
            "error not_found: no sandbox `no-such`. Next: ",
        ),
    ])
    .await;
}

#[tokio::test]
async fn bad_commands_are_refused_with_field_cause_and_next_step() {
    refuses(&[
        ("run_command", json!({}), "error invalid: command: is missing"),
        ("run_command", json!({ "command": "a", "argv": ["b"] }), "give one of them"),
        ("run_command", json!({ "argv": [] }), "error invalid: argv: names no program"),
        ("run_command", json!({ "command": "a", "yield_s": 1e9 }), "error invalid: yield_s: "),
        (
            "continue_run",
            json!({ "run": "run-none" }),
            "error not_found: no run `run-none`. Next: ",
        ),
    ])
    .await;
}

#[tokio::test]
async fn bad_file_calls_are_refused_with_field_cause_and_next_step() {
    refuses(&[
        ("read_file", json!({ "path": "a" }), "error invalid: sandbox: is missing"),
        ("read_file", json!({ "path": "../a", "workspace": "w" }), "error invalid: path: "),
        (
            "read_file",
            json!({ "path": "a", "workspace": "none" }),
            "error not_found: no workspace `none`",
        ),
        (
            "write_file",
            json!({ "path": "/etc/x", "content": "", "workspace": "w" }),
            "error invalid: path: ",
        ),
        (
            "write_file",
            json!({ "path": "a", "content": "?", "encoding": "base64", "workspace": "w" }),
            "content: is not base64",
        ),
        (
            "write_file",
            json!({ "path": "a", "content": "b", "mode": "replace", "workspace": "w" }),
            "error invalid: old: is missing",
        ),
        (
            "list_files",
            json!({ "workspace": "w", "depth": "deep" }),
            "error invalid: depth: expected a whole number",
        ),
    ])
    .await;
}

#[tokio::test]
async fn other_bad_calls_are_refused_with_field_cause_and_next_step() {
    refuses(&[
        (
            "sandbox",
            json!({ "action": "destroy" }),
            "error invalid: action: `destroy` is not one of create, list",
        ),
        ("sandbox", json!({ "action": "info" }), "error invalid: sandbox: is missing"),
        (
            "sandbox",
            json!({ "action": "fork", "sandbox": "x" }),
            "error unsupported: fork is not supported",
        ),
        ("list_runtimes", json!({ "verbose": true }), "it takes no arguments"),
    ])
    .await;
}

#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let params = rmcp::model::CallToolRequestParams::new("run_cod");
    let error = client.service.call_tool(params).await.unwrap_err();
    let ServiceError::McpError(error) = error else { panic!("{error}") };
    assert_eq!(error.code.0, -32602);
    assert!(error.message.contains("run_code"), "{}", error.message);
}

#[tokio::test]
async fn failures_of_ours_say_nothing_about_our_insides() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    // The look for tools makes a sandbox of its own, which must not be the one that fails.
    client.text("list_runtimes", json!({})).await;
    bench.backend.fail_next(1);
    let text = client.refusal("run_command", json!({ "command": "echo x" })).await;
    // Whether the call or the run it started fails is a matter of which is first.
    let told = ["internal failure", "error internal: "].iter().any(|head| text.starts_with(head));
    assert!(told, "{text}");
    assert!(!text.contains("told to fail") && !text.contains("making a sandbox"), "{text}");
    bench.backend.fail_next(1);
    let text = client.refusal("sandbox", json!({ "action": "create" })).await;
    assert!(text.starts_with("error internal: ") && text.contains("(request "), "{text}");
    assert!(!text.contains("told to fail") && !text.contains("making a sandbox"), "{text}");
}

#[tokio::test]
async fn a_long_run_answers_early_and_goes_on() {
    let bench = Bench::answering_within(Duration::from_millis(100)).await;
    let client = bench.client().await;
    let arguments = json!({ "code": "echo one; sleep 400; echo two", "language": "fk" });
    let text = client.text("run_code", arguments).await;
    assert!(text.starts_with("running · run-"), "{text}");
    assert!(text.contains("stdout:\none\n") && text.contains("it goes on: continue_run"), "{text}");
    let run = after(&text, " · run ");
    let offset = after(&text, "stdout_offset=");
    assert_eq!(offset, "4");
    let arguments = json!({ "run": run, "wait_s": 10, "stdout_offset": offset });
    let text = client.text("continue_run", arguments).await;
    assert!(text.starts_with("exit 0 · ") && text.contains("stdout:\ntwo\n"), "{text}");
    assert!(!text.contains("one"), "{text}");
    let text = client.text("continue_run", json!({ "run": run })).await;
    assert!(text.contains("stdout:\none\ntwo\n"), "{text}");
}

#[tokio::test]
async fn input_is_answered_without_waiting_for_the_end() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let text = client.text("run_command", json!({ "argv": ["cat"], "background": true })).await;
    let run = after(&text, " · run ");
    let started = std::time::Instant::now();
    let text = client.text("continue_run", json!({ "run": run, "input": "hello\n" })).await;
    assert!(text.contains("stdout:\nhello\n") && text.contains("it goes on"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(5));
    let text = client.text("continue_run", json!({ "run": run, "input": "bye\u{4}" })).await;
    assert!(text.starts_with("exit 0 · ") && text.contains("stdout:\nhello\nbye\n"), "{text}");
    let text = client.refusal("continue_run", json!({ "run": run, "input": "x" })).await;
    assert!(text.starts_with("error conflict: "), "{text}");
}

#[tokio::test]
async fn kill_ends_a_run() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let text = client.text("run_command", json!({ "command": "hang", "yield_s": 0 })).await;
    let run = after(&text, " · run ");
    let text = client.text("continue_run", json!({ "run": run, "signal": "KILL" })).await;
    assert!(text.starts_with("cancelled · "), "{text}");
    let text = client.refusal("continue_run", json!({ "run": run, "signal": "NOSUCH" })).await;
    assert!(text.starts_with("error "), "{text}");
}

#[tokio::test]
async fn giving_a_call_up_ends_its_run() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let arguments = json!({ "command": "hang", "workspace": "w", "idempotency_key": "k" });
    let call = client.start("run_command", arguments.clone()).await;
    while bench.engine.health().await.running == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.cancel(None).await.unwrap();
    let text = client.text("run_command", arguments).await;
    assert!(text.starts_with("cancelled · "), "{text}");
    assert!(text.lines().next().unwrap().ends_with("idempotency_key"), "{text}");
    assert_eq!(bench.engine.health().await.running, 0);
}

#[tokio::test]
async fn progress_grows_and_is_rare() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let command = "echo a; sleep 1200; echo b; sleep 300; echo c; sleep 900; echo d";
    client.text("run_command", json!({ "command": command })).await;
    let progress = client.progress.lock().unwrap().clone();
    assert!((1..=3).contains(&progress.len()), "{progress:?}");
    assert!(progress.is_sorted_by(|a, b| a < b), "{progress:?}");
}

#[tokio::test]
async fn arguments_are_taken_in_many_forms() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    for arguments in [
        json!({ "command": "echo a b" }),
        json!({ "command": ["echo", "a", "b"] }),
        json!({ "argv": "[\"echo\", \"a\", \"b\"]" }),
        json!({ "argv": "echo a b", "timeout_s": "5", "workspace": null }),
        json!({ "command": "echo a b", "env": "{\"A\": 1}", "background": "no" }),
    ] {
        let text = client.text("run_command", arguments.clone()).await;
        assert!(text.contains("stdout:\na b\n"), "{arguments}: {text}");
    }
}

#[tokio::test]
async fn files_are_written_read_and_listed() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let write = |mode: &str, content: &str, old: Option<&str>| json!({ "path": "/workspace/d/a.txt", "content": content, "mode": mode, "old": old, "workspace": "w" });
    let text = client.text("write_file", write("create", "one\ntwo\n", None)).await;
    assert!(text.starts_with("created: d/a.txt · 8 bytes · http://files.example/"), "{text}");
    assert!(text.ends_with("/d/a.txt"), "{text}");
    let text = client.refusal("write_file", write("create", "x", None)).await;
    assert!(text.starts_with("error conflict: "), "{text}");
    client.text("write_file", write("append", "three\n", None)).await;
    client.text("write_file", write("replace", "TWO", Some("two"))).await;
    let read = |offset: u64, limit: u64| json!({ "path": "d/a.txt", "workspace": "w", "offset": offset, "limit": limit });
    let text = client.text("read_file", json!({ "path": "/data/d/a.txt", "workspace": "w" })).await;
    assert_eq!(text.split_once('\n').unwrap().1, "one\nTWO\nthree\n");
    let text = client.text("read_file", read(2, 1)).await;
    assert!(text.contains("\nTWO\n[… more; read on with offset=3]"), "{text}");
    let text = client.text("list_files", json!({ "workspace": "w", "glob": "**/*.txt" })).await;
    assert_eq!(text, "1 entry\nd/a.txt · 14 bytes\n");
    let text = client.text("list_files", json!({ "workspace": "w" })).await;
    assert_eq!(text, "1 entry\nd/\n");
}

#[tokio::test]
async fn binary_files_come_as_base64() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let content = STANDARD.encode(&bytes);
    let arguments =
        json!({ "path": "b.bin", "content": content, "encoding": "base64", "workspace": "w" });
    client.text("write_file", arguments).await;
    let text = client.text("read_file", json!({ "path": "b.bin", "workspace": "w" })).await;
    assert!(text.contains("base64 of bytes 0 to 256 of 256"), "{text}");
    assert_eq!(text.lines().nth(1).unwrap(), content);
    let arguments = json!({ "path": "b.bin", "workspace": "w", "encoding": "base64", "offset": 250, "limit": 3 });
    let text = client.text("read_file", arguments).await;
    assert!(text.contains(&STANDARD.encode([250, 251, 252])), "{text}");
    assert!(text.contains("3 bytes more; read on with offset=253"), "{text}");
}

#[tokio::test]
async fn sandboxes_are_made_shown_and_stopped() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let text = client.text("sandbox", json!({ "action": "list" })).await;
    assert!(text.starts_with("You have no sandboxes"), "{text}");
    let arguments =
        json!({ "action": "create", "name": "mine", "memory_mb": "64", "workspace": "w" });
    let text = client.text("sandbox", arguments).await;
    assert!(text.starts_with("ready: sandbox ") && text.contains("of 64 MB"), "{text}");
    let handle = after(&text, "sandbox ");
    let text =
        client.text("run_command", json!({ "command": "write a 1", "sandbox": "mine" })).await;
    assert!(text.contains(&handle), "{text}");
    let text = client.text("list_files", json!({ "sandbox": handle })).await;
    assert!(text.contains("a · "), "{text}");
    let text = client.text("sandbox", json!({ "action": "info", "sandbox": "mine" })).await;
    assert!(text.contains("wall: level L2"), "{text}");
    client.text("sandbox", json!({ "action": "stop", "sandbox": handle })).await;
    let text = client.refusal("sandbox", json!({ "action": "info", "sandbox": handle })).await;
    assert!(text.starts_with("error not_found: no sandbox "), "{text}");
    let text = client.text("list_files", json!({ "workspace": "w" })).await;
    assert!(text.contains("a · "), "{text}");
}

#[tokio::test]
async fn runtimes_are_listed() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let text = client.text("list_runtimes", json!({})).await;
    assert!(text.contains("fake · fake-lang 1.0 · also fk\n  packages: tables 1.2\n"), "{text}");
    assert!(text.contains("networks: none, open\nwall: level L2\n"), "{text}");
}

#[tokio::test]
async fn huge_and_hostile_output_is_bounded_and_readable_to_the_end() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let text = client.text("run_command", json!({ "command": "yes 100000; bytes" })).await;
    assert!(text.len() < 20_000 && !text.contains('\u{1b}'), "{}", text.len());
    let run = after(&text, " · run ");
    let mut offset = after(&text, "stdout_offset=").trim_end_matches(']').to_owned();
    let mut read = 0;
    for _ in 0..20 {
        let arguments = json!({ "run": run, "stdout_offset": offset });
        let text = client.text("continue_run", arguments).await;
        read += text.matches("012345678\n").count();
        match text.contains("stdout_offset=") {
            true => offset = after(&text, "stdout_offset=").trim_end_matches(']').to_owned(),
            false => break,
        }
    }
    assert!((9_100..9_300).contains(&read), "{read}");
}
